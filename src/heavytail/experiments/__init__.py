"""The paper's figures and claims as frozen values, one protocol for all algorithms, and the report.

Reading order: :mod:`catalogue` (what is run), :mod:`protocol` (with which policies and
multipliers), :mod:`units` and :mod:`store` (how the work is split, and kept), :mod:`stats` and
:mod:`verdicts` (what follows), :mod:`plots`, :mod:`sections` and :mod:`report` (how it is shown).

**Adding an experiment**: ``heavytail reproduce NAME`` runs whatever :data:`registry.EXPERIMENTS`
lists under that name. An entry has a title and ``"package.module:function"``; the function takes
``(settings, progress)``, a :class:`registry.Settings` and something with ``advance(steps)``, and
returns a :class:`registry.Section` of figures (matplotlib), tables and text, which the report shows
and whose figures are saved as PNG, SVG and PDF. It is imported only when it is asked for.
"""

from __future__ import annotations
