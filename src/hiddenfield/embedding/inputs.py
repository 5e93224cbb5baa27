"""The features of nodes and arcs, labels and attributes, and linear maps of them."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import nn

from hiddenfield.data.structures import Structures
from hiddenfield.embedding.members import members_of, product
from hiddenfield.errors import InputError
from hiddenfield.ops import RowBlocks, Topology, gather_sum, segment_sum
from hiddenfield.shapes import Float, Int, Tensor

# Beyond this many symbols a dense one-hot matrix costs more than picking rows.
DENSE_SYMBOLS = 1024

# Kinds spare work where each stands for more arcs than this, and are counted among at most so many pairs.
ARCS_OF_A_KIND, MOST_PAIRS = 16, 1 << 20


@dataclass(frozen=True)
class FeatureSizes:
    """How many symbols each label column has, and how many attributes there are; what a model must know of data.

    Examples
    --------
    >>> import hiddenfield as hf
    >>> FeatureSizes.of(hf.data.from_sequences(["GATTACA"], arc_labels="direction"))
    FeatureSizes(node_labels=(4,), node_attributes=0, arc_labels=(2,), arc_attributes=0)
    """

    node_labels: tuple[int, ...] = ()
    node_attributes: int = 0
    arc_labels: tuple[int, ...] = ()
    arc_attributes: int = 0

    @classmethod
    def of(cls, structures: Structures) -> FeatureSizes:
        """Return the sizes of a pack's features."""
        return cls(
            tuple(len(vocabulary) for vocabulary in structures.node_vocabularies),
            len(structures.node_attribute_names),
            tuple(len(vocabulary) for vocabulary in structures.arc_vocabularies),
            len(structures.arc_attribute_names),
        )

    @property
    def has_arcs(self) -> bool:
        """Whether arcs carry anything."""
        return bool(self.arc_labels) or self.arc_attributes > 0


@dataclass(frozen=True, eq=False)
class Inputs:
    """The features of the rows of one batch, ready for several projections; x in the equations.

    Parameters
    ----------
    symbols
        For each row the positions of its symbols among all symbols of all columns, as arcs from symbols to rows.
    one_hot
        The same as a dense matrix, where a device multiplies faster than it picks.
    attributes
        (rows, attributes) or None.
    rows
        How many.
    blocks
        Which rows belong to which of several networks; None for one.
    """

    symbols: Topology | None
    one_hot: Float[Tensor, "rows symbols"] | None
    attributes: Float[Tensor, "rows attributes"] | None
    rows: int
    blocks: RowBlocks | None = None

    @classmethod
    def of(cls, structures: Structures, kind: str, sizes: FeatureSizes, dtype: torch.dtype) -> Inputs:
        """Take the features of the nodes or arcs, as `kind` says: ``"node"`` or ``"arc"``."""
        attributes: Tensor | None = getattr(structures, f"{kind}_attributes")
        rows = structures.total_nodes if kind == "node" else structures.total_arcs
        blocks: RowBlocks | None = getattr(members_of(structures), f"{kind}s")
        bare = cls(None, None, None if attributes is None else attributes.to(dtype), rows, blocks)
        return bare._labelled(getattr(structures, f"{kind}_labels"), getattr(sizes, f"{kind}_labels"), dtype)

    def _labelled(
        self, labels: Int[Tensor, "rows columns"] | None, sizes: tuple[int, ...], dtype: torch.dtype
    ) -> Inputs:
        """Return these rows with labels."""
        found = 0 if labels is None else labels.shape[1]
        if found != len(sizes):
            raise InputError(
                f"the model was built for {len(sizes)} label columns, the structures have {found}"
            )
        if labels is None or not sizes:
            return self
        # Numbers are added column by column, so that nothing has to be moved to a device.
        columns = [labels[:, k] + sum(sizes[:k]) for k in range(len(sizes))]
        codes = labels if len(sizes) == 1 else torch.stack(columns, dim=1)
        if self.blocks is not None or (not labels.is_cpu and sum(sizes) <= DENSE_SYMBOLS):
            one_hot = torch.zeros(self.rows, sum(sizes), dtype=dtype, device=labels.device)
            one_hot.scatter_(1, codes.long(), 1.0)
            return replace(self, one_hot=one_hot)
        bounds = torch.arange(0, codes.numel() + 1, len(sizes), dtype=codes.dtype, device=codes.device)
        return replace(self, symbols=Topology(codes.reshape(-1), bounds, num_sources=sum(sizes)))

    def summed(self, ptr: Int[Tensor, " segment_bounds"], blocks: RowBlocks | None = None) -> Inputs:
        """Return sums over segments of rows: a linear map of these, without bias, is the sum of the rows' maps."""
        symbols, one_hot, attributes = self.symbols, self.one_hot, self.attributes
        if symbols is not None:
            columns = symbols.num_arcs // max(self.rows, 1)
            symbols = Topology(symbols.source, ptr * columns, num_sources=symbols.num_sources)
        return Inputs(
            symbols,
            None if one_hot is None else segment_sum(one_hot, ptr),
            None if attributes is None else segment_sum(attributes, ptr),
            len(ptr) - 1,
            blocks,
        )


