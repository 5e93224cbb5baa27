"""Train many small networks at once, side by side on one device."""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from hiddenfield.data.combine import concatenate
from hiddenfield.data.structures import Structures
from hiddenfield.embedding.base import Prepared
from hiddenfield.embedding.members import Members
from hiddenfield.embedding.network import Network
from hiddenfield.embedding.stack import NetworkStack, stack_kind
from hiddenfield.errors import TrainingError
from hiddenfield.learning.predicting import resolve_device
from hiddenfield.learning.sampling import epoch_order, resampling_weights
from hiddenfield.learning.settings import TrainSettings
from hiddenfield.learning.state import History
from hiddenfield.learning.task import Task
from hiddenfield.learning.trainer import (
    bare_structures,
    check_training,
    epoch_row,
    is_best,
    make_optimizer,
    measured_row,
    not_finite,
    train,
)
from hiddenfield.ops import segment_sum
from hiddenfield.shapes import Array, Float, Int, Tensor

__all__ = ["Fit", "train_in_parts", "train_together"]

# Numbers that one message on every arc and one embedding of every node of a batch are, of all networks together:
# enough to keep a GPU busy, and not too many for its memory.
MOST_NUMBERS = 256_000_000

# Nodes and arcs that are validated at once.
MOST_VALIDATED = 8_000_000


@dataclass(frozen=True, eq=False)
class Fit:
    """A network to be trained, and all that `train` is told about it."""

    network: Network
    task: Task
    structures: Structures
    validation: Structures | None
    settings: TrainSettings
    name_of: Callable[[int], str]


def train_together(fits: Sequence[Fit]) -> list[History | TrainingError]:
    """Train networks in place, those that are alike side by side, the others one after the other.

    Each has its own structures, initial weights, order and dropout, and ends as it would alone, up to rounding and the
    random numbers of dropout. Alike are networks of the same kind (widths may differ where the nonlinearity keeps 0),
    with the same settings but the seed, the same vocabularies and the same number of steps in an epoch, in single
    precision. For small networks on a GPU, whose time goes into launches, this is many times faster.

    Parameters
    ----------
    fits
        What to train.

    Returns
    -------
    list
        For each what happened, or the error if its loss did not stay finite; the others are not disturbed by that.

    Examples
    --------
    >>> import hiddenfield as hf
    >>> from hiddenfield.embedding import FeatureSizes
    >>> words = hf.data.from_sequences(["GA", "GATTACA", "TTT", "A"], targets=[2.0, 7.0, 3.0, 1.0])
    >>> task, fits = Task.of(words), []
    >>> for seed in range(3):
    ...     network = Network(FeatureSizes.of(words), task.outputs, dim=8)
    ...     settings = TrainSettings(epochs=2, device="cpu", seed=seed)
    ...     fits.append(Fit(network, task, words, None, settings, words.name_of))
    >>> [len(history.rows) for history in train_together(fits)]
    [2, 2, 2]
    """
    results: list[History | TrainingError] = [History() for _ in fits]
    for position, result in train_in_parts(fits):
        results[position] = result
    return results


def train_in_parts(fits: Sequence[Fit]) -> Iterator[tuple[int, History | TrainingError]]:
    """Do as `train_together`, and yield positions and results as soon as those that were trained at once are done."""
    for group in _alike(fits):
        yield from zip(group, _train([fits[position] for position in group]), strict=True)


def _train(fits: list[Fit]) -> list[History | TrainingError]:
    if len(fits) > 1:
        return _Together(fits).loop()
    (fit,) = fits
    try:
        return [
            train(fit.network, fit.task, fit.structures, fit.validation, fit.settings, name_of=fit.name_of)
        ]
    except TrainingError as error:
        return [error]


def _alike(fits: Sequence[Fit]) -> Iterator[list[int]]:
    """Yield the positions of fits that can be done side by side, as many at once as there is room for."""
    groups: dict[str, list[int]] = defaultdict(list)
    for position, fit in enumerate(fits):
        kind = stack_kind(fit.network) if fit.settings.precision == "32" else None
        groups[f"alone {position}" if kind is None else f"{kind} {_circumstances(fit)}"].append(position)
    for group in groups.values():
        room = max(1, int(MOST_NUMBERS / max(_batch_numbers(fits[position]) for position in group)))
        parts = math.ceil(len(group) / room)
        yield from (part.tolist() for part in np.array_split(np.array(group), parts))


def _circumstances(fit: Fit) -> str:
    """Return, as text, what must be the same beside the kind of network."""
    pack = fit.structures
    words = [(v.name, v.symbols) for v in (*pack.node_vocabularies, *pack.arc_vocabularies)]
    names = (pack.target_names, pack.node_attribute_names, pack.arc_attribute_names)
    columns = [(column.outputs, column.vocabulary is None, column.weights) for column in fit.task.columns]
    settings = {name: value for name, value in fit.settings.as_dict().items() if name != "seed"}
    return repr((words, names, fit.task.loss, columns, settings, fit.validation is None, _steps(fit)))


