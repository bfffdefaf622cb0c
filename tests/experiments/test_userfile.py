"""heavytail run my.toml: what it takes, and what it says of what it cannot take."""

from __future__ import annotations

import doctest
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import heavytail as ht
from heavytail import cli
from heavytail.experiments.setting import Setting
from heavytail.experiments.userfile import read
from heavytail.policies import ALL

DOCS = Path(__file__).parents[2] / "docs"
GOOD = """
rounds = 300
trials = 2
tuning_trials = 2
seed = 3
out = "{out}"

[[policies]]
policy = "Hvt-UCB"

[[policies]]
policy = "OFUL"
name = "OFUL, tuned"
grid = {{ radius_scale = [0.03, 0.3] }}

[[policies]]
policy = "greedy_policy:Greedy"

[[worlds]]
name = "mild"
arms = 8
noise = {{ kind = "StudentT", df = 2.1, spread = 0.5 }}
order = 1.9
"""
OWN = '''
import numpy as np
import heavytail as ht
from heavytail.policies import Info


class Greedy(ht.Policy):
    """Follows a running sum."""

    name = "Greedy"
    info = Info("sum", "-", "T", "O(1)", "O(1)", "none")

    def __init__(self, dim):
        self._start(dim, None, None)
        self._sum = np.zeros(dim)

    def select(self, arms):
        return int(np.argmax(np.asarray(arms) @ self._sum))

    def update(self, x, reward, *, scale=None):
        self._sum = self._sum + np.asarray(x) * reward

    theta = property(lambda self: self._sum.copy())
    radius = property(lambda self: 0.0)
    rounds = property(lambda self: 0)

    def state_arrays(self):
        return {"sum": self._sum}

    def restore(self, arrays):
        self._sum = arrays["sum"].copy()
'''


def write(folder: Path, text: str) -> Path:
    (folder / "greedy_policy.py").write_text(OWN)
    path = folder / "my.toml"
    path.write_text(text)
    return path


def test_a_file_with_a_grid_and_a_policy_of_ones_own_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path, GOOD.format(out=(tmp_path / "out").as_posix()))
    assert cli.main(["run", str(path), "--jobs", "1"]) == 0
    assert "Greedy" in capsys.readouterr().out
    table = pq.read_table(tmp_path / "out" / "regret.parquet").to_pylist()
    assert {row["policy"] for row in table} == {"Hvt-UCB", "OFUL, tuned", "Greedy"}
    assert len(table) == 6
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "The grid of OFUL, tuned" in page


def documented(page: str, language: str, place: int = 0) -> str:
    """A block of code of a page."""
    text = (DOCS / page).read_text(encoding="utf-8")
    return text.split(f"```{language}\n")[1 + place].split("```", 1)[0]


def test_the_documented_file_is_accepted(tmp_path: Path) -> None:
    asked = read(write(tmp_path, documented("howto/run.md", "toml")))
    assert [one.name for one in asked.policies] == ["Hvt-UCB", "OFUL, tuned", "CRTM"]
    assert [one.name for one in asked.worlds] == ["skewed", "varying", "shop", "visits"]


