"""``hiddenfield infer`` as a user meets it."""

from __future__ import annotations

import json
import math
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import hiddenfield as hf
from hiddenfield.inference import METHODS
from tests.cli.calling import call

KEYS = {
    *("log_partition", "marginals", "map", "log_value", "upper_bound", "guarantee", "status", "note"),
    *("iterations", "residual", "diagnostics", "seconds", "method", "samples", "joint"),
}
NETWORK = """network rain { }
variable rain { type discrete [ 2 ] { no, yes }; }
variable grass { type discrete [ 2 ] { dry, wet }; }
probability ( rain ) { table 0.8, 0.2; }
probability ( grass | rain ) { (no) 0.9, 0.1; (yes) 0.2, 0.8; }
"""


@pytest.fixture
def network(tmp_path: Path) -> Path:
    path = tmp_path / "rain.bif"
    path.write_text(NETWORK)
    return path


@pytest.fixture
def grid(tmp_path: Path) -> Path:
    draw = np.random.default_rng(0)
    field = hf.fields.ising_grid(
        3, 3, lambda size: draw.normal(0, 0.3, size), lambda size: draw.normal(size=size)
    )
    hf.fields.write(field, tmp_path / "grid.uai")
    hf.fields.write_evidence({0: 1}, tmp_path / "grid.uai.evid")
    return tmp_path / "grid.uai"


def test_marginals_by_name(capsys, network):
    code, out, err = call(capsys, "infer", network, "--given", "grass=wet", "--json")
    result = json.loads(out)
    assert (code, err, set(result)) == (0, "", KEYS)
    assert result["marginals"]["rain"]["yes"] == pytest.approx(0.16 / 0.24)
    assert result["log_partition"] == pytest.approx(math.log(0.24))
    assert (result["guarantee"], result["map"]) == ("exact", None)
    code, out, _ = call(capsys, "infer", network, "-g", "grass=wet")
    assert code == 0
    assert "rain   no 0.3333  yes 0.6667" in out


def test_sampling_says_how_good_it_is(capsys, network):
    words = ["infer", network, "--given", "grass=wet", "--method", "gibbs", "--json"]
    code, out, _ = call(capsys, *words)
    found = json.loads(out)["diagnostics"]
    assert code == 0
    assert 1.0 <= found["r_hat"]["rain"] < 1.01
    assert found["effective_samples"]["rain"] > 1000
    assert 0 < found["standard_error"]["rain"]["yes"] < 0.02
    assert found["standard_error"]["grass"] == {"dry": 0.0, "wet": 0.0}
    assert 0 <= found["log_partition_error"] < 0.1


def test_marginals_by_number_and_result_files(capsys, grid, tmp_path):
    words = ["infer", grid, "--evidence", f"{grid}.evid", "--method", "loopy_bp"]
    code, out, _ = call(capsys, *words, "--json", "--out", tmp_path / "grid.MAR")
    result = json.loads(out)
    assert (code, set(result)) == (0, KEYS)
    assert result["marginals"][0] == [0.0, 1.0]
    written = hf.fields.read_result(tmp_path / "grid.MAR").marginals
    np.testing.assert_allclose(written, result["marginals"])
    code, out, _ = call(capsys, *words, "--query", "partition", "--json", "--out", tmp_path / "grid.PR")
    result = json.loads(out)
    assert (code, result["marginals"]) == (0, None)
    log10 = float((tmp_path / "grid.PR").read_text().split()[1])
    assert log10 == pytest.approx(result["log_partition"] / math.log(10))
    code, out, _ = call(capsys, *words, "--query", "map", "--json", "--out", tmp_path / "grid.MPE")
    result = json.loads(out)
    assert (code, set(result), result["log_partition"]) == (0, KEYS, None)
    assert hf.fields.read_result(tmp_path / "grid.MPE").assignment == tuple(result["map"])
    code, out, _ = call(capsys, *words, "--query", "map")
    assert "log value" in out


