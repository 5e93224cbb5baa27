"""Messages in the user's words, versions, interrupts, full disks: what every command has in common."""

from __future__ import annotations

import errno
import os

import pytest

import hiddenfield as hf
from hiddenfield.cli.app import FLAGS, in_flags
from hiddenfield.data import paths
from hiddenfield.errors import InputError
from hiddenfield.evaluation.records import claim_folder
from hiddenfield.registry import choose
from tests.cli.calling import call, done

QUICK = [
    "--epochs",
    "1",
    "--dim",
    "4",
    "-p",
    "hidden=4",
    "--ensemble",
    "1",
    "--device",
    "cpu",
    "--no-baselines",
]


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "m.csv"
    path.write_text("smiles,size\n" + "\n".join(f"{'C' * k},{k}.5" for k in range(1, 30)) + "\nC(,1\n")
    return path


def test_version(capsys):
    assert call(capsys, "--version") == (0, f"hiddenfield {hf.__version__}\n", "")


def test_errors_name_flags(capsys, tmp_path, table):
    code, _, err = call(capsys, "fit", table, "--target", "size", "--out", tmp_path / "run", *QUICK)
    assert code == 1
    assert "leave such rows out with --on-error skip" in err
    words = ["fit", table, "--target", "size", "--on-error", "skip", "--out", tmp_path / "run", *QUICK]
    code, _, err = call(capsys, *words, "-p", "dropout=2")
    assert "--parameter dropout must be a float" in err
    code, _, err = call(capsys, *words, "--model", "loopy")
    assert "error: unknown model 'loopy' (did you mean 'loopy_bp'?)" in err
    done(capsys, *words)
    code, _, err = call(capsys, *words)
    assert "go on with what is there with --resume" in err
    (tmp_path / "odd").write_text("?")
    code, _, err = call(capsys, "describe", tmp_path / "odd")
    assert "name one with --format:" in err
    # A command line that has no such option names none.
    known = set(call(capsys, "fit", "--help")[1].split()) | set(call(capsys, "evaluate", "--help")[1].split())
    known |= set(call(capsys, "convert", "--help")[1].split())
    assert {f"--{name.replace('_', '-')}" for name in FLAGS} <= known


def test_data_is_not_taken_for_an_argument():
    for text in ("'C=C' is no molecule", "line 2: 'smiles=CCO'", "a=1"):
        assert in_flags(text) == text


def test_one_spelling_of_out(capsys, tmp_path, table):
    done(capsys, "fit", table, "--target", "size", "--on-error", "skip", "-o", tmp_path / "run", *QUICK)
    for flag in ("--out", "-o"):
        words = ["predict", tmp_path / "run", table, flag, tmp_path / "p.csv", "--on-error", "skip"]
        assert done(capsys, *words)["predicted"] == 29
    for command in ("fit", "evaluate", "predict", "embed", "impute", "learn", "generate"):
        assert "--output" not in call(capsys, command, "--help")[1], command
    done(capsys, "generate", "huckel", "-n", "2", "-o", tmp_path / "h.parquet")


def test_nothing_is_suggested_that_was_given(tmp_path):
    (tmp_path / "data.csv").symlink_to(tmp_path / "gone.csv")
    with pytest.raises(InputError, match=r"is a link to .*gone\.csv, which does not exist"):
        hf.read(tmp_path / "data.csv")
    with pytest.raises(InputError) as failure:
        choose("precision", {"32": 1, "64": 2}, 64)
    assert "did you mean" not in str(failure.value)


def test_an_interrupt_says_how_to_go_on(capsys, tmp_path, table, monkeypatch):
    from hiddenfield.learning.trainer import Training

    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(Training, "_validate", stop)
    out = tmp_path / "run"
    words = ["fit", table, "--target", "size", "--on-error", "skip", "--out", out, *QUICK]
    code, _, err = call(capsys, *words)
    assert code == 130
    assert f"what was finished is in {out}; go on with: hiddenfield fit {table}" in err
    assert err.rstrip().endswith("--resume")
    monkeypatch.undo()
    assert call(capsys, *words, "--resume")[0] == 0


def test_a_full_disk_leaves_nothing_and_names_the_file(capsys, tmp_path, table, monkeypatch):
    def full(number):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("os.fsync", full)
    out = tmp_path / "run"
    code, _, err = call(capsys, "fit", table, "--target", "size", "--on-error", "skip", "--out", out, *QUICK)
    assert code == 1
    assert f"No space left on device: '{out / 'checkpoint' / 'member-0.safetensors'}'" in err
    assert not list(tmp_path.rglob("*.partial"))


def test_a_hidden_name_is_not_what_an_error_names(tmp_path):
    def fill():
        with paths.atomic(tmp_path / "wanted.txt") as partial:
            partial.write_text("x")
            raise OSError(errno.ENOSPC, "full", str(partial))

    with pytest.raises(OSError, match=r"full: '.*/wanted\.txt'"):
        fill()
    assert not list(tmp_path.iterdir())


def test_a_refused_resume_shows_where_plans_differ(tmp_path):
    long = {"parameters": {"model_options": {"a": 1}, "text": "x" * 300 + "first"}}
    claim_folder(tmp_path / "run", "plan.json", long, "a run", resume=False)
    other = {"parameters": {"model_options": {"a": 1}, "text": "x" * 300 + "second"}}
    with pytest.raises(
        InputError, match=r'parameters\.text \.\.\.x+first", not \.\.\.x+second"; give the same'
    ):
        claim_folder(tmp_path / "run", "plan.json", other, "a run", resume=True)


@pytest.mark.parametrize(
    "more", [["-p", "counts=maybe"], ["-p", "counts=true", "-p", "validation_fraction=0"]]
)
def test_a_parameter_is_named_and_refused_before_training(capsys, tmp_path, more):
    table = tmp_path / "table.csv"
    table.write_text("smiles,y\n" + "CCO,1\nCCN,2\nCCC,3\n" * 5)
    words = ["fit", table, "--structure", "smiles", "--target", "y", "--out", tmp_path / "run", *QUICK, *more]
    code, _, err = call(capsys, *words)
    assert code == 1
    assert "--parameter counts must be" in err
    assert not (tmp_path / "run").exists()
