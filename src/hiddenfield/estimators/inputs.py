"""The input X of an estimator: accepted forms, and what a fitted model knows of its features."""

from __future__ import annotations

import importlib.util
import inspect
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Real
from typing import Any

import msgspec
import numpy as np

from hiddenfield import data
from hiddenfield.data.build import concatenate
from hiddenfield.data.columns import ROWS
from hiddenfield.data.structures import Structures
from hiddenfield.data.vocabulary import Vocabulary
from hiddenfield.embedding.inputs import FeatureSizes
from hiddenfield.errors import InputError, MissingDependencyError
from hiddenfield.shapes import Array, Int, Tensor

# Functions of `hiddenfield.data`.
CONVERTERS = {
    "smiles": "from_smiles",
    "sequence": "from_sequences",
    "networkx": "from_networkx",
    "pyg": "from_pyg",
}
REPRESENTATIONS = ("structures", *CONVERTERS)
# Signs of bonds, branches, rings and charges, which no sequence of letters has.
SMILES_SIGNS = re.compile(r"[=#()\[\]@/\\+0-9]")
# Degrees that are told apart where they are the labels of nodes.
MOST_DEGREES = 64
REMEDY = 'say which with representation="smiles" or representation="sequence"'


@dataclass(frozen=True)
class Reading:
    """How X becomes a pack: what its entries are, and the options of the converter.

    It is found once, when a model is fitted, and then holds for everything that the model is shown.

    Examples
    --------
    >>> reading = Reading.of(["GATTACA", "CAT"])
    >>> reading
    Reading(representation='sequence', options={'arc_labels': 'direction'})
    >>> reading.convert(["TTT"])
    Structures(1 structure, 3 nodes, 4 arcs; node labels: symbol (1); arc labels: direction (2))
    """

    representation: str
    options: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, X: Any, representation: str = "auto", options: Mapping[str, Any] | None = None) -> Reading:
        """Find how to read X: as it is said, or as its entries show.

        Sequences get arcs that know their direction, and networkx graphs all attributes that they have, unless
        `options` say otherwise.
        """
        if representation == "auto":
            representation = _recognise(X)
        given = dict(options or {})
        if representation == "structures" and given:
            raise InputError(f"a pack is not converted, but representation_options has {next(iter(given))!r}")
        if representation == "sequence":
            given = {"arc_labels": "direction"} | given
        if representation == "networkx" and not given:
            given = _attributes_of(X)
        return cls(representation, given)

    def convert(self, X: Any) -> Structures:
        """Return X as a pack; a pack is returned as it is."""
        if isinstance(X, Structures):
            return X
        entries = _listed(X)
        if any(isinstance(entry, Structures) for entry in entries):
            return concatenate(entries)
        if self.representation == "structures":
            raise InputError(
                f"expected a pack of structures, got {_type_of(X)}; the model was fitted on packs: convert X likewise"
            )
        convert = getattr(data, CONVERTERS[self.representation])
        if unknown := set(self.options) - set(inspect.signature(convert).parameters):
            raise InputError(
                f"representation_options of {self.representation!r}: got an unexpected keyword argument "
                f"{min(unknown)!r}"
            )
        return convert(entries, **self.options)  # type: ignore[no-any-return]


def rows_read(X: Any, structures: Structures) -> Int[Array, " structures"] | None:
    """Return which entries of X became structures; None where all did.

    A converter that was told to skip what it cannot read leaves entries out, and says which in a column.

    Examples
    --------
    >>> import warnings
    >>> with warnings.catch_warnings(action="ignore"):
    ...     pack = Reading("smiles", {"on_error": "skip"}).convert(["CCO", "C(", "CN"])
    >>> rows_read(["CCO", "C(", "CN"], pack)
    array([0, 2])
    """
    if isinstance(X, Structures) or ROWS not in structures.columns or len(structures) == len(_listed(X)):
        return None
    return np.asarray(structures.columns[ROWS], dtype=np.int64)


def _type_of(X: Any) -> str:
    """Name what came: its type and that of its first entry."""
    first = next(iter(X), None) if isinstance(X, (list, tuple)) else None
    return type(X).__name__ + ("" if first is None else f" of {type(first).__name__}")


def _listed(X: Any) -> list[Any]:
    """Return the entries of a list, a tuple, an array or a data frame with one column."""
    if getattr(X, "ndim", 1) == 2 and X.shape[1] == 1:  # as scikit-learn's meta-estimators pass them on
        X = X.iloc[:, 0] if hasattr(X, "iloc") else X[:, 0]
    if isinstance(X, (str, bytes, Mapping)) or not hasattr(X, "__iter__") or getattr(X, "ndim", 1) != 1:
        shape = f" of shape {X.shape}" if hasattr(X, "shape") else ""
        raise InputError(
            f"expected structures (a pack, or a list of SMILES, sequences or graphs), got {type(X).__name__}{shape}"
        )
    return list(X.to_data_list() if hasattr(X, "to_data_list") else X)


