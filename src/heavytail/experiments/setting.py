"""A setting: an environment with what is assumed of its noise; its units, its page, its files."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from heavytail._archive import replace
from heavytail._terminal import as_table, width
from heavytail._typing import FloatArray
from heavytail._validate import printable
from heavytail._version import origin
from heavytail.environments import (
    ArmSet,
    ArmSetBandit,
    Environment,
    LinearBandit,
    LinkBandit,
    SkewedBandit,
)
from heavytail.environments.noise import Noise, Scaled
from heavytail.experiments import plots
from heavytail.experiments.experiment import Section, Table
from heavytail.experiments.stats import ratio
from heavytail.experiments.unit import Key, Trials, Unit, chunks
from heavytail.policies import Policy, make_policy
from heavytail.policies.build import find
from heavytail.policies.core.own import imported
from heavytail.simulation.results import checkpoints
from heavytail.simulation.trials import releases_gil
from heavytail.tails import MomentBound

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "COST",
    "Setting",
    "build",
    "cost_figure",
    "cost_section",
    "page",
    "regret_text",
    "told",
    "trial_units",
    "write_parquet",
    "write_table",
]

COST = "regret-seconds"  # the name of the figure of regret against processor time
RECORD = 200  # rounds at which regret is kept


@dataclass(frozen=True)
class Setting:
    """An environment, what is assumed of its noise, and how that relates to a paper.

    ``scale`` is the nu that a paper states (right or wrong); None takes the true one, or the
    bound of a world whose law depends on the arm: ``skew`` names it, and ``noise`` None is its own.
    ``link`` names a world of clicks or counts, and what follows it is of those alone. ``arms`` may
    be an ArmSet. ``kind`` is the import path of an environment of the user's, and ``options`` what
    its constructor takes; the fields that describe ours do not apply to it.
    ``worlds`` names the stream of seeds: settings that share it meet the same draws. ``repeats``
    names a setting that is the same world: one stream of seeds, one choice of multipliers, one run.
    """

    name: str
    title: str
    group: str
    noise: Noise | None
    order: float
    says: str = ""
    leaves_open: str = ""
    chosen: str = ""
    scale: float | None = None
    offered: int | None = None
    dim: int = 2
    arms: int | ArmSet = 50
    rounds: int = 18_000
    worlds: str = ""
    skew: str = ""
    link: str = ""
    theta_bound: float = 1.0
    base: float = 0.0
    outliers: float = 0.0
    factor: float = 1000.0
    repeats: str = ""
    kind: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def arm_count(self) -> int:
        """The number of arms."""
        return self.arms.count if isinstance(self.arms, ArmSet) else self.arms

    @property
    def tuned_as(self) -> str:
        """The setting that its multipliers are chosen in."""
        return self.repeats or self.name

    @property
    def environment(self) -> Environment:
        """The environment."""
        if self.kind:
            kind = imported(self.kind, Environment, "world")  # type: ignore[type-abstract]
            return kind(**self.options)
        if self.skew:
            return SkewedBandit(
                self.dim, self.arm_count, self.skew, noise=self.noise, offered=self.offered
            )
        if self.link:
            return LinkBandit(
                self.dim,
                self.arm_count,
                self.link,
                theta_bound=self.theta_bound,
                base=self.base,
                offered=self.offered,
                outliers=self.outliers,
                factor=self.factor,
            )
        if self.noise is None:
            raise ValueError(
                "Setting.noise must be one of heavytail.noise where skew and link are none."
            )
        if isinstance(self.arms, ArmSet):
            return ArmSetBandit(self.dim, self.arms, self.noise, offered=self.offered)
        return LinearBandit(self.dim, self.arms, self.noise, offered=self.offered)

    def tail(self, *, uses_scale: bool) -> MomentBound:
        """The bound told to a policy: at factor 1 if it uses each round's scale, else the worst."""
        nu = self._true_scale() if self.scale is None else self.scale
        if isinstance(self.noise, Scaled) and not uses_scale:
            nu *= 10.0**self.noise.spread
        return MomentBound(order=self.order, scale=nu)

    @property
    def true_nu(self) -> bool:
        """True where the scale that policies are told bounds the moment of the noise."""
        return self.scale is None or self.scale >= self._true_scale()

    def _true_scale(self) -> float:
        world = self.environment
        law = world.noise if isinstance(world, LinearBandit) else world
        if not hasattr(law, "tail"):
            raise ValueError(
                f"{type(world).__name__} has no method tail(order), which would say how large its "
                "noise is. State the scale here, or write tail."
            )
        return float(law.tail(self.order).scale)

    def seed(self, base: int) -> int:
        """This setting's own seed: adding a setting moves no other."""
        text = f"{base} {self.worlds or self.repeats or self.name}".encode()
        return int.from_bytes(hashlib.blake2b(text, digest_size=6).digest(), "big")