@dataclass(frozen=True, eq=False)
class ArcKinds:
    """The distinct pairs of sender's and arc's labels of a batch: what depends on them alone is computed once per kind.

    Parameters
    ----------
    kind
        For each arc its kind; each of several networks side by side has kinds of its own.
    senders, arcs
        The features of the sender and of the arc, one row per kind.
    """

    kind: Int[Tensor, " arcs"]
    senders: Inputs
    arcs: Inputs

    @classmethod
    def of(cls, structures: Structures, sizes: FeatureSizes, dtype: torch.dtype) -> ArcKinds | None:
        """Find the kinds.

        None on a GPU, which gains nothing, and where there are attributes or too many kinds.
        """
        if not structures.source.is_cpu or sizes.node_attributes or sizes.arc_attributes:
            return None
        members = members_of(structures).arcs
        networks = 1 if members is None else len(members)
        source, nodes, arcs = structures.source, structures.node_labels, structures.arc_labels
        code, count = _joined(
            torch.zeros(structures.total_nodes, dtype=torch.int64), 1, nodes, sizes.node_labels
        )
        code, count = _joined(code.index_select(0, source), count, arcs, sizes.arc_labels)
        if count == 0 or networks * count * ARCS_OF_A_KIND >= len(code):
            return None
        # A kind of nodes that send nothing keeps arc 0 for its example: nobody reads what is computed for it.
        example = torch.zeros(count, dtype=torch.int64).index_copy_(0, code, torch.arange(len(code)))
        nodes = None if nodes is None else nodes.index_select(0, source.index_select(0, example))
        arcs = None if arcs is None else arcs.index_select(0, example)
        bare = Inputs(None, None, None, networks * count)
        if members is not None:
            code = code + count * members.owner
            bare = replace(bare, blocks=RowBlocks(count * torch.arange(networks + 1), bare.rows))
            nodes, arcs = (None if own is None else own.repeat(networks, 1) for own in (nodes, arcs))
        return cls(
            code,
            bare._labelled(nodes, sizes.node_labels, dtype),
            bare._labelled(arcs, sizes.arc_labels, dtype),
        )


def kinds_of_rows(
    structures: Structures, kind: str, sizes: FeatureSizes
) -> tuple[Int[Tensor, " rows"] | None, int]:
    """Return a number for the symbols of every node or arc, all columns together, and how many numbers there are.

    None where there are attributes, or no labels.

    Examples
    --------
    >>> import hiddenfield as hf
    >>> words = hf.data.from_sequences(["ABA"])
    >>> kinds_of_rows(words, "node", FeatureSizes.of(words))
    (tensor([0, 1, 0], dtype=torch.int32), 2)
    """
    labels: Tensor | None = getattr(structures, f"{kind}_labels")
    columns: tuple[int, ...] = getattr(sizes, f"{kind}_labels")
    if labels is None or getattr(sizes, f"{kind}_attributes"):
        return None, 0
    code = labels[:, 0]
    for column, size in enumerate(columns[1:], 1):
        code = code * size + labels[:, column]
    return code.contiguous(), math.prod(columns)