def test_contradicting_evidence_is_an_error_that_names_it(capsys, tmp_path, network):
    field = hf.fields.from_factors([[0, 1], [2]], [[[0.0, -np.inf], [-np.inf, 0.0]], [0.0, 0.0]])
    hf.fields.write(field, tmp_path / "m.fg")
    words = ["infer", tmp_path / "m.fg", "-g", "2=0", "-g", "0=0", "-g", "1=1"]
    for more in (
        ["--json"],
        ["--method", "loopy_bp"],
        ["--query", "map"],
        ["--query", "partition"],
        ["--compare"],
    ):
        code, _, err = call(capsys, *words, *more)
        assert code == 1
        assert "the evidence is impossible: 0=0, 1=1 have probability 0 together" in err
        assert len(err.strip().splitlines()) == 1
    network.write_text(NETWORK.replace("0.8, 0.2", "1.0, 0.0"))
    code, _, err = call(capsys, "infer", network, "-g", "rain=yes")
    assert code == 1
    assert "rain=yes has probability 0; correct it or leave it out" in err


def test_the_default_says_what_it_chose(capsys, grid):
    code, out, _ = call(capsys, "infer", grid, "--json")
    result = json.loads(out)
    assert (code, result["method"], result["guarantee"]) == (0, "exact", "exact")
    assert result["note"].startswith("chosen by auto")
    code, out, _ = call(capsys, "infer", grid, "--memory-limit", "10", "--time-limit", "20")
    assert code == 0
    assert "note: chosen by auto: " in out
    assert "(exact)" not in out
    code, _, err = call(capsys, "infer", grid, "--method", "loopy_bp", "--memory-limit", "1GB")
    assert code == 1
    assert "loopy_bp keeps no limit of memory" in err
    code, out, _ = call(capsys, "infer", grid, "--query", "map", "--json")
    assert json.loads(out)["guarantee"] == "exact"


def test_chosen_variables_and_csv(capsys, network, grid, tmp_path):
    words = ["infer", network, "-g", "grass=wet", "--variable", "rain", "--out", tmp_path / "x.csv"]
    code, out, _ = call(capsys, *words, "--json")
    assert (code, list(json.loads(out)["marginals"])) == (0, ["rain"])
    rows = [line.split(",") for line in (tmp_path / "x.csv").read_text().split()]
    assert [row[:2] for row in rows] == [["variable", "state"], ["rain", "no"], ["rain", "yes"]]
    assert float(rows[2][2]) == pytest.approx(0.16 / 0.24)
    code, out, _ = call(capsys, "infer", grid, "-v", "3", "-v", "1", "--json")
    assert list(json.loads(out)["marginals"]) == ["3", "1"]
    code, _, err = call(capsys, "infer", network, "-v", "rian")
    assert code == 1
    assert "(did you mean 'rain'?)" in err


def test_joint_distributions_of_variables_that_share_no_factor(capsys, tmp_path):
    network = "docs/examples/sprinkler.bif"
    words = ["infer", network, "--query", "joint", "-v", "rain", "-v", "sprinkler", "-g", "grass=wet"]
    code, out, _ = call(capsys, *words, "--json", "--out", tmp_path / "joint.csv")
    rows = json.loads(out)["joint"]
    assert code == 0
    assert list(rows[0]) == ["rain", "sprinkler", "probability"]
    expected = hf.infer(hf.fields.read(network), evidence={"grass": "wet"}).joint(["rain", "sprinkler"])
    for row in rows:
        assert row["probability"] == pytest.approx(expected[row["rain"], row["sprinkler"]])
    assert (tmp_path / "joint.csv").read_text().splitlines()[0] == "rain,sprinkler,probability"
    assert "probability" in call(capsys, *words)[1]
    code, _, err = call(capsys, *words, "--out", tmp_path / "joint.MAR")
    assert code == 1
    assert "result file" in err


def test_marginal_map_and_samples(capsys, network, tmp_path):
    code, out, _ = call(capsys, "infer", network, "--query", "marginal-map", "-v", "grass", "--json")
    result = json.loads(out)
    assert (code, result["map"], result["guarantee"]) == (0, {"grass": "dry"}, "exact")
    assert result["log_value"] == pytest.approx(math.log(0.76))
    words = ["infer", network, "--query", "samples", "--samples", "500", "-g", "grass=wet"]
    code, out, _ = call(capsys, *words, "--json")
    drawn = json.loads(out)["samples"]
    assert (code, len(drawn), {row["grass"] for row in drawn}) == (0, 500, {"wet"})
    assert sum(row["rain"] == "yes" for row in drawn) / 500 == pytest.approx(2 / 3, abs=0.1)
    code, out, _ = call(capsys, *words, "-v", "rain", "--out", tmp_path / "s.csv")
    lines = (tmp_path / "s.csv").read_text().split()
    assert (code, lines[0], len(lines)) == (0, "rain", 501)
    code, out, _ = call(capsys, *words, "--method", "gibbs", "--json")
    assert json.loads(out)["guarantee"] == "estimate"


