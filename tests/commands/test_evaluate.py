"""``heavytail evaluate``: the library's own numbers, warnings first, and refusals of one line."""

from __future__ import annotations

import gzip
import html
import importlib.util
import json
import re
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.logs.drawing import LOGGING, draw
from tests.reproduction.test_report import look

import heavytail as ht
from heavytail.cli import main
from heavytail.commands import _log_progress
from heavytail.commands._log_targets import Weights
from heavytail.logs import IPS, Betting, Catoni, Clipped
from heavytail.simulation import progress

ROWS = 800
ODD = '<script>"&\x1b[2J\u202e中$x$'  # a column's name
EVENT = {
    "_label_cost": -1.0,
    "_label_probability": 0.5,
    "_label_Action": 1,
    "_labelIndex": 0,
    "a": [1, 2],
    "p": [0.5, 0.5],
    "c": {"_multi": [{"f": 1.0}, {"f": 2.0}]},
}


def columns() -> dict[str, object]:
    d = draw(3, ROWS)
    action = d.log["action"]
    mine = d.target[np.arange(ROWS), action]
    arms = np.random.default_rng(0).uniform(-0.7, 0.7, size=(ROWS, 10, 2))
    return {
        **d.log,
        "new": mine,
        "all": list(d.target),
        "old": LOGGING[action],
        "wrong": np.full(ROWS, 0.9),
        "wide": [[2.0, -1.0]] * ROWS,
        "arms": arms.tolist(),
        ODD: mine,
    }


@pytest.fixture
def log(tmp_path, monkeypatch):
    """A log of 800 rows, in the current folder."""
    monkeypatch.chdir(tmp_path)
    pq.write_table(pa.table(columns()), "log.parquet")
    return "log.parquet"


def said(capsys, *words):
    """What is printed, of a run that goes well."""
    assert main(["evaluate", *words]) == 0
    return capsys.readouterr().out


def refused(capsys, *words):
    """The line of a refusal."""
    assert main(["evaluate", *words]) == 2
    out, error = capsys.readouterr()
    assert out == ""
    assert error.endswith("\n")
    assert error[:-1].isprintable()
    assert len(error) < 1200
    return error


def row(text, label):
    """The cells of the first line of a table that begins with ``label``."""
    return next(re.split(" {2,}", line) for line in text.splitlines() if line.startswith(label))


def test_the_table_has_the_librarys_own_numbers(log, capsys):
    found = ht.evaluate(log, "new")
    cells = row(said(capsys, log, "--policy", "column:new"), "column:new")
    assert cells[1:4] == [f"{found.value:.6g}", f"{found.lower:.6g}", "-"]
    assert cells[4] == f"{found.effective_size:,.0f}"


@pytest.mark.parametrize(
    ("words", "options"),
    [
        (["--method", "ips", "--mean", "catoni"], {"estimator": IPS(mean="catoni")}),
        (["--method", "clipped", "--clip", "3"], {"estimator": Clipped(clip=3.0)}),
        (["--reward-range", "-1", "9999"], {"bound": Betting(-1.0, 9999.0)}),
        (["--reward-floor", "-2", "--level", "0.8"], {"bound": Betting(-2.0), "level": 0.8}),
        (
            ["--interval", "catoni", "--tail", "1.4,9"],
            {"bound": Catoni(ht.MomentBound(order=1.4, scale=9.0))},
        ),
        (["--interval", "none"], {"bound": None}),
        (["--interval", "huber", "--explore", "0.1"], {"bound": "huber", "explore": 0.1}),
    ],
)
def test_options_are_those_of_evaluate(words, options, log, capsys):
    found = ht.evaluate(log, "all", **options)
    cells = row(said(capsys, log, "--policy", "column:all", *words), "column:all")
    bounds = ["-" if one is None else f"{one:.6g}" for one in (found.lower, found.upper)]
    assert cells[1:4] == [f"{found.value:.6g}", *bounds]