def _steps(fit: Fit) -> int:
    return math.ceil(len(fit.structures) / fit.settings.batch_size)


def _batch_numbers(fit: Fit) -> float:
    """Return how many numbers a vector on each node and arc of a batch are."""
    pack = fit.structures
    size = min(fit.settings.batch_size, len(pack))
    return fit.network.embedding.dim * (pack.total_nodes + pack.total_arcs) * size / max(len(pack), 1)


class _Together:
    """Networks that are trained side by side, and how far they have come."""

    def __init__(self, fits: list[Fit]) -> None:
        for fit in fits:
            check_training(fit.task, fit.structures, fit.validation, fit.settings)
        self.fits, self.settings, self.task = fits, fits[0].settings, fits[0].task
        self.device = resolve_device(self.settings.device)
        self.stack = NetworkStack([fit.network for fit in fits]).to(self.device)
        self.optimizer = make_optimizer(self.stack, self.settings)
        self.data = _Pack([fit.structures for fit in fits], fits, self.stack, self.device)
        given = [fit.validation for fit in fits if fit.validation is not None]
        self.validation = _Pack(given, fits, self.stack, self.device) if given else None
        weighted = self.settings.resample
        self.weights = [
            None if weighted is None else resampling_weights(fit.structures, weighted) for fit in fits
        ]
        self.histories = [History() for _ in fits]
        self.failed: dict[int, TrainingError] = {}
        self.best = {name: tensor.clone() for name, tensor in self.stack.network.state_dict().items()}

    def loop(self) -> list[History | TrainingError]:
        """Run the epochs; then write the best weights of each into its network."""
        epoch = 0
        while active := [number for number in range(len(self.fits)) if self._goes_on(number, epoch)]:
            self._epoch(epoch, active)
            epoch += 1
        # What never had a best epoch, as where the monitor cannot be told, keeps its last weights, as alone.
        last = [number for number, history in enumerate(self.histories) if history.best is None]
        self._keep(last)
        networks = [fit.network for fit in self.fits]
        self.stack.write_to(networks, self.best if self.validation is not None else None)
        for network in networks:
            network.eval()
        return [self.failed.get(number, history) for number, history in enumerate(self.histories)]

    def _goes_on(self, number: int, epoch: int) -> bool:
        return number not in self.failed and not self.histories[number].is_over(self.settings, epoch)

    def _epoch(self, epoch: int, active: list[int]) -> None:
        started = time.perf_counter()
        losses = self._train_epoch(epoch, active)
        seconds = (time.perf_counter() - started) / len(active)
        rows = {}
        for number in active:
            if number not in self.failed:
                count = len(self.fits[number].structures)
                rows[number] = epoch_row(self.settings, epoch, count, float(losses[number]))
                rows[number] |= {"seconds": seconds, "structures_per_second": count / seconds}
        if self.validation is not None:
            self._validate(epoch, rows)
        for number, row in rows.items():
            self.histories[number].rows.append(row)
            if self.validation is None:
                self.histories[number].best_epoch = epoch + 1

    def _validate(self, epoch: int, rows: dict[int, dict[str, float]]) -> None:
        assert self.validation is not None
        outputs = self._outputs(self.validation)
        better = []
        for number, row in rows.items():
            fit = self.fits[number]
            assert fit.validation is not None
            row |= measured_row(fit.task, outputs[number], fit.validation)
            if is_best(self.histories[number], self.settings.monitor, epoch + 1, row):
                better.append(number)
        self._keep(better)

    def _keep(self, numbers: list[int]) -> None:
        """Take the present weights of some networks for their best."""
        index = torch.tensor(numbers, dtype=torch.int64, device=self.device)
        for name, tensor in self.stack.network.state_dict().items():
            self.best[name].index_copy_(0, index, tensor.index_select(0, index))

    def _train_epoch(self, epoch: int, active: list[int]) -> Float[Array, " networks"]:
        self.stack.train()
        size, steps = self.settings.batch_size, _steps(self.fits[0])
        orders = [
            epoch_order(len(fit.structures), fit.settings.seed, epoch, weights)
            for fit, weights in zip(self.fits, self.weights, strict=True)
        ]
        kept = self._kept(epoch)
        losses, counts = [], []
        for step in range(steps):
            part = slice(step * size, (step + 1) * size)
            batch = self.data.batch([order[part] for order in orders])
            places = [np.arange(len(order))[part] for order in orders]
            rows = None if kept is None else kept.index_select(0, self.data.positions(places).to(self.device))
            losses.append(self._step(batch, rows, epoch + step / steps))
            counts.append([len(order[part]) for order in orders])
        found = torch.stack(losses).double().cpu().numpy()
        self._note_failures(found, orders, active)
        return np.average(found, axis=0, weights=np.array(counts))

    def _step(self, batch: _Batch, kept: Tensor | None, done: float) -> Float[Tensor, " networks"]:
        for group in self.optimizer.param_groups:
            group["lr"] = self.settings.rate(done)
        self.optimizer.zero_grad(set_to_none=True)
        structures, members = batch.structures, batch.members
        outputs = self.stack(structures, *batch.prepared, members=members, kept=kept)
        assert structures.targets is not None
        assert members.structures is not None
        values, weights = self.task.entries(outputs, structures.targets)
        ptr = members.structures.ptr
        losses = segment_sum(values, ptr) / segment_sum(weights, ptr).clamp(min=1e-12)
        losses.sum().backward()  # type: ignore[no-untyped-call]
        if self.settings.clip is not None:
            _clip([p.grad for p in self.stack.parameters() if p.grad is not None], self.settings.clip)
        self.optimizer.step()
        return losses.detach()

    def _kept(self, epoch: int) -> Float[Tensor, "structures hidden"] | None:
        """Draw the factors of dropout for an epoch, each network's from a seed of its own; None where all are 1."""
        rates = [fit.network.dropout.p for fit in self.fits]
        if not any(rates):
            return None
        width = max(fit.network.hidden_layer.out_features for fit in self.fits)
        parts = []
        for fit, rate in zip(self.fits, rates, strict=True):
            seed = np.random.SeedSequence([fit.settings.seed, epoch, 1]).generate_state(1)[0].item()
            generator = torch.Generator(self.device).manual_seed(seed)
            own = fit.network.hidden_layer.out_features
            drawn = torch.rand(len(fit.structures), own, generator=generator, device=self.device)
            factors = (drawn >= rate).float() / (1.0 - rate)
            parts.append(torch.nn.functional.pad(factors, (0, width - own)))
        return torch.cat(parts)

    def _note_failures(
        self, losses: Float[Array, "steps networks"], orders: list[Array], active: list[int]
    ) -> None:
        """Note whose loss is no longer finite, of those that have not stopped: these only keep the others company."""
        for number in active:
            if np.isfinite(losses[:, number]).all():
                continue
            step = int(np.flatnonzero(~np.isfinite(losses[:, number]))[0])
            size = self.settings.batch_size
            batch = orders[number][step * size : (step + 1) * size]
            self.failed.setdefault(number, not_finite(batch, self.fits[number].name_of))

    def _outputs(self, pack: _Pack) -> list[Float[Tensor, "structures outputs"]]:
        """Return the outputs for every network's structures, in host memory."""
        self.stack.eval()
        parts = max(1, math.ceil(pack.entries / MOST_VALIDATED))
        pieces: list[list[Tensor]] = [[] for _ in self.fits]
        with torch.inference_mode():
            for shares in zip(*(np.array_split(np.arange(size), parts) for size in pack.sizes), strict=True):
                batch = pack.batch(list(shares))
                outputs = self.stack(batch.structures, *batch.prepared, members=batch.members).cpu()
                for own, piece in zip(pieces, outputs.split([len(s) for s in shares]), strict=True):
                    own.append(piece)
        return [torch.cat(own) for own in pieces]


