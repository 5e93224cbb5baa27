"""``hiddenfield learn`` and ``impute``: what they say, keep and refuse, and that an interrupted run ends the same."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import re
from pathlib import Path

import numpy as np
import pandas
import pytest

import hiddenfield as hf
from hiddenfield.errors import InputError
from hiddenfield.evaluation import imputing, latent, latent_data
from hiddenfield.models.gaussian_mixture import MixtureOfGaussians
from hiddenfield.models.mixed_mixture import MixtureOfColumns
from tests.cli.calling import call as called


class Captured:
    """What pytest's capsys does, outside of a test: fixtures of a module have none."""

    def readouterr(self):
        return self.out.getvalue(), self.err.getvalue()


def run_main(*words) -> tuple[int, str, str]:
    captured = Captured()
    captured.out, captured.err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(captured.out), contextlib.redirect_stderr(captured.err):
        return called(captured, *words)


def call(*words) -> str:
    code, out, err = run_main(*words)
    assert code == 0, err
    return out


def fails(*words) -> str:
    code, _, err = run_main(*words)
    assert code == 1
    return err


GENERATOR = np.random.default_rng(0)
ROWS = 150


@pytest.fixture(scope="module")
def table(tmp_path_factory) -> Path:
    """Two groups of people: numbers and a symbol, with holes; the last row is far out."""
    group = GENERATOR.integers(0, 2, ROWS)
    numbers = GENERATOR.standard_normal((ROWS, 2)) + 6.0 * group[:, None]
    third = numbers.sum(axis=1) + 0.5 * GENERATOR.standard_normal(ROWS)
    numbers = np.column_stack([numbers, third])
    numbers[-1, :2] = [25.0, -20.0]
    holes = GENERATOR.random((ROWS, 4)) < 0.15
    holes[-1] = False
    path = tmp_path_factory.mktemp("data") / "people.csv"
    with open(path, "w", newline="") as sink:
        writer = csv.writer(sink)
        writer.writerow(["height", "weight", "girth", "town"])
        for row, (own, gaps) in enumerate(zip(numbers, holes, strict=True)):
            cells = [f"{value:.3f}" for value in own] + [["Ulm", "Bonn"][group[row]]]
            writer.writerow(["" if gap else cell for cell, gap in zip(cells, gaps, strict=True)])
    return path


def rows_of(path: Path) -> list[dict[str, str]]:
    with open(path, newline="") as source:
        return list(csv.DictReader(source))


@pytest.fixture(scope="module")
def run(table, tmp_path_factory) -> tuple[Path, str]:
    out = tmp_path_factory.mktemp("runs") / "mixture"
    text = call(
        "learn",
        table,
        "--model",
        "gaussian_mixture",
        "--components",
        "1-3",
        "--restarts",
        2,
        "--out",
        out,
        "--report",
    )
    return out, text


def test_it_says_what_there_is_before_it_starts(run):
    out, text = run
    assert text.index("height: continuous") < text.index("patterns of missingness") < text.index("chosen by")
    assert re.search(r"\d+ rows are complete", text)
    assert re.search(r"\d+ rows lack weight\n", text)
    assert "left out, as the model takes numbers: town" in text
    assert hf.load(out).means_.shape == (2, 3) or "chosen by Schwarz's criterion: 3" in text


def test_the_page_has_it_all(run):
    page = (run[0] / "report.html").read_text()
    for heading in ("Data", "Learning", "Components", "Outliers", "Settings"):
        assert f"<h2>{heading}</h2>" in page
    for picture in (
        "patterns of missingness",
        "objective by turn",
        "criteria by size",
        "outlyingness by row",
    ):
        assert f'aria-label="{picture}"' in page
    assert f"<td>{ROWS - 1}</td>" in page.split("<h2>Outliers</h2>")[1]
    assert "http" not in re.sub(r"http-equiv", "", page)


def test_impute_fills_holes_and_nothing_else(table, run, tmp_path):
    before = rows_of(table)
    said = json.loads(call("impute", table, "--run", run[0], "--out", tmp_path / "one.csv", "--json"))
    after = rows_of(tmp_path / "one.csv")
    assert said["left"] == sum(not row["town"] for row in before)
    for old, new in zip(before, after, strict=True):
        assert all(
            float(new[name]) == float(old[name]) for name in ("height", "weight", "girth") if old[name]
        )
        assert all(new[name] for name in ("height", "weight", "girth"))
        assert new["town"] == old["town"]
    call("impute", table, "--run", run[0], "--out", tmp_path / "many.tsv", "--draws", 3)
    lines = (tmp_path / "many.tsv").read_text().splitlines()
    assert lines[0].split("\t") == ["draw", "height", "weight", "girth", "town"]
    assert len(lines) == 1 + 3 * ROWS
    assert len({tuple(line.split("\t")[1:]) for line in lines[1:]}) > ROWS + 50