def test_a_policy_against_a_baseline_is_the_librarys_comparison(log, capsys):
    found = ht.compare(log, "new", "old", bound=Betting(0.0, 9999.0))
    text = said(
        capsys, log, "--policy", "column:new", "--against", "column:old",
        "--reward-range", "0", "9999",
    )  # fmt: skip
    cells = row(text.partition("Difference to column:old")[2], "column:new")
    assert cells[1:] == [
        f"{found.value:.6g}", f"{found.lower:.6g}", f"{found.upper:.6g}", "not decided", "yes",
    ]  # fmt: skip


def test_several_comparisons_hold_at_once(log, capsys):
    found = ht.compare(log, "new", "old", level=0.975, bound=Catoni(ht.MomentBound(1.4, 18.0)))
    words = ["--policy", "column:new", "--policy", "uniform:10", "--against", "column:old"]
    text = said(capsys, log, *words, "--tail", "1.4,9")  # of each, hence twice of a difference
    cells = row(text.partition("Difference to")[2], "column:new")
    assert cells[2:4] == [f"{found.lower:.6g}", f"{found.upper:.6g}"]


def test_of_several_policies_the_best_is_chosen(log, capsys):
    uniform = np.full((ROWS, 10), 0.1)
    d = draw(3, ROWS)
    found = ht.select(log, {"column:all": d.target, "uniform": uniform})
    text = said(capsys, log, "--policy", "column:all", "--policy", "uniform")
    after = text.partition(f"The best: {found.chosen}\n")[2]
    for name, value, low in zip(found.names, found.values, found.lower, strict=True):
        assert row(after, name)[1:3] == [f"{value:.6g}", f"{low:.6g}"]
    assert "--method does not affect the choice." in after
    other = said(capsys, log, "--policy", "column:all", "--policy", "uniform", "--method", "ips")
    tables = [each.partition("The best: ")[2].partition("\n\n")[0] for each in (text, other)]
    assert tables[0] == tables[1] != ""
    assert "the interval in brackets is approximate, and a test finds nothing wrong" in text


def test_a_saved_policy_is_asked(log, capsys):
    policy = ht.HvtUCB(dim=2, tail=ht.MomentBound(order=1.5, scale=1.0))
    policy.update([0.3, 0.1], 2.0)
    policy.save("p.npz")
    found = ht.evaluate(log, policy, explore=0.1)
    text = said(capsys, log, "--policy", "p.npz", "--explore", "0.1")
    assert row(text, "p.npz")[1] == f"{found.value:.6g}"
    Path("p.npz").rename("named otherwise")
    text = said(capsys, log, "--policy", "named otherwise", "--explore", "0.1")
    assert row(text, "named otherwise")[1] == f"{found.value:.6g}"
    ht.OnePassHuberRegressor().partial_fit([[1.0, 0.0]], [1.0]).save("r.npz")
    assert "chooses no arms" in refused(capsys, log, "--policy", "r.npz")


def test_a_policy_learned_from_a_log_is_asked_too(log, capsys):
    policy = ht.LogPolicy(reward_floor=-1e6).fit(log)
    policy.save("learned.npz")
    found = ht.evaluate(log, policy)
    text = said(capsys, log, "--policy", "learned.npz")
    assert row(text, "learned.npz")[1] == f"{found.value:.6g}"


def module(folder, name, text):
    (folder / f"{name}.py").write_text(text)
    return name


