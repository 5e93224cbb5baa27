"""``hiddenfield relational`` as a user meets it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from hiddenfield.fields.relational import graph_scheme
from hiddenfield.models.relational import evaluate
from tests.cli.calling import call, done
from tests.models.relational.test_library_sets import SETS, small_weights

EXAMPLES = Path(__file__).resolve().parents[2] / "docs" / "examples"
SCHEME, EDGES = EXAMPLES / "network.toml", EXAMPLES / "florentine.csv"


def test_infer_lists_all_phases(capsys):
    words = ["relational", "infer", SCHEME, "--size", 30, "-t", "edge=-2", "-t", "triangle=0.2"]
    code, out, err = call(capsys, *words, "--json")
    result = json.loads(out)
    assert (code, err) == (0, "")
    assert result["phases"] == 2
    assert (result["conventions"]["weights"], result["conventions"]["bindings"]) == ("ground", "merged")
    points = result["fixed_points"]
    assert [set(point) for point in points] == [
        {"log_partition", "marginals", "stable", "expected_counts"}
    ] * len(points)
    assert [p["log_partition"] for p in points] == sorted((p["log_partition"] for p in points), reverse=True)
    stable = sorted(p["marginals"]["exist"]["1"] for p in points if p["stable"])
    assert stable == pytest.approx([0.131, 0.956], abs=1e-3)
    assert set(points[0]["expected_counts"]) == {"edge", "triangle"}
    assert result["status"].startswith("2 phases; the first has the highest log Z")
    assert "near-degenerate" in result["warnings"][0]
    code, out, _ = call(capsys, *words)
    assert code == 0
    assert "WARNING: 2 phases" in out
    assert "log Z 56.943765, stable, the dominant phase" in out
    assert "once for each different ground feature" in out


def test_infer_predicts_unknown_pairs(capsys, tmp_path):
    edges = tmp_path / "edges.csv"
    edges.write_text("a,b,1\nb,c,1\na,c,?\nc,d,0\n")
    words = ["relational", "infer", SCHEME, "--network", edges, "-t", "edge=-1", "-t", "triangle=1"]
    code, out, _ = call(capsys, *words, "--json")
    (prediction,) = json.loads(out)["predictions"]
    assert (code, prediction["pair"]) == (0, ["a", "c"])
    assert prediction["probability"] == pytest.approx(0.5)  # -1 + 1 triangle
    code, out, _ = call(capsys, *words)
    assert "a - c  0.5000" in out


def test_infer_takes_attributes_of_a_network_as_given(capsys, tmp_path):
    """As learning does: of pairs that are independent given the attributes, the probabilities are exact."""
    scheme, edges, vertices = (tmp_path / name for name in ("scheme.toml", "edges.csv", "vertices.csv"))
    scheme.write_text(
        'types = ["vertex"]\n[[attributes]]\nname = "exist"\nof = ["vertex", "vertex"]\n'
        '[[attributes]]\nname = "sex"\nof = "vertex"\nvalues = ["f", "m"]\n[[features]]\nlibrary = "edge"\n'
        '[[features]]\nname = "same"\narguments = ["a", "b"]\nexpression = "exist[a, b] & (sex[a] == sex[b])"\n'
    )
    edges.write_text("a,b\nb,c\n")
    vertices.write_text("name,sex\na,f\nb,f\nc,m\nd,m\n")
    words = ["relational", "infer", scheme, "--network", edges, "--vertices", vertices]
    code, out, _ = call(capsys, *words, "-t", "edge=-1", "-t", "same=2", "--json")
    (point,) = json.loads(out)["fixed_points"]
    marginals = {name: row["1"] for name, row in point["marginals"].items()}
    assert code == 0
    assert marginals == pytest.approx(
        {
            "exist[sex=f, sex=f]": 0.731059,
            "exist[sex=f, sex=m]": 0.268941,
            "exist[sex=m, sex=m]": 0.731059,
        },
        abs=1e-6,
    )


def test_learn_with_a_report(capsys, tmp_path):
    words = ["relational", "learn", SCHEME, "--network", EDGES, "--size", 16, "--starts", 1]
    code, out, err = call(capsys, *words, "--json", "--out", tmp_path / "report.html")
    result = json.loads(out)
    assert (code, err, result["converged"], result["phases"]) == (0, "", True, 1)
    assert result["theta"] == pytest.approx({"edge": -1.676, "triangle": 0.159}, abs=2e-3)
    assert result["standard_errors"] == pytest.approx({"edge": 0.355, "triangle": 0.604}, abs=2e-3)
    page = (tmp_path / "report.html").read_text()
    assert "standard error" in page
    assert "per ground feature" in page
    assert "http://" not in page.replace("http-equiv", "")


def test_learn_by_other_methods_with_a_weight_held(capsys):
    words = [
        "relational",
        "learn",
        SCHEME,
        "--network",
        EDGES,
        "--size",
        16,
        "--fix",
        "triangle=0",
        "--starts",
        1,
    ]
    for method in ("pseudo_likelihood", "monte_carlo", "contrastive_divergence"):
        code, out, _ = call(capsys, *words, "--method", method, "--json")
        assert code == 0
        result = json.loads(out)
        assert result["theta"]["edge"] == pytest.approx(-1.609, abs=0.03)
        assert (result["theta"]["triangle"], result["standard_errors"]["triangle"]) == (0.0, 0.0)


def test_learn_warns_of_a_degenerate_model(capsys, tmp_path):
    """Cliques: the pseudo-likelihood's model is almost complete; its value is no log-likelihood."""
    edges = tmp_path / "cliques.csv"
    pairs = [(6 * c + i, 6 * c + j) for c in range(8) for j in range(6) for i in range(j)]
    edges.write_text("\n".join(f"{i},{j}" for i, j in [*pairs, (5, 6), (11, 12)]))
    words = ["relational", "learn", SCHEME, "--network", edges, "--method", "pseudo_likelihood"]
    code, out, _ = call(capsys, *words, "--json")
    result = json.loads(out)
    assert code == 0
    assert result["converged"]
    assert "log_likelihood" not in result
    assert result["log_pseudo_likelihood"] < 0
    assert any("far from the data" in text for text in result["warnings"])
    assert result["simulation"]["agrees"] is False
    code, out, _ = call(capsys, *words)
    assert "log pseudo-likelihood -" in out
    assert "log-likelihood" not in out
    assert "WARNING: " in out
    assert "far from the data" in out


