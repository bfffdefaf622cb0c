"""``ht.noise``: see :mod:`heavytail.environments.noise`."""

from heavytail.environments.noise import *  # noqa: F403
from heavytail.environments.noise import __all__ as __all__
