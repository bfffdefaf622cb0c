"""``heavytail run my.toml``: any policies, environments, trials, grids, checked before they run.

The file's keys are in ``docs/howto/run.md``. An error names the file, the key and what would be
right.
"""

from __future__ import annotations

import dataclasses
import inspect
import itertools
import math
import re
import sys
import tomllib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from types import EllipsisType
from typing import Any, TypeVar

from heavytail._validate import MOST, shown
from heavytail.environments import SKEWS, ArmSet, Environment
from heavytail.environments import noise as noises
from heavytail.environments.base import BLOCK, check_dealt, own_part
from heavytail.environments.noise import Noise, Scaled
from heavytail.experiments.limits import check_memory, check_work
from heavytail.experiments.setting import RECORD, Setting, build
from heavytail.experiments.unit import CHUNK
from heavytail.links import LINKS, hint
from heavytail.policies import PackedPolicy, Policy
from heavytail.policies.build import find
from heavytail.policies.core.own import failure, imported

__all__ = ["Asked", "Choice", "read"]

TOP = {"rounds", "trials", "tuning_trials", "seed", "out", "policies", "worlds"}
LARGEST_SEED = 2**128
LONGEST = 2**24  # characters of a file
Built = TypeVar("Built")
MOST_DOTS = 10_000  # in a line
POLICY = {"policy", "name", "options", "grid"}
LINK = {"theta_bound": 1.0, "base": 0.0, "outliers": 0.0, "factor": 1000.0}  # with a link alone
OURS = {"dim", "arms", "offered", "noise", "skew", "link", *LINK}  # of worlds of the library
WORLD = {"name", "title", "kind", "options", "order", "scale", *OURS}


@dataclass(frozen=True)
class Choice:
    """A policy asked for: how it is called, built, and over which grid it is tuned, if any."""

    name: str
    policy: str
    options: dict[str, Any]
    grid: dict[str, list[Any]]

    @property
    def variant(self) -> str:
        """As the tables call it."""
        return "tuned" if self.grid else "as given"

    def build(self, setting: Setting, rounds: int, **more: object) -> Policy:
        """The policy in a setting."""
        return build(self.policy, setting, rounds, **{**self.options, **more})

    @property
    def count(self) -> int:
        """The number of points in the grid."""
        return math.prod(map(len, self.grid.values()))

    def points(self) -> list[dict[str, Any]]:
        """Every combination of the grid."""
        product = itertools.product(*self.grid.values())
        return [dict(zip(self.grid, values, strict=True)) for values in product]


@dataclass(frozen=True)
class Asked:
    """The whole file."""

    path: Path
    rounds: int
    trials: int
    tuning_trials: int
    seed: int
    out: Path
    policies: list[Choice]
    worlds: list[Setting]


def read(path: Path, *, jobs: int | None = None) -> Asked:
    """The file, or a ValueError that says what is wrong where; ``jobs`` trials run at once."""
    raw = _parsed(path)
    sys.path.insert(0, str(path.resolve().parent))  # a policy in a file beside this one
    file = _Keys(str(path), "", raw, TOP)
    rounds = file.count("rounds", 18_000)
    asked = Asked(
        path=path,
        rounds=rounds,
        trials=file.count("trials", 20),
        tuning_trials=file.count("tuning_trials", 5),
        seed=file.count("seed", 0, least=0, most=LARGEST_SEED),
        out=file.path("out", "results/" + path.stem),
        policies=[_policy(keys) for keys in file.tables("policies", POLICY)],
        worlds=[_world(keys) for keys in file.tables("worlds", WORLD)],
    )
    for kind, names in (
        ("policies", [choice.name for choice in asked.policies]),
        ("worlds", [world.name for world in asked.worlds]),
    ):
        twice = [name for name in names if names.count(name) > 1]
        if twice:
            raise ValueError(f"{path}: {kind}: two are called {shown(twice[0])}; give each a name.")
    _check_size(asked, jobs)
    _try_all(asked)
    return asked