@pytest.mark.parametrize("bindings", [None, "merged", "ordered"])
def test_features_of_one_shape(capsys, tmp_path, bindings):
    names = ("edge", "triangle", "open_chain")
    scheme = tmp_path / "scheme.toml"
    features = "\n".join(f'[[features]]\nlibrary = "{name}"' for name in names)
    scheme.write_text(
        f'types = ["vertex"]\n[[attributes]]\nname = "exist"\nof = ["vertex", "vertex"]\n{features}'
    )
    chosen = [] if bindings is None else ["--bindings", bindings]
    weights = [word for name in names for word in ("-t", f"{name}=-0.1")]
    code, out, _ = call(capsys, "relational", "infer", scheme, "--size", 6, *weights, *chosen, "--json")
    result = json.loads(out)
    assert (code, result["phases"], result["status"]) == (0, 1, "one phase")
    assert result["conventions"]["bindings"] == (bindings or "cluster")
    words = ["relational", "learn", scheme, "--network", EDGES, "--starts", 1, *chosen, "--json"]
    code, out, _ = call(capsys, *words)
    assert (code, json.loads(out)["converged"]) == (0, True)


@pytest.mark.parametrize("names", SETS, ids="-".join)
def test_every_set_of_ready_features(capsys, tmp_path, names):
    """What is printed is what Python computes, for all pairs and triples of the library; and a fit is no exception."""
    scheme = tmp_path / "scheme.toml"
    features = "\n".join(f'[[features]]\nlibrary = "{name}"' for name in names)
    scheme.write_text(f'types = ["v"]\n[[attributes]]\nname = "exist"\nof = ["v", "v"]\n{features}')
    theta = dict(zip(names, small_weights(names), strict=True))
    weights = [word for name, weight in theta.items() for word in ("-t", f"{name}={weight}")]
    found = done(capsys, "relational", "infer", scheme, "--size", 5, *weights)
    expected = evaluate(graph_scheme(*names), 5, theta)
    assert (found["phases"], found["theta"]) == (1, theta)
    assert found["fixed_points"][0]["log_partition"] == pytest.approx(float(expected.log_partition), abs=1e-7)
    fit = done(capsys, "relational", "learn", scheme, "--network", EDGES, "--method", "pseudo_likelihood")
    assert list(fit["theta"]) == list(names)
    assert fit["converged"] == (not {"open_chain", "triangle", "star2"} <= set(names)), fit["status"]