@pytest.mark.parametrize(
    ("model", "options", "sections"),
    [
        ("mixed_mixture", ("--components", "2"), ["Classes"]),
        ("factor_analysis", ("--components", "1", "-p", "rotation=varimax"), ["Factors", "Outliers"]),
        ("probabilistic_pca", ("--components", "1", "--criterion", "cross_validation"), ["Factors"]),
        ("partial_least_squares", ("--target", "girth", "--components", "1", "-p", "num_own=0"), ["Factors"]),
        ("bayesian_network", ("--drop", "height", "--drop", "weight", "--drop", "girth"), ["Tables"]),
    ],
)
def test_every_model_by_name(table, tmp_path, model, options, sections):
    out = tmp_path / "run"
    said = json.loads(call("learn", table, "--model", model, *options, "--out", out, "--report", "--json"))
    assert said["model"] == model
    assert said["sizes"][0]["log_likelihood"] < 0
    assert sum(pattern["rows"] for pattern in said["patterns"]) == ROWS
    page = (out / "report.html").read_text()
    assert all(f"<h2>{heading}</h2>" in page for heading in sections)
    assert ("girth (target)" in page) == ("shared 1" in page) == (model == "partial_least_squares")
    filled = tmp_path / "filled.csv"
    left = json.loads(call("impute", table, "--run", out, "--out", filled, "--json"))["left"]
    assert (left == 0) == (model in ("mixed_mixture", "bayesian_network"))


def test_a_network_with_its_table(tmp_path):
    (tmp_path / "rain.bif").write_text(
        "network rain {}\n"
        "variable rain { type discrete [ 2 ] { no, yes }; }\n"
        "variable wet { type discrete [ 2 ] { no, yes }; }\n"
        "probability ( rain ) { table 0.5, 0.5; }\n"
        "probability ( wet | rain ) { (no) 0.5, 0.5; (yes) 0.5, 0.5; }\n"
    )
    (tmp_path / "days.csv").write_text("rain,wet\n" + "no,no\nyes,yes\nyes,\nno,no\n,yes\n" * 5)
    network, out = tmp_path / "rain.bif", tmp_path / "run"
    call("learn", network, "--data", tmp_path / "days.csv", "--out", out)
    assert hf.load(out).tables_["wet"][1, 1] > 0.9
    assert "--data" in fails("learn", network, "--out", tmp_path / "other")


def test_sequences(tmp_path):
    states = np.repeat([0, 1, 0, 1], 30)
    counts = GENERATOR.poisson(np.where(states == 1, 12, 2))
    lines = [f"{'ab'[t >= 60]},{'' if t % 17 == 0 else count}" for t, count in enumerate(counts)]
    path, out = tmp_path / "days.csv", tmp_path / "run"
    path.write_text("\n".join(["patient,visits", *lines]) + "\n")
    options = ("--id", "patient", "--kind", "visits=count", "--components", "2", "--out", out, "--report")
    text = call("learn", path, "--model", "hidden_markov", *options)
    assert "2 sequences of 60 steps" in text
    page = (out / "report.html").read_text()
    assert "<h2>States</h2>" in page
    assert "Sequence b with its most likely states" in page
    path.write_text(path.read_text().replace("b,", "c,"))  # another patient
    call("impute", path, "--run", out, "--out", tmp_path / "filled.csv")
    filled = rows_of(tmp_path / "filled.csv")
    assert [row["patient"] for row in filled] == ["a"] * 60 + ["c"] * 60
    assert float(filled[17]["visits"]) == pytest.approx(2, abs=1.5)
    assert float(filled[34]["visits"]) == pytest.approx(12, abs=3)
    (tmp_path / "dna.fasta").write_text(">x\nACGTNACGT\n>y\nAACCNN\n")
    fasta = tmp_path / "dna.fasta"
    text = call("learn", fasta, "--model", "hidden_markov", "-p", "missing=N", "--out", tmp_path / "dna")
    assert "2 sequences of 6 to 9 steps" in text
    assert "3 missing" in text
    call("impute", fasta, "--run", tmp_path / "dna", "--out", tmp_path / "x.csv")
    filled = rows_of(tmp_path / "x.csv")
    assert [row["sequence"] for row in filled] == ["x"] * 9 + ["y"] * 6
    steps = "".join(row["symbol"] for row in filled)
    assert steps[:4] + steps[5:13] == "ACGTACGTAACC"
    assert set(steps) == set("ACGT")
    assert "cross_validation" in fails(
        "learn", path, "--model", "hidden_markov", "--criterion", "cross_validation", "--out", tmp_path / "cv"
    )


