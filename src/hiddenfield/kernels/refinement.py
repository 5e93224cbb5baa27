"""The Weisfeiler-Lehman subtree kernel, by its explicit features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from hiddenfield.data.structures import Structures
from hiddenfield.data.vocabulary import Vocabulary
from hiddenfield.errors import InputError
from hiddenfield.ops.compile import compiled, prange, subroutine
from hiddenfield.ops.equal_rows import Rows, number_rows
from hiddenfield.shapes import Array, Float, Int, Tensor

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix


@dataclass(frozen=True, eq=False)
class ColourDictionary:
    """Every colour of every round as what it stands for, so that the same neighbourhood has the same column for ever.

    Parameters
    ----------
    node_vocabularies, arc_vocabularies
        The labels that it was fitted on; `arc_vocabularies` is None where arc labels do not count.
    arc_labels
        The distinct combinations of arc labels, as rows of codes.
    rounds
        One for every round from 0: the distinct rows that are the round's colours. In round 0 a row holds a
        node's label codes; later its own colour, then for every arc that arrives the colour of the node that
        sends, times the number of combinations of arc labels, plus the number of the arc's own: sorted.
    """

    node_vocabularies: tuple[Vocabulary, ...]
    arc_vocabularies: tuple[Vocabulary, ...] | None
    arc_labels: Rows
    rounds: tuple[Rows, ...]

    @cached_property
    def offsets(self) -> tuple[int, ...]:
        """First column of every round, then the number of columns."""
        return tuple(int(total) for total in np.cumsum([0] + [len(rows) for rows in self.rounds]))

    @property
    def num_features(self) -> int:
        """Number of columns: the colours of all rounds."""
        return self.offsets[-1]

    def __repr__(self) -> str:
        """Colours of every round."""
        sizes = ", ".join(f"{len(rows):,}" for rows in self.rounds)
        return f"ColourDictionary({self.num_features:,} colours; by round: {sizes})"


def weisfeiler_lehman(
    structures: Structures,
    rounds: int = 3,
    *,
    vocabulary: ColourDictionary | None = None,
    use_arc_labels: bool = True,
) -> tuple[csr_matrix, ColourDictionary]:
    r"""Count the colours of every structure's nodes under rounds of refinement.

    A node's first colour is its labels; then, with e the arcs' labels and braces for multisets,

    .. math:: c_i^{(t)} = \mathrm{colour}\bigl(c_i^{(t-1)}, \{(c_j^{(t-1)}, e_{ji}) : j \in N(i)\}\bigr), \qquad
        \phi(\chi)_{t, c} = \bigl|\{i \in \chi : c_i^{(t)} = c\}\bigr|

    where different arguments have different colours, always: rows are compared, not hashes. The kernel of two
    structures is the inner product of their features (Shervashidze et al. 2011). Structures that are isomorphic
    have equal features; the converse is false, for two triangles and a hexagon already.

    Only labels are read, not continuous attributes. A colour passes along arcs: of a one-way arc only the node
    that it arrives at learns.

    Parameters
    ----------
    structures
        N of them.
    rounds
        T, at least 0: how often colours are refined.
    vocabulary
        The dictionary that an earlier call returned: features then have the same columns, and a colour that is
        not in it is counted in none. Its own rounds and use of arc labels hold, whatever is given here.
    use_arc_labels
        Whether e is there.

    Returns
    -------
    features
        scipy.sparse CSR, (structures, colours of rounds 0 to T), float64 counts; exact.
    vocabulary
        The dictionary, for further calls.

    Notes
    -----
    O(rounds · (nodes + arcs log degree)) expected time and O(nodes + arcs) memory beside the result.

    References
    ----------
    N. Shervashidze, P. Schweitzer, E. J. van Leeuwen, K. Mehlhorn and K. M. Borgwardt, Weisfeiler-Lehman graph kernels,
    Journal of Machine Learning Research 12 (2011).

    Examples
    --------
    >>> import hiddenfield as hf
    >>> words = hf.data.from_sequences(["AB", "BA", "AA"])
    >>> features, colours = weisfeiler_lehman(words, rounds=1)
    >>> features.toarray()  # A, B; an A beside a B, a B beside an A, an A beside an A
    array([[1., 1., 1., 1., 0.],
           [1., 1., 1., 1., 0.],
           [2., 0., 0., 0., 2.]])
    >>> weisfeiler_lehman(hf.data.from_sequences(["ABC"]), vocabulary=colours)[0].toarray()
    array([[1., 1., 1., 0., 0.]])
    """
    colours, result = refine(structures, rounds, vocabulary=vocabulary, use_arc_labels=use_arc_labels)
    return _counts(colours, structures, result.offsets), result


def refine(
    structures: Structures,
    rounds: int,
    *,
    vocabulary: ColourDictionary | None = None,
    use_arc_labels: bool = True,
) -> tuple[Int[Array, "rounds nodes"], ColourDictionary]:
    """Return the colour of every node in each round from 0, -1 where the dictionary lacks it, and the dictionary.

    The parameters are those of `weisfeiler_lehman`.
    """
    rounds = _checked(rounds) if vocabulary is None else len(vocabulary.rounds) - 1
    known = vocabulary
    use_arc_labels = use_arc_labels if known is None else known.arc_vocabularies is not None
    labels, node_vocabularies = columns_in(
        structures, "node", None if known is None else known.node_vocabularies
    )
    arcs, arc_vocabularies, arc_rows = _arc_numbers(structures, use_arc_labels, known)
    rows, tables = Rows.of_table(labels), []
    nodes = structures.total_nodes
    every = np.empty((rounds + 1, nodes), dtype=np.int32 if nodes < 2**31 else np.int64)
    for step in range(rounds + 1):
        colours, table = look_up(rows, None if known is None else known.rounds[step])
        tables.append(table)
        every[step] = colours
        if step < rounds:
            rows = _neighbourhoods(colours, arcs, len(arc_rows), structures)
    return every, known or ColourDictionary(node_vocabularies, arc_vocabularies, arc_rows, tuple(tables))


def bag_of_labels(
    structures: Structures, *, vocabulary: ColourDictionary | None = None
) -> tuple[csr_matrix, ColourDictionary]:
    """Count the labels of every structure's nodes: round 0 of `weisfeiler_lehman`.

    With several label columns it is their combinations that are counted.

    Parameters
    ----------
    structures
        N of them.
    vocabulary
        The dictionary that an earlier call returned, for the same columns.

    Returns
    -------
    features
        scipy.sparse CSR, (structures, labels), float64 counts.
    vocabulary
        The dictionary.

    Examples
    --------
    >>> import hiddenfield as hf
    >>> bag_of_labels(hf.data.from_sequences(["GATTACA", "CAT"]))[0].toarray()
    array([[1., 3., 2., 1.],
           [0., 1., 1., 1.]])
    """
    return weisfeiler_lehman(structures, 0, vocabulary=vocabulary, use_arc_labels=False)


def look_up(rows: Rows, known: Rows | None) -> tuple[Int[Array, " rows"], Rows]:
    """Find every row among the known ones, -1 where it is not there; without known ones, make them.

    Returns
    -------
    numbers
        (rows,).
    known
        The rows that the numbers stand for.
    """
    if known is None:
        numbers, first = number_rows(rows)
        return numbers, rows.take(first)
    # The known rows are distinct, so that standing first they are numbered 0, 1, ... themselves.
    numbers = number_rows(Rows.concatenate([known, rows]))[0][len(known) :]
    return np.where(numbers < len(known), numbers, -1), known


def columns_in(
    structures: Structures, kind: str, vocabularies: tuple[Vocabulary, ...] | None
) -> tuple[Int[Array, "rows columns"], tuple[Vocabulary, ...]]:
    """Return the label codes of nodes or arcs, in other vocabularies if wanted: a symbol that these lack is -1."""
    own: tuple[Vocabulary, ...] = getattr(structures, f"{kind}_vocabularies")
    labels: Tensor | None = getattr(structures, f"{kind}_labels")
    count = structures.total_nodes if kind == "node" else structures.total_arcs
    # A copy, for it is written to; torch makes it on several threads.
    codes = np.zeros((count, 0), dtype=np.int64)
    if labels is not None:
        codes = labels.cpu().to(torch.int64, copy=True).numpy()
    if vocabularies is None:
        return codes, own
    if [v.name for v in own] != [v.name for v in vocabularies]:
        raise InputError(
            f"the colours were fitted on the {kind} label columns {[v.name for v in vocabularies]}, and the structures "
            f"have {[v.name for v in own]}; read them with the same features"
        )
    for column, (old, new) in enumerate(zip(own, vocabularies, strict=True)):
        if old != new and len(old):
            codes[:, column] = old.recode_to(new)[codes[:, column]]
    return codes, vocabularies


def _checked(rounds: int) -> int:
    if isinstance(rounds, bool) or not isinstance(rounds, (int, np.integer)) or rounds < 0:
        raise InputError(f"rounds must be an integer of at least 0, got {rounds!r}")
    return int(rounds)


def _arc_numbers(
    structures: Structures, use_labels: bool, known: ColourDictionary | None
) -> tuple[Int[Array, " arcs"], tuple[Vocabulary, ...] | None, Rows]:
    """Return one number per arc for its labels (-1 if not known), the vocabularies, and what the numbers mean."""
    if not use_labels:
        nothing = Rows.of_table(np.zeros((1, 0), dtype=np.int64))
        return np.zeros(structures.total_arcs, dtype=np.int64), None, nothing
    labels, vocabularies = columns_in(structures, "arc", None if known is None else known.arc_vocabularies)
    numbers, rows = look_up(Rows.of_table(labels), None if known is None else known.arc_labels)
    return numbers, vocabularies, rows


def _neighbourhoods(
    colours: Int[Array, " nodes"], arcs: Int[Array, " arcs"], num_labels: int, structures: Structures
) -> Rows:
    """Return one row per node: its colour, then the sorted colours and arc labels that arrive."""
    in_ptr = structures.in_ptr.cpu().numpy().astype(np.int64)
    # Every node's row is longer than its list of arcs by one.
    ptr = in_ptr + np.arange(len(in_ptr), dtype=np.int64)
    values = np.empty(ptr[-1], dtype=np.int64)
    source = structures.source.cpu().numpy()
    _gather_sorted(in_ptr, source, colours, arcs, num_labels, values, work=len(values))
    return Rows(ptr, values)


@compiled
def _gather_sorted(
    in_ptr: Array, source: Array, colours: Array, arcs: Array, num_labels: int, out: Array
) -> None:
    for node in prange(in_ptr.size - 1):
        start = in_ptr[node] + node
        out[start] = colours[node]
        first = start + 1
        degree = in_ptr[node + 1] - in_ptr[node]
        for k in range(degree):
            arc = in_ptr[node] + k
            colour = colours[source[arc]]
            # What is not in the dictionary makes the whole row unknown.
            code = np.int64(-1)
            if colour >= 0 and arcs[arc] >= 0:
                code = colour * num_labels + arcs[arc]
            out[first + k] = code
        _sort(out[first : first + degree])


@subroutine
def _sort(values: Array) -> None:
    """Sort in place; few values by insertion, which is quicker then."""
    if values.size > 64:
        values.sort()
        return
    for k in range(1, values.size):
        value, place = values[k], k
        while place > 0 and values[place - 1] > value:
            values[place] = values[place - 1]
            place -= 1
        values[place] = value


def _counts(
    colours: Int[Array, "rounds nodes"], structures: Structures, offsets: Sequence[int]
) -> csr_matrix:
    """Count each structure's colours, those of every round from its own column on; -1 is counted nowhere."""
    from scipy import sparse

    known = colours >= 0
    owner = np.broadcast_to(structures.structure_of_node.cpu().numpy(), colours.shape)[known]
    columns = (colours + np.array(offsets[:-1])[:, None])[known]
    ones = np.ones(len(owner))
    return sparse.coo_matrix((ones, (owner, columns)), shape=(len(structures), offsets[-1])).tocsr()