def test_the_documented_policy_passes_the_checks_and_gets_into_the_figures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "winsor.py").write_text(documented("developers/new_policy.md", "python"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    policy = ht.make_policy("winsor:Winsor", dim=3, tail=ht.MomentBound(1.5, 1.0))
    ht.checks.check_policy(policy)
    small = ["--trials", "2", "--rounds", "200", "--jobs", "1", "--out", "out"]
    assert cli.main(["reproduce", "student", "--policy", "winsor:Winsor", *small]) == 0
    names = pq.read_table("out/regret.parquet")["policy"].to_pylist()
    assert names.count("Winsor") == 4


def test_the_documented_policy_in_plain_python_passes_the_checks(tmp_path, monkeypatch):
    example = doctest.DocTestParser().get_examples(documented("developers/new_policy.md", "pycon"))
    (tmp_path / "greedy_doc.py").write_text("".join(one.source for one in example))
    monkeypatch.syspath_prepend(str(tmp_path))
    ht.checks.check_policy(ht.make_policy("greedy_doc:Greedy", dim=3))


@pytest.mark.parametrize("missing", ["name", "info"])
def test_a_policy_without_a_name_or_info_is_told_what_to_write(missing, tmp_path, capsys):
    text = GOOD.format(out=(tmp_path / "out").as_posix()).replace("greedy_policy", f"no_{missing}")
    path = write(tmp_path, text)
    own = "".join(line for line in OWN.splitlines(True) if f"    {missing} = " not in line)
    (tmp_path / f"no_{missing}.py").write_text(own)
    assert cli.main(["run", str(path)]) == 2
    said = capsys.readouterr().err
    assert f"policies[2].policy: Greedy has no {missing}. Write in the body" in said
    assert f"{missing} = " in said
    spec: dict[str, type[ht.Policy]] = {}
    exec(own, spec)
    with pytest.raises(TypeError, match=f"^Greedy has no {missing}"):
        spec["Greedy"](2)


@pytest.fixture
def own_worlds(tmp_path: Path) -> Iterator[Path]:
    """The documented file with worlds of one's own, and the module that it names; short."""
    (tmp_path / "my_worlds.py").write_text(documented("howto/run.md", "python"))
    path = tmp_path / "own.toml"
    text = documented("howto/run.md", "toml", 2).replace("rounds = 1000", "rounds = 60")
    path.write_text(text.replace("results/own", (tmp_path / "out").as_posix()))
    yield path
    sys.modules.pop("my_worlds", None)


def kept(folder: Path) -> set[str]:
    return {path.name for path in folder.rglob("*.npz")}


def test_worlds_of_ones_own_run_with_grids_and_resume(own_worlds, capsys):
    assert cli.main(["run", str(own_worlds), "--jobs", "1"]) == 0
    out = own_worlds.parent / "out"
    first, table = kept(out), pq.read_table(out / "regret.parquet")
    assert set(table["setting"].to_pylist()) == {"spikes", "seasons"}
    assert len(first) == 4 * 2  # a point of the grid, or a policy, each of five trials at most
    assert "The grid of OFUL" in (out / "report.html").read_text(encoding="utf-8")
    assert cli.main(["run", str(own_worlds), "--jobs", "1"]) == 0
    assert kept(out) == first
    assert pq.read_table(out / "regret.parquet").equals(table)
    own_worlds.write_text(own_worlds.read_text().replace("share = 0.05", "share = 0.06"))
    assert cli.main(["run", str(own_worlds), "--jobs", "1"]) == 0
    assert len(kept(out)) == len(first) + 4  # those of the changed world alone


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("my_worlds:Spikes", "my_worlds:Spike", "worlds[0].noise: no noise is found at"),
        ("my_worlds:Spikes", "my_worlds:Ring", "not a subclass of heavytail.noise.Noise"),
        ("share = 0.05", "shar = 0.05", "noise.shar must be left out: my_worlds:Spikes takes sha"),
        ("my_worlds:Ring", "my_worlds:Spikes", "not a subclass of heavytail.environments.ArmSet"),
        ("my_worlds:Ring", "Ring", "worlds[0].arms.kind must be the import path of an ArmSet"),
        ("count = 9", "count = 0", "worlds[0].arms: LinearBandit.arms must be a whole number"),
        ("period = 300", "perio = 3", "worlds[1].options.perio must be left out: my_worlds:Se"),
        ("period = 300", 'period = "a"', "worlds[1].kind: Seasons failed: "),
        ("my_worlds:Seasons", "none:Seasons", "worlds[1].kind: no world is found at"),
        ("my_worlds:Seasons", "heavytail.environments:Environment", "a class that defines deal"),
        ("options = { period = 300 }", "dim = 2", "worlds[1].dim must be left out with a kind"),
    ],
)
def test_a_class_that_cannot_be_used_is_refused_before_the_first_round(
    own_worlds, capsys, old, new, message
):
    assert old in own_worlds.read_text()
    own_worlds.write_text(own_worlds.read_text().replace(old, new))
    assert cli.main(["run", str(own_worlds)]) == 2
    assert message in capsys.readouterr().err
    assert not (own_worlds.parent / "out").exists()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("means=means", "means=means[0]", "worlds[1].kind: "),
        ("means=means", "means=means * np.nan", "Seasons must deal finite means"),
        ("standard_t(2.5, length)", "standard_t(2.5, (length, 2))", "deal noise of shape (1,)"),
        ("yield Block(", "yield dict(", "worlds[1].kind: Seasons failed: AttributeError"),
        ("self.period, self.arms = period, arms", "1 / 0", "Seasons failed: ZeroDivisionError"),
        ("    def tail(", "    def tails(", "worlds[1].scale: Seasons has no method tail(order)"),
        ("    dim = 2\n", "", "object has no attribute 'dim'"),
        ("return spikes *", "return 1 / 0 *", "worlds[0].noise: Spikes failed: ZeroDivisionErr"),
        (
            "np.sin(angle)], axis=1)",
            "np.sin(angle)])",
            "must return finite numbers of shape (9, 2)",
        ),
        ("np.cos(angle), np.sin", "3 * np.cos(angle), np.sin", "arms no longer than arm_bound = 1"),
    ],
)
def test_a_class_that_deals_nonsense_is_refused_before_the_first_round(
    own_worlds, capsys, old, new, message
):
    module = own_worlds.parent / "my_worlds.py"
    assert old in module.read_text()
    module.write_text(module.read_text().replace(old, new))
    assert cli.main(["run", str(own_worlds)]) == 2
    assert message in capsys.readouterr().err
    assert not (own_worlds.parent / "out").exists()


