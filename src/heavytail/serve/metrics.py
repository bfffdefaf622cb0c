"""Metrics for Prometheus: of this process, of all workers on its machine, and of the store.

What a request or a commit took is counted by each process. Workers that run together share a
folder, ``PROMETHEUS_MULTIPROC_DIR``, so that any of them answers with the sums over all. What was
decided and learned is counted in the store, so that every worker gives the same numbers, which
survive restarts.
"""

from __future__ import annotations

import asyncio
import math
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from heavytail.serve.handlers import Route
    from heavytail.serve.live import Live
    from heavytail.serve.stats import Known

__all__ = ["Metrics", "restarts"]

EVERY = 5.0  # seconds after which a worker tells the others what it knows of its models
BUCKETS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)


def restarts(registry: CollectorRegistry) -> Counter:
    """The counter of workers that died and were replaced."""
    words = "Workers that died and were replaced."
    return Counter("heavytail_worker_restarts", words, registry=registry)


class Metrics:
    """Counters, histograms and gauges of this process."""

    def __init__(self) -> None:
        registry = CollectorRegistry()
        self.requests = Counter(
            "heavytail_requests", "Requests.", ["route", "status"], registry=registry
        )
        self.seconds = Histogram(
            "heavytail_request_seconds", "Time to the answer.", ["route"], buckets=BUCKETS,
            registry=registry,
        )  # fmt: skip
        self._commits = Histogram(
            "heavytail_commit_seconds", "Time of a commit of the store.", buckets=BUCKETS,
            registry=registry,
        )  # fmt: skip
        self._operations = Counter(
            "heavytail_operations", "Operations in the commits.", registry=registry
        )
        restarts(registry)

        def gauge(name: str, words: str, *labels: str) -> Gauge:
            return Gauge(
                name, words, labels, registry=registry, multiprocess_mode="livemax"
            )  # the worst of the workers that live

        self._broken = gauge("heavytail_broken_models", "Models that cannot be opened.")
        self._rounds = gauge("heavytail_model_rounds", "Outcomes learned.", "model")
        self._stale = gauge(
            "heavytail_model_staleness",
            "Outcomes by which decisions lagged behind: the worst worker of this machine.", "model",
        )  # fmt: skip
        self._refused = gauge(
            "heavytail_refused_outcomes",
            "Outcomes that the policy would not learn, since a worker started.", "model",
        )  # fmt: skip
        self._drift = gauge(
            "heavytail_residual_ratio",
            "Mean distance of rewards from their predictions in the last minute, over that in the "
            "last hour.", "model",
        )  # fmt: skip
        folder = os.environ.get("PROMETHEUS_MULTIPROC_DIR")
        self._source: Collector = registry
        if folder:
            self._source = MultiProcessCollector(CollectorRegistry(), folder)  # type: ignore[no-untyped-call]
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

    def committed(self, operations: int, seconds: float) -> None:
        """Count a commit."""
        self._commits.observe(seconds)
        self._operations.inc(operations)

    async def keep(self, live: Live) -> None:
        """Set the gauges of the models regularly, for scrapes that another worker answers."""
        while True:
            self._note(live)
            await asyncio.sleep(EVERY)

    def _note(self, live: Live) -> None:
        self._broken.set(len(live.broken))
        for name, model in list(live.models.items()):
            self._rounds.labels(name).set(model.policy.rounds)
            self._stale.labels(name).set(model.staleness)
            self._refused.labels(name).set(model.refused)
            drift = model.tracker.drift()
            self._drift.labels(name).set(math.nan if drift is None else drift)

    def text(self, live: Live, models: Mapping[int, Known]) -> bytes:
        """The metrics in Prometheus' text format."""
        self._note(live)
        return generate_latest(_Given([*self._own(live), *_of_models(live, models)]))

    def _own(self, live: Live) -> Iterator[Metric]:
        """The metrics of the processes, without models that are gone and values that are none."""
        names = {None, *live.models}
        for family in self._source.collect():
            family.samples = [
                sample
                for sample in family.samples
                if sample.labels.get("model") in names and not math.isnan(sample.value)
            ]
            yield family


class _Given(CollectorRegistry):
    """Metrics as they are."""

    def __init__(self, families: Iterable[Metric]) -> None:
        super().__init__()
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


def _of_models(live: Live, models: Mapping[int, Known]) -> list[Metric]:
    """The metrics that the store counts."""
    decisions = CounterMetricFamily("heavytail_decisions", "Decisions made.", labels=["model"])
    rewards = CounterMetricFamily(
        "heavytail_rewards", "Rewards: sent, or default rewards.", labels=["model", "kind"]
    )
    money = CounterMetricFamily(
        "heavytail_reward_sum", "Sum of the rewards of a sign, as a positive number.",
        labels=["model", "sign"],
    )  # fmt: skip
    unknown = CounterMetricFamily(
        "heavytail_unknown_categories", "Decisions with a category that the model does not know.",
        labels=["model"],
    )  # fmt: skip
    pending = GaugeMetricFamily(
        "heavytail_pending_decisions", "Decisions that wait for a reward.", labels=["model"]
    )
    oldest = GaugeMetricFamily(
        "heavytail_oldest_pending_seconds", "Age of the oldest of them; 0 if none waits.",
        labels=["model"],
    )  # fmt: skip
    given_up = GaugeMetricFamily(
        "heavytail_given_up_decisions", "Decisions that expired without a reward.",
        labels=["model"],
    )  # fmt: skip
    wait = GaugeMetricFamily(
        "heavytail_wait_seconds", "Seconds after which a decision expires, where it does.",
        labels=["model"],
    )  # fmt: skip
    archived = GaugeMetricFamily(
        "heavytail_archived_rows", "Rows that were moved to the archive.", labels=["model"]
    )
    now = live.clock()
    for row, activity, since, moved in models.values():
        name = row.name
        decisions.add_metric([name], activity.decisions)
        rewards.add_metric([name, "sent"], activity.sent)
        rewards.add_metric([name, "default"], activity.defaults)
        money.add_metric([name, "positive"], activity.gains)
        money.add_metric([name, "negative"], activity.losses)
        unknown.add_metric([name], activity.unknown)
        pending.add_metric([name], row.pending(activity.decisions))
        oldest.add_metric([name], 0.0 if since is None else max(now - since, 0.0))
        given_up.add_metric([name], row.given_up)
        archived.add_metric([name], moved)
        model = live.models.get(name)
        if model is not None and model.spec.wait is not None:
            wait.add_metric([name], model.spec.wait)
    return [decisions, rewards, money, unknown, pending, oldest, given_up, wait, archived]