def test_a_function_of_the_users_own_is_imported_from_the_current_folder(log, tmp_path, capsys):
    name = module(
        tmp_path, "mine_for_a_log",
        "import numpy as np\n"
        "def play(rows): return np.full(len(rows.action), 0.1)\n"
        "def shares(rows): return np.full(len(rows.action), 0.5)\n"
        "def bad(rows): return rows.nothing\n"
        "def many(rows): return np.full(len(rows.action), 1.5)\n"
        "number = 3\n",
    )  # fmt: skip
    before = list(sys.path)
    found = ht.evaluate(log, np.full(ROWS, 0.1))
    text = said(capsys, log, "--policy", f"{name}:play")
    assert row(text, name)[1] == f"{found.value:.6g}"
    found = ht.evaluate(log, np.full(ROWS, 0.1), propensities=np.full(ROWS, 0.5))
    text = said(capsys, log, "--policy", f"{name}:play", "--propensities", f"{name}:shares")
    assert row(text, name)[1] == f"{found.value:.6g}"
    line = refused(capsys, log, "--policy", f"{name}:bad")
    assert "failed on rows 0 to 799 (AttributeError" in line
    assert "row 0" in refused(capsys, log, "--policy", f"{name}:many")
    assert "must be a function" in refused(capsys, log, "--policy", f"{name}:number")
    assert "cannot be imported" in refused(capsys, log, "--policy", f"{name}:absent")
    module(tmp_path, "broken_for_a_log", "def (:\n")
    assert "SyntaxError" in refused(capsys, log, "--policy", "broken_for_a_log:f")
    assert "ModuleNotFoundError" in refused(capsys, log, "--policy", "nowhere_at_all:f")
    assert sys.path == before


def test_frequencies_are_the_librarys_and_are_warned_of(log, capsys):
    found = ht.evaluate(log, "new", propensities="frequencies")
    text = said(capsys, log, "--policy", "column:new", "--propensities", "frequencies")
    assert row(text, "column:new")[1] == f"{found.value:.6g}"
    assert "The propensities are the actions' frequencies" in text.partition("\n\n")[0]


def test_columns_have_other_names_and_may_be_left_out(log, capsys):
    table = pq.read_table(log)
    names = ["arm" if name == "action" else name for name in table.column_names]
    pq.write_table(table.rename_columns(names), "other.parquet")
    line = refused(capsys, "other.parquet", "--policy", "column:new")
    assert "Say --column action=NAME." in line
    first = said(capsys, "other.parquet", "--policy", "column:new", "--column", "action=arm")
    assert first == said(capsys, log, "--policy", "column:new")
    line = refused(capsys, log, "--policy", "uniform:10", "--column", "propensity=")
    assert "--propensities frequencies" in line


def test_several_files_are_one_log(log, capsys):
    table = pq.read_table(log)
    pq.write_table(table.slice(0, 300), "a1.parquet")
    pq.write_table(table.slice(300), "a2.parquet")
    whole = said(capsys, log, "--policy", "column:new", "--policy", "column:old")
    for words in (["a1.parquet", "a2.parquet"], ["a*.parquet"]):
        assert whole == said(capsys, *words, "--policy", "column:new", "--policy", "column:old")


def test_a_row_is_numbered_within_its_file_whoever_refuses_it(log, capsys):
    table = pq.read_table(log)
    pq.write_table(table.slice(0, 300), "a1.parquet")
    for reward in (np.nan, -1.0):  # refused by the reading, and by the interval
        values = np.where(np.arange(500) == 17, reward, 1.0)
        place = table.column_names.index("reward")
        pq.write_table(table.slice(300).set_column(place, "reward", [values]), "a2.parquet")
        line = refused(capsys, "a1.parquet", "a2.parquet", "--policy", "column:new")
        assert "a2.parquet, row 17, column 'reward'" in line


def test_lines_of_dsjson_are_read(log, capsys):
    lines = "".join(json.dumps({**EVENT, "_label_cost": -float(k % 7)}) + "\n" for k in range(90))
    with gzip.open("log.json.gz", "wt") as stream:
        stream.write(lines)
    text = said(capsys, "log.json.gz", "--policy", "uniform")
    assert row(text, "uniform")[4] == "90"
    assert "dsjson has names of its own" in refused(
        capsys, "log.json.gz", "--policy", "column:target"
    )


def test_the_folder_of_a_decision_log_is_read(log, tmp_path, capsys):
    policy, arms = ht.TwinUCB(2), np.array([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]])
    with ht.DecisionLog(tmp_path / "decisions") as decisions:
        for i in range(60):
            one = policy.decide(arms[: 2 + i % 2], explore=0.5)
            decisions.decided(one, arms[: 2 + i % 2])
            if i % 3:
                decisions.rewarded(one, float(i))
    text = said(capsys, "decisions", "--policy", "uniform")
    assert "40 rows" in text
    silent = said(capsys, "decisions", "--policy", "uniform", "--default-reward", "0")
    assert "60 rows" in silent
    found = ht.evaluate(tmp_path / "decisions", ht.Uniform(2), default_reward=0.0)
    assert row(silent, "uniform")[1] == f"{found.value:.6g}"