def test_a_noise_that_fails_later_is_said_with_its_line(own_worlds, capsys):
    module = own_worlds.parent / "my_worlds.py"
    late = "self.n = getattr(self, 'n', 0) + 1; spikes /= [1, 1, 1][self.n]"
    module.write_text(
        module.read_text().replace("return spikes *", f"{late}\n        return spikes *")
    )
    assert cli.main(["run", str(own_worlds), "--jobs", "1"]) == 2
    assert "Spikes failed: IndexError: list index out of range (my_worlds.py, line" in (
        capsys.readouterr().err
    )


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("rounds = 300", 'rounds = "many"', "my.toml: rounds must be a whole number"),
        ("rounds = 300", "round = 300", "my.toml: round must be one of"),
        ('policy = "Hvt-UCB"', 'policy = "Hvt"', "policies[0].policy: no policy is called 'Hvt'"),
        ('policy = "Hvt-UCB"', 'policy = "TwinUBC"', "did you mean TwinUCB? There are Twin-UCB,"),
        ('policy = "Hvt-UCB"', 'nam = "x"', "policies[0].nam must be one of"),
        ("greedy_policy:Greedy", "greedy_policy:Gredy", "policies[2].policy: no policy is found"),
        ("radius_scale = [0.03, 0.3]", "radius = [1]", "grid.radius must be an option of OFUL"),
        ("[0.03, 0.3]", "0.3", "policies[1].grid.radius_scale must be a list"),
        ("[0.03, 0.3]", "[-1.0]", "policies[1] (OFUL, tuned) in mild: OFUL.radius_scale"),
        (
            'kind = "StudentT"',
            'kind = "Student"',
            "worlds[0].noise.kind must be one of Contaminated, Fisk",
        ),
        ("df = 2.1", "df = 0.5", "worlds[0].noise: StudentT.df"),
        ("df = 2.1", "dof = 2.1", "worlds[0].noise.dof must be one of df"),
        ("order = 1.9", "order = 2.5", "worlds[0].order: "),
        ("order = 1.9", "", "worlds[0].order must be a number"),
        ("arms = 8", "arms = 8\noffered = 9", "worlds[0].offered: "),
        ("[[worlds]]", "[worlds]", "worlds must be one or more tables [[worlds]]"),
        ('name = "OFUL, tuned"', 'name = "Hvt-UCB"', "two are called 'Hvt-UCB'"),
        ("rounds = 300", "rounds = ", "not TOML"),
    ],
)
def test_a_mistake_names_the_file_the_key_and_what_would_be_right(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], old: str, new: str, message: str
) -> None:
    text = GOOD.format(out=(tmp_path / "out").as_posix())
    assert old in text
    path = write(tmp_path, text.replace(old, new))
    assert cli.main(["run", str(path)]) == 2
    said = capsys.readouterr().err
    assert "my.toml" in said
    assert message in said
    assert not (tmp_path / "out").exists()