class Interrupted(BaseException):
    """The process ends in the middle of something."""


@pytest.mark.parametrize("turns", [1, 30, 45])
def test_an_interrupted_run_ends_as_an_uninterrupted_one(table, tmp_path, monkeypatch, turns):
    plan = latent_data.LearnPlan("gaussian_mixture", (2, 3), parameters={"restarts": 2, "tolerance": 1e-10})
    data = latent_data.read_data(table, plan)
    whole = latent.learn_run(data, tmp_path / "whole", plan)
    maximize, left = MixtureOfGaussians.maximize, [turns]

    def breaks(self, statistics, parameters):
        left[0] -= 1
        if left[0] < 0:
            raise Interrupted
        return maximize(self, statistics, parameters)

    with monkeypatch.context() as patched:
        patched.setattr(MixtureOfGaussians, "maximize", breaks)
        with pytest.raises(Interrupted):
            latent.learn_run(data, tmp_path / "broken", plan)
    again = latent.learn_run(data, tmp_path / "broken", plan, resume=True)
    assert again == whole
    files = [tmp_path / name / "model" / "model.safetensors" for name in ("whole", "broken")]
    assert files[0].read_bytes() == files[1].read_bytes()


def test_what_is_refused(table, run, tmp_path):
    out = tmp_path / "run"
    assert "did you mean 'gaussian_mixture'" in fails(
        "learn", table, "--model", "gausian_mixture", "--out", out
    )
    assert "LOW-HIGH" in fails("learn", table, "--components", "many", "--out", out)
    assert "has no parameter 'colour'" in fails("learn", table, "-p", "colour=1", "--out", out)
    assert "unknown criterion" in fails("learn", table, "--criterion", "dic", "--out", out)
    assert "--resume" in fails("learn", table, "--model", "gaussian_mixture", "--out", run[0])
    assert "--target" in fails("learn", table, "--model", "partial_least_squares", "--out", out)
    assert not out.exists()
    strange = tmp_path / "strange.csv"
    strange.write_text("height,weight,girth,town\n1,2,3,Rome\n")
    call("impute", strange, "--run", run[0], "--out", tmp_path / "x.csv")
    assert rows_of(tmp_path / "x.csv")[0]["town"] == "Rome"  # a column that the model does not have
    call("learn", table, "--model", "bayesian_network", "--out", out)
    words = ("impute", strange, "--run", out, "--out", tmp_path / "x.csv")
    assert "'Rome' was not among the symbols" in fails(*words)
    call(*words, "--unseen", "missing")
    assert rows_of(tmp_path / "x.csv")[0]["town"] in ("Ulm", "Bonn")


def test_a_folder_of_parquet_is_one_table(table, run, tmp_path):
    rows = pandas.read_csv(table)
    (tmp_path / "parts").mkdir()
    for name, part in (("b", rows[40:]), ("a", rows[:40])):
        part.to_parquet(tmp_path / "parts" / f"{name}.parquet")
    out = tmp_path / "run"
    call("learn", tmp_path / "parts", "--model", "mixed_mixture", "--out", out)
    call("learn", table, "--model", "mixed_mixture", "--out", tmp_path / "whole")
    found = [json.loads((each / "learned.json").read_text()) for each in (out, tmp_path / "whole")]
    assert found[0]["rows"] == len(rows)
    assert found[0]["sizes"] == found[1]["sizes"]
    call("impute", tmp_path / "parts", "--run", out, "--out", tmp_path / "filled.csv")
    assert len(rows_of(tmp_path / "filled.csv")) == len(rows)
    rows[:5].rename(columns={"height": "depth"}).to_parquet(tmp_path / "parts" / "c.parquet")
    assert "other columns than a.parquet" in fails("learn", tmp_path / "parts", "--out", tmp_path / "x")
    (tmp_path / "nothing").mkdir()
    assert "without Parquet files" in fails("learn", tmp_path / "nothing", "--out", tmp_path / "x")


