"""Damaged and crafted files, one after another, of one class that saves.

Damage leaves the seal as it was: a byte changed, an end lost. A crafted file is sealed again:
slots, arrays, types, shapes, names and arguments that nobody wrote.
"""

from __future__ import annotations

import contextlib
import io
import json
import warnings
import zlib
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from tests.fuzz import deciders
from tests.fuzz.player import same, through_file
from tests.fuzz.subjects import learned, use

import heavytail as ht
from heavytail import _archive

NUMBERS: list[Any] = [np.nan, np.inf, -np.inf, -1.0, 0.0, 0.5, -5.5, 63.0, 1e9, 1e300, 2.0**53]
NUMBERS += [-0.0, 1.0, 3.0, 1e-300, 1e-9, 1e100, -1e100, 1e150, -1e150, 2.0**52]
WHOLE = [-1, 0, 1, 10**6, 2**40, -(2**40), 2**62]
TYPES = ["f4", "f2", "i8", "i1", "u8", "?", "c16", ">f8", "U4", "M8[s]", "S3", "O"]
ARGUMENTS: list[Any] = [
    None, True, "", "x", -1, 0, 0.5, 10**6, 10**12, 10**400, 1e300, float("nan"), float("inf"),
    [], [[1.0]], {}, {"array": "header"}, {"array": 3}, {"order": 9, "scale": -1},
    {"arguments": {}},
    {"policy": "OFUL", "arguments": {"dim": 2}}, {"agent": "os", "arguments": {"a": [{}]}},
    {"encoder": "Encoder", "arguments": {"numbers": ["a"]}}, {"items": [[1, 2], ["1", [3]]]},
    {"regression": "OnlineRidge", "arguments": {}}, {"order": 1.5, "scale": 1e-300},
    {"order": 2, "scale": 3}, False, 1, 2, 3, 7, "3", "auto", 1.0, 3.0, -0.0, 1e-300, 1e-12, 1e150,
    0.999999, 1.0000001, [1.0, 2.0], [[1.0, 0.0], [0.0, 1.0]],
]  # fmt: skip
Arrays = dict[str, Any]