def test_a_world_may_be_named_by_its_skew(tmp_path):
    file = tmp_path / "my.toml"
    file.write_text(
        '[[policies]]\npolicy = "Hvt-UCB"\n'
        '[[worlds]]\nname = "shop"\nskew = "conversion"\norder = 1.5\narms = 7\noffered = 4\n'
        '[[worlds]]\nname = "sized"\nskew = "size"\norder = 1.5\n'
        'noise = { kind = "Pareto", b = 1.7 }\n'
    )
    shop, sized = read(file).worlds
    assert repr(shop.environment) == "SkewedBandit(dim=2, arms=7, skew='conversion', offered=4)"
    assert shop.tail(uses_scale=False) == shop.environment.tail(1.5)
    assert sized.environment.noise == ht.noise.Pareto(1.7)


def test_a_world_with_a_link_runs_with_policies_told_of_it_or_not(tmp_path, capsys):
    file = tmp_path / "my.toml"
    out = (tmp_path / "out").as_posix()
    file.write_text(
        f'rounds = 200\ntrials = 2\nout = "{out}"\n'
        '[[policies]]\npolicy = "GLB-OMD"\noptions = { link = "log" }\n'
        '[[policies]]\npolicy = "OFUL"\n'
        '[[worlds]]\nname = "visits"\nlink = "log"\nbase = 1\noutliers = 0.01\narms = 7\n'
        "theta_bound = 2.0\nfactor = 50.0\n"
    )
    (visits,) = read(file).worlds
    assert repr(visits.environment) == (
        "LinkBandit(dim=2, arms=7, link='log', theta_bound=2.0, base=1.0, outliers=0.01, "
        "factor=50.0)"
    )
    assert visits.tail(uses_scale=False) == visits.environment.tail(2.0)
    assert cli.main(["run", str(file), "--jobs", "1"]) == 0
    table = pq.read_table(tmp_path / "out" / "regret.parquet").to_pylist()
    assert {row["policy"] for row in table} == {"GLB-OMD", "OFUL"}
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "OFUL assumes sub-Gaussian noise, a mean reward that is linear in x" in page
    assert "GLB-OMD assumes" not in page


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ('link = "logit"', r"worlds\[0\].link must be one of .*; got 'logit'. Pass \"logistic\""),
        ('link = "log"\noutliers = 2', r"worlds\[0\].outliers: LinkBandit.outliers must be a num"),
        ('link = "log"\nskew = "size"', r"worlds\[0\].skew must be left out with a link"),
        ('link = "log"\nnoise = { kind = "Gaussian" }', r"worlds\[0\].noise must be left out with"),
        ('skew = "size"\norder = 1.5\nbase = 1', r"worlds\[0\].base must be left out without a"),
        ('link = "log"\nbase = "much"', r"worlds\[0\].base must be a number"),
        ('link = "log"\nbase = 10', r"worlds\[0\].base: LinkBandit.base must be at most 10"),
        ('link = "log"\narms = 3\noffered = 4', r"worlds\[0\].offered: LinkBandit.offered"),
        (
            'link = "logistic"\noutliers = 0.1',
            r"worlds\[0\].outliers: LinkBandit.outliers must be",
        ),
    ],
)
def test_a_link_that_cannot_be_is_refused_where_it_stands(lines, words, tmp_path):
    file = tmp_path / "my.toml"
    file.write_text(f'[[policies]]\npolicy = "Uniform"\n[[worlds]]\nname = "w"\n{lines}\n')
    with pytest.raises(ValueError, match=words):
        read(file)


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ('skew = "jackpots"\norder = 1.5', r"worlds\[0\].skew must be one of jackpot, catas"),
        ('skew = ["jackpot"]\norder = 1.5', r"worlds\[0\].skew must be one of jackpot, catas"),
        ('skew = "catastrophe"\norder = 1.6', r"worlds\[0\].order: .*pass an order below 1\.5"),
        ('skew = "size"\norder = 1.6\nnoise = { kind = "No" }', r"worlds\[0\].noise.kind must"),
        ('skew = "size"\norder = 1.6\narms = 3\noffered = 4', r"worlds\[0\].offered: Skewed"),
        ("order = 1.5", r"worlds\[0\].noise.kind must"),
    ],
)
def test_a_skew_that_cannot_be_is_refused_where_it_stands(lines, words, tmp_path):
    file = tmp_path / "my.toml"
    file.write_text(f'[[policies]]\npolicy = "Uniform"\n[[worlds]]\nname = "w"\n{lines}\n')
    with pytest.raises(ValueError, match=words):
        read(file)


