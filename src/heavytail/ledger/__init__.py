"""What was decided, and what came of it: a decision waits here for its reward.

:mod:`heavytail.ledger.ledger` says what every keeper does. A policy keeps its decisions in memory
and saves them with itself; a :class:`heavytail.DecisionLog` and the service keep theirs in tables,
of SQLite or of PostgreSQL.
"""
