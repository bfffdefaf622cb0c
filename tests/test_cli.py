"""The command line reads well and refuses in one sentence."""

from __future__ import annotations

import subprocess
import sys

import pytest

import heavytail
from heavytail.cli import COMMANDS, main


def test_help_lists_every_command(capsys):
    assert main([]) == 0
    text = capsys.readouterr().out
    assert all(command in text for command in COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(command, capsys):
    with pytest.raises(SystemExit) as stop:
        main([command, "--help"])
    assert stop.value.code == 0
    assert "usage: heavytail" in capsys.readouterr().out


def test_the_version_is_the_packages(capsys):
    with pytest.raises(SystemExit):
        main(["--version"])
    assert heavytail.__version__ in capsys.readouterr().out


def test_the_module_runs_as_the_command_does():
    run = [sys.executable, "-m", "heavytail"]
    done = subprocess.run([*run, "--version"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, f"heavytail {heavytail.__version__}\n")
    done = subprocess.run([*run, "nonsense"], capture_output=True, text=True)
    assert done.returncode == 2
    assert "usage: heavytail" in done.stderr


def test_policies_prints_a_row_a_policy(capsys):
    from heavytail.policies import ALL

    assert main(["policies"]) == 0
    text = capsys.readouterr().out
    assert all(kind.name in text for kind in ALL)


def test_policies_says_which_links_each_takes():
    from heavytail.commands.policies import COLUMNS, rows

    table = {row[0]: dict(zip(COLUMNS, row, strict=True)) for row in rows()}
    assert table["GLB-OMD"]["links"] == "identity, logistic, log, probit"
    assert table["GLB-OMD"]["assumes"] == "rewards of the link's kind"
    assert table["Hvt-GLB"]["links"] == "identity, log"
    assert table["ECOLog"]["links"] == "logistic"
    assert table["Hvt-UCB"]["links"] == table["CRMM"]["links"] == "identity"
    assert (table["Uniform"]["links"], table["Uniform"]["assumes"]) == ("-", "nothing")
    assert table["RobustUCB"]["links"] == "-"  # a mean for each arm


def test_an_unknown_command_exits_with_2(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["nonsense"])
    assert stop.value.code == 2


def test_an_unknown_option_is_refused_beside_the_commands_own_usage(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["calibrate", "--round", "5", "--trails=3", "x"])
    assert stop.value.code == 2
    said = capsys.readouterr().err
    assert said.startswith("usage: heavytail calibrate ")
    assert said.endswith("unrecognized arguments: --trails=3 x. Did you mean --trials?\n")
    with pytest.raises(SystemExit):
        main(["--nonsense"])
    assert capsys.readouterr().err.endswith("unrecognized arguments: --nonsense\n")


def test_a_users_mistake_is_one_sentence_and_exit_code_2(capsys):
    assert main(["calibrate", "--trials", "0", "--rounds", "5"]) == 2
    error = capsys.readouterr().err.strip()
    assert error.startswith("heavytail calibrate: ")
    assert "\n" not in error


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("a\n" + "x" * 200_000 + "\n", "row 2"),
        ("a\n1\n" + '"' + "x" * 200_000 + '"\n', "row 3"),
        ("x" * 2**24 + "\n1\n", "a line of"),
        ("\x1b[2J,b\n1,2\n", "no column 'a'"),
        ("\x1b]0;title\x07\n1\n", "no column 'a'"),
        ("a\n\udcff\n", "row 2, column 'a': 'ÿ' is not a finite number"),
    ],
)
def test_diagnose_says_in_one_line_what_is_wrong_with_a_file(content, words, tmp_path, capsys):
    path = tmp_path / "some.csv"
    path.write_text(content, encoding="utf-8", errors="surrogateescape")
    assert main(["diagnose", str(path), "--column", "a"]) == 2
    said = capsys.readouterr().err.removesuffix("\n")
    assert words in said
    assert said.isprintable()
    assert len(said) < 1000


@pytest.mark.parametrize(
    "words",
    [
        ["run", "a\0b"],
        ["diagnose", "a\0b", "--column", "x"],
        ["diagnose", "a", "--column", "x", "--plot", "a\0b"],
        ["reproduce", "--out", "a\0b"],
        ["reproduce", "--tuned", "a\0b"],
        ["coverage", "--out", "a\0b"],
    ],
)
def test_no_argument_has_a_nul(words, capsys):
    assert main(words) == 2
    said = capsys.readouterr().err
    assert said == (
        f"heavytail {words[0]}: an argument must have no NUL in it; got 'a\\x00b'. Leave it out.\n"
    )


@pytest.mark.parametrize("words", [["\x1b[2J"], ["run", "a", "\x1b[2J"], ["run", "--jobs", "\x1b"]])
def test_what_was_typed_does_not_steer_the_terminal(words, capsys):
    with pytest.raises(SystemExit) as stop:
        main(words)
    assert stop.value.code == 2
    assert r"\x1b" in capsys.readouterr().err.splitlines()[-1]


LARGE = str(10**15)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["reproduce", "student", "--trials", LARGE], "at most 10,000 trials"),
        (["reproduce", "student", "--rounds", LARGE], "of memory; this machine has"),
        (["reproduce", "student", "--trials", "0"], "--trials must be a whole number"),
        (["reproduce", "student", "--rounds", "0"], "--rounds must be a whole number"),
        (["reproduce", "student", "--jobs", "0"], "--jobs must be a whole number"),
        (["reproduce", "student", "--jobs", LARGE], "--jobs must be at most 1000"),
        (["coverage", "--trials", LARGE], "at most 100,000,000 trials"),
        (["coverage", "--trials", "5", "--rounds", LARGE], "10,000,000,000,000 rounds in all"),
        (["calibrate", "--trials", LARGE], "at most 100,000,000 trials"),
        (["calibrate", "--rounds", LARGE], "10,000,000,000,000 rounds in all"),
        (["calibrate", "--dims", str(10**7)], "would need at least"),
    ],
)
def test_what_would_never_be_done_is_not_begun(words, said, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(words) == 2
    error = capsys.readouterr().err.removesuffix("\n")
    assert said in error
    assert error.isprintable()
    assert list(tmp_path.iterdir()) == []


def test_a_column_in_any_script_is_drawn_without_a_warning(tmp_path, capsys, recwarn):
    path = tmp_path / "\x1b[2Jsome.csv"
    path.write_text("中\x1b[2J\n" + "\n".join(str(k * k) for k in range(1, 200)), encoding="utf-8")
    plot = str(tmp_path / "\x1b[2J.png")
    assert main(["diagnose", str(path), "--column", "中\x1b[2J", "--plot", plot]) == 0
    assert all(line.isprintable() for line in capsys.readouterr().out.split("\n"))
    assert not [one for one in recwarn if "Glyph" in str(one.message)]