def test_rows_of_a_comparison_come_as_they_are_done(capsys, grid, monkeypatch):
    from hiddenfield.evaluation import comparing

    seen = []
    run = comparing._run

    def spy(field, name, options, seconds):
        seen.append((name, seconds, capsys.readouterr().out))
        return run(field, name, options, seconds)

    monkeypatch.setattr(comparing, "_run", spy)
    code, _, _ = call(capsys, "infer", grid, "--compare", "--time-limit", "30")
    measured = [(name, out) for name, seconds, out in seen if seconds == 30]
    assert (code, measured[0][0], len(measured)) == (0, "exact", len(METHODS))
    # The row of a method is out before the next one starts: warm-ups come first, so it is seen there.
    printed = "".join(out for _, _, out in seen)
    assert all(f"\n{name} " in printed for name, _ in measured[:-1])


def test_an_interrupt_ends_with_130_and_one_line(tmp_path):
    draw = np.random.default_rng(0)
    field = hf.fields.ising_grid(60, 60, lambda size: draw.normal(0, 2, size))
    hf.fields.write(field, tmp_path / "hard.uai")
    words = [
        sys.executable,
        "-m",
        "hiddenfield.cli",
        "infer",
        str(tmp_path / "hard.uai"),
        "--time-limit",
        "200",
    ]
    process = subprocess.Popen(words, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(4)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=20)
    assert (process.returncode, out) == (130, "")
    assert len(err.strip().splitlines()) == 1
    assert "interrupted" in err


def test_compare(capsys, grid):
    code, out, _ = call(capsys, "infer", grid, "--compare", "--json")
    rows = {row["method"]: row for row in json.loads(out)["comparison"]}
    assert (code, set(rows)) == (0, set(METHODS))
    assert rows["loopy_bp"]["log_partition"] is not None
    if "exact" in rows:
        assert rows["exact"]["mean_error"] == 0
        assert rows["loopy_bp"]["mean_error"] < 0.05
        assert rows["mean_field"]["log_partition_error"] <= 1e-9
    code, out, _ = call(capsys, "infer", grid, "--compare", "-p", "max_iterations=1")
    assert code == 0
    assert "not converged" in out
    code, _, err = call(capsys, "infer", grid, "--compare", "-p", "colour=red")
    assert code == 1
    assert "has an option 'colour'" in err


