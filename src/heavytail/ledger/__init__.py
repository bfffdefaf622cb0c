"""Decisions and their outcomes: a decision waits here for its reward.

:mod:`heavytail.ledger.ledger` is the protocol of every ledger. A policy keeps its decisions in
memory and saves them with itself; a :class:`heavytail.DecisionLog` and the service keep theirs in
tables of SQLite or PostgreSQL.
"""