def test_wrong_propensities_come_before_all_other_warnings(log, capsys):
    text = said(capsys, log, "--policy", "column:new", "--policy", "column:wrong")
    first = text.splitlines()[:2]
    assert first[0] == "Warnings"
    assert first[1].startswith("- column:wrong: The mean weight is")
    assert "Trust nothing here" in first[1]


BAD = {
    "empty": (b"", "is empty"),
    "binary": (bytes(range(256)) * 9, "neither Parquet nor JSON"),
    "latin": ('{"ä": 1}\n'.encode("latin-1"), "row 0"),
    "utf16": ('{"a": 1}\n'.encode("utf-16"), "neither Parquet nor JSON"),
    "cut.json": (json.dumps(EVENT).encode() + b"\n" + json.dumps(EVENT)[:30].encode(), "row 1"),
    "cut.json.gz": (gzip.compress(json.dumps(EVENT).encode() * 99)[:-9], "damaged"),
    "\x1b[2J.parquet": (b"PAR1 and no more", "is not a Parquet file"),
    "words.csv": (b"action,reward\n0,1\n", "neither Parquet nor JSON"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_file_that_is_no_log_is_refused_in_one_line(name, log, tmp_path, capsys):
    content, words = BAD[name]
    (tmp_path / name).write_bytes(content)
    line = refused(capsys, log, name, "--policy", "uniform:10", "--html", "page.html")
    assert words in line
    assert not (tmp_path / "page.html").exists()


def test_a_parquet_file_that_is_cut_short_is_refused(log, tmp_path, capsys):
    content = (tmp_path / log).read_bytes()
    for size in (5, len(content) // 2, len(content) - 1):
        (tmp_path / log).write_bytes(content[:size])
        assert "cut short or damaged" in refused(capsys, log, "--policy", "column:new")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--policy", "column:nothing"], "log.parquet: there is no column 'nothing'"),
        (["--policy", "column:"], "the column's name"),
        (["--policy", "column:wide"], "log.parquet, row 0, column 'wide': must be probabilities"),
        (["--policy", "column:new", "--column", "reward=arms"], "column 'arms'"),
        (["--policy", "column:new", "--column", "prize=arms"], "'prize' is not a column of a log"),
        (["--policy", "column:new", "--column", "reward"], "must be OURS=THEIRS"),
        (["--policy", "column:new", "--column", "time=", "--column", "time=a"], "left out"),
        (["--policy", "magic"], "must be a file .npz"),
        (["--policy", "absent.npz"], "absent.npz: No such file"),
        (["--policy", "uniform:0"], "K must be a whole number of at least 1"),
        (["--policy", "uniform:many"], "K must be a whole number of at least 1"),
        (["--policy", "uniform:3"], "row 0, offers 10 arms. Pass uniform alone"),
        (["--policy", "uniform:3", "--column", "arms="], "row 2: the action is 3"),
        (["--policy", "uniform", "--column", "arms="], "Pass uniform:K"),
        (["--policy", "uniform", "--policy", "uniform"], "is named twice"),
        (["--policy", "uniform", "--against", "uniform"], "is named twice"),
        (
            ["--policy", "uniform", "--against", "column:new", "--against", "column:old"],
            "--against: there is one baseline; got ['column:new', 'column:old']",
        ),
        (["--policy", "uniform:999999999"], "--policy uniform:K, K must be at most 16777216"),
        (["--policy", "uniform", "--level", "95"], "0.95 is 95 %"),
        (["--policy", "uniform", "--tail", "1.5"], "must be ORDER,SCALE"),
        (["--policy", "uniform", "--tail", "2.5,1"], "order must be a number in (1, 2]"),
        (["--policy", "uniform", "--interval", "catoni"], "needs --tail"),
        (["--policy", "uniform", "--interval", "bernstein"], "needs --reward-range"),
        (["--policy", "uniform", "--reward-range", "2", "1"], "ceiling must be a number in (2"),
        (["--policy", "uniform", "--clip", "2"], "--clip applies only to --method clipped"),
        (["--policy", "uniform", "--explore", "2"], "explore must be a number"),
        (["--policy", "uniform", "--propensities", "new"], "--column propensity=NAME"),
        (["--policy", "uniform", "--reward-floor", "1"], "State a --reward-floor"),
        (["--policy", "uniform", "--against", "column:new", "--method", "ls"], "one side only"),
        (["--policy", "uniform", "--against", "column:new", "--mean", "minsker-ndaoud"], "means"),
        (["--policy", "uniform", "--html", "no/page.html"], "no folder"),
        (["--policy", "uniform", "--html", ""], "must name a file"),
        (["--policy", "uniform", "--html", "."], "exists and is not a file"),
        (["--policy", "uniform", "--html", "log.parquet"], "is also an input file"),
        (["--policy", "uniform", "--html", "/dev/null"], "is not a file"),
    ],
)
def test_a_mistake_is_one_line_and_nothing_is_written(words, said, log, tmp_path, capsys):
    before = (tmp_path / log).read_bytes()
    assert said in refused(capsys, log, *words)
    assert [path.name for path in tmp_path.iterdir()] == [log]
    assert (tmp_path / log).read_bytes() == before


@pytest.mark.parametrize("name", ["absent.parquet", "*.absent", "/dev/null", "folder"])
def test_a_log_that_is_not_there_is_refused(name, log, tmp_path, capsys):
    (tmp_path / "folder").mkdir()
    assert name in refused(capsys, name, "--policy", "uniform")


def test_a_bad_row_is_named_and_the_old_page_stays(log, tmp_path, capsys):
    table = columns()
    table["reward"] = np.where(np.arange(ROWS) == 417, np.nan, table["reward"])
    pq.write_table(pa.table(table), "bad.parquet")
    (tmp_path / "page.html").write_text("the old one")
    line = refused(capsys, "bad.parquet", "--policy", "column:new", "--html", "page.html")
    assert "bad.parquet, row 417, column 'reward'" in line
    assert (tmp_path / "page.html").read_text() == "the old one"


@pytest.mark.parametrize(
    ("package", "extra", "words"),
    [("matplotlib", "experiments", ["--html", "page.html"]), ("pyarrow", "logs", [])],
)
def test_a_missing_extra_is_named_before_any_work(package, extra, words, log, capsys, monkeypatch):
    there = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == package else there(name)
    )
    monkeypatch.setattr("heavytail.commands.evaluate._find", None)  # it must not come to this
    line = refused(capsys, log, "--policy", "column:new", *words)
    assert line.endswith(f"needs {package}, which is not installed: pip install "
                         f"'heavytail[{extra}]'\n")  # fmt: skip