class Bench:
    """One saved subject, and the ways to spoil its file."""

    def __init__(self, name: str, folder: Path, seed: int) -> None:
        self.path = folder / "it.npz"
        learned(name).save(self.path)
        self.whole = self.path.read_bytes()
        with np.load(io.BytesIO(self.whole)) as archive:
            self.arrays: Arrays = {key: archive[key] for key in archive.files}
        self.header = json.loads(str(self.arrays.pop("header")))
        order = np.random.default_rng(seed)
        self.places = order.permutation(len(self.whole)), order.permutation(len(self.whole))
        self.seed = seed, zlib.crc32(name.encode())

    def damaged(self, index: int, rng: np.random.Generator) -> bytes:
        """Every byte changed and every end lost, in an order of chance."""
        flips, ends = self.places
        if index % 2:
            return self.whole[: int(ends[index // 2 % len(ends)])]
        changed = bytearray(self.whole)
        changed[flips[index // 2 % len(flips)]] ^= int(rng.integers(1, 256))
        return bytes(changed)

    def crafted(self, rng: np.random.Generator) -> bytes:
        """A file that nobody wrote, under a seal that fits."""
        header = json.loads(json.dumps(self.header))
        arrays = {key: array.copy() for key, array in self.arrays.items()}
        for _ in range(int(rng.integers(1, 3))):
            with contextlib.suppress(Exception):  # where the first has left nothing to craft
                pick(rng, CRAFTS)(header, arrays, rng)
        if rng.random() < 0.8:  # a forger who knows that the header names them
            header["arrays"] = sorted(arrays)
        archive = io.BytesIO()
        try:
            told = json.dumps(header)
        except ValueError:  # the second put the first into itself: no file can say that
            told = json.dumps(self.header)
        np.savez(archive, header=np.array(told), **arrays)
        return _archive.sealed(archive.getvalue())

    def run(self, index: int, found: Counter) -> None:
        """The file number ``index``: write it, load it, and use what comes back."""
        rng = np.random.default_rng([*self.seed, index])
        is_crafted = index % 2 == 1
        content = self.crafted(rng) if is_crafted else self.damaged(index // 2, rng)
        self.path.write_bytes(content)
        found["files"] += 1
        try:
            loaded = ht.load(self.path)
        except (ValueError, OSError):
            found["refused"] += 1
            return
        except Exception as error:
            self.fail(index, "other exceptions", error, found)
            return
        if not is_crafted:
            self.fail(index, "silent losses", None, found)
            return
        found["taken"] += 1
        try:
            unlike = not is_copied(loaded)
        except Exception as error:
            self.fail(index, "loaded and not to be copied", error, found)
        else:
            if unlike:
                self.fail(index, "unlike their copies", None, found)
        try:
            go_on(loaded, rng)
        except Exception as error:
            self.fail(index, "exceptions of what was loaded", error, found)

    def fail(self, index: int, what: str, error: Exception | None, found: Counter) -> None:
        found[what] += 1
        if found[what] <= 5:
            print(f"{self.header['format']} file {index}: {what}: {error!r}", flush=True)


def is_copied(loaded: Any) -> bool:
    """Whether what was loaded is equal to its clone, and to what comes back from its file."""
    copies = [through_file(loaded), *([loaded.clone()] if hasattr(loaded, "clone") else [])]
    return all(same(copy.saved_arrays(), loaded.saved_arrays()) for copy in copies)


def go_on(loaded: Any, rng: np.random.Generator) -> None:
    """A forged state may refuse what is honest; it may do nothing else."""
    refusals: tuple[type[Exception], ...] = (ValueError, TypeError)
    acts = [lambda: use(loaded, rng), loaded.__repr__, lambda: through_file(loaded)]
    if isinstance(loaded, ht.Decider):
        acts.insert(1, lambda: deciders.look(loaded))
        refusals = deciders.REFUSALS
    for act in acts:
        try:
            act()
            if hasattr(loaded, "clone"):
                loaded.clone()
        except refusals:
            continue


def pick(rng: np.random.Generator, options: Any) -> Any:
    options = list(options)
    return options[rng.integers(len(options))]


def spoil_entry(_: Any, arrays: Arrays, rng: np.random.Generator) -> None:
    """One number set to another."""
    array = arrays[pick(rng, arrays)] if arrays else np.zeros(0)
    if array.size and array.dtype.kind in "fi":
        value = pick(rng, NUMBERS if array.dtype.kind == "f" else WHOLE)
        array.reshape(-1)[rng.integers(array.size)] = value


def spoil_slot(header: Any, arrays: Arrays, rng: np.random.Generator) -> None:
    """One named slot set to another number."""
    key = pick(rng, header["slots"]) if header.get("slots") else None
    if key in arrays:
        arrays[key][..., rng.integers(arrays[key].shape[-1])] = pick(rng, NUMBERS)


def fill(_: Any, arrays: Arrays, rng: np.random.Generator) -> None:
    if arrays:
        key = pick(rng, arrays)
        if arrays[key].dtype.kind in "f":
            arrays[key][...] = pick(rng, NUMBERS)


def retype(_: Any, arrays: Arrays, rng: np.random.Generator) -> None:
    if arrays:
        key = pick(rng, arrays)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                arrays[key] = arrays[key].astype(pick(rng, TYPES))
            except (ValueError, TypeError):
                arrays[key] = np.zeros(arrays[key].shape, dtype="U1")


def reshape(_: Any, arrays: Arrays, rng: np.random.Generator) -> None:
    if arrays:
        key = pick(rng, arrays)
        a = arrays[key]
        forms = [a[None], a[..., None], a[..., :-1] if a.ndim else a, a.T, a.ravel(), a[:0]]
        forms.append(np.concatenate([a, a]) if a.ndim else a)
        arrays[key] = pick(rng, forms)


def rename(_: Any, arrays: Arrays, rng: np.random.Generator) -> None:
    """One missing, and perhaps back under another name."""
    if arrays:
        array = arrays.pop(pick(rng, arrays))
        if rng.random() < 0.5:
            arrays[pick(rng, ["theta", "pending.made", "argument.x", "names", "a/../b"])] = array


def add(_: Any, arrays: Arrays, rng: np.random.Generator) -> None:
    key = pick(rng, ["odd", "history", "pending.tokens", "argument.dim", "identifier.theta"])
    arrays[key] = pick(rng, [np.zeros(0), np.ones((3, 3)), np.array("x"), np.array(np.nan)])


def argue(header: Any, _: Arrays, rng: np.random.Generator) -> None:
    """Another argument of the constructor, or one that is not."""
    told = header["arguments"]
    parts = [*told.values(), *header.get("carried", {}).values()]
    inner = [v["arguments"] for v in parts if isinstance(v, dict) and "arguments" in v]
    told = pick(rng, [told, *inner])
    told[pick(rng, [*told, "odd"])] = pick(rng, ARGUMENTS)


def load_up(header: Any, _: Arrays, rng: np.random.Generator) -> None:
    """Something else carried along, or something more."""
    header["version"] = 3
    carried = header.setdefault("carried", {})
    carried[pick(rng, [*carried, "encoder", "odd"])] = pick(rng, ARGUMENTS)


def misname(header: Any, _: Arrays, rng: np.random.Generator) -> None:
    """The slots' names in another order, twice, missing, or no names at all."""
    slots = header.get("slots")
    key = pick(rng, slots) if slots else "scalars"
    names = list(slots[key]) if slots else []
    forms: list[Any] = [names[::-1], names[:-1], [*names, "odd"], names[:1] * len(names), 3, None]
    header["slots"] = {**(slots or {}), key: pick(rng, forms)}


def mishead(header: Any, _: Arrays, rng: np.random.Generator) -> None:
    """Another version, format, or class; or very deep."""
    deep: Any = 1.0
    for _level in range(int(rng.integers(1, 300))):
        deep = [deep]
    key = pick(rng, [*header, "odd"])
    header[key] = pick(rng, [*ARGUMENTS, 1, 2, 99, deep, "heavytail agent", "VARA", {"a": deep}])


def retell(_: Any, arrays: Arrays, rng: np.random.Generator) -> None:
    """Another value somewhere in what a Decider tells as JSON."""
    if "told" not in arrays:
        return
    told = node = json.loads(bytes(arrays["told"]))
    while True:
        key = pick(rng, node if isinstance(node, dict) else range(len(node)))
        if not (isinstance(node[key], dict | list) and node[key] and rng.random() < 0.8):
            break
        node = node[key]
    node[key] = pick(rng, [*ARGUMENTS, *NUMBERS, *WHOLE])
    arrays["told"] = np.frombuffer(json.dumps(told).encode(), dtype=np.uint8).copy()


CRAFTS: list[Callable[[Any, Arrays, np.random.Generator], None]] = [
    spoil_entry, spoil_entry, spoil_slot, spoil_slot, fill, retype, reshape, rename, add, argue,
    misname, mishead, load_up, retell, retell,
]  # fmt: skip
