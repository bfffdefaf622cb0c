"""From dicts and frames to bounded feature vectors. Nothing but NumPy is needed."""

from __future__ import annotations

from heavytail.encoding.arms import Arms
from heavytail.encoding.catalogue import Catalogue
from heavytail.encoding.encoder import Encoder

__all__ = ["Arms", "Catalogue", "Encoder"]