def test_names_steer_neither_the_terminal_nor_the_page(log, tmp_path, capsys, recwarn):
    text = said(capsys, log, "--policy", f"column:{ODD}", "--html", "page.html")
    assert all(line.isprintable() for line in text.split("\n"))
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "<script" not in page
    assert "\x1b" not in page
    assert "\u202e" not in page
    assert html.escape('<script>"&') in page
    assert not [one for one in recwarn if "Glyph" in str(one.message)]
    refused(capsys, log, "--policy", "column:\x1b[2J")


@pytest.fixture
def page(log, tmp_path, capsys):
    words = ["--policy", f"column:{ODD}", "--policy", "column:wrong", "--against", "uniform"]
    said(capsys, log, *words, "--html", "page.html")
    return tmp_path / "page.html"


def test_the_page_has_warnings_first_and_the_words_before_how_it_was_made(page):
    heads = re.findall(r'<h2 id="([^"]*)"', page.read_text(encoding="utf-8"))
    assert heads == ["warnings", "values", "intervals", "weights", "tails", "words", "made", "cite"]


def test_the_page_is_one_file_that_names_no_other(page):
    text = page.read_text(encoding="utf-8")
    for address in re.findall(r'(?:src|href)="([^"]*)"', text):
        assert address.startswith(("data:", "#")), address[:80]
    assert "<script" not in text
    assert "url(" not in text
    assert str(page.parent) not in text
    assert {path.name for path in page.parent.iterdir()} == {"log.parquet", "page.html"}


