"""Changing saved files as somebody might who knows the format."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from heavytail import _storage


def rewrite(path: Path, change: Callable[[dict[str, Any], dict[str, Any]], Any]) -> None:
    """Save the file again with its header and arrays changed, under a digest that fits."""
    with np.load(path) as archive:
        arrays = {key: archive[key] for key in archive.files}
    header = json.loads(str(arrays.pop("header")))
    header.pop("digest", None)
    change(header, arrays)
    if header.get("version") == _storage.VERSION:
        header["digest"] = _storage._digest(header, arrays)
    np.savez(path, header=np.array(json.dumps(header)), **arrays)
