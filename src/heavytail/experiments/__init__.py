"""Experiments: units of work that can be resumed, plans and pages, claims, tuning, the report.

It knows no paper; :mod:`heavytail.reproduction` is built on it, and ``heavytail run`` is.

Reading order: :mod:`unit` (a call with a key), :mod:`source` (what a key covers), :mod:`store`
(finished units), :mod:`tune` (the grid search), :mod:`experiment` (plan and page), :mod:`claim`
(sentence, rule, verdict), :mod:`setting` (policies in an environment), :mod:`stats`, :mod:`plots`,
:mod:`report`; :mod:`userfile` and :mod:`run` for a user's own file.
"""

from __future__ import annotations
