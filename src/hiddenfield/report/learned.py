"""Models with something hidden, for a reader: what the data are and lack, what was learned, as text and as a page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import numpy as np

from hiddenfield.data.documents import Documents
from hiddenfield.data.table import Table, described
from hiddenfield.estimators import LATENT, load
from hiddenfield.estimators.sizes import CRITERIA
from hiddenfield.evaluation.latent import MODEL, LearnRecord
from hiddenfield.evaluation.latent_data import LearnData
from hiddenfield.learning.starts import SHORT_RUNS
from hiddenfield.learning.turns import CLIMBING
from hiddenfield.report.drawing import draw, plot
from hiddenfield.report.learned_pictures import (
    MOST_STATES,
    paint_decoded,
    paint_ellipses,
    paint_loadings,
    paint_outliers,
    paint_patterns,
    paint_profile,
    paint_sizes,
    paint_states,
    paint_traces,
    paint_words,
)
from hiddenfield.report.page import (
    Section,
    escape,
    facts,
    figures,
    html_table,
    shortened,
    write_html,
)
from hiddenfield.report.terminal import text_table
from hiddenfield.shapes import Array, Int

MOST_LINES = 10
"""Patterns that are listed."""


# -- text --------------------------------------------------------------------------------------------------


def data_as_text(data: LearnData) -> str:
    """Say what each column was taken for, what is missing in which pattern, and which columns the model leaves out."""
    if isinstance(data.structures, Documents):
        return _documents_in_words(data.structures)
    lines = [described(data.table.columns, data.rows, data.missing), *_pattern_lines(data)]
    if data.shards is not None:
        lines.insert(0, f"{len(data.shards.parts):,} shards, of which each turn reads one after another")
    if data.lengths is not None:
        lines.insert(0, _sequences_in_words(data.lengths))
    for reason in dict.fromkeys(data.left_out.values()):
        names = [name for name, own in data.left_out.items() if own == reason]
        lines.append(f"left out, as {reason}: {', '.join(names)}")
    return "\n".join([*lines, *([data.note] if data.note else [])])


def _pattern_lines(data: LearnData) -> list[str]:
    (observed, counts), names = data.patterns, data.table.names
    if not data.missing.any():
        return ["nothing is missing"]
    lines = [f"{len(counts):,} patterns of missingness:"]
    lines += [
        f"  {count:>7,} {_lacking(_missing(data.table, there), len(names), int(count))}"
        for there, count in zip(observed[:MOST_LINES], counts, strict=False)
    ]
    if len(counts) > MOST_LINES:
        rest = int(counts[MOST_LINES:].sum())
        lines.append(f"  {rest:>7,} rows in {len(counts) - MOST_LINES:,} other patterns")
    return lines


def _missing(table: Table, observed: Array) -> list[str]:
    """Name the columns that a pattern lacks."""
    return [name for name, there in zip(table.names, observed, strict=True) if not there]


def _sequences_in_words(lengths: Int[Array, " sequences"]) -> str:
    least, most = (int(each) for each in (lengths.min(), lengths.max()))
    span = f"{most:,} steps" if least == most else f"{least:,} to {most:,} steps"
    return f"{len(lengths):,} sequence{'s' * (len(lengths) != 1)} of {span}"


def _documents_in_words(documents: Documents) -> str:
    least, middle, most = np.quantile(documents.lengths, (0, 0.5, 1)).astype(int).tolist()
    rows, words = documents.shape
    tokens = f"{documents.lengths.sum():,.0f} tokens ({least:,} to {most:,}, median {middle:,})"
    return f"{rows:,} documents, {words:,} words, {tokens}"


def _lacking(names: Sequence[str], columns: int, rows: int) -> str:
    one = rows == 1
    if not names:
        return "row is complete" if one else "rows are complete"
    if len(names) == columns:
        return "row is empty" if one else "rows are empty"
    return f"{'row lacks' if one else 'rows lack'} {', '.join(names)}"


def learned_as_text(record: LearnRecord) -> str:
    """Return a table of the sizes that were tried, and below it which was chosen."""
    heads, rows = _size_table(record)
    lines = [text_table(heads, rows, text=(len(heads) - 1,))]
    if len(record.sizes) > 1:
        lines.append(f"chosen by {CRITERIA[record.criterion].split(',')[0]}: {record.chosen}")
    lines += [f"warning: {warning}" for warning in record.best.warnings]
    return "\n".join(lines)


def _word(record: LearnRecord) -> str:
    return (record.size_parameter or "size").removeprefix("num_")


def _size_table(record: LearnRecord) -> tuple[list[str], list[list[str]]]:
    """Return the heads and rows of a table of sizes."""
    names = [name for name in CRITERIA if any(name in one.criteria for one in record.sizes)]
    heads = ["held out" if name == "cross_validation" else name.upper() for name in names]
    heads = [_word(record), "log-likelihood", "free", *heads, "iterations", "status"]
    rows = []
    for one in record.sizes:
        values = [one.log_likelihood, *(one.criteria.get(name) for name in names)]
        shown = ["" if value is None else f"{value:,.2f}" for value in values]
        free, turns = ("" if value is None else f"{value:,}" for value in (one.free, one.iterations))
        size = "" if one.size is None else str(one.size)
        rows.append([size, shown[0], free, *shown[1:], turns, one.error or one.status])
    # Of a model without a size there is nothing in the first column.
    return (heads, rows) if record.size_parameter else (heads[1:], [row[1:] for row in rows])


def learned_record(data: LearnData, record: LearnRecord) -> dict[str, Any]:
    """Return what a program needs: the record, and what is missing in which pattern."""
    columns = [
        plain | {"missing": int(count)} for plain, count in zip(record.columns, data.missing, strict=True)
    ]
    listed = [
        {"rows": int(count), "missing": _missing(data.table, observed)}
        for observed, count in zip(*data.patterns, strict=True)
    ]
    return record.as_dict() | {"columns": columns, "patterns": listed, "left_out": list(data.left_out)}


def imputed_columns(tables: Sequence[Table], *, numbered: bool, ids: str = "id") -> dict[str, list[Any]]:
    """Return the columns of filled tables, one below the other; `numbered` draws have a column that counts them."""
    columns: dict[str, list[Any]] = {}
    if numbered:
        columns["draw"] = [number for number, table in enumerate(tables, 1) for _ in range(len(table))]
    if tables[0].ids is not None:
        columns[ids] = [name for table in tables for name in table.ids.tolist()]  # type: ignore[union-attr]
    parts = [table.to_dict() for table in tables]
    return columns | {name: [_plain(v) for part in parts for v in part[name]] for name in tables[0].names}


def _plain(value: Any) -> Any:
    """Return whole numbers as such, so that what was observed is written as it came."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