@pytest.mark.parametrize("width", [1280, 400])
def test_a_browser_shows_the_page_at_any_width(page, tmp_path_factory, width):
    found = look(page, width, tmp_path_factory.mktemp("looked"))
    names = [image[0] for image in found["images"]]
    assert names[:2] == ["figure-intervals", "figure-differences"]
    assert len(names) == 2 + 3 + 3  # weights and tails of three policies
    assert all(wide > 0 and shown > 0.75 * min(width, 460) for _, wide, shown in found["images"])
    assert found["fetched"] == []
    assert found["spill"] == 0
    assert found["page"] <= found["window"] == width


def test_quiet_prints_nothing_where_there_is_a_page(log, tmp_path, capsys):
    assert said(capsys, log, "--policy", "column:new", "--html", "p.html", "--quiet") == ""
    assert (tmp_path / "p.html").is_file()
    assert "column:new" in said(capsys, log, "--policy", "column:new", "--quiet")


def test_a_log_that_takes_long_is_spoken_of_where_nobody_looks(capsys, monkeypatch):
    monkeypatch.setattr(progress, "FIRST", 0.0)
    monkeypatch.setattr(progress, "NEXT", 0.01)
    words = ""
    with _log_progress.progress(False, 500, 3) as tick:
        tick(200)
        for _ in range(2000):
            words += capsys.readouterr().err
            if "rows, each read 3 times: 200 of 1,500" in words:
                break
            time.sleep(0.01)
    assert "rows, each read 3 times: 200 of 1,500, 0 s, about 0 s left\n" in words


def test_weights_are_counted_in_quarters_of_an_octave():
    weights = Weights("a", None, None, lambda rows: None)
    weights._count(np.array([0.0, 0.0, 1.0, 1.1, 2.0, np.inf]))
    edges, counts = weights.histogram()
    assert weights.zeros == 2
    assert (edges[0], edges[-1]) == (1.0, 2.0 * 2**0.25)
    assert counts.tolist() == [2, 0, 0, 0, 1]


def test_one_action_and_the_logs_own_policy_are_named_in_words(tmp_path, capsys):
    rng = np.random.default_rng(0)
    which = rng.integers(3, size=600)
    names = np.array(["A-17", "mail", "none"])[which]
    table = {"action": names, "reward": rng.pareto(2.0, 600), "propensity": np.full(600, 1 / 3)}
    path = str(tmp_path / "named.parquet")
    pq.write_table(pa.table(table), path)
    text = said(capsys, path, "--policy", "always:A-17", "--against", "logged")
    found, now = ht.evaluate(path, ht.always("A-17")), ht.evaluate(path, "logged")
    assert row(text, "always:A-17")[1] == f"{found.value:.6g}"
    assert row(text, "logged")[1] == f"{now.value:.6g}"
    line = refused(capsys, path, "--policy", "always:A-177")
    assert "no row plays or offers 'A-177'. Did you mean 'A-17'?" in line
    assert "must be followed by an action" in refused(capsys, path, "--policy", "always:")
    numbers = str(tmp_path / "numbers.parquet")
    pq.write_table(pa.table({**table, "action": which}), numbers)
    text = said(capsys, numbers, "--policy", "always:0")
    assert row(text, "always:0")[1] == f"{found.value:.6g}"
    assert "no row plays or offers 5" in refused(capsys, numbers, "--policy", "always:5")
    bare = str(tmp_path / "bare.parquet")
    pq.write_table(pa.table({key: table[key] for key in ("action", "reward")}), bare)
    assert row(said(capsys, bare, "--policy", "logged"), "logged")[1] == f"{now.value:.6g}"
