"""Graph kernels by their explicit features: structures go in, sparse counts come out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hiddenfield.lazy import attach

if TYPE_CHECKING:
    from hiddenfield.kernels.colours import ColourDictionary
    from hiddenfield.kernels.copies import copy_classes
    from hiddenfield.kernels.refinement import bag_of_labels, weisfeiler_lehman

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "ColourDictionary": "hiddenfield.kernels.colours",
        "bag_of_labels": "hiddenfield.kernels.refinement",
        "copy_classes": "hiddenfield.kernels.copies",
        "weisfeiler_lehman": "hiddenfield.kernels.refinement",
    },
)