# -- the page ----------------------------------------------------------------------------------------------


def write_learned_report(
    path: str | Path, data: LearnData, folder: str | Path, record: LearnRecord, *, title: str = "Learned"
) -> Path:
    """Write what was learned as one page of HTML.

    Parameters
    ----------
    path
        Where to.
    data
        What was learned from.
    folder, record
        Of `learn_run`.
    title
        Of the page.
    """
    estimator: Any = load(Path(folder) / MODEL)
    lead = f"{record.model}: {LATENT.facts(record.model).get('summary', '')}. "
    lead += (
        f"{_documents_in_words(data.structures)}."
        if isinstance(data.structures, Documents)
        else f"{record.rows:,} rows, {record.missing:,} of {record.rows * len(data.table.names):,} cells missing."
    )
    if data.shards is not None:
        lead += (
            f" Learned from {len(data.shards.parts):,} shards, one after another; rows below are a random "
            f"{len(data.table):,} of all."
        )
    if data.lengths is not None:
        lead += f" {_sequences_in_words(data.lengths).capitalize()}."
    sections = [
        ("Data", _data_section(data)),
        ("Learning", _learning_section(estimator, record)),
        *found_sections(estimator, data),
        ("Settings", _settings(estimator, record)),
    ]
    return write_html(path, f"{title}: {record.model}", lead, [each for each in sections if each[1]])