def test_learn_says_where_there_is_no_maximum(capsys, tmp_path):
    edges = tmp_path / "one.csv"
    edges.write_text("a b\nb c\na c\n")
    code, out, _ = call(capsys, "relational", "learn", SCHEME, "--network", edges, "--starts", 1)
    assert code == 0
    assert "no stationary point" in out
    assert "not estimates" in out


def test_landscape_is_drawn(capsys, tmp_path):
    words = ["relational", "landscape", SCHEME, "--network", EDGES, "--size", 16, "--x", "edge=-3:0"]
    words += ["--y", "triangle=-1:1", "--points", 8, "--runs", 1]
    plot, page = tmp_path / "map.png", tmp_path / "map.html"
    code, out, _ = call(capsys, *words, "--json", "--plot", plot, "--out", page)
    result = json.loads(out)
    assert code == 0
    assert (len(result["log_likelihood"]), len(result["log_likelihood"][0])) == (8, 8)
    assert result["best"] == pytest.approx([-1.676, 0.159], abs=2e-3)
    assert plot.stat().st_size > 5000
    assert "weight of edge (per ground feature)" in page.read_text()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a,b\nb,b\n", "edges.csv, line 2: a self-loop at 'b'"),
        (
            "source,target\na,b\nb,a\n",
            "line 3: the pair 'b', 'a' is there already in line 2; remove one (or declare ordered pairs",
        ),
        ("a,b,c,d\n", "line 1: expected two names"),
        ("a,b,yes\n", "line 1: the value of a pair is a number of at least 0, or ?"),
        ("a,b,-2\n", "line 1: the value of a pair is a number of at least 0, or ?"),
        ("# nothing\n", "there are no vertices"),
    ],
)
def test_bad_networks_are_one_line(capsys, tmp_path, content, message):
    edges = tmp_path / "edges.csv"
    edges.write_text(content)
    code, out, err = call(capsys, "relational", "learn", SCHEME, "--network", edges)
    assert (code, out) == (1, "")
    assert message in err
    assert err.count("\n") == 1


