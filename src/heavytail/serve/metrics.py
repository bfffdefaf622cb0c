"""Metrics for Prometheus."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

if TYPE_CHECKING:
    from heavytail.serve.handlers import Route
    from heavytail.serve.live import Live

__all__ = ["Metrics"]

BUCKETS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)


class Metrics:
    """Counters and gauges since the process started."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        self.requests = Counter(
            "heavytail_requests", "Requests.", ["route", "status"], registry=registry
        )
        self.seconds = Histogram(
            "heavytail_request_seconds", "Time to the answer.", ["route"], buckets=BUCKETS,
            registry=registry,
        )  # fmt: skip
        self.decisions = Counter("heavytail_decisions", "Decisions made.", registry=registry)
        self.rewards = Counter("heavytail_rewards", "Rewards accepted.", registry=registry)
        self._commits = Gauge("heavytail_commits", "Commits of the store.", registry=registry)
        self._operations = Gauge(
            "heavytail_operations", "Operations in these commits.", registry=registry
        )
        self._rounds = Gauge(
            "heavytail_model_rounds", "Outcomes learned.", ["model"], registry=registry
        )
        self._stale = Gauge(
            "heavytail_model_staleness", "Outcomes by which decisions lagged behind.", ["model"],
            registry=registry,
        )  # fmt: skip
        self._broken = Gauge(
            "heavytail_broken_models", "Models that cannot be opened.", registry=registry
        )
        self._labelled: dict[Any, Any] = {}

    def served(self, route: Route, status: int, seconds: float) -> None:
        """Count an answer."""
        key = (route.handler, status)
        counters = self._labelled.get(key)
        if counters is None:
            name = route.handler.__name__
            counters = self.requests.labels(name, str(status)), self.seconds.labels(name)
            self._labelled[key] = counters
        counters[0].inc()
        counters[1].observe(seconds)

    def text(self, live: Live) -> bytes:
        """The metrics in Prometheus' text format."""
        self._commits.set(live.commits.count)
        self._operations.set(live.commits.operations)
        self._broken.set(len(live.broken))
        for gauge in (self._rounds, self._stale):
            gauge.clear()
        for name, model in live.models.items():
            self._rounds.labels(name).set(model.policy.rounds)
            self._stale.labels(name).set(model.staleness)
        return generate_latest(self.registry)