def _data_section(data: LearnData) -> str:
    if isinstance(data.structures, Documents):
        return ""
    table, (observed, counts) = data.table, data.patterns

    def use(name: str) -> str:
        return "target" if name in data.targets else "learned from" if name in data.used else "left out"

    rows = [
        [str(column), f"{count:,}", f"{count / max(data.rows, 1):.1%}", use(column.name)]
        for column, count in zip(table.columns, data.missing, strict=True)
    ]
    listed = html_table(["column", "missing", "share", "use"], rows, text=(0, 3))
    listed += f"<p>{escape(data.note[0].upper() + data.note[1:])}.</p>" if data.note else ""
    if not data.missing.any() or len(table.names) == 1:
        return listed
    size = {"width": min(9.0, 3.4 + 0.3 * len(table.names)), "height": 1.4 + 0.22 * min(len(counts), 24)}
    caption = f"The {len(counts):,} patterns of missingness, the most frequent first: red cells are missing."
    shown = table.names, observed, counts
    return listed + figures(
        [plot("patterns", caption, paint_patterns, *shown, **size, title="patterns of missingness")]
    )


def _learning_section(estimator: Any, record: LearnRecord) -> str:
    learned = estimator.learned_
    runs = [run for run in learned.runs if run.trace]
    boxes = []
    if runs:
        best = max(range(len(runs)), key=lambda k: runs[k].objective)

        caption = f"The objective of {len(runs)} run{'s' * (len(runs) > 1)}, by iteration."
        if estimator.start == SHORT_RUNS or (
            estimator.start == "auto"
            and estimator.fill in CLIMBING
            and hasattr(estimator.model_, "many_maxima")
        ):
            caption += " Each begins where the best of many short runs has ended."
        traces = [run.trace for run in runs]
        boxes.append(plot("traces", caption, paint_traces, traces, best, title="objective by turn"))
    done = [one for one in record.sizes if one.error is None and one.size is not None]
    if len(done) > 1:
        names = [name for name in CRITERIA if all(name in one.criteria for one in done)]
        values = {
            name.upper(): [one.criteria[name] or np.nan for one in done] for name in names if name != "cv"
        }

        caption = f"Criteria by the number of {_word(record)}; the line marks the one that was chosen."
        shown = [one.size or 0 for one in done], values, record.chosen or 0, _word(record)
        boxes.append(plot("sizes", caption, paint_sizes, *shown, title="criteria by size"))
    heads, rows = _size_table(record)
    own = next(k for k, one in enumerate(record.sizes) if one.size == record.chosen)
    text = html_table(heads, rows, text=(len(heads) - 1,), own=own)
    text += "".join(f"<p>{escape(warning)}</p>" for warning in record.best.warnings)
    return figures(boxes) + text


def _settings(estimator: Any, record: LearnRecord) -> str:
    from hiddenfield.machine import version

    own = [
        (name, value)
        for name, value in estimator.get_params().items()
        if value is not None and name != "checkpoint"
    ]
    run: list[tuple[str, object]] = [("seed", record.seed), ("criterion", record.criterion)]
    run += [("command", record.command)] if record.command else []
    run += [(name, version(name) or "from source") for name in ("hiddenfield", "numpy")]
    return facts([("Model", own), ("Run", run)])


# -- what a model has found: a section for each kind of thing that it has ------------------------------------


MOST_OUTLIERS = 10
"""Outliers that are listed."""

MOST_COLUMNS = 30
"""Columns of a table whose profiles are drawn."""

MOST_PAIRS = 4
"""Pairs of columns that are drawn against each other."""

MOST_DECODED, MOST_STEPS = 4, 400
"""Sequences that are drawn, and steps of each."""

UNEVEN = 10.0
"""Ratio of the spreads of columns from which on one noise for all is worth a warning."""

FAR = 0.999
"""Outlyingness from which on a row is an outlier."""


def found_sections(estimator: Any, data: LearnData) -> Iterator[Section]:
    """Yield what was found, by what the model has."""
    if hasattr(type(estimator), "covariances_") and hasattr(type(estimator), "means_"):
        yield "Components", _components(estimator, data)
    if hasattr(type(estimator), "loadings_"):
        yield "Factors", _factors(estimator, data)
    if hasattr(type(estimator), "topics_"):
        yield "Topics", _topics(estimator, data)
    if hasattr(type(estimator), "transitions_"):
        yield "States", _states(estimator, data)
        yield "Decoded sequences", _decoded(estimator, data)
    elif "profile_" in vars(estimator):
        shares = ", ".join(f"class {k}: {weight:.1%}" for k, weight in enumerate(estimator.weights_))
        yield "Classes", f"<p>{escape(f'Shares: {shares}.')}</p>" + _profiles(estimator.profiles())
    if hasattr(type(estimator), "tables_"):
        yield "Tables", _tables(estimator)
    if hasattr(estimator, "outlyingness"):
        yield "Outliers", _outliers(estimator, data)