def test_reasons_for_leaving_out_all_columns_are_said_once(tmp_path):
    path = tmp_path / "votes.csv"
    path.write_text(
        "\n".join(["a,b,c,d,e,f", *(",".join("yn"[(k >> j) & 1] for j in range(6)) for k in range(9))])
    )
    message = fails("learn", path, "--model", "gaussian_mixture", "--out", tmp_path / "x")
    assert "('a', 'b', 'c', 'd', 'e', ...: the model takes numbers)" in message


@pytest.mark.parametrize("model", ["gaussian_mixture", "probabilistic_pca", "hidden_markov", "mixed_mixture"])
def test_columns_of_which_nothing_can_be_learned_are_left_out(tmp_path, model):
    path, out = tmp_path / "odd.csv", tmp_path / "run"
    rows = [f"{GENERATOR.normal():.3f},{GENERATOR.normal():.3f},3.5,,{'uv'[k % 2]}" for k in range(30)]
    path.write_text("\n".join(["a,b,flat,empty,word", *rows, ",,,,"]) + "\n")
    text = call("learn", path, "--model", model, "--out", out)
    assert "left out, as there are no values: empty" in text
    assert ("left out, as there is a single value: flat" in text) == (model != "mixed_mixture")
    call("impute", path, "--run", out, "--out", tmp_path / "filled.csv")
    last = rows_of(tmp_path / "filled.csv")[-1]
    assert last["a"]
    assert not last["empty"]
    assert bool(last["flat"]) == (model == "mixed_mixture")


def test_sizes_that_are_too_large_are_told_beside_the_others(table, tmp_path):
    words = ("learn", table, "--model", "probabilistic_pca", "-p", "max_iterations=5", "--components")
    said = json.loads(call(*words, "2-4", "--out", tmp_path / "run", "--json"))
    assert said["chosen"] < 4
    assert "4 factors are more than the 3 columns" in said["sizes"][2]["error"]
    told = fails(*words, "4,5", "--out", tmp_path / "none")
    assert "no size could be learned: 4 factors are more" in told
    assert not (tmp_path / "none").exists()


def test_tables_that_are_too_small(tmp_path):
    path = tmp_path / "one.csv"
    path.write_text("a,b,word\n1.5,2.5,u\n")
    told = fails("learn", path, "--model", "gaussian_mixture", "--out", tmp_path / "run")
    assert "from no column of this table ('a', 'b': there is a single value; 'word'" in told
    assert "'word': the model takes numbers); use mixed_mixture" in told
    told = fails(
        "learn", path, "--model", "partial_least_squares", "--target", "a", "--out", tmp_path / "run"
    )
    assert "target 'a' cannot be predicted by PartialLeastSquares, as there is a single value" in told
    # A network whose variables have one state each has no free parameters.
    call("learn", path, "--model", "bayesian_network", "--out", tmp_path / "network")
    assert hf.load(tmp_path / "network").tables_["word"].tolist() == [1.0]


@pytest.fixture
def shards(table, tmp_path, monkeypatch) -> Path:
    """The table as a folder of Parquet files, sorted so that the first does not show what the others hold."""
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    frame = pandas.read_csv(table).sort_values("height")
    frame["visits"] = np.where(frame["height"] > frame["height"].median(), 7, 0)
    (tmp_path / "shards").mkdir()
    for k, part in enumerate(np.array_split(np.arange(ROWS), 4)):
        own = pyarrow.Table.from_pandas(frame.iloc[part], preserve_index=False)
        parquet.write_table(own, tmp_path / "shards" / f"part-{k}.parquet", row_group_size=20)
    monkeypatch.setattr(latent_data, "MOST_CELLS", 500)
    return tmp_path / "shards"


@pytest.mark.parametrize(
    "model",
    ["gaussian_mixture", "mixed_mixture", "factor_analysis", "probabilistic_pca", "bayesian_network"],
)
def test_a_folder_of_parquet_is_learned_shard_by_shard(shards, tmp_path, monkeypatch, model):
    """The same kinds, symbols and likelihood as of one table in memory, and a page; rows are opened again each turn."""
    options = ["--model", model, "--drop", "height,weight,girth"] if model[0] == "b" else ["--model", model]
    said = json.loads(call("learn", shards, *options, "--out", tmp_path / "parts", "--report", "--json"))
    assert said["shards"] == 8
    monkeypatch.setattr(latent_data, "MOST_CELLS", 10**6)
    whole = json.loads(call("learn", shards, *options, "--out", tmp_path / "whole", "--json"))
    assert "shards" not in whole
    for name in ("rows", "columns", "used", "missing", "left_out"):
        assert said[name] == whole[name]
    assert sorted(said["patterns"], key=str) == sorted(whole["patterns"], key=str)
    one, other = said["sizes"][0], whole["sizes"][0]
    assert one["log_likelihood"] == pytest.approx(other["log_likelihood"], abs=0.05)
    assert one["criteria"] == pytest.approx(other["criteria"], abs=0.2)
    page = (tmp_path / "parts" / "report.html").read_text()
    assert "Learned from 8 shards" in page
    assert "patterns of missingness" in page or model[0] == "b"
    if model == "factor_analysis":
        last = pandas.concat(map(pandas.read_parquet, sorted(shards.iterdir())))["height"].reset_index(
            drop=True
        )
        assert f"<td>{last.idxmax()}</td>" in page.split("<h2>Outliers</h2>")[1]