def test_vertices_have_values_and_names(capsys, tmp_path):
    edges, vertices, scheme = tmp_path / "edges.csv", tmp_path / "vertices.csv", tmp_path / "scheme.toml"
    scheme.write_text(
        SCHEME.read_text()
        + '\n[[attributes]]\nname = "sex"\nof = "vertex"\nvalues = ["f", "m"]\n'
        + '[[features]]\nname = "same"\narguments = ["a", "b"]\nexpression = "exist[a, b] & (sex[a] == sex[b])"\n'
    )
    edges.write_text("a,b\nb,c\n")
    vertices.write_text("name,sex,age\na,f,3\nb,f,4\nc,m,5\nd,m,6\n")
    words = ["relational", "learn", scheme, "--network", edges, "--vertices", vertices]
    words += ["--method", "pseudo_likelihood", "--fix", "triangle=0", "--fix", "edge=-1"]
    code, out, _ = call(capsys, *words)
    assert code == 0
    assert "4 vertex" in out
    words[words.index("pseudo_likelihood")] = "bethe"  # given their values, pairs are independent: the same
    learned = [json.loads(call(capsys, *words, *more, "--json")[1]) for more in ((), ("--joint",))]
    assert learned[0]["theta"]["same"] == pytest.approx(float(re.search(r"same +(\S+)", out)[1]), abs=1e-3)
    assert learned[1]["theta"]["same"] != pytest.approx(learned[0]["theta"]["same"], abs=1e-2)
    edges.write_text("a,b\nb,z\n")
    code, _, err = call(capsys, *words)
    assert (code, "line 2: the vertex 'z' is not in" in err) == (1, True)
    edges.write_text("a,b\n")
    vertices.write_text("name,sex\na,f\nb,x\n")
    code, _, err = call(capsys, *words)
    assert (code, "line 3: attribute 'sex' has no value 'x'; it has f, m" in err) == (1, True)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["infer", "missing.toml", "--size", 3], "missing.toml: no such file"),
        (["infer", SCHEME, "--size", 3, "-t", "edge=1"], "give a weight for triangle"),
        (["infer", SCHEME, "-t", "edge=1", "-t", "triangle=0"], "how many vertices"),
        (
            ["infer", SCHEME, "--size", 3, "-t", "star=1"],
            "unknown feature 'star'; choose from: edge, triangle",
        ),
        (["infer", SCHEME, "--size", 1, "-t", "edge=1", "-t", "triangle=0"], "1 vertex is too few"),
        (
            ["infer", SCHEME, "--size", 5, "-t", "edge=x", "-t", "triangle=0"],
            "is a finite number, got 'x' for 'edge'",
        ),
        (["learn", SCHEME], "give the network to learn from"),
        (["learn", SCHEME, "--network", EDGES, "--size", 10**9], "too large to be held"),
        (["learn", SCHEME, "--network", "none.csv"], "none.csv: no such file"),
        (["learn", SCHEME, "--network", EDGES, "--method", "magic"], "choose from: bethe"),
        (["learn", SCHEME, "--network", EDGES, "--size", 3], "names 15 vertices, more than the given size 3"),
        (["learn", SCHEME, "--network", EDGES, "--out", "report.pdf"], "must end in .html"),
        (
            ["landscape", SCHEME, "--network", EDGES, "--x", "edge", "--y", "triangle=0:1"],
            "expects FEATURE=LOW:HIGH",
        ),
        (
            ["landscape", SCHEME, "--network", EDGES, "--x", "edge=0:1", "--y", "edge=0:1"],
            "different features",
        ),
    ],
)
def test_mistakes(capsys, words, message):
    code, out, err = call(capsys, "relational", *words)
    assert (code, out) == (1, "")
    assert message in err


def test_bad_schemes_name_the_feature(capsys, tmp_path):
    scheme = tmp_path / "scheme.toml"
    scheme.write_text(SCHEME.read_text().replace("exist[b, c]", "exist[b, d]"))
    code, _, err = call(capsys, "relational", "infer", scheme, "--size", 3)
    assert code == 1
    assert "feature 'triangle'" in err
    assert "'d' is not among the arguments" in err


def test_sample_writes_networks_that_learn_reads(capsys, tmp_path):
    words = ["relational", "sample", SCHEME, "--size", 12, "-t", "edge=-1", "-t", "triangle=0", "--number", 3]
    out = tmp_path / "drawn"
    result = done(capsys, *words, "--seed", 4, "--out", out)
    again = done(capsys, *words, "--seed", 4)
    assert result["networks"] == again["networks"]
    assert len(result["files"]) == 3
    lines = (out / "network-2.csv").read_text().splitlines()
    assert len(lines) - 1 == result["networks"][1]["edge"]
    learned = done(
        capsys, "relational", "learn", SCHEME, "--network", result["files"][0], "--size", 12, "--starts", 1
    )
    assert "theta" in learned
    code, _, err = call(capsys, *words, "--out", out)
    assert code == 1
    assert "is there already" in err