def _components(estimator: Any, data: LearnData) -> str:
    """Draw the pairs of columns that tell components apart best, and list the means."""
    X, names = data.shown()["X"], data.used
    values = data.table.select(names).values
    means, family = estimator.means_, estimator.model_.gaussians
    covariances = family.covariance_matrices(estimator.covariances_, len(means))
    owners = estimator.predict(X)
    between = means.var(axis=0) / np.array([covariances[:, j, j].mean() for j in range(len(names))])
    first = sorted(np.argsort(-between, kind="stable")[:4].tolist())
    boxes = []
    for number, pair in enumerate(list(combinations(first, 2))[:MOST_PAIRS]):
        chosen = list(pair)

        of_means, own = means[:, chosen], covariances[:, chosen][:, :, chosen]
        shown = values[:, chosen], owners, of_means, own, [names[j] for j in chosen]
        caption = "Rows that have both columns, by their most likely component; an ellipse holds 90 % of one."
        size = {"width": 4.8, "height": 3.8}
        boxes.append(plot(f"pair{number}", caption, paint_ellipses, *shown, **size, title="components"))
    rows = [
        [str(k), f"{weight:.3f}", *(f"{value:.4g}" for value in mean)]
        for k, (weight, mean) in enumerate(zip(estimator.weights_, means, strict=False))
    ]
    return figures(boxes) + html_table(["component", "weight", *names], rows)


def _topics(estimator: Any, data: LearnData) -> str:
    """List topics, the most frequent first, with their words and documents; draw the probabilities of the words."""
    documents: Any = data.structures
    shares, coherence = estimator.transform(documents), estimator.coherence(documents)
    frequent = documents.lengths @ shares / documents.lengths.sum()
    names = np.arange(len(documents)) if documents.ids is None else documents.ids
    rows, boxes, words = list[list[str]](), list[str](), estimator.top_words(10)
    for k in np.argsort(-frequent, kind="stable").tolist():
        best = np.argsort(-shares[:, k] * (documents.lengths > 0), kind="stable")[:3]
        listed = "; ".join(f"{shortened(str(names[d]), 60)} ({shares[d, k]:.0%})" for d in best)
        values = [f"{frequent[k]:.1%}", f"{estimator.concentration_[k]:.3g}", f"{coherence[k]:.2f}"]
        rows.append([str(k), *values, ", ".join(words[k]), listed])
        if len(boxes) < MOST_COLUMNS:
            law = np.sort(estimator.topics_[k])[::-1][: len(words[k])]
            shown = draw(
                f"topic{k}", paint_words, words[k], law, k, width=2.6, height=2.4, title=f"topic {k}"
            )
            boxes.append(f'<div class="card">{shown}</div>')
    lead = (
        f"Topics by their share of all tokens. Coherence is the mean normalised pointwise mutual information of the "
        f"words, by the documents that they share; its mean is {np.nanmean(coherence):.3f}. The perplexity of half of "
        f"each document that was learned from, given the other half, is {estimator.perplexity(documents):,.0f}."
    )
    heads = ["topic", "share", "concentration", "coherence", "words", "documents with most of it"]
    table = html_table(heads, rows, text=(4, 5))
    return f'<p>{escape(lead)}</p>{table}<div class="cards">{"".join(boxes)}</div>'


