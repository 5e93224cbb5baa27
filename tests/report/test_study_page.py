"""Pages of results: conclusion first, the protocol beside every number, and plainly what falls short."""

from __future__ import annotations

import re

import msgspec
import pytest

from hiddenfield.evaluation import corrected_t_test
from hiddenfield.report.study import Row, Scale, pictures_of, results_page
from hiddenfield.report.study.tables import number
from tests.evaluation.made_up import RESULTS, graphs, ingredients, molecules, published, result, row, strings


def section(page, heading):
    """Return the lines below a heading, up to the next of its level."""
    found = re.search(rf"^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", page, flags=re.M | re.S)
    return found[1].strip().splitlines() if found else []


@pytest.mark.parametrize("name", RESULTS)
def test_every_page_tells_all_there_is_to_know(name):
    content = RESULTS[name]()
    page = results_page(content)
    headings = re.findall(r"^## (.*)$", page, flags=re.M)
    order = [
        "Results", "Comparison with published figures", "Where this falls short", "Plots", "Appendix: every number",
        "Appendix: protocols", "Appendix: how it was run",
    ]  # fmt: skip
    assert [heading for heading in order if heading in headings] == headings
    numbers = [line for line in section(page, "Appendix: every number") if line.startswith("|")]
    protocols = "".join(section(page, "Appendix: protocols"))
    for entry in content.rows:
        line = next(line for line in numbers if number(entry.shown.mean) in line and line.count("|") > 4)
        # Whether a number is honest can be read beside it, and how it was obtained at the end.
        assert ("(optimistic)" in line) == (entry.as_published is not None), line
        assert entry.protocol_text.split(";")[0] in protocols
    assert "seed 0" in page
    for part in ("2026-02-03", "abc1234", "A GPU", "16 cores", "128 GiB", "torch 2.10", "device cuda"):
        assert part in "".join(section(page, "Appendix: how it was run"))
    assert "Linux;" in page
    assert f"hiddenfield reproduce {name}" in page
    assert "12 test structures (6.4%) have a copy in training" in page
    assert max(line.count("|") for line in page.splitlines()) <= 8


def test_a_page_begins_with_the_conclusion():
    def first(content):
        return results_page(content).splitlines()[2]

    assert first(graphs()) == (
        "Under the protocol of the papers, which selects on the reported folds and is too optimistic, all 5 published "
        "figures are reached; without any selection on the test parts, the published figure is reached. The best "
        "network beats every baseline in 5 of 5 comparisons."
    )
    assert first(molecules()) == (
        "Both published figures are reached. The best network, loopy_bp (T = 4), has a root mean square error of "
        "1.2600; the best baseline, labels + ridge, has 1.6200."
    )
    assert first(ingredients()).startswith(
        "Ingredients that change the accuracy significantly: on ENZYMES “readout "
    )
    figure = {"value": 0.9, "source": "somebody", "protocol": ""}
    rows = [row(data, "m", "nested", 0.5 + 0.1 * k, figures=[figure]) for k, data in enumerate("AB")]
    assert first(result("x", rows)) == (
        "None of 2 published figures is reached (missed: A by 0.4000, B by 0.3000). The best network beats every "
        "baseline in 1 of 2 comparisons; labels + logistic is better than all networks on A."
    )


def test_below_the_conclusion_there_is_one_small_table():
    """A collection is one line, by the model with the best mean, not the best of every set."""
    scop = {("1.1", "m"): 0.9, ("1.1", "n"): 0.6, ("1.2", "m"): 0.5, ("1.2", "n"): 0.7}
    rival = [{"value": 0.9, "source": "GaKCo, in a paper", "protocol": ""}]
    rows = [
        row(
            f"SCOP {family}",
            model,
            "given split",
            mean,
            in_sight=True,
            figures=rival if family == "1.1" else [],
        )
        for (family, model), mean in scop.items()
    ]
    rows += [published(row("MUTAG", "m", "nested", 0.7), 0.8, 0.85), row("MUTAG", "m", "nested", 0.7)]
    over_all = {"value": 0.95, "source": "structure2vec, mean of 54 families", "protocol": ""}
    content = result("x", rows, averages=[{"data": "SCOP", "figures": [over_all]}])
    table = [
        line for line in results_page(content).split("## Results")[0].splitlines() if line.startswith("| ")
    ]
    assert table == [
        "| data | protocol | best network here | best baseline here | published |",
        "| MUTAG | as published (optimistic) | **0.8000 m** |  | 0.8500 structure2vec |",
        "| MUTAG | nested | **0.7000 m** | 0.5500 labels + logistic |  |",
        "| SCOP, mean of 2 sets | given split | **0.7000 m†** | 0.5500 labels + logistic "
        "| 0.9000 GaKCo (1 sets); 0.9500 structure2vec (54 families) |",
    ]
    assert results_page(content).splitlines()[2].startswith("Under the protocol of the papers")