def test_what_needs_rows_in_memory_is_refused_with_the_reason(shards, tmp_path):
    out = tmp_path / "run"
    for options, reason in [
        (["--model", "hidden_markov", "--id", "town"], "hidden_markov takes whole sequences; in"),
        (
            ["--model", "partial_least_squares", "--target", "girth"],
            "use factor_analysis, which predicts any",
        ),
        (["--criterion", "cross_validation", "--components", "1-2"], "choose bic, aic or icl"),
    ]:
        assert reason in fails("learn", shards, *options, "--out", out)
        assert not out.exists()


def test_an_interrupted_run_of_shards_ends_as_an_uninterrupted_one(shards, tmp_path, monkeypatch):
    plan = latent_data.LearnPlan("mixed_mixture", (2,), parameters={"tolerance": 1e-9})
    data = latent_data.read_data(shards, plan)
    whole = latent.learn_run(data, tmp_path / "whole", plan)
    ready, calls = MixtureOfColumns.expected_statistics, []

    def breaks(self, *given):
        calls.append(0)
        if len(calls) > 20:
            raise KeyboardInterrupt
        return ready(self, *given)

    with monkeypatch.context() as patched:
        patched.setattr(MixtureOfColumns, "expected_statistics", breaks)
        with pytest.raises(KeyboardInterrupt):
            latent.learn_run(data, tmp_path / "broken", plan)
    assert list((tmp_path / "broken").glob("size-2/checkpoint/*.safetensors"))
    again = latent.learn_run(latent_data.read_data(shards, plan), tmp_path / "broken", plan, resume=True)
    assert again.as_dict() == whole.as_dict()
    name = "model/model.safetensors"
    assert (tmp_path / "broken" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_documents_have_nothing_to_fill_in(tmp_path):
    (tmp_path / "c.ldac").write_text("2 0:3 1:1\n2 1:2 2:4\n1 0:5\n")
    (tmp_path / "c.vocab").write_text("a\nb\nc\n")
    call("learn", tmp_path / "c.ldac", "--model", "lda", "--topics", "2", "--out", tmp_path / "run")
    with pytest.raises(InputError, match="none is missing"):
        imputing.impute_run(tmp_path / "run", tmp_path / "c.ldac")
    plan = latent_data.LearnPlan("lda", (2,), reader={"drop": ["a"]})
    with pytest.raises(InputError, match="leave out: drop"):
        latent_data.read_data(tmp_path / "c.ldac", plan)


def test_topics_are_shown_with_their_words(data_path, tmp_path):
    path = data_path / "incomplete" / "lda_reuters.ldac.txt.xz"
    options = ["--model", "lda", "--topics", "4", "--report", "-p", "max_iterations=5", "--out"]
    assert "395 documents, 4,258 words, 84,010 tokens" in call("learn", path, *options, tmp_path / "run")
    page = (tmp_path / "run" / "report.html").read_text()
    assert page.count('class="card"') == 4
    assert ", ".join(hf.load(tmp_path / "run").top_words()[0]) in page
    assert "UK: " in page


@pytest.mark.parametrize(
    ("model", "says"), [("bayesian_network", "independent"), ("markov_network", "interacts")]
)
def test_what_is_taken_for_granted_without_a_structure_is_said(tmp_path, model, says):
    (tmp_path / "table.csv").write_text("rain,wet\n" + "no,no\nyes,yes\n,yes\n" * 4)
    text = call("learn", tmp_path / "table.csv", "--model", model, "--out", tmp_path / "run", "--report")
    assert re.search(f"no structure is given: .*{says}", text)
    page = (tmp_path / "run" / "report.html").read_text()
    assert f"{says}" in page.split("<h2>Learning</h2>")[0]
    assert "<th>size</th>" not in page