def test_goodness_of_fit_with_a_plot(capsys, tmp_path):
    plot = tmp_path / "fit.png"
    words = [
        "relational",
        "goodness",
        SCHEME,
        "--network",
        EDGES,
        "--size",
        16,
        "-t",
        "edge=-1.68",
        "-t",
        "triangle=0.16",
    ]
    result = done(capsys, *words, "--number", 20, "--plot", plot)
    assert set(result) == {"degree", "shared_partners", "distance"}
    assert sum(result["degree"]["observed"]) == 16
    assert plot.stat().st_size > 1000


def test_learn_by_sampling_reports_criteria_and_chains(capsys):
    result = done(
        capsys, "relational", "learn", SCHEME, "--network", EDGES, "--size", 16, "--method", "monte_carlo"
    )
    assert result["log_likelihood"] == pytest.approx(-54.04, abs=0.1)
    assert result["aic"] == pytest.approx(112.1, abs=0.2)
    assert result["diagnostics"]["mixed"]
    assert result["diagnostics"]["r_hat"]["triangle"] < 1.1


TWO_MODE = """
types = ["woman", "event"]
[[attributes]]
name = "attends"
of = ["woman", "event"]
[[features]]
library = "edge"
[[features]]
library = "b1star2"
"""


def test_two_mode_networks(capsys, tmp_path):
    scheme, edges, out = tmp_path / "scheme.toml", tmp_path / "edges.csv", tmp_path / "drawn"
    scheme.write_text(TWO_MODE)
    sizes = ["--size", "woman=12", "--size", "event=9"]
    weights = ["-t", "edge=-1", "-t", "b1star2=0.1"]
    words = ["relational", "sample", scheme, *sizes, *weights, "--seed", 3, "--out", out, "--json"]
    code, text, err = call(capsys, *words)
    assert (code, err) == (0, "")
    assert json.loads(text)["size"] == {"woman": 12, "event": 9}
    edges = out / "network-1.csv"
    assert edges.read_text().startswith("woman,event\n")
    for method in ("pseudo_likelihood", "bethe"):
        words = ["relational", "learn", scheme, "--network", edges, *sizes, "--method", method, "--starts", 1]
        code, text, err = call(capsys, *words, "--json")
        assert (code, err, json.loads(text)["converged"]) == (0, "", True)
    words = ["relational", "goodness", scheme, "--network", edges, *sizes, *weights, "-n", 5]
    code, text, err = call(capsys, *words)
    assert (code, err) == (0, "")
    assert "woman_degree" in text
    assert "event_degree" in text
    code, text, err = call(capsys, "relational", "infer", scheme, "--size", "woman=9", *weights)
    assert (code, "how many entities of type 'event'" in err) == (1, True)
    code, text, err = call(capsys, "relational", "infer", scheme, "--size", "many", *weights)
    assert (code, "--size expects a number of vertices, or TYPE=NUMBER, got 'many'" in err) == (1, True)


def test_counts_of_ties_are_ties(tmp_path: Path) -> None:
    """A third column may count: Sampson's monks named each other one to three times."""
    from hiddenfield.fields.relational import graph_scheme
    from hiddenfield.models.relational import read_network

    path = tmp_path / "edges.csv"
    path.write_text("tail,head,nominations\na,b,3\nb,c,0.5\nc,d,0\nd,e,?\n")
    network = read_network(graph_scheme("edge"), path)
    assert [len(rows) for rows in (network.pairs["exist"], network.unknown["exist"])] == [2, 1]