# -- structures that refinement cannot tell apart: copies of each other, up to the order of their nodes -----------

# Colours travel one arc per round. What differs only farther from every node than this is taken for a copy.
MOST_ROUNDS = 64


def copy_classes(structures: Structures) -> Int[Array, " structures"]:
    """Give structures equal numbers where refinement finds the same colours in them, equally often.

    Colours are refined as in `weisfeiler_lehman` until they no longer split, at most 64 times; labels and continuous
    attributes both count, targets and ids do not. Isomorphic structures have equal numbers, always. The converse holds
    for trees, sequences and almost every graph; regular graphs of one degree are the known exception.

    Returns
    -------
    (structures,)
        From 0, by first appearance.

    Notes
    -----
    After every round only the structures that still have an equal are refined further, so that a set without copies
    costs a few rounds whatever its size.

    Examples
    --------
    >>> import hiddenfield as hf
    >>> copy_classes(hf.data.from_sequences(["GAT", "TAG", "GAT", "CAT"])).tolist()
    [0, 0, 0, 1]
    """
    structures = _attributes_as_labels(structures)
    numbers = np.zeros(len(structures), dtype=np.int64)
    left = np.arange(len(structures))
    pack = structures
    colours, _ = look_up(Rows.of_table(columns_in(pack, "node", None)[0]), None)
    distinct = -1
    for _ in range(MOST_ROUNDS):
        found = _equal_counts(colours, pack)
        numbers[left] = numbers.max(initial=0) + 1 + found
        again = np.bincount(found)[found] > 1
        if not again.any():
            break
        if not again.all():
            kept = np.flatnonzero(again)
            colours = colours[again[pack.structure_of_node.cpu().numpy()]]
            left, pack, distinct = left[kept], pack[kept], -1
        arcs, _, arc_rows = _arc_numbers(pack, True, None)
        colours, table = look_up(_neighbourhoods(colours, arcs, len(arc_rows), pack), None)
        if len(table) == distinct:
            break
        distinct = len(table)
    return number_rows(Rows.of_table(numbers[:, None]))[0]


