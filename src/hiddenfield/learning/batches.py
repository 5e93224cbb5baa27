"""Which structures are computed together: orders of an epoch, batches of packs on a device, prediction in parts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import torch

from hiddenfield.data.build import concatenate
from hiddenfield.data.structures import FEATURES, Structures
from hiddenfield.embedding.base import Embedding, Prepared
from hiddenfield.embedding.members import SharedBatch
from hiddenfield.embedding.predictor import Predictor
from hiddenfield.errors import InputError
from hiddenfield.learning.device import few_threads, resolve_device
from hiddenfield.learning.protocol import Supervised
from hiddenfield.shapes import Array, Float, Int, Tensor

MOST_BINS = 100_000

# Nodes that are embedded at once when no gradient is needed.
NODES_AT_ONCE = {"cpu": 200_000, "cuda": 1_000_000}


def resampling_weights(structures: Structures, width: float) -> Float[Array, " structures"]:
    """Return probabilities with which rare targets are drawn as often as frequent ones.

    The range of the first target is cut into bins of `width`; a bin is drawn uniformly, then a structure in it. For a
    target of classes the classes are the bins. Structures whose target is missing form a bin of their own.

    Examples
    --------
    >>> import hiddenfield as hf
    >>> words = hf.data.from_sequences(["A", "B", "C"], targets=[0.01, 0.02, 0.9])
    >>> resampling_weights(words, 0.1).tolist()
    [0.25, 0.25, 0.5]
    """
    if structures.targets is None or not structures.target_names:
        raise InputError("resampling needs targets, and the structures have none")
    values = structures.targets[:, 0].cpu().numpy()
    present = ~np.isnan(values)
    if structures.target_vocabularies[0] is None:
        low = values[present].min() if present.any() else 0.0
        if present.any() and (values[present].max() - low) / width > MOST_BINS:
            raise InputError(
                f"bins of width {width} are too narrow for targets from {low} to {values[present].max()}"
            )
        bins = np.where(present, np.floor((values - low) / width), -1)
    else:
        bins = np.where(present, values, -1)
    _, number, counts = np.unique(bins, return_inverse=True, return_counts=True)
    return 1.0 / (len(counts) * counts[number])


def epoch_order(count: int, seed: int, epoch: int, weights: Array | None = None) -> Int[Array, " structures"]:
    """Return the order of one epoch: a permutation, or a draw with the given probabilities.

    It depends on the seed and the epoch alone, so that a resumed run sees what an uninterrupted one would have seen.
    """
    generator = np.random.default_rng([seed, epoch])
    if weights is None:
        return generator.permutation(count)
    return generator.choice(count, size=count, p=weights)


class Pack:
    """The structures of all networks on the device, end to end, with standardised targets."""

    def __init__(
        self,
        tasks: Sequence[Supervised],
        packs: Sequence[Structures],
        network: Predictor,
        device: torch.device,
    ) -> None:
        dtype = network.embedding.dtype
        bare = [bare_structures(pack, task, dtype) for pack, task in zip(packs, tasks, strict=True)]
        whole = bare[0] if len(bare) == 1 else concatenate(bare)
        self.sizes = [len(pack) for pack in packs]
        self.first = np.concatenate([[0], np.cumsum(self.sizes)[:-1]])
        self.entries = whole.total_nodes + whole.total_arcs
        self.prepared = [entry.to(device) for entry in network.prepare(whole)]
        self.structures = whole.to(device)

    def positions(self, chosen: Sequence[Array]) -> Int[Tensor, " all"]:
        """Return where the structures at each network's own positions are."""
        if len(chosen) == 1:
            return torch.from_numpy(chosen[0])
        own = [positions + first for positions, first in zip(chosen, self.first, strict=True)]
        return torch.from_numpy(np.concatenate(own))

    def batch(self, chosen: Sequence[Array]) -> tuple[Structures, list[Prepared]]:
        """Cut a batch of the structures at each network's own positions."""
        index = self.positions(chosen)
        structures, prepared = self.structures[index], [entry[index] for entry in self.prepared]
        if len(chosen) > 1:
            ptr = torch.from_numpy(np.cumsum([0] + [len(own) for own in chosen]))
            structures = SharedBatch.of(structures, ptr)
        return structures, prepared


