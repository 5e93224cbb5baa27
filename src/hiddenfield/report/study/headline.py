"""The small table at the beginning of a page: what was reached, beside the best baseline and published figures."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import fmean

import msgspec

from hiddenfield.evaluation.records import BaselineRecord
from hiddenfield.report.study.records import Average, Figure, Result, Row, best_of, by, gap
from hiddenfield.report.study.tables import SEEN, baselines_of, ingredients_of, number, short_source, table

SEEN_NOTE = (
    f"{SEEN} The settings were found with results on these test parts in sight: the number is optimistic."
)


def headline(content: Result) -> list[str]:
    """Return a table with one line per data set and protocol; of an ablation, per data set."""
    if not content.rows or content.partial:
        return []
    if content.layout == "ablation":
        lines = _best_ingredients(content.rows)
    else:
        lines = _best_networks(condensed(content))
    return [*lines, *([SEEN_NOTE, ""] if any(SEEN in line for line in lines) else [])]


def condensed(content: Result) -> list[Row]:
    """Return the rows, with one for the mean over all sets of a collection in place of theirs."""
    rows = list(content.rows)
    for average in content.averages:
        own = [row for row in rows if row.data.split()[0] == average.data]
        rows = [row for row in rows if row.data.split()[0] != average.data] + _averaged(average, own)
    return rows


def _averaged(average: Average, rows: Sequence[Row]) -> list[Row]:
    """Return for every protocol and label that all sets have the mean row, with the means of figures and baselines."""
    result = []
    for members in by(rows, lambda row: row.group).values():
        sets = by(members, lambda row: row.data)
        name = f"{average.data}, mean of {len(sets)} sets"
        baselines = _means(
            (who, entry.mean) for own in sets.values() for who, entry in baselines_of(own).items()
        )
        told = by((figure for own in sets.values() for figure in by_source(own)), lambda one: one.source)
        figures = [
            Figure(
                fmean(one.value for one in same),
                f"{short_source(source)}, mean of {'these' if len(same) == len(sets) else len(same)} sets",
                same[0].protocol,
            )
            for source, same in told.items()
        ]
        for own in by(members, lambda row: row.label).values():
            if len(own) == len(sets):
                mean = fmean(row.shown.mean for row in own)
                result.append(
                    msgspec.structs.replace(
                        own[0],
                        data=name,
                        mean=mean,
                        std=None,
                        interval=None,
                        baselines={
                            who: BaselineRecord(mean=fmean(values), std=None, interval=None, folds=[])
                            for who, values in baselines.items()
                            if len(values) == len(sets)
                        },
                        figures=(*figures, *average.figures),
                    )
                )
    return result


def by_source(rows: Iterable[Row]) -> list[Figure]:
    """Return the figures of some rows, each once."""
    return list(dict.fromkeys(figure for row in rows for figure in row.figures))


def _means(pairs: Iterable[tuple[str, float]]) -> dict[str, list[float]]:
    return {name: [value for _, value in own] for name, own in by(pairs, lambda pair: pair[0]).items()}


def _best_networks(rows: Sequence[Row]) -> list[str]:
    body = []
    for members in by(rows, lambda row: (row.data, row.group)).values():
        best, beside = best_of(members), baselines_of(members)
        value = best.shown.mean
        published = by(by_source(members), _in_short)
        first = max(beside, key=lambda name: gap(best.metric, beside[name].mean, 0.0), default=None)
        cells = [
            (value, f"{number(value)} {best.label}{SEEN * best.marked}"),
            (None, "") if first is None else (beside[first].mean, f"{number(beside[first].mean)} {first}"),
        ]
        texts = [f"{' / '.join(number(f.value) for f in own)} {name}" for name, own in published.items()]
        ahead = max((v for v, _ in cells if v is not None), key=lambda v: gap(best.metric, v, 0.0))
        shown = [f"**{text}**" if v is not None and v == ahead else text for v, text in cells]
        optimistic = " (optimistic)" if best.as_published is not None else ""
        protocol = best.group or best.protocol_text.split(";")[0]
        body.append([best.data, protocol + optimistic, *shown, "; ".join(texts)])
    heads = ["data", "protocol", "best network here", "best baseline here", "published"]
    filled = [k for k in range(len(heads)) if any(line[k] for line in body)]
    return table([heads[k] for k in filled], [[line[k] for k in filled] for line in body], text_columns=9)


def _in_short(figure: Figure) -> str:
    """Return the source, and over how many sets it is a mean."""
    own, _, rest = figure.source.partition(",")
    over = rest.rpartition("mean of ")[2] if "mean of " in rest else ""
    return own + (f" ({over})" if over and over != "these sets" else "")


def _best_ingredients(rows: Sequence[Row]) -> list[str]:
    body = []
    for data, members in by(rows, lambda row: row.data).items():
        (_, name, value, _), *others = ingredients_of(members)
        if others:
            top = best_of(row for row, *_ in others)
            ((_, own, reached, difference),) = [line for line in others if line[0] is top]
            body.append([data, f"{value} {name}", f"{reached} {own}", difference])
    return table(["data", "reference", "best ingredient", "difference"], body, text_columns=9) if body else []