def _recognise(X: Any) -> str:
    """Return the representation that the entries show; refuse to guess where they show two."""
    if isinstance(X, Structures):
        return "structures"
    entries = _listed(X)
    if not entries:
        raise InputError("there are no structures: X is empty")
    if all(isinstance(entry, Structures) for entry in entries):
        return "structures"
    if all(isinstance(entry, str) for entry in entries):
        return _recognise_texts(entries)
    if all(isinstance(entry, (str, list, tuple, np.ndarray)) for entry in entries):
        return "sequence"
    for package, representation in (("networkx", "networkx"), ("torch_geometric", "pyg")):
        if all(_comes_from(entry, package) for entry in entries):
            return representation
    odd = next(
        k for k, entry in enumerate(entries) if type(entry) is not type(entries[0]) or k == len(entries) - 1
    )
    raise InputError(
        f"cannot tell what X holds: entry 0 is of type {type(entries[0]).__name__}, entry {odd} of type "
        f"{type(entries[odd]).__name__}; expected SMILES, sequences, networkx graphs or PyG data throughout"
    )


def _comes_from(entry: Any, package: str) -> bool:
    """Say whether an object is of a class of the package, or of a subclass that is defined elsewhere."""
    return any(kind.__module__.split(".")[0] == package for kind in type(entry).__mro__)


def _recognise_texts(texts: Sequence[str]) -> str:
    signs = any(SMILES_SIGNS.search(text) for text in texts)
    if importlib.util.find_spec("rdkit") is None:
        if signs:
            raise MissingDependencyError.for_extra(
                "rdkit",
                "molecules",
                f"X looks like SMILES, unless it holds sequences ({REMEDY}), and reading SMILES",
            )
        return "sequence"
    odd = _first_that_is_no_molecule(texts)
    if signs and odd is None:
        return "smiles"
    if not signs and odd is not None:
        return "sequence"
    if odd is None:
        raise InputError(f"every text of X can be read as SMILES and as a sequence; {REMEDY}")
    raise InputError(
        f"cannot tell whether X holds SMILES: some texts have signs of bonds or rings, but {texts[odd]!r:.100} "
        f"(structure {odd}) is no molecule; {REMEDY}"
    )


def _first_that_is_no_molecule(texts: Sequence[str]) -> int | None:
    from rdkit import rdBase
    from rdkit.Chem import MolFromSmiles

    with rdBase.BlockLogs():
        return next((k for k, text in enumerate(texts) if not text or MolFromSmiles(text) is None), None)


def _attributes_of(X: Any) -> dict[str, Any]:
    """Return the names of all attributes of networkx nodes and edges: text and integers as labels, else numbers."""
    graphs = _listed(X)
    nodes = [data for graph in graphs for _, data in graph.nodes(data=True)]
    edges = [data for graph in graphs for _, _, data in graph.edges(data=True)]
    found: dict[str, Any] = {}
    for kind, rows in (("node", nodes), ("edge", edges)):
        for name in sorted({name for row in rows for name in row}, key=str):
            values = [row[name] for row in rows if name in row]
            numbers = all(isinstance(value, Real) for value in values)
            whole = all(isinstance(value, (str, int, np.integer, np.bool_)) for value in values)
            if numbers or whole:
                found.setdefault(f"{kind}_{'label' if whole else 'attribute'}", []).append(name)
    return found


@dataclass(frozen=True)
class Attribute:
    """A continuous feature, with the mean and the scale that its values are standardised by."""

    name: str
    mean: float
    scale: float