def bare_structures(structures: Structures, task: Supervised, dtype: torch.dtype) -> Structures:
    """Return the structures with standardised targets, and without what training does not read."""
    assert structures.targets is not None
    bare = without_host_columns(structures).replace(
        targets=task.standardize(structures.targets).to(dtype),
        target_vocabularies=(None,) * len(structures.target_names),
    )
    if task.of_nodes:
        return bare
    return bare.replace(node_targets=None, node_target_names=(), node_target_vocabularies=())


def predict(
    network: Predictor,
    structures: Structures,
    *,
    device: str = "auto",
    function: Callable[..., Tensor] | None = None,
) -> Float[Tensor, "structures width"]:
    """Return a network's outputs for all structures, in host memory, a batch at a time.

    While a GPU computes a batch the next one is cut and copied there; nothing waits for it until the end.

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
    bare = without_host_columns(structures).replace(targets=None, node_targets=None)
    if place.type == "cuda":
        assert bare.longest_range >= 0  # known for all batches, so that none has to wait for it
    plain = type(network.embedding).prepare is Embedding.prepare
    direct = plain and place.type == "cuda" and structures.node_ptr.is_cpu
    # Threads that a small pack has no work for would cost a second of compiling at first, and time on a busy machine.
    entries = network.embedding.dim * (bare.total_nodes + bare.total_arcs)
    with torch.inference_mode(), few_threads(entries):
        for chosen in _chunks(bare, NODES_AT_ONCE[place.type]):
            part = _range_on(bare, chosen, place) if direct else bare[chosen]
            prepared = [entry.to(place) for entry in network.prepare(part)]
            parts.append(call(part.to(place), *prepared))
    width = network.output_layer.out_features if function is None else network.width
    return torch.cat(parts).cpu() if parts else torch.zeros(0, width)


def _range_on(pack: Structures, chosen: slice, place: torch.device) -> Structures:
    """Return a range of structures on a GPU. The host copies into pinned memory and goes on; the rest is done there."""
    nodes = slice(*(int(pack.node_ptr[bound]) for bound in (chosen.start, chosen.stop)))
    arcs = slice(*(int(pack.in_ptr[bound]) for bound in (nodes.start, nodes.stop)))
    rows = {"structure": chosen, "node": nodes, "arc": arcs}

    def sent(values: Tensor, part: slice, more: int = 0) -> Tensor:
        return values[part.start : part.stop + more].pin_memory().to(place, non_blocking=True)

    reverse = sent(pack.reverse, arcs)
    result = Structures(
        sent(pack.node_ptr, chosen, 1) - nodes.start,
        sent(pack.in_ptr, nodes, 1) - arcs.start,
        sent(pack.source, arcs) - nodes.start,
        torch.where(reverse < 0, reverse, reverse - arcs.start),
        {
            name: replace(columns, values=sent(columns.values, rows[FEATURES[name]]))
            for name, columns in pack.features.items()
        },
    )
    vars(result).update(symmetric=pack.symmetric, longest_range=pack.longest_range)
    return result


def without_host_columns(structures: Structures) -> Structures:
    """Return the pack without what stays in host memory, which a batch need not carry."""
    return structures.replace(ids=None, columns={})


def _chunks(structures: Structures, nodes: int) -> Iterator[slice]:
    """Cut the pack into ranges of about so many nodes, at least one structure each."""
    bounds = structures.node_ptr.cpu().numpy()
    start = 0
    while start < len(structures):
        stop = int(np.searchsorted(bounds, bounds[start] + nodes, side="right")) - 1
        stop = min(max(stop, start + 1), len(structures))
        yield slice(start, stop)
        start = stop