KINDS = {
    "noise": 'noise = { kind = "StudentT", df = 2.5 }\norder = 1.9',
    "shop": 'skew = "conversion"\norder = 1.5',
    **{link: f'link = "{link}"' for link in ht.links.LINKS},
}


CLICKS = {"logistic", "probit"}
REFUSED = {
    "Hvt-GLB": CLICKS,  # 0/1 rewards have no outliers
    "CRMM": {*CLICKS, "log"},  # a link skews the noise
    "ECOLog": set(KINDS) - CLICKS,
}


@pytest.mark.parametrize("world", KINDS)
def test_every_policy_runs_in_worlds_of_every_kind_it_can_play(world, tmp_path, capsys):
    bends = world if world in ht.links.LINKS else "identity"
    file, out = tmp_path / "my.toml", (tmp_path / "out").as_posix()
    head = f'rounds = 2000\ntrials = 1\nout = "{out}"\n'
    tail = f'[[worlds]]\nname = "w"\narms = 4\n{KINDS[world]}\n'
    played = []
    for kind in ALL:
        takes_link = "link" in inspect.signature(kind).parameters
        options = f'options = {{ link = "{bends}" }}\n' * takes_link
        table = f'[[policies]]\npolicy = "{kind.name}"\n{options}'
        file.write_text(head + table + tail)
        if world in REFUSED.get(kind.name, ()):
            with pytest.raises(ValueError, match=rf"policies\[0\] \({kind.name}\) in w: "):
                read(file)
        else:
            played.append((kind.name, table))
    file.write_text(head + "".join(table for _, table in played) + tail)
    assert cli.main(["run", str(file), "--jobs", "1"]) == 0, capsys.readouterr().err
    rows = pq.read_table(tmp_path / "out" / "regret.parquet").to_pylist()
    assert {row["policy"] for row in rows} == {name for name, _ in played}


@pytest.mark.parametrize(
    ("policy", "world", "words"),
    [
        ('"GLB-OMD"\noptions = { link = "logistic" }', 'link = "log"', "must be 0 or 1; those"),
        ('"GLB-OMD"\noptions = { link = "log" }', 'link = "identity"', "at least 0; those of this"),
        ('"OL2M"', 'link = "log"', "with the logistic link rewards must be 0 or 1"),
        ('"ECOLog"', 'skew = "size"\norder = 1.5', "those of this world are of any sign"),
    ],
)
def test_a_link_that_cannot_have_the_worlds_rewards_is_refused_before_the_first_round(
    policy, world, words, tmp_path, capsys
):
    file = tmp_path / "my.toml"
    file.write_text(
        f'rounds = 30\n[[policies]]\npolicy = "Uniform"\n[[policies]]\nname = "mine"\n'
        f'policy = {policy}\n[[worlds]]\nname = "w"\n{world}\n'
    )
    assert cli.main(["run", str(file)]) == 2
    said = capsys.readouterr().err
    assert "my.toml: policies[1] (mine) in w: " in said
    assert words in said


def test_a_policy_with_the_log_link_may_play_clicks_and_a_shop():
    assert ht.links.log.takes("0 or 1")
    assert not ht.links.log.takes("any")
    assert not ht.links.probit.takes("at least 0")
    assert ht.links.identity.takes("any")
    shop = Setting("shop", "shop", "own", None, 1.5, skew="conversion")
    assert shop.environment.rewards == "at least 0"
    size = Setting("size", "size", "own", None, 1.5, skew="size")
    assert size.environment.rewards == "any"


def test_hvt_glb_is_built_from_a_problem_with_either_link():
    tail = ht.MomentBound(order=2.0, scale=3.0)
    for link in ("log", ht.links.log):
        policy = ht.make_policy("Hvt-GLB", dim=2, horizon=100, tail=tail, link=link)
        assert (policy.tail, policy.horizon) == (None, 100)
    assert ht.make_policy("Hvt-GLB", dim=2, tail=tail).tail == tail
    with pytest.raises(ValueError, match="tail is for the identity link"):
        ht.HvtGLB(2, link="log", tail=tail)  # said by oneself, it is a mistake


