"""What a fitted model knows of its input: vocabularies, names and scales of attributes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from hiddenfield.data.structures import Structures
from hiddenfield.data.vocabulary import Vocabulary
from hiddenfield.embedding.inputs import FeatureSizes
from hiddenfield.errors import InputError
from hiddenfield.shapes import Tensor

__all__ = ["Attribute", "Features"]


@dataclass(frozen=True)
class Attribute:
    """A continuous feature, with the mean and the scale that its values are standardised by."""

    name: str
    mean: float = 0.0
    scale: float = 1.0


@dataclass(frozen=True)
class Features:
    """The features that a model was fitted on, by which new structures are encoded in the same way.

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

    node_vocabularies: tuple[Vocabulary, ...] = ()
    arc_vocabularies: tuple[Vocabulary, ...] = ()
    node_attributes: tuple[Attribute, ...] = ()
    arc_attributes: tuple[Attribute, ...] = ()
    mean_nodes: float = 1.0

    @classmethod
    def of(cls, structures: Structures) -> Features:
        """Take the vocabularies, names and scales of a pack."""
        return cls(
            structures.node_vocabularies,
            structures.arc_vocabularies,
            _attributes(structures.node_attribute_names, structures.node_attributes),
            _attributes(structures.arc_attribute_names, structures.arc_attributes),
            max(1.0, structures.total_nodes / max(1, len(structures))),
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
        found: dict[int, str] = {}
        for kind, bounds in (("node", structures.node_ptr), ("arc", structures.arc_ptr)):
            labels: Tensor | None = getattr(structures, f"{kind}_labels")
            own: tuple[Vocabulary, ...] = getattr(structures, f"{kind}_vocabularies")
            mine: tuple[Vocabulary, ...] = getattr(self, f"{kind}_vocabularies")
            if labels is None or [v.name for v in own] != [v.name for v in mine]:
                continue
            for column, (old, new) in enumerate(zip(own, mine, strict=True)):
                codes, starts = labels[:, column].long().cpu().numpy(), bounds.cpu().numpy()
                rows = np.flatnonzero((old.recode_to(new) < 0)[codes])
                owners, first = np.unique(np.searchsorted(starts, rows, side="right") - 1, return_index=True)
                for owner, row in zip(owners.tolist(), rows[first].tolist(), strict=True):
                    place = f"{old.name} {old.symbols[codes[row]]!r} of {kind} {row - starts[owner]}"
                    found.setdefault(owner, f"{place} is not among the {len(new)} known symbols")
        return dict(sorted(found.items()))

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, for saving."""
        return {
            **{
                name: [{"name": v.name, "symbols": list(v.symbols)} for v in getattr(self, name)]
                for name in ("node_vocabularies", "arc_vocabularies")
            },
            **{
                name: [{"name": a.name, "mean": a.mean, "scale": a.scale} for a in getattr(self, name)]
                for name in ("node_attributes", "arc_attributes")
            },
            "mean_nodes": self.mean_nodes,
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Features:
        """Build from what `as_dict` gave."""

        def vocabularies(name: str) -> tuple[Vocabulary, ...]:
            return tuple(Vocabulary(entry["name"], tuple(entry["symbols"])) for entry in values[name])

        def attributes(name: str) -> tuple[Attribute, ...]:
            return tuple(Attribute(e["name"], float(e["mean"]), float(e["scale"])) for e in values[name])

        return cls(
            vocabularies("node_vocabularies"),
            vocabularies("arc_vocabularies"),
            attributes("node_attributes"),
            attributes("arc_attributes"),
            float(values["mean_nodes"]),
        )


def _attributes(names: tuple[str, ...], values: Tensor | None) -> tuple[Attribute, ...]:
    if values is None:
        return ()
    if not len(values):
        return tuple(Attribute(name) for name in names)
    wide = values.double()
    means, scales = wide.mean(dim=0).tolist(), wide.std(dim=0, unbiased=False).tolist()
    # A constant attribute says nothing, but must not be divided by nothing.
    return tuple(
        Attribute(name, mean, scale if scale > 1e-12 * max(1.0, abs(mean)) else 1.0)
        for name, mean, scale in zip(names, means, scales, strict=True)
    )