def told(name: str, setting: Setting) -> MomentBound:
    """The moment bound a policy is given; one that knows finite variance alone gets order 2."""
    info = find(name).info
    tail = setting.tail(uses_scale=info.uses_scale)
    return MomentBound(2.0, tail.scale) if info.orders == "2" else tail


def build(name: str, setting: Setting, rounds: int, **options: object) -> Policy:
    """The policy for a setting."""
    tail = told(name, setting)
    return make_policy(
        name, dim=setting.dim, horizon=rounds, tail=tail, arms=setting.arm_count, **options
    )


def trial_units(
    setting: Setting, policy: Policy, rounds: int, trials: int, base: int, *, weight: int = 1
) -> list[Unit]:
    """The trials of a policy in a setting; ``weight`` is that of one trial of 1,000 rounds."""
    return block_units(
        policy,
        setting.environment,
        rounds,
        setting.seed(base),
        trials,
        tuple(checkpoints(rounds, RECORD).tolist()),
        weight=weight,
    )


def block_units(
    policy: Policy,
    environment: Environment,
    rounds: int,
    seed: int,
    trials: int,
    marks: tuple[int, ...],
    *,
    weight: int = 1,
    size: int = 5,
) -> list[Unit]:
    """Trials of a policy in an environment, ``size`` per unit, regret kept at ``marks``."""
    fixed = {"policy": policy, "environment": environment, "rounds": rounds, "seed": seed}
    return [
        Unit(
            "heavytail.simulation.trials:trial_block",
            {**fixed, "first": first, "trials": count, "marks": marks},
            weight=weight * count * max(rounds // 1000, 1),
            runs="threads" if releases_gil(policy) else "processes",
        )
        for first, count in chunks(trials, size)
    ]


def page(
    setting: Setting, found: Mapping[Key, Trials], shown: list[Key], reference: str = ""
) -> Section:
    """Figure of ``shown``, regret by policy and variant, ratios to ``reference``, what is known."""
    section = Section(setting.name, setting.title, data=dict(found), shown=list(shown))
    section.text = [
        *(f"The paper: {setting.says}" for _ in setting.says[:1]),
        *(f"Left open: {setting.leaves_open}" for _ in setting.leaves_open[:1]),
        *(f"Chosen: {setting.chosen}" for _ in setting.chosen[:1]),
        f"Environment: {setting.environment!r}; order {setting.order:g}.",
        *_broken(setting, found),
    ]
    section.figures[setting.name] = plots.regret_figure(setting.title, found, shown)
    section.captions[setting.name] = (
        "Cumulative regret: the mean of n trials, with its 95 % interval (Student's t)."
    )
    section.tables = [_regret_table(found)]
    if (reference, "tuned") in found:
        section.tables.append(_ratio_table(found, reference))
    return section


def _broken(setting: Setting, found: Mapping[Key, Trials]) -> list[str]:
    policies = {key[0]: trials.arguments["policy"] for key, trials in found.items()}
    needs = [(name, setting.environment.broken_needs(policy)) for name, policy in policies.items()]
    return [
        f"{name} assumes {', '.join(broken)}, which this environment lacks."
        for name, broken in needs
        if broken
    ]


def _regret_table(found: Mapping[Key, Trials]) -> Table:
    rows = []
    for variant in dict.fromkeys(key[1] for key in found):
        for key, trials in found.items():
            if key[1] != variant:
                continue
            given = trials.arguments["policy"]._arguments
            scales = (f"{key} {given[key]:.3g}" for key in given if key.endswith("_scale"))
            final, share = trials.final, trials["truncated"]
            rows.append(
                (
                    plots.label(key, trials.arguments["policy"]),
                    f"{len(final)}",
                    f"{final.mean():,.0f}",
                    f"{final.std(ddof=1) / np.sqrt(len(final)):,.1f}" if len(final) > 1 else "-",
                    f"{final.std(ddof=1):,.0f}" if len(final) > 1 else "-",
                    f"{np.median(final):,.0f}",
                    f"{final.max():,.0f}",
                    f"{trials['seconds'].mean():.3g}",
                    "" if np.isnan(share).any() else f"{share.mean():.1%}",
                    ", ".join(scales) if variant != "untuned" else "",
                )
            )
    columns = ("policy", "trials", "mean regret", "standard error", "sd", "median", "largest")
    rounds = next(iter(found.values())).arguments["rounds"]
    title, more = f"Regret at T = {rounds:,}", ("seconds", "truncated", "multipliers")
    note = "Seconds: mean processor time of a trial, without that of the environment."
    return Table(title, (*columns, *more), rows, note)


def _ratio_table(found: Mapping[Key, Trials], reference: str) -> Table:
    """Each over ``reference``, as tuned, and untuned where that was run."""
    against = [key for key in ((reference, "tuned"), (reference, "untuned")) if key in found]
    rows = []
    for key in found:
        if key[1] == "theory":
            continue
        cells = (
            "-" if key == other else f"{ratio(found[key].sample, found[other].sample):.2f}"
            for other in against
        )
        rows.append((plots.label(key), *cells))
    note = (
        "Ratio of means over the trials that both have, on the same draws, with a 95 % bootstrap "
        "interval over trials"
    )
    if any(trials.others for trials in found.values()):
        note += " and over the choice of the multipliers"
    columns = ("its regret over that of", *map(plots.label, against))
    return Table("Paired ratios", columns, rows, f"{note}.")


def cost_section(sections: Sequence[Section]) -> Section:
    """Regret against processor time, a panel for each setting."""
    result = Section(COST, "Regret against processor time")
    result.figures[result.name] = cost_figure(
        {section.name: section.data for section in sections},
        {section.name: section.title for section in sections},
        {section.name: section.shown for section in sections},
    )
    result.captions[result.name] = (
        "Regret at the end, with its 95 % interval, against the mean processor time of a trial, "
        "without that of the environment."
    )
    return result


def cost_figure(
    found: Mapping[str, Mapping[Key, Trials]],
    titles: Mapping[str, str],
    shown: Mapping[str, list[Key]],
) -> Figure:
    """Regret against processor time, a panel for each setting; all arguments are by its name."""
    given = list(titles.values())
    return plots.cost_panels(
        {
            title if given.count(title) == 1 else f"{title} ({name})": (found[name], shown[name])
            for name, title in titles.items()
        }
    )


def regret_text(found: Mapping[str, Mapping[Key, Trials]]) -> str:
    """Mean final regret ± standard error: a row per setting and variant, a column per policy."""
    if not found:
        return ""
    policies = {key[0]: printable(key[0]) for one in found.values() for key in one}
    rows = [
        (
            f"{printable(name)}, {variant}",
            *(_with_error(one[p, variant].final) if (p, variant) in one else "" for p in policies),
        )
        for name, one in found.items()
        for variant in dict.fromkeys(key[1] for key in one)
    ]
    columns = ("setting, variant", *policies.values())
    table = as_table(columns, rows, most=width(), right=True)
    return f"mean regret at the end ± standard error\n{table}"


def _with_error(final: FloatArray) -> str:
    error = f" ± {final.std(ddof=1) / np.sqrt(len(final)):.1f}" if len(final) > 1 else ""
    return f"{final.mean():.1f}{error}"


def write_parquet(folder: Path, sections: Sequence[Section], header: dict[str, Any]) -> None:
    """``regret.parquet``, fixed to the bit by seed and machine, and ``seconds.parquet``, never so.

    One row per (setting, policy, variant, trial). regret.parquet: ``regret``, the cumulative regret
    at the rounds in ``rounds``, and ``options``, how the policy was built. seconds.parquet:
    ``seconds`` of the trial, the environment's own work left out. The header has the titles of the
    settings, and what their figures show.
    """
    import pyarrow as pa

    header = {
        **header,
        "titles": {section.name: section.title for section in sections},
        "shown": {section.name: section.shown for section in sections},
    }

    keys: dict[str, list[Any]] = {"setting": [], "policy": [], "variant": [], "trial": []}
    options, rounds, regret, seconds = [], [], [], []
    for section in sections:
        name = section.name
        for (policy, variant), trials in section.data.items():
            for trial in range(len(trials.final)):
                for key, value in zip(keys, (name, policy, variant, trial), strict=True):
                    keys[key].append(value)
                options.append(repr(trials.arguments["policy"]))
                rounds.append(np.asarray(trials.arguments["marks"]))
                regret.append(trials["regret"][trial])
                seconds.append(trials["seconds"][trial])
    whole = pa.table({**keys, "options": options, "rounds": rounds, "regret": regret})
    write_table(folder / "regret.parquet", whole, header)
    write_table(folder / "seconds.parquet", pa.table({**keys, "seconds": seconds}), header)


def write_table(path: Path, table: Any, header: dict[str, Any]) -> None:
    """An Arrow table as Parquet, whole or not at all, with the library's version and commit."""
    import pyarrow.parquet as pq

    metadata = json.dumps({**origin(), **header})
    stream = io.BytesIO()
    pq.write_table(table.replace_schema_metadata({"heavytail": metadata}), stream)
    replace(path, stream.getvalue())