def _profiles(profiles: Mapping[str, Mapping[str, Sequence[float]]]) -> str:
    """Draw a column on each card, by class or state."""
    boxes = []
    for number, (name, profile) in enumerate(list(profiles.items())[:MOST_COLUMNS]):
        size = {"width": 3.0, "height": 1.1 + 0.24 * len(next(iter(profile.values())))}
        picture = draw(f"profile{number}", paint_profile, name, profile, **size, title=name)
        boxes.append(f'<div class="card">{picture}</div>')
    more = len(profiles) - len(boxes)
    lead = "Of symbols the probability in each; of numbers the mean, with a standard deviation to each side."
    lead += f" {more} more columns are not drawn." if more > 0 else ""
    return f'<p>{escape(lead)}</p><div class="cards">{"".join(boxes)}</div>'


def _states(estimator: Any, data: LearnData) -> str:
    """Draw the states and their transitions, and what each emits."""
    transitions = estimator.transitions_
    profiles = estimator.profiles()
    labels = [_state_label(profiles, k) for k in range(len(transitions))]
    picture = ""
    if len(transitions) <= MOST_STATES:
        shown = transitions, _steps(estimator.posterior(data.shown()["X"])).mean(axis=0), labels
        caption = "States, as large as they are frequent; in each the probability to stay, on arrows those to go on."
        height = 2.2 if len(transitions) == 2 else 4.0
        picture = figures(
            [plot("states", caption, paint_states, *shown, width=4.6, height=height, title="states")]
        )
    heads = ["from", "first", *(f"to {k}" for k in range(len(transitions)))]
    rows = [
        [f"{k} ({label})", f"{first:.3f}", *(f"{p:.3f}" for p in own)]
        for k, (label, first, own) in enumerate(zip(labels, estimator.initial_, transitions, strict=True))
    ]
    return picture + html_table(heads, rows) + _profiles(profiles)


def _state_label(profiles: Mapping[str, Mapping[str, Sequence[float]]], state: int) -> str:
    """Say in few words what a state emits of the first column."""
    name, profile = next(iter(profiles.items()))
    if "mean" in profile or "rate" in profile:
        return f"{shortened(name, 12)} {profile.get('mean', profile.get('rate', ()))[state]:.4g}"
    symbol = max(profile, key=lambda word: profile[word][state])
    return f"{shortened(symbol, 12)} {profile[symbol][state]:.0%}"


def _steps(found: Any) -> Array:
    """Return what belongs to steps as one array."""
    return np.concatenate(found) if isinstance(found, list) else found


def _decoded(estimator: Any, data: LearnData) -> str:
    """Draw the longest sequences with their most likely states."""
    X, table, lengths = data.shown()["X"], data.table, data.lengths
    assert lengths is not None
    path, posterior = _steps(estimator.predict(X)), _steps(estimator.posterior(X))
    numbers = [j for j, column in enumerate(table.columns) if column.vocabulary is None]
    if data.sequence is None:
        bounds = np.concatenate([[0], np.cumsum(lengths)])
        parts = [np.arange(start, end) for start, end in pairwise(bounds)]
    else:
        assert table.ids is not None
        parts = [np.flatnonzero(table.ids == name) for name in dict.fromkeys(table.ids.tolist())]
    chosen = sorted(np.argsort([-len(part) for part in parts], kind="stable")[:MOST_DECODED].tolist())
    boxes = []
    for number in chosen:
        own = parts[number][:MOST_STEPS]
        label = table.names[numbers[0]] if numbers else ""

        more = f"; the first {MOST_STEPS:,} of {len(parts[number]):,} steps" * (len(parts[number]) > len(own))
        name = str(table.ids[own[0]]) if table.ids is not None and len(own) else str(number)
        caption = f"Sequence {name} with its most likely states (above) and their posterior{more}."
        shown = path[own], posterior[own], table.values[own, numbers[0]] if numbers else None, label
        size = {"width": 8.0, "height": 3.2}
        boxes.append(
            plot(f"decoded{number}", caption, paint_decoded, *shown, **size, title="decoded sequence")
        )
    return figures(boxes)