def _parsed(path: Path) -> dict[str, Any]:
    """The file as tables; whatever it holds instead is refused."""
    try:
        with path.open(encoding="utf-8") as stream:
            text = stream.read(LONGEST)
        if len(text) == LONGEST:
            raise tomllib.TOMLDecodeError(f"it has more than {LONGEST} characters")
        if any(line.count(".") > MOST_DOTS for line in text.splitlines()):
            raise RecursionError  # the parser takes the square of a key's dots in memory
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(
            f"{path}: not TOML: {error}. Pass a file with [[policies]] and [[worlds]]."
        ) from None
    except ValueError:  # of int()
        most = sys.get_int_max_str_digits()
        raise ValueError(
            f"{path}: a number has more than {most} digits. Write it shorter."
        ) from None
    except (RecursionError, MemoryError):
        raise ValueError(
            f"{path}: lists or tables stand in each other too deep to be read. Nest them less."
        ) from None


def _check_size(asked: Asked, jobs: int | None) -> None:
    """Refuse what would never be done, or has no room, before any of it is built."""
    import joblib

    tried = [choice.count * asked.tuning_trials for choice in asked.policies if choice.count > 1]
    trials = len(asked.worlds) * (sum(tried) + asked.trials * len(asked.policies))
    check_work(f"{asked.path}: all policies in all worlds", trials, asked.rounds)
    at_once = min(jobs or joblib.cpu_count(), -(-trials // CHUNK))
    results = 2 * trials * min(asked.rounds, RECORD)
    for place, world in enumerate(asked.worlds):
        check_memory(
            f"{asked.path}: worlds[{place}] with rounds = {asked.rounds:,}, dim = {world.dim:,} "
            f"and arms = {world.arm_count:,}",
            results + _policies_take(asked, world) + at_once * _trial_takes(asked, world),
            "Lower those, or run fewer trials at once by --jobs.",
        )


def _policies_take(asked: Asked, world: Setting) -> int:
    """Numbers, at least, of all policies in a world: the inverse of V, and room to work in."""
    packed = (
        choice.count for choice in asked.policies if issubclass(find(choice.policy), PackedPolicy)
    )
    return 2 * world.dim**2 * sum(packed)


def _trial_takes(asked: Asked, world: Setting) -> int:
    """Numbers, at least, of the longest trial in a world: regret, arms, offers and a history."""
    keeps = any(find(choice.policy).info.storage == "O(t)" for choice in asked.policies)
    offers = 0 if world.offered is None else 2 * BLOCK * world.arm_count
    return (2 + keeps * world.dim) * asked.rounds + 2 * world.arm_count * world.dim + offers


def _try_all(asked: Asked) -> None:
    """Build everything once, so that a mistake is found before the first round."""
    for world in asked.worlds:
        for place, choice in enumerate(asked.policies):
            for point in choice.points():
                try:
                    world.environment.check_link(choice.build(world, asked.rounds, **point))
                except (TypeError, ValueError) as error:
                    where = f"{asked.path}: policies[{place}]"
                    raise ValueError(f"{where} ({choice.name}) in {world.name}: {error}") from None


def _policy(keys: _Keys) -> Choice:
    path = keys.text("policy")
    kind = keys.trying("policy", lambda: find(path))
    options = keys.table("options")
    grid = keys.table("grid")
    accepted = [name for name in inspect.signature(kind).parameters if name != "dim"]
    for key, table in (("options", options), ("grid", grid)):
        for name in table:
            if name not in accepted:
                keys.fail(f"{key}.{name}", f"an option of {path}: {', '.join(accepted)}", name)
    for name, values in grid.items():
        if not isinstance(values, list) or not values:
            keys.fail(f"grid.{name}", "a list of values to try", values)
    return Choice(keys.text("name", kind.name), path, options, grid)


def _world(keys: _Keys) -> Setting:
    if "kind" in keys.raw:
        return _own_world(keys)
    name = keys.text("name")
    skew = keys.choice("skew", SKEWS)
    link = keys.choice("link", LINKS, hint(keys.raw.get("link")))
    for key in ("noise", "skew") if link else LINK:
        if key in keys.raw:
            right = "left out with a link" if link else "left out without a link"
            keys.fail(key, right, keys.raw[key])
    own = bool(link or skew) and "noise" not in keys.raw
    noise = None if own else _noise(keys, keys.table("noise"))
    world = Setting(
        name=name,
        title=keys.text("title", name),
        group="own",
        noise=noise,
        order=keys.number("order", 2.0 if link else ...),
        scale=keys.number("scale", None),
        dim=keys.count("dim", 2),
        arms=_arms(keys, plain=bool(link or skew)),
        offered=keys.count("offered", None),
        skew=skew,
        link=link,
        **{key: keys.number(key, default) for key, default in LINK.items()},
    )
    return _tried(keys, world, "link" if link else "offered")


def _own_world(keys: _Keys) -> Setting:
    """A world whose class is the user's."""
    for key in OURS & set(keys.raw):
        keys.fail(key, "left out with a kind, which is built from its options", keys.raw[key])
    name, path, options = keys.text("name"), keys.text("kind"), keys.table("options")
    world = Setting(
        name=name,
        title=keys.text("title", name),
        group="own",
        noise=None,
        order=keys.number("order"),
        scale=keys.number("scale", None),
        kind=path,
        options=options,
    )
    built = _own(keys, "kind", path, Environment, "world", options)  # type: ignore[type-abstract]
    arms = getattr(built, "arms", 50)
    world = dataclasses.replace(
        world,
        dim=keys.trying("kind", lambda: built.dim, own=built),
        arms=arms if isinstance(arms, int) else 50,
    )
    return _tried(keys, world, "kind")


def _tried(keys: _Keys, world: Setting, key: str) -> Setting:
    """The world, once it has been built, dealt a round and said how large its noise is."""
    environment = keys.trying(key, lambda: world.environment, named=True)
    place = {"noise": "noise", "arm_set": "arms"}
    own = own_part(environment)
    where = next((k for a, k in place.items() if getattr(environment, a, 0) is own), key)
    keys.trying(where, lambda: check_dealt(environment))
    stated = "order" if world.scale is None and not world.kind else "scale"
    keys.trying(stated, lambda: world.tail(uses_scale=True), own=own)
    return world


def _arms(keys: _Keys, *, plain: bool) -> int | ArmSet:
    """The number of arms, or arms whose class is the user's."""
    table = keys.raw.get("arms")
    if not isinstance(table, dict):
        return int(keys.count("arms", 50))
    if plain:
        keys.fail("arms", "a whole number in a world with a skew or a link", table)
    options = {key: value for key, value in table.items() if key != "kind"}
    if ":" not in str(table.get("kind")):
        keys.fail("arms.kind", 'the import path of an ArmSet, "module:Class"', table.get("kind"))
    return _own(keys, "arms", str(table["kind"]), ArmSet, "arm set", options)  # type: ignore[type-abstract]


def _noise(keys: _Keys, table: dict[str, Any]) -> Noise:
    kinds = {
        name: kind
        for name, kind in vars(noises).items()
        if isinstance(kind, type) and issubclass(kind, Noise) and kind not in (Noise, Scaled)
    }
    kind = str(table.get("kind"))
    numbers = {key: value for key, value in table.items() if key not in ("kind", "spread")}
    if ":" in kind:
        made: Noise = _own(keys, "noise", kind, Noise, "noise", numbers)  # type: ignore[type-abstract]
    else:
        if kind not in kinds:
            right = f"one of {', '.join(sorted(kinds))}, or module:Class"
            keys.fail("noise.kind", right, table.get("kind"))
        known = [f.name for f in dataclasses.fields(kinds[kind])]  # type: ignore[arg-type]
        for key in numbers:
            if key not in known:
                keys.fail(f"noise.{key}", f"one of {', '.join([*known, 'spread'])}", key)
        made = keys.trying("noise", lambda: kinds[kind](**numbers))
    if "spread" in table:
        made = keys.trying("noise.spread", lambda: Scaled(made, table["spread"]))
    return made


def _own(
    keys: _Keys, key: str, path: str, base: type[Built], noun: str, options: dict[str, Any]
) -> Built:
    """Build an object of a user's class; what the class does not take is refused by name."""
    kind = keys.trying(key, lambda: imported(path, base, noun))
    if inspect.isabstract(kind):
        missing = ", ".join(sorted(getattr(kind, "__abstractmethods__", ())))
        keys.fail(key, f"a class that defines {missing}", path)
    parameters = inspect.signature(kind).parameters
    if not any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        for name in options:
            if name not in parameters:
                accepted = ", ".join(parameters) or "nothing"
                inside = "options" if key == "kind" else key
                keys.fail(f"{inside}.{name}", f"left out: {path} takes {accepted}", options[name])
    return keys.trying(key, lambda: kind(**options), own=kind)


class _Keys:
    """A table of the file that knows where it stands, for its errors."""

    def __init__(self, file: str, where: str, raw: dict[str, Any], known: set[str]) -> None:
        self.file, self.where, self.raw, self.known = file, where, raw, known
        for key in raw:
            if key not in known:
                self.fail(key, f"one of {', '.join(sorted(known))}", key)

    def fail(self, key: str, right: str, got: object, hint: str = "") -> None:
        where = f"{self.where}.{key}" if self.where else key
        problem = f"{self.file}: {where} must be {right}; got {shown(got)}."
        raise ValueError(f"{problem} {hint}" if hint else problem)

    def trying(
        self, key: str, build: Callable[[], Built], *, named: bool = False, own: object = None
    ) -> Built:
        """Return what ``build`` makes. An error is reported under ``key``, or, if ``named``, under
        the key that its message begins with: "LinkBandit.outliers must ...". Where code of the
        user's runs, the ``own`` object or class, its line is said of any other error.
        """
        try:
            try:
                return build()
            except (TypeError, ValueError):
                raise
            except (Exception, SystemExit) as error:
                if own is None:
                    raise
                name = own.__name__ if isinstance(own, type) else type(own).__name__
                raise failure(name, error) from error
        except (TypeError, ValueError) as error:
            argument = re.match(r"\w+\.(\w+) ", str(error))
            if named and argument and argument[1] in self.known:
                key = argument[1]
            where = f"{self.where}.{key}" if self.where else key
            raise ValueError(f"{self.file}: {where}: {error}") from None

    def _get(self, key: str, right: str, default: object) -> Any:
        if key not in self.raw:
            if default is ...:
                self.fail(key, right, "nothing: the key is missing")
            return default
        return self.raw[key]

    def text(self, key: str, default: str | EllipsisType = ...) -> str:
        value = self._get(key, "a text", default)
        if not isinstance(value, str) or not value:
            self.fail(key, "a text", value)
        return str(value)

    def path(self, key: str, default: str) -> Path:
        value = self.text(key, default)
        if "\0" in value:
            self.fail(key, "a path, which has no NUL in it", value)
        return Path(value)

    def choice(self, key: str, known: Iterable[str], hint: str = "") -> str:
        names = tuple(known)
        value = self._get(key, f"one of {', '.join(names)}", "")
        if value != "" and value not in names:
            self.fail(key, f"one of {', '.join(names)}", value, hint)
        return str(value)

    def number(self, key: str, default: float | EllipsisType | None = ...) -> Any:
        value = self._get(key, "a number", default)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
            self.fail(key, "a number", value)
        return value

    def count(
        self, key: str, default: int | EllipsisType | None = ..., least: int = 1, most: int = MOST
    ) -> Any:
        right = f"a whole number of at least {least}"
        value = self._get(key, right, default)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            self.fail(key, right, value)
        if value > most:
            self.fail(key, f"at most {most}", value)
        return value

    def table(self, key: str) -> dict[str, Any]:
        value = self._get(key, "a table", {})
        if not isinstance(value, dict):
            self.fail(key, "a table, as in { key = value }", value)
        return dict(value)

    def tables(self, key: str, known: set[str]) -> list[_Keys]:
        value = self._get(key, f"one or more [[{key}]]", ...)
        if not isinstance(value, list) or not value or not all(isinstance(v, dict) for v in value):
            self.fail(key, f"one or more tables [[{key}]]", value)
        return [_Keys(self.file, f"{key}[{i}]", table, known) for i, table in enumerate(value)]