def test_models_by_data_and_the_best_in_bold():
    lines = section(results_page(graphs()), "Results")
    heads = [line for line in lines if line.startswith("| data")]
    assert heads[0].endswith("| *structure2vec* |")
    assert heads[1].endswith("| *labels + logistic* | *WL-3 + logistic* |")
    assert heads[2] == "| data | *no arcs, same head* | *GIN* |"
    line = next(line for line in lines if line.startswith("| NCI1"))
    assert line.endswith("| **0.8742 ± 0.0200** | 0.8372 |")
    assert any("**these numbers are too optimistic.** Protocol: 10 splits" in line for line in lines)
    assert any(
        line.startswith("Settings were selected within each training part, never on") for line in lines
    )


def test_many_sets_go_down_and_rounds_are_models():
    lines = section(results_page(strings()), "Results")
    assert len({line.split("|")[1] for line in lines if line.startswith("| SCOP")}) == 12
    assert [line for line in lines if line.startswith("### ")] == [
        "### Given split",
        "### Random folds",
        "### Leave one gene out",
    ]
    lines = section(results_page(molecules()), "Results")
    assert "| loopy_bp (T = 4) | **1.2600 ± 0.0200** |" in lines
    assert "| *circular fingerprints* | 1.4000 |" in lines


def test_too_many_columns_are_broken_up():
    rows = [row(data, f"model_{k}", "nested", 0.5) for data in ("A", "B") for k in range(9)]
    page = results_page(
        result("x", [{**entry, "data": f"{entry['data']}{k % 3}"} for k, entry in enumerate(rows)])
    )
    assert max(line.count("|") for line in page.splitlines()) <= 8


def test_both_errors_and_the_number_of_weights():
    lines = section(results_page(molecules()), "Appendix: every number")
    assert "| model | remark | root mean square error | 95 % interval | MAE | weights |" in lines
    assert "| *WL-3 + ridge* |  | 1.6200 ± 0.0200 | 1.5800 to 1.6600 | 1.1340 | 21,043 |" in lines
    assert any(
        line.startswith("| loopy_bp (T = 4) |") and line.endswith("| 0.8820 | 9,400 |") for line in lines
    )


def test_a_learning_curve_is_a_table():
    curve = [
        {
            "share": share,
            "train": 100 * share,
            "values": [0.5, 0.7],
            "baselines": {"labels + ridge": [0.3, 0.4]},
        }
        for share in (0.5, 1.0)
    ]
    lines = section(
        results_page(result("x", [row("A", "m", "nested", 0.6, learning_curve=curve)])),
        "Appendix: every number",
    )
    assert "Accuracy by the number of training structures:" in lines
    assert "| training structures | m | *labels + ridge* |" in lines
    assert "| 50 | 0.6000 | 0.3500 |" in lines


# -- shortfalls --------------------------------------------------------------------------------------------


def test_what_is_not_reached_is_said_plainly():
    figure = {"value": 0.9, "source": "somebody", "protocol": "their folds"}
    short = row("A", "loopy_bp", "nested", 0.8, figures=[figure])
    lines = section(
        results_page(result("x", [short], remarks=["The rate is the likely reason."])),
        "Where this falls short",
    )
    assert lines == [
        "- **A, nested**: loopy_bp has 0.8000 (95 % interval 0.7600 to 0.8400). **Not reached**: 0.9000 of somebody "
        "(their folds), short by 0.1000, outside the interval.",
        "- The rate is the likely reason.",
    ]
    near = row("A", "loopy_bp", "nested", 0.88, figures=[figure])
    assert "short by 0.0200, within the interval." in results_page(result("x", [near]))
    further = {"value": 0.95, "source": "another", "protocol": "others"}
    two = section(
        results_page(result("x", [near | {"figures": [figure, further]}])), "Where this falls short"
    )
    assert len(two) == 1
    assert "within the interval; 0.9500 of another (others), short by 0.0700, outside the interval." in two[0]
    both = results_page(result("x", [near, row("A", "mean_field", "nested", 0.95, figures=[figure])]))
    assert (
        "Reached by the best row, but not by all: A, nested, 0.9000 of somebody (not by loopy_bp, 0.8800)"
        in both
    )
    assert "Every published figure above is reached" in both
    assert "**Not reached**" not in both


