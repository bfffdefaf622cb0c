"""``python -m heavytail.serve.lesson FOLDER``: the saved state in a folder learns the log in it.

The service runs it as a process of its own, because a damaged Parquet file can end the process that
reads it.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from typing import Any

import numpy as np

from heavytail._load import load
from heavytail.decider import Decider
from heavytail.decider.markup import counted
from heavytail.logs.reading.log import chunks
from heavytail.logs.reading.log import counted as rows_of
from heavytail.serve.keeping import checked
from heavytail.serve.model import said
from heavytail.tables.parquet import MAGIC, parquet

__all__ = ["LOG", "STATE", "main"]

LOG, STATE = "log.parquet", "state.ht"  # files in the folder
NAME = "the log"  # what errors call the first
CHUNK = 4096  # rows that are read at a time
MOST_VALUES = 2**28  # cells of a log, numbers in lists included: 2 GiB once they are read
ROOM = 4 * 2**30  # bytes of memory: a few bytes of a file can stand for one text in every row
LONGEST = 2000  # characters of what is said, which may repeat a text of the log
NO_OPTIONS = {  # of a request, which the reader's errors speak of
    "columns=": "A request has no columns=: rename the column in the file.",
    "default_reward=": "A request has no default_reward=: give the rewards in the file.",
}
UNREAD = dict.fromkeys(("probabilities", "context", "target"))  # columns that no policy learns


def main(folder: str) -> dict[str, list[str]]:
    """Let the state learn the log, and save it in its place; returns what to say of it, or why it
    is refused.
    """
    log, state = os.path.join(folder, LOG), os.path.join(folder, STATE)
    learner: Any = load(state)
    try:
        _check_size(log)
        if isinstance(learner, Decider):
            sentences = str(learner.learn(log, progress=False)).split("\n")
        else:
            sentences = _update(learner, log)
        data = checked(learner, learner.saved_arrays())
    except Exception as error:
        words = said(error).replace(log, NAME)
        hints = [hint for option, hint in NO_OPTIONS.items() if option in words]
        return {"refused": [" ".join([_short(words), *hints])]}
    with open(state, "wb") as stream:
        stream.write(data)
    return {"sentences": [_short(sentence) for sentence in sentences]}


def _short(words: str) -> str:
    return words if len(words) <= LONGEST else f"{words[:LONGEST]} ..."


def _limit_memory() -> None:
    """Let the process fail when it needs more memory than ``ROOM``, where the system can."""
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        _, most = resource.getrlimit(resource.RLIMIT_DATA)
        soft = ROOM if most == resource.RLIM_INFINITY else min(ROOM, most)
        resource.setrlimit(resource.RLIMIT_DATA, (soft, most))


def _check_size(path: str) -> None:
    """Refuse what is not Parquet, and a file of few bytes that says it unpacks to very many."""
    with open(path, "rb") as stream:
        if stream.read(len(MAGIC)) != MAGIC:
            raise ValueError(f"{NAME} must be a Parquet file, as save_log or DecisionLog.export.")
    metadata = parquet(path, NAME).metadata
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    values = sum(
        max(group.column(place).num_values, group.column(place).total_uncompressed_size // 8)
        for group in groups
        for place in range(group.num_columns)
    )
    if values > MOST_VALUES:
        raise ValueError(
            f"{NAME} has {values:,} values; at most {MOST_VALUES:,} are read. Leave out columns "
            "and rows that need not be learned, or learn it in Python and upload the file."
        )


def _update(policy: Any, path: str) -> list[str]:
    """Let a policy learn the played arms of a log, row after row."""
    rows = 0
    for part in chunks(path, columns=UNREAD, size=CHUNK):
        if part.arms is None:
            raise ValueError(
                f"{NAME} has no column 'arms', the features of the arms offered, which "
                f"{type(policy).__name__} learns."
            )
        width = part.arms.shape[2]
        if width != policy.dim:
            raise ValueError(f"{NAME} has arms of {width} features; the model has {policy.dim}.")
        policy.update_many(part.arms[np.arange(len(part.action)), part.action], part.reward)
        rows += len(part.action)
    if not rows:
        raise ValueError(f"{NAME} has no row with a reward.")
    waiting = rows_of(path).waiting
    left_out = [f"{waiting:,} left out: they have no reward"] if waiting else []
    return [f"{counted(rows, 'row')} learned", *left_out]


if __name__ == "__main__":
    _limit_memory()
    print(json.dumps(main(sys.argv[1])))
