"""``python -m heavytail COMMAND`` is ``heavytail COMMAND``."""

import sys

from heavytail.cli import main

if __name__ == "__main__":
    sys.exit(main())