def test_baselines_that_are_better_are_named():
    entry = row("A", "loopy_bp", "nested", 0.5)
    lines = section(results_page(result("x", [entry])), "Where this falls short")
    assert lines == [
        "- Baselines that are better than every network here. A, nested: labels + logistic with 0.5500, WL-3 + "
        "logistic with 0.5500, no arcs, same head with 0.5500; the best network, loopy_bp, has 0.5000."
    ]
    better = row("A", "mean_field", "nested", 0.6) | {"baselines": {}}
    assert not section(results_page(result("x", [entry, better])), "Where this falls short")


def test_the_best_is_that_of_the_model_whose_figure_it_is():
    figure = {"value": 0.9, "source": "somebody", "protocol": "theirs"}
    rows = [
        row("A", "loopy_bp", "nested", 0.8 - k / 100, figures=[figure], variant=f"v{k}") for k in range(2)
    ]
    page = results_page(result("x", [*rows, row("A", "mean_field", "nested", 0.85)]))
    assert "the best loopy_bp here, loopy_bp (v0), has 0.8000" in page
    assert "Another model here, mean_field, has 0.8500." in page


def test_errors_are_short_when_they_are_larger():
    figure = {"value": 1.4, "source": "somebody", "protocol": ""}
    lines = section(
        results_page(result("x", [row("A", "m", "nested", 1.5, metric="rmse", figures=[figure])])),
        "Where this falls short",
    )
    assert "short by 0.1000" in lines[0]


def test_a_number_as_published_has_an_interval_from_its_folds():
    entry = published(row("A", "loopy_bp", "nested", 0.8), 0.85, 0.86)
    low, high = msgspec.convert(entry, Row).shown_interval
    assert low < 0.85 < high
    page = results_page(result("x", [entry]))
    assert f"| {number(low)} to {number(high)} |" in page
    # It does not account for the selection, and is no excuse.
    assert "within the interval" not in page
    assert "do not account for that" in page


def test_a_part_of_an_experiment_is_not_judged():
    figure = {"value": 0.9, "source": "somebody", "protocol": "their folds"}
    content = result("x", [row("A", "m", "nested", 0.8, figures=[figure])])
    page = results_page(msgspec.structs.replace(content, scale=Scale(folds=3, models=("m",))))
    assert "**Only a part was run**, to show that it works: folds 3, models m" in page
    assert "--quick --model m" in page
    assert "short by" not in page
    assert "verdict" not in page


# -- variants and ingredients ------------------------------------------------------------------------------


def test_variants_have_a_column_where_there_are_some():
    assert "| model | variant | protocol |" in results_page(graphs())
    assert "variant" not in results_page(molecules())


def test_ingredients_are_set_against_the_first_row():
    content = ingredients()
    lines = section(results_page(content), "Results")
    assert "| ingredient | ENZYMES | difference on ENZYMES | NCI1 | difference on NCI1 |" in lines
    found = corrected_t_test(content.rows[3].values, content.rows[0].values, 1 / 9)
    assert f"| **+{found.difference:.4f} (+{found.low:.4f} to +{found.high:.4f})** |" in "".join(lines)
    assert "| plain | 0.4600 ± 0.0200 |  |" in "".join(lines)
    other = msgspec.structs.replace(content.rows[3].protocol, splits="others")
    rows = [*content.rows[:3], msgspec.structs.replace(content.rows[3], protocol=other)]
    assert "+0.1200 (other folds)" in results_page(msgspec.structs.replace(content, rows=rows))


# -- where from, and pictures ------------------------------------------------------------------------------


def test_several_runs_are_listed():
    rows = [row("A", "m", "nested", 0.8), row("B", "m", "nested", 0.8)]
    rows[1]["run"] = rows[1]["run"] | {"gpu": None, "date": "2026-03-01"}
    lines = section(results_page(result("x", rows)), "Appendix: how it was run")
    assert lines[2].startswith("- **Run 1** (A): 2026-02-03;")
    assert lines[3].startswith("- **Run 2** (B): 2026-03-01;")
    assert "GPU" not in lines[3]


def test_pictures_are_of_rows_whose_curves_are_their_numbers():
    (picture,) = pictures_of(graphs())
    assert list(picture.panels) == [
        "MUTAG, nested",
        "NCI1, nested",
        "NCI109, nested",
        "DD, nested",
    ]
    assert all(entry.as_published is None for rows in picture.panels.values() for entry in rows)
    training, ranges = pictures_of(molecules())
    assert (training.name, len(training.panels["CEP"])) == ("training-CEP", 8)
    assert [entry.column for entry in next(iter(ranges.panels.values()))] == ["T = 4", "T = 4"]
    page = results_page(molecules(), "other")
    assert "](other-training-CEP.svg)" in page
    assert "| 9.9 to 11 | 0 |  |  |" in page
    assert pictures_of(ingredients()) == []