@dataclass(frozen=True)
class Features:
    """The features that a model was fitted on, by which new structures are encoded in the same way.

    Where nodes have neither labels nor attributes, their degrees are their labels; larger ones than any in training, or
    than 64, are the largest.

    Examples
    --------
    >>> import hiddenfield as hf
    >>> features = Features.of(hf.data.from_sequences(["GATTACA"]))
    >>> features.encode(hf.data.from_sequences(["TT"])).node_labels.flatten().tolist()
    [3, 3]
    >>> features.encode(hf.data.from_sequences(["CU"]))
    Traceback (most recent call last):
    hiddenfield.errors.UnknownSymbolError: structure 0: symbol 'U' of node 1 is not among the 4 known symbols; \
leave the structure out, or fit on data that has this symbol
    """

    node_vocabularies: tuple[Vocabulary, ...]
    arc_vocabularies: tuple[Vocabulary, ...]
    node_attributes: tuple[Attribute, ...]
    arc_attributes: tuple[Attribute, ...]
    mean_nodes: float
    largest_degree: int | None = None

    @classmethod
    def of(cls, structures: Structures) -> Features:
        """Take the vocabularies, names and scales of a pack."""
        largest = None
        if structures.node_labels is None and structures.node_attributes is None and structures.total_nodes:
            largest = min(MOST_DEGREES, int(structures.in_ptr.diff().max()))
            structures = with_degrees(structures, largest)
        return cls(
            structures.node_vocabularies,
            structures.arc_vocabularies,
            _attributes(structures.node_attribute_names, structures.node_attributes),
            _attributes(structures.arc_attribute_names, structures.arc_attributes),
            max(1.0, structures.total_nodes / max(1, len(structures))),
            largest,
        )

    @property
    def sizes(self) -> FeatureSizes:
        """How many symbols and attributes there are."""
        return FeatureSizes(
            tuple(len(vocabulary) for vocabulary in self.node_vocabularies),
            len(self.node_attributes),
            tuple(len(vocabulary) for vocabulary in self.arc_vocabularies),
            len(self.arc_attributes),
        )

    def encode(self, structures: Structures) -> Structures:
        """Return the pack with its labels in these vocabularies and its attributes in these scales.

        Raises
        ------
        UnknownSymbolError
            Naming the structure, the symbol and where it stands.
        InputError
            If there are other label columns or other attributes.
        """
        if self.largest_degree is not None and structures.node_labels is None:
            structures = with_degrees(structures, self.largest_degree)
        coded = structures.recode(self.node_vocabularies, self.arc_vocabularies)
        changes: dict[str, Any] = {}
        for kind in ("node", "arc"):
            known: tuple[Attribute, ...] = getattr(self, f"{kind}_attributes")
            names: tuple[str, ...] = getattr(structures, f"{kind}_attribute_names")
            if tuple(attribute.name for attribute in known) != names:
                raise InputError(
                    f"expected the {kind} attributes {[attribute.name for attribute in known]}, but the structures "
                    f"have {list(names)}; read them with the same features"
                )
            values: Tensor | None = getattr(structures, f"{kind}_attributes")
            if values is not None:
                mean = values.new_tensor([attribute.mean for attribute in known])
                scale = values.new_tensor([attribute.scale for attribute in known])
                changes[f"{kind}_attributes"] = (values - mean) / scale
        return coded.replace(**changes)

    def unknown(self, structures: Structures) -> dict[int, str]:
        """Return the positions of structures with symbols that are not known, and of each the first such symbol.

        Examples
        --------
        >>> import hiddenfield as hf
        >>> features = Features.of(hf.data.from_sequences(["GATTACA"]))
        >>> features.unknown(hf.data.from_sequences(["TT", "CUU"]))
        {1: "symbol 'U' of node 1 is not among the 4 known symbols"}
        """
        return structures.unknown_symbols(self.node_vocabularies, self.arc_vocabularies)

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, for saving."""
        return msgspec.json.decode(msgspec.json.encode(self))

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Features:
        """Build from what `as_dict` returned; a value of another type is a `ValueError`."""
        return msgspec.convert(values, cls)


def with_degrees(structures: Structures, largest: int) -> Structures:
    """Label every node with the number of arcs that arrive at it, or with the largest that is told apart.

    Examples
    --------
    >>> import hiddenfield as hf
    >>> star = hf.data.from_edges([0, 0, 0], [1, 2, 3], node_ptr=[0, 4])
    >>> with_degrees(star, 2).node_labels.flatten().tolist()
    [2, 1, 1, 1]
    """
    degrees = structures.in_ptr.diff().clamp(max=largest)[:, None]
    words = Vocabulary("degree", tuple(range(largest + 1)))
    return structures.replace(node_labels=degrees, node_vocabularies=(words,))


def _attributes(names: tuple[str, ...], values: Tensor | None) -> tuple[Attribute, ...]:
    if values is None:
        return ()
    if not len(values):
        return tuple(Attribute(name, 0.0, 1.0) for name in names)
    wide = values.double()
    means, scales = wide.mean(dim=0).tolist(), wide.std(dim=0, unbiased=False).tolist()
    # A constant attribute says nothing, but must not be divided by nothing.
    return tuple(
        Attribute(name, mean, scale if scale > 1e-12 * max(1.0, abs(mean)) else 1.0)
        for name, mean, scale in zip(names, means, scales, strict=True)
    )
