"""The results of a simulation, and their Parquet form."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from heavytail._archive import replace
from heavytail._extras import need
from heavytail._typing import FloatArray, IntArray
from heavytail._validate import check_count, printable, shown
from heavytail._version import origin

__all__ = ["Results", "Run", "checkpoints"]

FORMAT = "heavytail results"
VERSION = 1


def checkpoints(rounds: int, record: int | None) -> IntArray:
    """The rounds, counted from 1, whose regret is kept: ``record`` of them, evenly spaced, or all.

    >>> checkpoints(18, 3)
    array([ 6, 12, 18])
    """
    if record is None or record >= rounds:
        return np.arange(1, rounds + 1)
    count = check_count("record", record)
    return np.unique(np.linspace(rounds / count, rounds, count).round().astype(np.int64))


@dataclass(frozen=True)
class Run:
    """One policy's trials: ``regret`` (trials, checkpoints), cumulative; ``seconds`` (trials,), the
    processor time of the thread that played, without the environment's; of a GPU, its own.
    """

    regret: FloatArray
    seconds: FloatArray

    @property
    def final(self) -> FloatArray:
        """Regret at the end, one number per trial."""
        return self.regret[:, -1]


@dataclass(frozen=True)
class Results(Mapping[str, Run]):
    """Runs by policy name, the rounds their regret was recorded at, and what was run.

    >>> import heavytail as ht
    >>> world = ht.LinearBandit(2, arms=5, noise=ht.noise.Gaussian(0.1))
    >>> results = ht.simulate([ht.Uniform(2)], world, rounds=100, trials=3, seed=0)
    >>> results["Uniform"].regret.shape
    (3, 100)
    """

    runs: dict[str, Run]
    rounds: IntArray
    settings: dict[str, Any] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Run:
        if name not in self.runs:
            known = printable(", ".join(self.runs))
            raise KeyError(f"no policy {shown(name)} in these results; there are {known}.")
        return self.runs[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.runs)

    def __len__(self) -> int:
        return len(self.runs)

    def __str__(self) -> str:
        return self.table()

    def table(self) -> str:
        """Final regret (mean and standard deviation over trials) and time per round, by policy."""
        names = {name: printable(name) for name in self.runs}
        width = max([len(name) for name in names.values()] + [6])
        lines = [f"{'policy':<{width}}  {'regret':>10}  {'spread':>9}  {'us/round':>9}"]
        for name, run in self.runs.items():
            micro = 1e6 * run.seconds.mean() / max(int(self.rounds[-1]), 1)
            spread = run.final.std(ddof=1) if len(run.final) > 1 else 0.0
            lines.append(
                f"{names[name]:<{width}}  {run.final.mean():>10.1f}  {spread:>9.1f}  {micro:>9.2f}"
            )
        return "\n".join(lines)

    def to_pandas(self) -> Any:
        """A pandas frame with a row for each policy, trial and recorded round: columns ``policy``,
        ``trial``, ``round``, ``regret`` (cumulative) and ``seconds`` (of the whole trial).
        """
        need("Results.to_pandas", "pandas", extra="pandas")
        import pandas as pd  # type: ignore[import-untyped]

        frames = []
        for name, run in self.runs.items():
            trials, marks = run.regret.shape
            columns = {
                "policy": name,
                "trial": np.repeat(np.arange(trials), marks),
                "round": np.tile(self.rounds, trials),
                "regret": run.regret.ravel(),
                "seconds": np.repeat(run.seconds, marks),
            }
            frames.append(pd.DataFrame(columns))
        return pd.concat(frames, ignore_index=True)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write Parquet: one row per (policy, trial); columns policy, trial, seconds, regret.

        A row's regret is a list. The recorded rounds, the settings, the library's version and,
        where it runs from its repository, the commit are JSON in the schema's metadata.
        """
        need("Results.save", "pyarrow", extra="experiments")
        import pyarrow as pa
        import pyarrow.parquet as pq

        rows = [
            (name, trial) for name, run in self.runs.items() for trial in range(len(run.seconds))
        ]
        table = pa.table(
            {
                "policy": pa.array([name for name, _ in rows], pa.string()),
                "trial": pa.array([trial for _, trial in rows], pa.int64()),
                "seconds": pa.array([self.runs[n].seconds[t] for n, t in rows], pa.float64()),
                "regret": pa.array(
                    [self.runs[n].regret[t] for n, t in rows], pa.list_(pa.float64())
                ),
            }
        )
        header = {
            "format": FORMAT,
            "version": VERSION,
            **origin(),
            "rounds": self.rounds.tolist(),
            "settings": self.settings,
        }
        table = table.replace_schema_metadata({"heavytail": json.dumps(header)})
        stream = io.BytesIO()
        pq.write_table(table, stream)
        replace(path, stream.getvalue())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Results:
        """Read what :meth:`save` wrote."""
        need("Results.load", "pyarrow", extra="experiments")
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            table = pq.read_table(path)
            header = json.loads(table.schema.metadata[b"heavytail"])
            if header["format"] != FORMAT or header["version"] != VERSION:
                raise KeyError(f"{header['format']} {header['version']}")
        except FileNotFoundError:
            raise
        except (pa.ArrowException, OSError, KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{path} is not results saved by heavytail ({error}).") from None
        names = table["policy"].to_pylist()
        regret = table["regret"].to_pylist()
        seconds = table["seconds"].to_pylist()
        runs = {}
        for name in dict.fromkeys(names):
            mine = [i for i, other in enumerate(names) if other == name]
            runs[name] = Run(
                regret=np.array([regret[i] for i in mine]),
                seconds=np.array([seconds[i] for i in mine]),
            )
        return cls(runs=runs, rounds=np.array(header["rounds"]), settings=header["settings"])
