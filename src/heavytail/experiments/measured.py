"""Outcomes put together again: for each setting, every policy and variant over all trials."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from heavytail._typing import FloatArray, IntArray
from heavytail.experiments.catalogue import Setting
from heavytail.experiments.protocol import Entry, entry_units
from heavytail.experiments.units import RECORD, Outcome
from heavytail.simulation.trials import checkpoints

__all__ = ["Curves", "Measured", "gather", "write_parquet"]


@dataclass(frozen=True)
class Curves:
    """One entry's trials: ``regret`` (trials, checkpoints); by trial ``seconds``, ``truncated``.

    ``truncated`` is the share of rewards a truncating policy took as 0; NaN for the others.
    """

    entry: Entry
    regret: FloatArray
    seconds: FloatArray
    truncated: FloatArray

    @property
    def final(self) -> FloatArray:
        """Regret at the end, one number a trial."""
        return self.regret[:, -1]


@dataclass(frozen=True)
class Measured:
    """A setting's results: curves by (policy, variant), and the rounds they were recorded at."""

    setting: Setting
    rounds: IntArray
    curves: dict[tuple[str, str], Curves]

    @property
    def horizon(self) -> int:
        """T."""
        return int(self.rounds[-1])

    def final(self, policy: str, variant: str) -> FloatArray:
        """Final regret by trial."""
        return self.curves[policy, variant].final


def gather(
    setting: Setting,
    found: list[Entry],
    outcomes: dict[str, Outcome],
    rounds: int,
    trials: int,
    base: int,
) -> Measured:
    """A setting's units, joined."""
    curves = {}
    for entry in found:
        mine = [outcomes[u.key] for u in entry_units(setting, entry, rounds, trials, base)]
        curves[entry.policy, entry.variant] = Curves(
            entry,
            np.concatenate([outcome["regret"] for outcome in mine]),
            np.concatenate([outcome["seconds"] for outcome in mine]),
            np.concatenate([outcome["truncated"] for outcome in mine]),
        )
    return Measured(setting, checkpoints(rounds, RECORD), curves)


def write_parquet(folder: Path, measured: list[Measured], header: dict[str, Any]) -> None:
    """``regret.parquet``, fixed to the bit by the seed, and ``seconds.parquet``, which is not.

    One row a (setting, policy, variant, trial). regret.parquet: ``regret``, the cumulative regret
    at the rounds in ``rounds``, and ``options``, how the policy was built. seconds.parquet:
    ``seconds`` of the trial, the world's own work left out.
    """
    import pyarrow as pa

    keys: dict[str, list[Any]] = {"setting": [], "policy": [], "variant": [], "trial": []}
    options, rounds, regret, seconds = [], [], [], []
    for one in measured:
        for (policy, variant), curves in one.curves.items():
            for trial in range(len(curves.seconds)):
                for key, value in zip(
                    keys, (one.setting.name, policy, variant, trial), strict=True
                ):
                    keys[key].append(value)
                options.append(repr(curves.entry.built))
                rounds.append(one.rounds)
                regret.append(curves.regret[trial])
                seconds.append(curves.seconds[trial])
    whole = pa.table({**keys, "options": options, "rounds": rounds, "regret": regret})
    _write(folder / "regret.parquet", whole, header)
    _write(folder / "seconds.parquet", pa.table({**keys, "seconds": seconds}), header)


def _write(path: Path, table: Any, header: dict[str, Any]) -> None:
    import pyarrow.parquet as pq

    part = path.with_name(path.name + ".part")
    pq.write_table(table.replace_schema_metadata({"heavytail": json.dumps(header)}), part)
    os.replace(part, path)
