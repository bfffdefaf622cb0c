"""Changing saved files as somebody might who knows the format."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from heavytail import _archive


def rewrite(
    path: Path, change: Callable[[dict[str, Any], dict[str, Any]], Any], *, names: bool = True
) -> None:
    """Save the file again with its header and arrays changed, under a seal that fits; ``names``
    says whether the header goes on to name the arrays that there are.
    """
    with np.load(path) as archive:
        arrays = {key: archive[key] for key in archive.files}
    header = json.loads(str(arrays.pop("header")))
    change(header, arrays)
    if names and "arrays" in header:
        header["arrays"] = sorted(arrays)
    archive = io.BytesIO()
    np.savez(archive, header=np.array(json.dumps(header)), **arrays)
    sealed = header.get("version") != 1
    path.write_bytes(_archive.sealed(archive.getvalue()) if sealed else archive.getvalue())
