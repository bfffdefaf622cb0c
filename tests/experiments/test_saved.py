"""Saved results: read back, printed for a paper, and drawn again to the byte."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

import heavytail as ht
from heavytail import _version, cli
from heavytail.experiments import saved
from heavytail.experiments.unit import Trials, Unit

FILE = """
rounds = 200
trials = 3
out = "{out}"

[[policies]]
policy = "Uniform"

[[policies]]
policy = "OFUL"
name = "100% $OFUL$_{{1}}"
grid = {{ radius_scale = [0.1] }}

[[worlds]]
name = "mild_1"
title = "One of mild noise, with a title that is much longer than what stands above a narrow panel"
arms = 5
noise = {{ kind = "Gaussian" }}
order = 2.0

[[worlds]]
name = "heavy"
arms = 5
noise = {{ kind = "StudentT", df = 2.1 }}
order = 1.9
"""


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("saved")
    (folder / "my.toml").write_text(FILE.format(out=(folder / "out").as_posix()))
    assert cli.main(["run", str(folder / "my.toml"), "--jobs", "1"]) == 0
    return folder / "out"


def test_figures_are_drawn_again_from_parquet_alone_to_the_byte(results, tmp_path, capsys):
    alone = tmp_path / "alone"
    alone.mkdir()
    for name in ("regret.parquet", "seconds.parquet"):
        shutil.copy(results / name, alone / name)
    assert cli.main(["plot", str(alone)]) == 0
    drawn = sorted(path.name for path in (alone / "figures").iterdir())
    assert drawn == sorted(path.name for path in (results / "figures").iterdir())
    assert {"heavy.svg", "mild_1.svg", "regret-seconds.svg", "across.svg"} <= set(drawn)
    for name in drawn:
        if name.endswith(".svg"):
            again = (alone / "figures" / name).read_bytes()
            assert again == (results / "figures" / name).read_bytes(), name
    assert str(alone / "figures" / "heavy.png") in capsys.readouterr().out


def test_without_the_seconds_all_else_is_drawn(results, tmp_path):
    shutil.copy(results / "regret.parquet", tmp_path)
    assert cli.main(["plot", str(tmp_path / "regret.parquet"), "--out", str(tmp_path / "f")]) == 0
    assert {path.stem for path in (tmp_path / "f").iterdir()} == {"heavy", "mild_1", "across"}


def test_csv_has_the_mean_and_standard_error_of_every_run(results, capsys):
    assert cli.main(["export", str(results), "--csv"]) == 0
    rows = list(csv.DictReader(capsys.readouterr().out.splitlines()))
    assert len(rows) == 4
    table = pq.read_table(results / "regret.parquet").to_pylist()
    for row in rows:
        key = row["setting"], row["policy"], row["variant"]
        final = np.array(
            [r["regret"][-1] for r in table if (r["setting"], r["policy"], r["variant"]) == key]
        )
        assert (int(row["trials"]), int(row["rounds"])) == (3, 200)
        assert float(row["mean_regret"]) == pytest.approx(final.mean())
        assert float(row["standard_error"]) == pytest.approx(final.std(ddof=1) / np.sqrt(3))
        assert float(row["median_regret"]) == pytest.approx(np.median(final))
        assert 0.0 < float(row["mean_seconds"]) < 10.0


def test_latex_has_a_column_a_setting_and_every_letter_to_the_letter(results, capsys):
    assert cli.main(["export", str(results), "--latex"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:4] == [
        r"\begin{tabular}{lrr}",
        r"\toprule",
        r"policy & mild\_1 & heavy \\",
        r"\midrule",
    ]
    assert lines[-2:] == [r"\bottomrule", r"\end{tabular}"]
    assert lines[4].startswith(r"Uniform & $")
    assert lines[5].startswith(r"100\% \$OFUL\$\_\{1\}, tuned & $\mathbf{")
    assert lines[5].count(r"\pm") == 2


@pytest.mark.parametrize(
    ("mean", "error", "bold", "said"),
    [
        (1234.5, 56.7, False, r"$1234 \pm 57$"),
        (12.345, 1.26, False, r"$12.3 \pm 1.3$"),
        (0.12345, 0.00126, True, r"$\mathbf{0.1235} \pm 0.0013$"),
        (5.0, float("nan"), False, "$5.0$"),
        (5.0, 0.0, False, r"$5.0 \pm 0.0$"),
    ],
)
def test_a_number_keeps_the_digits_that_its_error_leaves(mean, error, bold, said):
    assert saved._number(mean, error, bold=bold) == said


def test_what_is_no_results_is_refused_with_what_to_pass(tmp_path, capsys):
    (tmp_path / "x.parquet").write_text("no")
    assert cli.main(["export", str(tmp_path / "x.parquet"), "--csv"]) == 2
    said = capsys.readouterr().err
    assert "x.parquet is not results of heavytail" in said
    assert "Pass the folder" in said
    assert cli.main(["plot", str(tmp_path / "none")]) == 2
    assert "there is no such file. Pass the folder" in capsys.readouterr().err


@pytest.fixture
def simulated():
    world = ht.LinearBandit(2, arms=5, noise=ht.noise.Gaussian())
    policies = [ht.Uniform(2), ht.OFUL(2, noise_scale=1.0)]
    return ht.simulate(policies, world, rounds=60, trials=2, seed=0, jobs=1, record=6)


def test_a_file_of_simulate_is_exported_and_drawn_too(simulated, tmp_path, capsys):
    simulated.save(tmp_path / "mine.parquet")
    assert cli.main(["export", str(tmp_path / "mine.parquet"), "--csv"]) == 0
    assert capsys.readouterr().out.splitlines()[1].startswith("mine,Uniform,as given,2,60,")
    assert cli.main(["plot", str(tmp_path / "mine.parquet")]) == 0
    assert (tmp_path / "figures" / "mine.png").is_file()


def test_results_as_a_frame_have_a_row_for_every_recorded_round(simulated):
    frame = simulated.to_pandas()
    assert list(frame.columns) == ["policy", "trial", "round", "regret", "seconds"]
    assert len(frame) == 2 * 2 * 6
    mine = frame[(frame.policy == "OFUL") & (frame.trial == 1)]
    assert mine["round"].tolist() == simulated.rounds.tolist()
    assert mine.regret.tolist() == simulated["OFUL"].regret[1].tolist()
    assert set(mine.seconds) == {simulated["OFUL"].seconds[1]}


def header(path: Path) -> dict[str, object]:
    return dict(json.loads(pq.read_schema(path).metadata[b"heavytail"]))


def test_every_file_names_the_version_and_the_commit_where_it_is_known(
    simulated, tmp_path, monkeypatch
):
    monkeypatch.setattr(_version, "commit_of", lambda package: "abc")
    simulated.save(tmp_path / "mine.parquet")
    assert header(tmp_path / "mine.parquet")["commit"] == "abc"
    monkeypatch.setattr(_version, "commit_of", lambda package: "unknown")
    simulated.save(tmp_path / "mine.parquet")
    assert "commit" not in header(tmp_path / "mine.parquet")


def test_bibtex_says_what_the_citation_file_says():
    cff = yaml.safe_load((Path(__file__).parents[2] / "CITATION.cff").read_text())
    library, paper = ht.citation().split("@inproceedings")
    assert f"title = {{{{{cff['title']}}}}}" in library
    assert f"author = {{{{{cff['authors'][0]['name']}}}}}" in library
    assert f"version = {{{cff['version']}}}" in library
    assert f"year = {{{cff['date-released'].year}}}" in library
    cited = cff["preferred-citation"]
    names = [f"{author['given-names']} {author['family-names']}" for author in cited["authors"]]
    assert f"author = {{{' and '.join(names)}}}" in paper
    assert f"title = {{{{{cited['title']}}}}}" in paper
    assert f"booktitle = {{{cited['collection-title']}}}" in paper
    assert f"year = {{{cited['year']}}}" in paper


def test_results_of_one_trial_have_no_standard_error():
    unit = Unit("", {"marks": np.array([1]), "rounds": 1})
    one = {("A", "as given"): Trials([unit], {"regret": np.ones((1, 1)), "seconds": np.ones(1)})}
    text = saved.as_csv(saved.Saved({"w": one}, {"w": "w"}, {"w": list(one)}))
    assert text.splitlines()[1] == "w,A,as given,1,1,1.0,,1.0,1.0"


@pytest.mark.parametrize("column", ["rounds", "regret"])
@pytest.mark.parametrize("content", [None, [], "a text"])
def test_a_trial_without_a_regret_for_each_round_is_refused(
    results, tmp_path, capsys, column, content
):
    table = pq.read_table(results / "regret.parquet")
    other = pa.array([content] * len(table))
    place = table.column_names.index(column)
    pq.write_table(table.set_column(place, column, other), tmp_path / "regret.parquet")
    assert cli.main(["export", str(tmp_path), "--csv"]) == 2
    assert "is not results of heavytail" in capsys.readouterr().err
