"""The paper's figures and claims as frozen values: what ``heavytail reproduce`` runs.

Reading order: :mod:`catalogue` (the settings), :mod:`protocol` (which policies, with which
multipliers), :mod:`settings` (each setting as an experiment), the other experiments (:mod:`growth`,
:mod:`coverage`, :mod:`cost`, :mod:`mdp`, :mod:`control`), :mod:`claims` (what the paper says and
the rule it is judged by), :mod:`reproduce` (all of it, from end to end). ``recorded/`` holds what
is not measured anew by each reproduction. The engine is :mod:`heavytail.experiments`.

**Adding an experiment**: write an :class:`heavytail.experiments.experiment.Experiment`, and add it
to :data:`reproduce.EXPERIMENTS`.
"""

from __future__ import annotations
