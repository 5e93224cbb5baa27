"""What a network gives for structures, a part of them at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import torch

from hiddenfield.data.structures import Structures
from hiddenfield.embedding.predictor import Predictor
from hiddenfield.errors import InputError
from hiddenfield.shapes import Float, Tensor

__all__ = ["predict", "resolve_device", "without_host_columns"]

# Nodes that are embedded at once when no gradient is needed.
NODES_AT_ONCE = 200_000


def predict(
    network: Predictor,
    structures: Structures,
    *,
    device: str = "auto",
    function: Callable[..., Tensor] | None = None,
) -> Float[Tensor, "structures width"]:
    """Return a network's outputs for all structures, in host memory, a batch at a time.

    Parameters
    ----------
    network
        Trained or not; afterwards it is on the device, in evaluation mode.
    structures
        In the vocabularies that the network was built for.
    device
        As in `TrainSettings`.
    function
        What to call instead of the network, for example ``network.embed``.

    Examples
    --------
    >>> import hiddenfield as hf
    >>> from hiddenfield.embedding import FeatureSizes
    >>> words = hf.data.from_sequences(["GA", ""])
    >>> predict(Predictor(FeatureSizes.of(words), outputs=3, dim=4), words, device="cpu").shape
    torch.Size([2, 3])
    """
    place = resolve_device(device)
    network.to(place).eval()
    call = function or network
    parts: list[Tensor] = []
    bare = without_host_columns(structures)
    with torch.inference_mode():
        for chosen in _chunks(bare):
            part = bare[chosen]
            prepared = [entry.to(place) for entry in network.prepare(part)]
            parts.append(call(part.to(place), *prepared).cpu())
    width = network.output_layer.out_features if function is None else network.width
    return torch.cat(parts) if parts else torch.zeros(0, width)


def resolve_device(device: str) -> torch.device:
    """Return the device of that name; ``"auto"`` is a GPU where there is one."""
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        place = torch.device(device)
    except (RuntimeError, TypeError):
        place = torch.device("meta")
    if place.type not in ("cpu", "cuda"):
        raise InputError(f"device must be 'auto', 'cpu' or 'cuda', got {device!r}")
    found = torch.cuda.device_count()
    if place.type == "cuda" and (place.index or 0) >= found:
        raise InputError(f"device {device!r} was asked for, and CUDA finds {found} here; use 'auto' or 'cpu'")
    return place


def without_host_columns(structures: Structures) -> Structures:
    """Return the pack without what stays in host memory, which a batch need not carry."""
    return structures.replace(ids=None, columns={})


def _chunks(structures: Structures) -> Iterator[slice]:
    """Cut the pack into ranges of about `NODES_AT_ONCE` nodes, at least one structure each."""
    bounds = structures.node_ptr.cpu().numpy()
    start = 0
    while start < len(structures):
        stop = int(np.searchsorted(bounds, bounds[start] + NODES_AT_ONCE, side="right")) - 1
        stop = min(max(stop, start + 1), len(structures))
        yield slice(start, stop)
        start = stop