def _equal_counts(colours: Int[Array, " nodes"], pack: Structures) -> Int[Array, " structures"]:
    """Return one number per structure, the same where the counts of colours are."""
    counts = _counts(colours[None], pack, (0, int(colours.max(initial=-1)) + 1))
    # A row of (colour, count) pairs, end to end.
    values = np.stack([counts.indices.astype(np.int64), counts.data.astype(np.int64)], axis=1).reshape(-1)
    return number_rows(Rows(2 * counts.indptr.astype(np.int64), values))[0]


def _attributes_as_labels(structures: Structures) -> Structures:
    """Return the structures with every distinct row of attributes as one more label."""
    changes: dict[str, Any] = {}
    for kind in ("node", "arc"):
        attributes: Float[Tensor, "rows dim"] | None = getattr(structures, f"{kind}_attributes")
        if attributes is None or not len(attributes):
            continue
        _, codes = np.unique(attributes.cpu().numpy(), axis=0, return_inverse=True)
        labels: Tensor | None = getattr(structures, f"{kind}_labels")
        column = torch.from_numpy(codes.reshape(-1, 1)).to(attributes.device)
        joined = column if labels is None else torch.cat([labels.to(column.dtype), column], dim=1)
        words = Vocabulary("attributes", tuple(range(int(codes.max()) + 1)))
        changes[f"{kind}_labels"] = joined
        changes[f"{kind}_vocabularies"] = (*getattr(structures, f"{kind}_vocabularies"), words)
    return structures.replace(**changes)