def test_picture(capsys, network, grid, tmp_path):
    for model, name in ((network, "rain.png"), (grid, "grid.svg")):
        code, out, _ = call(capsys, "infer", model, "--plot", tmp_path / "new" / name)
        assert code == 0
        assert f"plot: {tmp_path / 'new' / name}" in out
        assert (tmp_path / "new" / name).stat().st_size > 1000


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (["--method", "loopy"], 1, "unknown method 'loopy' (did you mean 'loopy_bp'?)"),
        (["--method", "loopy_bp", "-p", "colour=red"], 1, "unknown option of loopy_bp 'colour'"),
        (["-p", "damping=0.5"], 1, "damping is an option of loopy_bp, "),
        (["-p", "dampning=0.5"], 1, "(did you mean 'damping'?)"),
        (["--method", "loopy_bp", "-p", "damping=abc"], 1, "loopy_bp: damping must be a number, got 'abc'"),
        (
            ["--method", "loopy_bp", "-p", "max_iterations=1.5"],
            1,
            "max_iterations must be a whole number, got 1.5",
        ),
        (
            ["--method", "loopy_bp", "-p", "max_iterations=true"],
            1,
            "max_iterations must be a whole number, got True",
        ),
        (["--method", "loopy_bp", "-p", "messages=3"], 1, "messages must be given in Python, got 3"),
        (["--method", "exact", "-p", "max_memory=abc"], 1, "exact: max_memory must be a number, got 'abc'"),
        (["--method", "gibbs", "-p", "chains=x"], 1, "chains must be a whole number, got 'x'"),
        (
            ["--method", "loopy_bp", "--query", "map", "-p", "damping=x"],
            1,
            "damping must be a number, got 'x'",
        ),
        (["--method", "exact", "--query", "map", "-p", "damping=0"], 1, "unknown option of exact 'damping'"),
        (["--method", "loopy_bp", "-p", "damping=2"], 1, "at least 0 and below 1, got 2"),
        (["-g", "snow=yes"], 1, "no variable is called 'snow'"),
        (["-g", "rain=maybe"], 1, "has no state 'maybe'"),
        (["-g", "rain"], 1, "evidence must be VARIABLE=STATE, got 'rain'"),
        (["-g", "5=0"], 1, "no variable 5: the variables are 0 to 1"),
        (["--query", "everything"], 2, "everything"),
        (["--query", "map", "--plot", "x.png"], 1, "a picture shows marginals"),
        (["--query", "partition", "--plot", "x.png"], 1, "a picture shows marginals"),
        (["-p", "marginals=false"], 1, "leave out the option marginals"),
        (["--compare", "--out", "x.MAR"], 1, "a result file holds one answer"),
        (["--plot", "x.txt"], 1, "must end in .png"),
        (["--evidence", "nothing.evid"], 1, "no such file"),
        (["--evidence", "rain=yes"], 1, "with --given rain=yes"),
        (["--query", "marginal-map"], 1, "give --variable"),
        (["--query", "joint"], 1, "give --variable"),
        (["--query", "joint", "-v", "rain", "--method", "gibbs"], 1, "unknown method for joint 'gibbs'"),
        (["--samples", "3"], 1, "--samples goes with --query samples"),
        (["--query", "samples", "--method", "loopy_bp"], 1, "unknown method for samples 'loopy_bp'"),
        (["--query", "partition", "-v", "rain"], 1, "leave it out here"),
        (["-v", "rain", "--out", "x.MAR"], 1, "give --out the name of a .csv file"),
        (["--time-limit", "0"], 1, "above 0, got 0"),
        (["--memory-limit", "much"], 1, "a size such as 500MB"),
    ],
)
def test_errors_are_one_line(capsys, network, words, code, text):
    found, _, err = call(capsys, "infer", network, *words)
    assert found == code
    assert text in err
    if code == 1:
        assert len(err.strip().splitlines()) == 1


def test_contradicting_and_pointless_options_are_refused(
    grid: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    evidence = f"{grid}.evid"
    for words, expected in [
        (["-g", "0=1", "-g", "0=0"], "observed twice"),
        (["--evidence", evidence, "-g", "0=0"], "observed twice"),
        (["--sample", "1"], "give --evidence too"),
        (["--out", tmp_path], "is a folder"),
        (["-g", "x=0"], "they have no names but the numbers 0 to 8"),
        (["--method", "loopy_bp", "-p", "messages=1,2"], "messages must be given in Python"),
        (["--method", "loopy_bp", "-p", "temperature=nan"], "temperature must be finite"),
        (["--method", "loopy_bp", "-p", "temperature=inf"], "temperature must be finite"),
        (
            ["--method", "loopy_bp", "-p", "temperature=1e-320"],
            "are not finite; temperature=0 is max-product",
        ),
        (["--method", "gibbs", "-p", "burn_in=-1"], "burn_in must be an integer of at least 0, got -1"),
        (["--method", "gibbs", "-p", "seed=-1"], "seed must be an integer"),
        (["--method", "tree_reweighted", "-p", "samples=0"], "samples must be an integer of at least 1"),
    ]:
        code, _, err = call(capsys, "infer", grid, *words)
        assert code == 1
        assert expected in err
    assert not list(tmp_path.glob(".*partial"))


@pytest.mark.filterwarnings("ignore::hiddenfield.errors.ConvergenceWarning")
def test_numbers_that_are_not_finite_are_not_printed_as_zeros(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # Chains that never leave their first state: R-hat is infinite.
    stuck = np.array([[0.0, -800.0], [-800.0, 0.0]])
    hf.fields.write(hf.fields.from_factors([[0, 1], [1, 2], [2, 0]], [stuck] * 3), tmp_path / "stuck.uai")
    code, out, _ = call(capsys, "infer", tmp_path / "stuck.uai", "--method", "gibbs", "-p", "blocks=sites")
    assert code == 0
    assert "residual inf" in out
    hf.fields.write(hf.fields.from_factors([[0], [0]], [[0.0, -np.inf], [-np.inf, 0.0]]), tmp_path / "no.uai")
    code, out, err = call(capsys, "infer", tmp_path / "no.uai", "--compare")
    assert (code, "nan" in out) == (1, False)
    assert "the model is impossible by itself" in err
