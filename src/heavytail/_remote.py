"""The models of a service, as a client sees them: the library's verbs over HTTP."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Generic, TypeVar, Unpack, overload

from heavytail._requests import (
    Arms,
    Context,
    Decisions,
    Ids,
    ModelRequests,
    Number,
    Numbers,
    Offers,
)
from heavytail.answers import (
    Diagnostics,
    Earned,
    Explained,
    ExplainedOffer,
    ForkChanges,
    LogLearned,
    ModelChanges,
    ModelView,
    OffersView,
    Predicted,
    PredictedOffers,
    RemoteChoice,
    RemoteDecision,
    SnapshotView,
    SplitView,
)

if TYPE_CHECKING:
    from heavytail.client import AsyncClient, Client

__all__ = ["AsyncRemoteModel", "RemoteModel"]

SomeClient = TypeVar("SomeClient", "Client", "AsyncClient")


class _Model(Generic[SomeClient]):
    """A model of a service."""

    def __init__(self, client: SomeClient, name: str) -> None:
        self._client: SomeClient = client
        self._requests, self.name = ModelRequests(name), name
        self.path = self._requests.path

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, {self._client.url!r})"


class RemoteModel(_Model["Client"]):
    """A model of a service, with the verbs of a policy."""

    @overload
    def decide(
        self,
        arms: Context | None = None,
        *,
        explore: float | None = None,
        only: Ids | None = None,
        unit: str | int | None = None,
    ) -> RemoteChoice: ...
    @overload
    def decide(
        self,
        arms: Arms,
        *,
        ids: Ids | None = None,
        explore: float | None = None,
        context: Context | None = None,
        unit: str | int | None = None,
    ) -> RemoteDecision: ...

    def decide(
        self,
        arms: Arms | Context | None = None,
        *,
        ids: Ids | None = None,
        explore: float | None = None,
        context: Context | None = None,
        only: Ids | None = None,
        unit: str | int | None = None,
    ) -> RemoteDecision | RemoteChoice:
        """Choose among ``arms``, (n, dim) or dicts for a model with an encoder. For a model with
        offers of its own pass the context alone, a dict, or nothing if its offers are vectors, and
        in ``only`` the ids that may be shown unless all may. In a split, all decisions of a
        ``unit`` are made by the same model.
        """
        request = self._requests.decide(arms, ids, explore, context, only, unit)
        return self._client._send(request)

    @overload
    def decide_many(
        self,
        many: Sequence[Context],
        *,
        explore: float | None = None,
        units: Ids | None = None,
    ) -> list[RemoteChoice]: ...
    @overload
    def decide_many(
        self,
        many: Sequence[Arms],
        *,
        explore: float | None = None,
        contexts: Sequence[Context | None] | None = None,
        units: Ids | None = None,
    ) -> list[RemoteDecision]: ...

    def decide_many(
        self,
        many: Sequence[Arms] | Sequence[Context],
        *,
        explore: float | None = None,
        contexts: Sequence[Context | None] | None = None,
        units: Ids | None = None,
    ) -> list[RemoteDecision] | list[RemoteChoice]:
        """A decision for each of many sets of arms, each with its context, in one request; or for
        each of many contexts, among the model's own offers.
        """
        return self._client._send(self._requests.decide_many(many, explore, contexts, units))

    def learn(self, decision: Decisions, reward: Numbers, *, scale: Numbers | None = None) -> int:
        """Send the reward of a decision (or token), or of many; return how many are new."""
        return self._client._send(self._requests.learn(decision, reward, scale))

    @overload
    def predict(self, arms: Context | None = None, *, level: float = 0.95) -> PredictedOffers: ...
    @overload
    def predict(
        self,
        arms: Arms,
        *,
        ids: Ids | None = None,
        context: Context | None = None,
        level: float = 0.95,
    ) -> Predicted: ...

    def predict(
        self,
        arms: Arms | Context | None = None,
        *,
        ids: Ids | None = None,
        context: Context | None = None,
        level: float = 0.95,
    ) -> Predicted | PredictedOffers:
        """The mean rewards expected, with intervals: lists "mean", "low" and "high"; of the model's
        own offers in a context, and their "ids".
        """
        request = self._requests.predict(arms, ids, context, level)
        return self._client._send(request)

    @overload
    def explain(self, arms: Context | None = None) -> Explained | ExplainedOffer: ...
    @overload
    def explain(
        self, arms: Arms, *, ids: Ids | None = None, context: Context | None = None
    ) -> Explained: ...

    def explain(
        self,
        arms: Arms | Context | None = None,
        *,
        ids: Ids | None = None,
        context: Context | None = None,
    ) -> Explained | ExplainedOffer:
        """Explain the choice: "arm", its "id", and the "parts" of every arm's index; of a Decider
        "id", "why" and what is "expected" of each offer in a context.
        """
        request = self._requests.explain(arms, ids, context)
        return self._client._send(request)

    def describe(self) -> ModelView:
        """Describe the model."""
        return self._client._send(self._requests.describe())

    def earned(self, *, by: str | None = None, against: str | None = None) -> Earned:
        """What the model earned: "total", "offers", "days", and "sentences" that say the most
        important.

        Args:
            by: a column of the context; the answer then has "segments".
            against: a rule to compare with, "always:ID" (or the offer's place, without ids) or
                "uniform"; the answer then has "against".
        """
        return self._client._send(self._requests.earned(by, against))

    def diagnostics(self) -> Diagnostics:
        """The model's diagnostics."""
        return self._client._send(self._requests.diagnostics())

    def pause(self, paused: bool = True) -> ModelView:
        """Pause the model's decisions, or resume them."""
        return self._client._send(self._requests.change(paused=paused))

    def change(self, **changes: Unpack[ModelChanges]) -> ModelView:
        """Change settings while the model serves: ``explore=0.02``, ``wait``, ..."""
        return self._client._send(self._requests.change(**changes))

    def snapshot(self) -> int:
        """Take a snapshot of the present state and return its number."""
        return self._client._send(self._requests.snapshot())

    def snapshots(self) -> list[SnapshotView]:
        """The snapshots, newest first."""
        return self._client._send(self._requests.snapshots())

    def save(self, path: str | os.PathLike[str], snapshot: int) -> None:
        """Write a snapshot to ``path``, which ``ht.load`` reads: its policy, with its encoder."""
        self._client._save(self._requests.save(snapshot), path)

    def save_log(self, path: str | os.PathLike[str]) -> None:
        """Write all decisions that have their reward to ``path``, Parquet for ``ht.evaluate``.

        A file that is there is replaced when all has come, and stays where anything fails.
        """
        self._client._save(self._requests.save_log(), path)

    def learn_log(self, log: str | os.PathLike[str] | bytes) -> LogLearned:
        """Learn a log of earlier decisions, the path or the bytes of a Parquet file as ``save_log``
        writes it, before the first decision; returns once it is learned. For a long log set the
        client's ``patience``.
        """
        return self._client._send(self._requests.learn_log(log))

    def restore(self, snapshot: int) -> ModelView:
        """Restore a snapshot."""
        return self._client._send(self._requests.restore(snapshot))

    def fork(self, name: str, **changes: Unpack[ForkChanges]) -> RemoteModel:
        """Create a model from this one; ``policy``, ``options``, ``shadow=True``."""
        twin = RemoteModel(self._client, name)
        return self._client._send(self._requests.fork(name, twin, **changes))

    def promote(self, other: str) -> ModelView:
        """Give this name to the model called ``other``, and its name to this model, in one commit;
        rewards of earlier decisions still count. The same call again rolls back. Describes the
        model that now has this name.
        """
        return self._client._send(self._requests.promote(other))

    def offers(self) -> OffersView:
        """The model's own offers that may be chosen."""
        return self._client._send(self._requests.offers())

    def set_offers(self, offers: Offers) -> OffersView:
        """Replace the offers of the model: features or a vector by id."""
        return self._client._send(self._requests.set_offers(offers))

    def change_offers(self, offers: Offers) -> OffersView:
        """Add or change some offers, or withdraw those that are None; the others stay."""
        return self._client._send(self._requests.change_offers(offers))

    def split(self) -> SplitView:
        """The models that share the decisions of this name, and their shares."""
        return self._client._send(self._requests.split())

    def set_split(self, shares: Mapping[str, Number]) -> SplitView:
        """Share the decisions of this name between models, itself among them:
        ``{"shop": 0.9, "shop-b": 0.1}``. All decisions of a ``unit`` are made by the same model.
        """
        return self._client._send(self._requests.set_split(shares))

    def end_split(self) -> None:
        """End the split: the model of this name makes all decisions again."""
        self._client._send(self._requests.end_split())

    def delete(self) -> None:
        """Delete the model with its decisions, outcomes and snapshots."""
        self._client._send(self._requests.delete())


class AsyncRemoteModel(_Model["AsyncClient"]):
    """The same of an :class:`AsyncClient`: every verb is awaited."""

    @overload
    async def decide(
        self,
        arms: Context | None = None,
        *,
        explore: float | None = None,
        only: Ids | None = None,
        unit: str | int | None = None,
    ) -> RemoteChoice: ...
    @overload
    async def decide(
        self,
        arms: Arms,
        *,
        ids: Ids | None = None,
        explore: float | None = None,
        context: Context | None = None,
        unit: str | int | None = None,
    ) -> RemoteDecision: ...

    async def decide(
        self,
        arms: Arms | Context | None = None,
        *,
        ids: Ids | None = None,
        explore: float | None = None,
        context: Context | None = None,
        only: Ids | None = None,
        unit: str | int | None = None,
    ) -> RemoteDecision | RemoteChoice:
        request = self._requests.decide(arms, ids, explore, context, only, unit)
        return await self._client._send(request)

    @overload
    async def decide_many(
        self,
        many: Sequence[Context],
        *,
        explore: float | None = None,
        units: Ids | None = None,
    ) -> list[RemoteChoice]: ...
    @overload
    async def decide_many(
        self,
        many: Sequence[Arms],
        *,
        explore: float | None = None,
        contexts: Sequence[Context | None] | None = None,
        units: Ids | None = None,
    ) -> list[RemoteDecision]: ...

    async def decide_many(
        self,
        many: Sequence[Arms] | Sequence[Context],
        *,
        explore: float | None = None,
        contexts: Sequence[Context | None] | None = None,
        units: Ids | None = None,
    ) -> list[RemoteDecision] | list[RemoteChoice]:
        return await self._client._send(self._requests.decide_many(many, explore, contexts, units))

    async def learn(
        self, decision: Decisions, reward: Numbers, *, scale: Numbers | None = None
    ) -> int:
        return await self._client._send(self._requests.learn(decision, reward, scale))

    @overload
    async def predict(
        self, arms: Context | None = None, *, level: float = 0.95
    ) -> PredictedOffers: ...
    @overload
    async def predict(
        self,
        arms: Arms,
        *,
        ids: Ids | None = None,
        context: Context | None = None,
        level: float = 0.95,
    ) -> Predicted: ...

    async def predict(
        self,
        arms: Arms | Context | None = None,
        *,
        ids: Ids | None = None,
        context: Context | None = None,
        level: float = 0.95,
    ) -> Predicted | PredictedOffers:
        request = self._requests.predict(arms, ids, context, level)
        return await self._client._send(request)

    @overload
    async def explain(self, arms: Context) -> ExplainedOffer: ...
    @overload
    async def explain(
        self, arms: Arms, *, ids: Ids | None = None, context: Context | None = None
    ) -> Explained: ...

    async def explain(
        self,
        arms: Arms | Context | None = None,
        *,
        ids: Ids | None = None,
        context: Context | None = None,
    ) -> Explained | ExplainedOffer:
        request = self._requests.explain(arms, ids, context)
        return await self._client._send(request)

    async def describe(self) -> ModelView:
        return await self._client._send(self._requests.describe())

    async def earned(self, *, by: str | None = None, against: str | None = None) -> Earned:
        return await self._client._send(self._requests.earned(by, against))

    async def diagnostics(self) -> Diagnostics:
        return await self._client._send(self._requests.diagnostics())

    async def pause(self, paused: bool = True) -> ModelView:
        return await self._client._send(self._requests.change(paused=paused))

    async def change(self, **changes: Unpack[ModelChanges]) -> ModelView:
        return await self._client._send(self._requests.change(**changes))

    async def snapshot(self) -> int:
        return await self._client._send(self._requests.snapshot())

    async def snapshots(self) -> list[SnapshotView]:
        return await self._client._send(self._requests.snapshots())

    async def save(self, path: str | os.PathLike[str], snapshot: int) -> None:
        await self._client._save(self._requests.save(snapshot), path)

    async def save_log(self, path: str | os.PathLike[str]) -> None:
        await self._client._save(self._requests.save_log(), path)

    async def learn_log(self, log: str | os.PathLike[str] | bytes) -> LogLearned:
        return await self._client._send(self._requests.learn_log(log))

    async def restore(self, snapshot: int) -> ModelView:
        return await self._client._send(self._requests.restore(snapshot))

    async def fork(self, name: str, **changes: Unpack[ForkChanges]) -> AsyncRemoteModel:
        twin = AsyncRemoteModel(self._client, name)
        return await self._client._send(self._requests.fork(name, twin, **changes))

    async def promote(self, other: str) -> ModelView:
        return await self._client._send(self._requests.promote(other))

    async def offers(self) -> OffersView:
        return await self._client._send(self._requests.offers())

    async def set_offers(self, offers: Offers) -> OffersView:
        return await self._client._send(self._requests.set_offers(offers))

    async def change_offers(self, offers: Offers) -> OffersView:
        return await self._client._send(self._requests.change_offers(offers))

    async def split(self) -> SplitView:
        return await self._client._send(self._requests.split())

    async def set_split(self, shares: Mapping[str, Number]) -> SplitView:
        return await self._client._send(self._requests.set_split(shares))

    async def end_split(self) -> None:
        await self._client._send(self._requests.end_split())

    async def delete(self) -> None:
        await self._client._send(self._requests.delete())