PLAIN = """rounds = 20
trials = 2
out = "{out}"
[[policies]]
policy = "{policy}"
{options}
[[worlds]]
name = "w"
{world}
noise = {{ kind = "Gaussian" }}
order = 1.9
"""


def plain(out: Path, policy: str = "OFUL", options: str = "", world: str = "arms = 3") -> str:
    """A file that runs, but for what is given."""
    return PLAIN.format(out=out.as_posix(), policy=policy, options=options, world=world)


def never(*_: object, **__: object) -> None:
    raise AssertionError("something was built")


GRID = ", ".join(f"{key} = {list(range(1, 200))}" for key in ("delta", "ridge", "radius_scale"))
MEMORY = r"would need at least [\d.,]+ .iB of memory; this machine has"
TOO_MUCH = {
    "rounds": ({}, ("rounds = 20", "rounds = 1_000_000_000_000"), MEMORY),
    "a history": ({"policy": "HEAVY-OFUL"}, ("rounds = 20", f"rounds = {10**12}"), MEMORY),
    "dim": ({"world": "dim = 10_000_000"}, None, MEMORY),
    "arms": ({"world": "arms = 1_000_000_000_000"}, None, MEMORY),
    "offers": ({"world": "arms = 1_000_000_000\noffered = 2"}, None, MEMORY),
    "trials": ({}, ("trials = 2", f"trials = {10**15}"), "at most 1,000,000 trials"),
    "short trials": ({}, ("trials = 2", "trials = 2_000_000"), "at most 1,000,000 trials"),
    "long trials": (
        {},
        ("rounds = 20", f"rounds = {2**52}"),
        "10,000,000,000,000 rounds in all",
    ),
    "points": ({"options": f"grid = {{ {GRID} }}"}, None, "at most 1,000,000 trials"),
    "no double": (
        {},
        ("rounds = 20", f"rounds = 1{'0' * 400}"),
        "rounds must be at most 90071",
    ),
    "digits": ({}, ("rounds = 20", f"rounds = {'1' * 5000}"), "a number has more than 4300 digits"),
    "a seed": ({}, ("rounds = 20", f"seed = 0x{'f' * 5000}"), "seed must be at most"),
    "lists": ({"options": f"grid = {{ x = {'[' * 50_000} }}"}, None, "too deep to be read"),
    "tables": ({"options": f"options = {'{a=' * 50_000}"}, None, "too deep to be read"),
    "dots": ({"options": f"{'a.' * 50_000}a = 1"}, None, "too deep to be read"),
    "length": ({"options": "#" * 2**24}, None, "more than 16777216 characters"),
    "NUL": ({}, ('out = "', r'out = "a\u0000b'), r"out must be a path, .*; got 'a\\x00b"),
}


@pytest.mark.parametrize("what", TOO_MUCH)
def test_what_is_too_much_is_refused_in_a_line_before_anything_is_built(
    what, tmp_path, capsys, monkeypatch
):
    told, change, words = TOO_MUCH[what]
    text = plain(tmp_path / "out", **told)
    if change is not None:
        assert change[0] in text
        text = text.replace(*change)
    file = tmp_path / "my.toml"
    file.write_text(text)
    monkeypatch.setattr("heavytail.experiments.userfile.build", never)
    assert cli.main(["run", str(file)]) == 2
    said = capsys.readouterr().err.removesuffix("\n")
    assert re.search(words, said)
    assert "my.toml: " in said
    assert said.isprintable()
    assert len(said) < 700
    assert not (tmp_path / "out").exists()


def test_trials_that_run_at_once_need_room_at_once(tmp_path, monkeypatch):
    file = tmp_path / "my.toml"
    file.write_text(plain(tmp_path).replace("rounds = 20", "rounds = 1_000_000"))
    monkeypatch.setattr("heavytail._memory.memory", lambda: 17e6)
    assert read(file, jobs=1).rounds == 1_000_000
    file.write_text(file.read_text().replace("trials = 2", "trials = 20"))
    assert read(file, jobs=1).trials == 20
    with pytest.raises(ValueError, match=r"need at least 61\.\d MiB of memory; .* by --jobs"):
        read(file, jobs=9)