def _factors(estimator: Any, data: LearnData) -> str:
    """Draw standardised loadings."""
    names = [*data.used, *(f"{name} (target)" for name in data.targets)]
    deviations = np.sqrt(np.diag(estimator.covariance_))
    loadings = estimator.loadings_ / deviations[:, None]
    width, height = 2.8 + 0.8 * loadings.shape[1], 0.9 + 0.28 * len(names)
    own = estimator.num_own if data.targets else 0
    shared = loadings.shape[1] - own
    heads = [f"{'shared' if data.targets else 'factor'} {k + 1}" for k in range(shared)]
    heads += [f"own {k + 1}" for k in range(own)]

    shown = loadings, estimator.uniquenesses_, names, heads, len(data.targets)
    caption = (
        "Loadings of standardised columns on the factors, and the share of each variance that they leave."
    )
    if data.targets:
        caption += (
            " Targets load on the factors that they share with the columns, which have others of their own."
        )
    box = plot("loadings", caption, paint_loadings, *shown, width=width, height=height, title="loadings")
    explained = (loadings**2).sum(axis=0) / len(names)
    rows = [[head, f"{share:.1%}"] for head, share in zip(heads, explained, strict=True)]
    correlations = estimator.factor_correlations_
    text = html_table(["factor", "of the variance of standardised columns"], rows)
    if not np.allclose(correlations, np.eye(len(correlations))):
        rows = [[head, *(f"{v:.2f}" for v in row)] for head, row in zip(heads, correlations, strict=True)]
        text += html_table(["correlation", *heads], rows)
    tied, spread = estimator.model_.tied, estimator.spread_
    uneven = max(spread[tied == k].max() / spread[tied == k].min() for k in set(tied.tolist()))
    if uneven > UNEVEN:
        text += (
            f"<p>Columns whose noise is the same have standard deviations that differ {uneven:,.0f}-fold: those that "
            "vary most take the factors. Bring columns to comparable units first.</p>"
        )
    return figures([box]) + text


def _tables(estimator: Any) -> str:
    """List the conditional tables of a network."""
    network = estimator.model_.network
    variables = {variable.name: variable for variable in network.variables}
    parts = [f"<p>Inference: {escape(estimator.guarantee_)}.</p>"]
    for name, table in list(estimator.tables_.items())[:MOST_COLUMNS]:
        parents = [network.names[number] for number in network.parents[network.names.index(name)]]
        states = [str(symbol) for symbol in variables[name].vocabulary.symbols]
        grid = [np.array(variables[parent].vocabulary.symbols, dtype=object) for parent in parents]
        rows = []
        for place in list(np.ndindex(*table.shape[:-1]))[:16]:
            given = [str(grid[k][code]) for k, code in enumerate(place)]
            rows.append([*given, *(f"{p:.3f}" for p in table[place])])
        more = int(np.prod(table.shape[:-1])) - len(rows)
        parts.append(
            f"<h3>{escape(name)}</h3>{html_table([*parents, *states], rows, text=range(len(parents)))}"
        )
        parts.append(f"<p>and {more:,} more rows</p>" if more > 0 else "")
    return "".join(parts)


def _outliers(estimator: Any, data: LearnData) -> str:
    """Draw how outlying each row is, and list the most outlying ones."""
    X = data.shown()["X"]
    values = np.asarray(estimator.outlyingness(X))
    chosen = np.argsort(-values, kind="stable")[:MOST_OUTLIERS]
    chosen = chosen[values[chosen] >= FAR]
    # Probabilities close to 1 cannot be told apart by the eye.
    shown = -np.log10(np.maximum(1 - values, 1e-16))

    caption = "How far out each row lies: 3 means that one row in 1,000 of the model lies as far out."
    if getattr(estimator, "noise", None) is True:
        caption = "The probability p of each row to be noise: 3 stands for 0.999."
    size = {"width": 6.4, "height": 3.2}
    label, title = "outlyingness, -log10(1 - p)", "outlyingness by row"
    box = plot("outliers", caption, paint_outliers, shown, chosen, label, **size, title=title)
    if not len(chosen):
        return figures([box]) + "<p>No row is an outlier.</p>"
    table = data.table
    cells = [table.decoded(place) for place in range(len(table.names))]
    names = np.arange(len(table)) if table.ids is None else table.ids
    rows = [[str(names[k]), f"{shown[k]:.1f}", *(_cell(column[k]) for column in cells)] for k in chosen]
    return figures([box]) + html_table(["row", "outlyingness", *table.names], rows)


def _cell(value: Any) -> str:
    return "" if value is None else f"{value:.5g}" if isinstance(value, float) else shortened(str(value), 24)