def _joined(
    code: Int[Tensor, " rows"], count: int, labels: Int[Tensor, "rows columns"] | None, sizes: tuple[int, ...]
) -> tuple[Int[Tensor, " rows"], int]:
    """Give numbers to the codes and labels that occur together, column by column; 0 numbers if too many."""
    for column, size in enumerate(sizes if labels is not None else ()):
        if not 0 < count * size <= MOST_PAIRS:
            return code, 0
        assert labels is not None
        pair = code * size + labels[:, column]
        number = (torch.bincount(pair, minlength=1) > 0).cumsum(0)
        code, count = number.index_select(0, pair) - 1, int(number[-1])
    return code, count


class Projection(nn.Module):
    r"""Linear map of labels and attributes: :math:`W x + b`, with x the one-hot labels followed by the attributes.

    With no features at all x is the constant 1. One network alone on the CPU forms no one-hot vectors: a row's symbols
    pick and add rows of the table, at a cost that does not depend on how many symbols there are.

    Parameters
    ----------
    label_sizes, attributes
        As in `FeatureSizes`.
    width
        Rows of W.
    bias
        Whether to add b.
    """

    def __init__(
        self, label_sizes: tuple[int, ...], attributes: int, width: int, *, bias: bool = False
    ) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.empty(sum(label_sizes), width)) if label_sizes else None
        self.label_sizes = label_sizes
        self.weight = nn.Parameter(torch.empty(width, attributes)) if attributes else None
        constant = self.table is None and self.weight is None
        self.bias = nn.Parameter(torch.zeros(width)) if bias or constant else None
        # Glorot's bound for the number of inputs that are active at once, one a column, not for all symbols.
        bound = math.sqrt(6.0 / (width + len(label_sizes) + attributes + constant))
        for parameter in (self.table, self.weight, self.bias if constant else None):
            if parameter is not None:
                nn.init.uniform_(parameter, -bound, bound)

    def forward(
        self, inputs: Inputs, constant: Float[Tensor, "rows width"] | None = None
    ) -> Float[Tensor, "rows width"]:
        """Return (rows, width), with a constant added if there is one."""
        result, blocks = constant, inputs.blocks
        if self.table is not None:
            table = self.table if self.bias is None else self._with_bias()
            if inputs.one_hot is not None:
                result = product(inputs.one_hot, table.transpose(-1, -2), blocks, constant)
            else:
                assert inputs.symbols is not None
                # Mixed precision: a constant that comes from a product is in the lower one.
                added = None if constant is None else constant.to(table.dtype)
                result = gather_sum(table, inputs.symbols, added)
        elif self.bias is not None:
            bias = self.bias.expand(inputs.rows, -1) if blocks is None else self.bias[blocks.owner]
            result = bias if constant is None else bias + constant
        if self.weight is not None:
            assert inputs.attributes is not None
            return product(inputs.attributes, self.weight, blocks, result)
        assert result is not None
        return result.contiguous()

    def of_kinds(self) -> Float[Tensor, "kinds width"]:
        """Return the map of every combination of symbols, numbered as by `kinds_of_rows`."""
        assert self.table is not None
        first, *others = self.table.split(self.label_sizes)
        result = first if self.bias is None else first + self.bias
        for rows in others:
            result = (result[:, None] + rows).flatten(0, 1)
        return result

    def _with_bias(self) -> Float[Tensor, "*networks symbols width"]:
        """Put the bias on the symbols of the first column, of which every row has one: no pass over the rows."""
        assert self.table is not None
        assert self.bias is not None
        size = self.label_sizes[0]
        first, others = self.table.split((size, self.table.shape[-2] - size), dim=-2)
        return torch.cat([first + self.bias.unsqueeze(-2), others], dim=-2)