@dataclass(frozen=True, eq=False)
class _Batch:
    """Structures of all networks, one network's after the other's."""

    structures: Structures
    prepared: list[Prepared]
    members: Members


class _Pack:
    """The structures of all networks on the device, end to end."""

    def __init__(
        self, packs: Sequence[Structures], fits: Sequence[Fit], stack: NetworkStack, device: torch.device
    ) -> None:
        bare = [bare_structures(p, fit.task, torch.float32) for p, fit in zip(packs, fits, strict=True)]
        whole = concatenate([p.replace(target_vocabularies=(None,) * len(p.target_names)) for p in bare])
        self.sizes = [len(pack) for pack in packs]
        self.first = np.concatenate([[0], np.cumsum(self.sizes)[:-1]])
        self.entries = whole.total_nodes + whole.total_arcs
        self.prepared = [entry.to(device) for entry in stack.network.prepare(whole)]
        self.structures = whole.to(device)

    def positions(self, chosen: Sequence[Array]) -> Int[Tensor, " all"]:
        """Return where the structures at each network's own positions are."""
        return torch.from_numpy(
            np.concatenate([own + first for own, first in zip(chosen, self.first, strict=True)])
        )

    def batch(self, chosen: Sequence[Array]) -> _Batch:
        """Cut a batch of the structures at each network's own positions."""
        index = self.positions(chosen)
        structures = self.structures[index]
        ptr = torch.from_numpy(np.cumsum([0] + [len(own) for own in chosen]))
        return _Batch(structures, [entry[index] for entry in self.prepared], Members.of(structures, ptr))


def _clip(gradients: list[Tensor], largest: float) -> None:
    """Shorten every network's gradient to a largest norm, in place."""
    squares = torch.stack([gradient.flatten(1).square().sum(dim=1) for gradient in gradients])
    factor = (largest / (squares.sum(dim=0).sqrt() + 1e-6)).clamp(max=1.0)
    for gradient in gradients:
        gradient.mul_(factor.view(-1, *[1] * (gradient.ndim - 1)))
