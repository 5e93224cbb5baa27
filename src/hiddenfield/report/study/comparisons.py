"""Comparison of a study with published figures and baselines: conclusion, table, and where it falls short."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

import msgspec

from hiddenfield.evaluation.measuring import METRICS, NAMES
from hiddenfield.evaluation.records import BaselineRecord
from hiddenfield.report.study.records import Average, Figure, Result, Row, best_of, by, gap
from hiddenfield.report.study.tables import (
    SEEN,
    baselines_of,
    ingredients_of,
    interval_text,
    number,
    paired_difference,
    short_source,
    signed,
    table,
)

# Places that a sentence has room to name.
FEW = 3


@dataclass(frozen=True)
class Quoted:
    """A published figure, and all rows that are to be compared with it."""

    figure: Figure
    rows: tuple[Row, ...]
    others: tuple[Row, ...] = ()

    @property
    def best(self) -> Row:
        """The best of the rows."""
        return best_of(self.rows)

    @property
    def gap(self) -> float:
        """By how much the best row is better than the figure."""
        return self.beyond(self.best)

    @property
    def name(self) -> str:
        """Name of the best row: the best of a model where the figure is of that model."""
        models = {row.model for row in (*self.rows, *self.others)}
        own = {row.model for row in self.rows}
        whose = f" {self.best.model}" if len(own) == 1 and len(models) > 1 else ""
        return f"the best{whose} here, {self.best.label}," if len(self.rows) > 1 else self.best.label

    def beyond(self, row: Row) -> float:
        """Return by how much a row is better than the figure."""
        return gap(row.metric, row.shown.mean, self.figure.value)


def _quoted(rows: Sequence[Row]) -> list[Quoted]:
    pairs = [(row, figure) for row in rows for figure in row.figures]
    found = by(pairs, lambda pair: (pair[0].data, pair[0].group, pair[1]))
    result = []
    for (data, group, figure), members in found.items():
        own = tuple(row for row, _ in members)
        same = [row for row in rows if (row.data, row.group) == (data, group)]
        result.append(Quoted(figure, own, tuple(row for row in same if not any(row is o for o in own))))
    return result


# -- conclusion --------------------------------------------------------------------------------------------


def conclusion(content: Result) -> str:
    """Return in about two sentences what the study found; nothing of a part of it."""
    if content.partial or not content.rows:
        return ""
    if content.layout == "ablation":
        return _of_ablation(content.rows)
    rows = condensed(content)
    return " ".join(filter(None, (_against_published(rows), _against_baselines(rows), _kernels(rows))))


def _against_published(rows: Sequence[Row]) -> str:
    """Return how many of the published figures are reached, apart for figures that were selected on test folds."""
    quoted = _quoted(rows)
    optimistic = [entry for entry in quoted if entry.best.as_published is not None]
    honest = [entry for entry in quoted if entry.best.as_published is None]
    parts = []
    if optimistic:
        parts.append(
            f"under the protocol of the papers, which selects on the reported folds and is too optimistic, "
            f"{_reached(optimistic)}"
        )
    if honest:
        where = "without any selection on the test parts, " if optimistic else ""
        parts.append(f"{where}{_reached(honest)}")
    text = "; ".join(parts)
    return f"{text[0].upper()}{text[1:]}." if text else ""


def _reached(entries: Sequence[Quoted]) -> str:
    short = [entry for entry in entries if entry.gap < 0]
    alone = [
        entry for entry in entries if entry.gap >= 0 and len(entry.rows) >= FEW and _reaching(entry) == 1
    ]
    only = f", {'; '.join(map(_only_by, alone))}" if 0 < len(alone) < FEW else ""
    count, total = len(entries) - len(short), len(entries)
    if not short:
        which = {1: "the published figure is", 2: "both published figures are"}
        return f"{which.get(total, f'all {total} published figures are')} reached{only}"
    text = f"{count or 'none'} of {total} published figures {'is' if count <= 1 else 'are'} reached{only}"
    if len(short) <= FEW:
        return f"{text} (missed: {', '.join(f'{one.best.data} by {number(-one.gap)}' for one in short)})"
    gaps = [-entry.gap for entry in short]
    return f"{text} ({'the others are ' * bool(count)}missed by {number(min(gaps))} to {number(max(gaps))})"


def _reaching(entry: Quoted) -> int:
    return sum(entry.beyond(row) >= 0 for row in entry.rows)


def _only_by(entry: Quoted) -> str:
    """Name the one row of several that reaches a figure."""
    return f"{number(entry.figure.value)} on {entry.best.data} only by {entry.best.label}"


def _against_baselines(rows: Sequence[Row]) -> str:
    """Return how the best network compares with the best baseline wherever there are some."""
    places = _with_baselines(rows)
    if not places:
        return ""
    if len(places) == 1:
        (row, name, ahead) = places[0]
        value = number(row.mean - ahead if METRICS[row.metric].higher_is_better else row.mean + ahead)
        own = f"has {_article(NAMES[row.metric])} of {number(row.mean)}"
        return f"The best network, {row.label}, {own}; the best baseline, {name}, has {value}."
    losses = by([(row, name) for row, name, ahead in places if ahead < 0], lambda pair: pair[1])
    count = sum(map(len, losses.values()))
    attribute = "heading" if len({row.group for row, _, _ in places}) > 1 else "data"
    told = "; ".join(
        f"{name} is better than all networks on {' and '.join(getattr(row, attribute) for row, _ in pairs)}"
        for name, pairs in losses.items()
    )
    text = f"The best network beats every baseline in {len(places) - count} of {len(places)} comparisons"
    return f"{text}; {told}." if 0 < count <= FEW else f"{text}."


def _kernels(rows: Sequence[Row]) -> str:
    """Return where a kernel is better than all networks, of the comparisons without selection on the test parts."""
    ahead, count = [], 0
    for members in by(rows, lambda row: (row.data, row.group)).values():
        kinds = [[row for row in members if row.is_kernel == kernel] for kernel in (False, True)]
        if not all(kinds) or members[0].as_published is not None:
            continue
        network, kernel = map(best_of, kinds)
        count += 1
        if gap(kernel.metric, kernel.mean, network.mean) > 0:
            ahead.append(f"{kernel.label} on {kernel.data}")
    if not count:
        return ""
    named = f": {', '.join(ahead)}" if 0 < len(ahead) <= FEW else ""
    return f"The best kernel beats every network in {len(ahead)} of {count} comparisons{named}."


def _article(name: str) -> str:
    return f"an {name}" if name[0] in "aeiou" else f"a {name}"


def _with_baselines(rows: Sequence[Row]) -> list[tuple[Row, str, float]]:
    """Return for every comparison the best network, the best baseline, and by how much the network is better."""
    found = []
    for members in by(rows, lambda row: (row.data, row.group)).values():
        networks, beside = [row for row in members if not row.is_kernel], baselines_of(members)
        best = best_of(networks or members)
        if beside and best.as_published is None:
            name = max(beside, key=lambda name: gap(best.metric, beside[name].mean, 0.0))
            found.append((best, name, gap(best.metric, best.mean, beside[name].mean)))
    return found


def _of_ablation(rows: Sequence[Row]) -> str:
    """Return the ingredients that make a significant difference, by data set."""
    parts, count = [], 0
    for data, members in by(rows, lambda row: row.data).items():
        first = {row.variant or row.model: row for row in members}.get(members[0].reference or "", members[0])
        told = []
        for row in members:
            found = None if row is first else paired_difference(row, first)
            count += found is not None
            if found is not None and (found.low > 0 or found.high < 0):
                told.append(f"“{row.variant or row.model}” ({signed(found.difference)})")
        parts.append(f"on {data} {', '.join(told) if told else 'no ingredient'}")
    if not count:
        return ""
    metric = NAMES[rows[0].metric]
    return (
        f"Ingredients that change the {metric} significantly: {'; '.join(parts)}. Of the {count} comparisons about "
        f"{0.05 * count:.0f} would be significant by chance alone; nothing is corrected for their number."
    )


# -- published figures -------------------------------------------------------------------------------------


def published_table(content: Result) -> list[str]:
    """Return a table with one line per published figure: the best row here, and whether it reaches the figure."""
    quoted = _quoted(content.rows)
    if not quoted:
        return []
    heads = ["data", "published by", "their protocol", "best row here", "published", "here"]
    body = [
        [
            entry.best.heading,
            entry.figure.source,
            entry.figure.protocol,
            entry.best.label,
            number(entry.figure.value),
            number(entry.best.shown.mean),
        ]
        for entry in quoted
    ]
    if not content.partial:
        heads.append("verdict")
        for line, entry in zip(body, quoted, strict=True):
            line.append("reached" if entry.gap >= 0 else f"short by {number(-entry.gap)}")
    several = any(len(entry.rows) > 1 for entry in quoted)
    note = "The best of several rows is chosen by the reported number itself, which makes it slightly optimistic."
    return [*([note, ""] if several else []), *table(heads, body, text_columns=4)]


def shortfalls(content: Result) -> list[str]:
    """Return where published figures or baselines are not reached, by how much, and the remarks of the study."""
    lines = []
    if not content.partial:
        quoted = _quoted(content.rows)
        short = [entry for entry in quoted if entry.gap < 0]
        mixed = [
            entry for entry in quoted if entry.gap >= 0 and any(entry.beyond(row) < 0 for row in entry.rows)
        ]
        places = by(short, lambda entry: (entry.best.heading, entry.best.label))
        lines += [_not_reached(entries) for entries in places.values()]
        if quoted and not short:
            lines.append("Every published figure above is reached by at least one model here.")
        if mixed:
            lines.append(f"Reached by the best row, but not by all: {'; '.join(map(_by_some, mixed))}.")
        lines += _better_baselines(content.rows)
    return [f"- {text}" for text in (*lines, *content.remarks)]


def _not_reached(entries: Sequence[Quoted]) -> str:
    """Name the figures of one place that its best row does not reach."""
    best = entries[0].best
    # What was selected on the reported folds is too high, and its interval with it, so that it says nothing here.
    interval = None if best.as_published is not None else best.shown_interval
    around = "" if interval is None else f" (95 % interval {interval_text(interval)})"
    gaps = []
    for entry in entries:
        figure, covered = entry.figure, ""
        if interval is not None:
            inside = interval[0] <= figure.value <= interval[1]
            covered = f", {'within' if inside else 'outside'} the interval"
        short = f"short by {number(-entry.gap)}{covered}"
        gaps.append(f"{number(figure.value)} of {figure.source} ({figure.protocol}), {short}")
    own = f"{entries[0].name} has {number(best.shown.mean)}{around}"
    text = f"**{best.heading}**: {own}. **Not reached**: {'; '.join(gaps)}."
    if entries[0].others:
        other = best_of(entries[0].others)
        if gap(best.metric, other.shown.mean, best.shown.mean) > 0:
            text += f" Another model here, {other.label}, has {number(other.shown.mean)}."
    return text


def _by_some(entry: Quoted) -> str:
    others = [row for row in entry.rows if entry.beyond(row) < 0]
    told = (
        f"{others[0].label}, {number(others[0].shown.mean)}"
        if len(others) == 1
        else f"{len(others)} of {len(entry.rows)} rows"
    )
    figure = entry.figure
    return f"{entry.best.heading}, {number(figure.value)} of {short_source(figure.source)} (not by {told})"


def _better_baselines(rows: Sequence[Row]) -> list[str]:
    """Name the baselines that have a better mean than every network on the same splits."""
    told = []
    for best, _, ahead in _with_baselines(rows):
        if ahead < 0:
            same = [row for row in rows if (row.data, row.group) == (best.data, best.group)]
            names = ", ".join(
                f"{name} with {number(entry.mean)}"
                for name, entry in baselines_of(same).items()
                if gap(best.metric, best.mean, entry.mean) < 0
            )
            told.append(f"{best.heading}: {names}; the best network, {best.label}, has {number(best.mean)}")
    return [f"Baselines that are better than every network here. {'. '.join(told)}."] if told else []


# -- the small table at the beginning of a page --------------------------------------------------------------


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
        kinds = [[row for row in members if row.is_kernel == kernel] for kernel in (False, True)]
        published = by(by_source(members), _in_short)
        first = max(beside, key=lambda name: gap(best.metric, beside[name].mean, 0.0), default=None)
        cells = [
            *(_best_cell(own) for own in kinds),
            (None, "") if first is None else (beside[first].mean, f"{number(beside[first].mean)} {first}"),
        ]
        texts = [f"{' / '.join(number(f.value) for f in own)} {name}" for name, own in published.items()]
        ahead = max((v for v, _ in cells if v is not None), key=lambda v: gap(best.metric, v, 0.0))
        shown = [f"**{text}**" if v is not None and v == ahead else text for v, text in cells]
        optimistic = " (optimistic)" if best.as_published is not None else ""
        protocol = best.group or best.protocol_text.split(";")[0]
        body.append([best.data, protocol + optimistic, *shown, "; ".join(texts)])
    heads = ["data", "protocol", "best network here", "best kernel here", "best baseline here", "published"]
    filled = [k for k in range(len(heads)) if any(line[k] for line in body)]
    return table([heads[k] for k in filled], [[line[k] for k in filled] for line in body], text_columns=9)


def _best_cell(rows: Sequence[Row]) -> tuple[float | None, str]:
    """Return the best value of some rows, and the text for it."""
    if not rows:
        return None, ""
    best = best_of(rows)
    return best.shown.mean, f"{number(best.shown.mean)} {best.label}{SEEN * best.marked}"


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
