"""The supervised trainer: one loop for one network or several side by side, with the data where the networks are."""

from __future__ import annotations

import hashlib
import math
import time
import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from hiddenfield.data.structures import Structures
from hiddenfield.embedding.members import members_of
from hiddenfield.embedding.predictor import Predictor
from hiddenfield.embedding.stack import PredictorStack, member_views, part_of, write_members
from hiddenfield.errors import InputError, TrainingError
from hiddenfield.learning.batches import Pack, epoch_order, resampling_weights
from hiddenfield.learning.captured import FEWEST_STEPS, STEPS_PER_NETWORK, CapturedSteps, leave_capture
from hiddenfield.learning.checkpoint import History, State, fingerprint, resume_run, save_run
from hiddenfield.learning.device import (
    autocast,
    device_of,
    few_threads,
    make_optimizer,
    make_scaler,
    precision_of,
    start_optimizer,
    torch_threads,
)
from hiddenfield.learning.processes import Team, team_of
from hiddenfield.learning.protocol import Supervised, objective, weighted_entries
from hiddenfield.learning.settings import TrainSettings
from hiddenfield.learning.task import Task
from hiddenfield.ops import segment_sum
from hiddenfield.progress import progress
from hiddenfield.shapes import Array, Float, Tensor

HIGHER_IS_BETTER = ("accuracy", "roc_auc")

# Nodes and arcs that are validated at once.
MOST_VALIDATED = {"cpu": 500_000, "cuda": 8_000_000}


@dataclass(frozen=True, eq=False)
class Fit:
    """A network to be trained, and all that `train` is told about it.

    `weights` are those of the structures and of the validation structures in the loss; None for equal ones.
    """

    network: Predictor
    task: Supervised
    structures: Structures
    validation: Structures | None
    settings: TrainSettings
    name_of: Callable[[int], str] | None = None
    weights: tuple[Float[Array, " structures"], Float[Array, " validation"]] | None = None

    @property
    def steps(self) -> int:
        """Batches in an epoch."""
        return math.ceil(len(self.structures) / self.settings.batch_size)

    @property
    def batch_entries(self) -> float:
        """Entries of a vector on every node and arc of a batch."""
        pack = self.structures
        size = min(self.settings.batch_size, len(pack)) / max(len(pack), 1)
        return self.network.embedding.dim * max(1, pack.total_nodes + pack.total_arcs) * size

    def check(self) -> None:
        """Check that there is something to learn from, and to validate on if that is wanted."""
        if not len(self.structures):
            raise InputError("there are no structures to train on")
        if self.settings.patience is not None and self.validation is None:
            raise InputError("patience needs validation structures; give some, or set patience=None")
        self.task.check(self.structures, "structures to train on")
        if self.validation is not None:
            self.task.check(self.validation, "validation structures")
            if self.settings.monitor not in (known := ("loss", *self.task.metric_names)):
                raise InputError(
                    f"unknown monitor {self.settings.monitor!r} for these targets; choose from: {', '.join(known)}"
                )
        if self.settings.devices > 1 and self.network.standardise is not None:
            raise InputError(
                "standardise needs every batch in one process; use devices=1, or standardise=False"
            )

    def not_finite(self, batch: Array) -> TrainingError:
        """Return the error for a batch whose loss is not finite."""
        name_of = self.name_of or self.structures.name_of
        names = ", ".join(name_of(int(position)) for position in batch[:5])
        more = ", …" if len(batch) > 5 else ""
        return TrainingError(
            f"the loss is no longer finite, first in a batch of {len(batch)} structures: {names}{more}; "
            "lower the learning rate, set clip, or look for extreme attributes or targets among them"
        )


def train(
    network: Predictor,
    task: Supervised,
    structures: Structures,
    validation: Structures | None = None,
    settings: TrainSettings | None = None,
    *,
    checkpoint: str | Path | None = None,
    resume: bool = False,
    show_progress: bool = False,
    name_of: Callable[[int], str] | None = None,
) -> History:
    """Fit a network to structures with targets, in place.

    The pack lies on the device and batches are cut there. With validation structures the weights of the epoch with the
    best `monitor` are restored at the end. Everything random depends on ``settings.seed`` and the epoch's number, so
    that a run is repeatable and a resumed one ends, on the CPU, with exactly the weights of an uninterrupted one.

    With ``settings.devices`` above 1 that many processes are started. Each takes its part of every batch, and their
    gradients are added up: the result is that of one process, up to rounding.

    Parameters
    ----------
    network, task
        What to train and what for: a `Task`, or anything that is `Supervised`.
    structures, validation
        With targets; validation structures are not trained on.
    settings
        See `TrainSettings`.
    checkpoint
        A file that is rewritten, atomically, after every epoch.
    resume
        Go on from `checkpoint` if it exists.
    show_progress
        Whether to show a progress bar; only on a terminal.
    name_of
        How a message names the structure at a position, for a caller that has cut `structures` from others.

    Raises
    ------
    TrainingError
        If the loss stops being finite, naming the batch's structures.

    Examples
    --------
    >>> import hiddenfield as hf
    >>> from hiddenfield.embedding import FeatureSizes, Predictor
    >>> from hiddenfield.learning import Task
    >>> words = hf.data.from_sequences(["GA", "GATTACA", "TTT", "A"], targets=[2.0, 7.0, 3.0, 1.0])
    >>> task = Task.of(words)
    >>> network = Predictor(FeatureSizes.of(words), task.outputs, dim=8)
    >>> history = train(network, task, words, settings=TrainSettings(epochs=2, device="cpu"))
    >>> len(history.rows)
    2
    """
    fit = Fit(network, task, structures, validation, settings or TrainSettings(), name_of)
    path = None if checkpoint is None else Path(checkpoint)
    result = train_fit(fit, checkpoint=path, resume=resume, show_progress=show_progress)
    if isinstance(result, TrainingError):
        raise result
    return result


def train_fit(
    fit: Fit, *, checkpoint: Path | None = None, resume: bool = False, show_progress: bool = False
) -> History | TrainingError:
    """Do as `train`, and return the error where the loss stops being finite."""
    fit.check()
    with team_of(
        fit.settings.devices, train_side_by_side, [replace(fit, name_of=None)], checkpoint, resume
    ) as team:
        (result,) = train_side_by_side(team, [fit], checkpoint, resume, show_progress)
    return result


def train_side_by_side(
    team: Team, fits: Sequence[Fit], checkpoint: Path | None, resume: bool, show_progress: bool = False
) -> list[History | TrainingError]:
    """Train networks that are alike, going on from a checkpoint if there is one."""
    training = Training(fits, team, checkpoint)
    if checkpoint is not None:
        resume_run(checkpoint, training.state, training.identity(), resume=resume)
    return training.run(show_progress)


class Training:
    """Networks that are trained side by side, on one device, and how far they have come.

    One network is trained as it is; several of one kind as a `PredictorStack`, whose batches hold the batches of all of
    them. Each has its own structures, order, dropout, best epoch and end; where its loss is no longer finite it gets an
    error of its own, and the others go on.

    Parameters
    ----------
    fits
        What to train; of one kind and with the same settings but the seed, see `train_together`.
    team
        The processes that share the work; several only for a single network.
    checkpoint
        A file for the state after every epoch.
    """

    def __init__(self, fits: Sequence[Fit], team: Team | None = None, checkpoint: Path | None = None) -> None:
        self.fits, self.settings, self.task = list(fits), fits[0].settings, fits[0].task
        self.team, self.checkpoint = team or Team(), checkpoint
        self.device = device_of(self.settings, self.team)
        self.scaler = make_scaler(self.settings, self.device)
        networks = [fit.network for fit in fits]
        self.model: nn.Module = networks[0] if len(fits) == 1 else PredictorStack(networks)
        self.model.to(self.device, torch.float64 if self.settings.precision == "64" else None)
        self.optimizer = make_optimizer(self.model, self.settings)
        tasks, network = [fit.task for fit in fits], self._stacked
        self.data = Pack(tasks, [fit.structures for fit in fits], network, self.device)
        validated = [fit.validation for fit in fits if fit.validation is not None]
        self.validation = Pack(tasks, validated, network, self.device) if validated else None
        self.sample_weights = self._weights_on_device()
        width = self.settings.resample
        self.weights = [None if width is None else resampling_weights(fit.structures, width) for fit in fits]
        self.state = State([History() for _ in fits], network, self.optimizer, self.scaler)
        self.failed: dict[int, TrainingError] = {}
        self.orders: dict[int, list[Array]] = {}
        self.captured: CapturedSteps | None = None
        self.views: list[Predictor] = []
        self.may_capture = self.device.type == "cuda"

    def _weights_on_device(self) -> Float[Tensor, " structures"] | None:
        """Return the weights of all networks' structures, end to end; None for equal ones."""
        if all(fit.weights is None for fit in self.fits):
            return None
        each = [np.ones(len(fit.structures)) if fit.weights is None else fit.weights[0] for fit in self.fits]
        return torch.from_numpy(np.concatenate(each)).to(self.device)

    @property
    def _stacked(self) -> Predictor:
        """The network that computes: the only one, or the one whose weights have an axis over all of them."""
        network = self.model.network if isinstance(self.model, PredictorStack) else self.model
        assert isinstance(network, Predictor)
        return network

    # -- the loop ------------------------------------------------------------------------------------------

    def run(self, show_progress: bool = False) -> list[History | TrainingError]:
        """Run the epochs that are left, then give every network its best weights."""
        state, total = self.state, sum(self.data.sizes)
        shown = show_progress and self.team.rank == 0
        # The products of several networks round otherwise with another number of threads.
        several = len(self.fits) > 1 and self.device.type == "cpu"
        with (
            precision_of(self.settings),
            torch_threads(1) if several else few_threads(self.fits[0].batch_entries, self.team.size),
            progress(self.settings.epochs * total, "training", shown=shown) as advance,
        ):
            advance(state.next_epoch * total)
            while active := [number for number in range(len(self.fits)) if self._goes_on(number)]:
                self._epoch(state.next_epoch, active, advance)
                state.next_epoch += 1
                if self.checkpoint is not None and not self.failed and self.team.rank == 0:
                    save_run(self.checkpoint, state, self.identity())
        # A network that never had a best epoch, since its monitor is always NaN, keeps its last weights.
        self._keep([number for number, history in enumerate(state.histories) if history.best is None])
        networks = [fit.network for fit in self.fits]
        self._release(may_capture=self.may_capture)
        write_members(networks, state.best_weights)
        for network in networks:
            network.eval()
        return [self.failed.get(number, history) for number, history in enumerate(state.histories)]

    def _goes_on(self, number: int) -> bool:
        history = self.state.histories[number]
        return number not in self.failed and not history.is_over(self.settings, self.state.next_epoch)

    def _epoch(self, epoch: int, active: list[int], advance: Callable[..., None]) -> None:
        started = time.perf_counter()
        losses = self._train_epoch(epoch, active, advance)
        seconds = (time.perf_counter() - started) / len(active)
        rows: dict[int, dict[str, float]] = {
            number: {
                "epoch": epoch + 1,
                "steps": (epoch + 1) * self.fits[number].steps,
                "learning_rate": self.settings.rate(float(epoch)),
                "train_loss": float(loss),
            }
            for number, loss in zip(active, losses, strict=True)
            if number not in self.failed
        }
        if self.validation is not None and rows:
            self._validate(epoch, rows)
        for number, row in rows.items():
            if self.validation is None:
                self.state.histories[number].best_epoch = epoch + 1
            count = self.data.sizes[number]
            row |= {"seconds": seconds, "structures_per_second": count / seconds}
            self.state.histories[number].rows.append(row)

    def _train_epoch(
        self, epoch: int, active: list[int], advance: Callable[..., None]
    ) -> Float[Array, " active"]:
        self.model.train()
        orders, steps = self._orders(epoch), self.fits[0].steps
        done = epoch + np.arange(steps) / steps
        captured = self._capture(orders, done)
        if captured is None:  # networks that have ended have no part in the batches
            orders = [order[: len(order) * (number in active)] for number, order in enumerate(orders)]
        with self._seeded(epoch, orders, one_by_one=captured is None) as dropout:
            if captured is None:
                losses, counts = self._steps(orders, done, dropout, advance)
            else:
                counts = np.full((steps, len(self.fits)), self.settings.batch_size)
                counts[-1] = captured.last
                losses = captured.run(lambda count: advance(count, f"epoch {epoch + 1}"))
                if epoch + 1 < self.settings.epochs:
                    self._orders(epoch + 1)  # drawn while the device computes
        found, counts = losses.double().cpu().numpy()[:, active], counts[:, active]
        for number, own in zip(active, found.T, strict=True):
            self._note_failure(number, own, orders[number])
        return np.average(found, axis=0, weights=counts)

    def _orders(self, epoch: int) -> list[Array]:
        """Return every network's order of an epoch, drawn once."""
        if epoch not in self.orders:
            self.orders = {before: orders for before, orders in self.orders.items() if before == epoch - 1}
            self.orders[epoch] = [
                epoch_order(len(fit.structures), fit.settings.seed, epoch, weights)
                for fit, weights in zip(self.fits, self.weights, strict=True)
            ]
        return self.orders[epoch]

    def _steps(
        self, orders: list[Array], done: Array, dropout: Callable[..., Any], advance: Callable[..., None]
    ) -> tuple[Float[Tensor, "steps networks"], Array]:
        """Take the steps of an epoch one by one; return their losses and how many structures they had."""
        size, losses, counts, started = self.settings.batch_size, [], [], time.perf_counter()
        for step, epochs in enumerate(done.tolist()):
            part = slice(step * size, (step + 1) * size)
            counts.append([len(order[part]) for order in orders])
            self._stacked.dropout.factors = dropout(part)
            losses.append(self._step([order[part] for order in orders], epochs))
            note = f"epoch {int(epochs) + 1}"
            if self.device.type == "cpu":  # elsewhere looking at the loss would mean waiting for it
                own = losses[-1][[count > 0 for count in counts[-1]]]
                if not own.isfinite().any():
                    break
                pace = np.sum(counts) / (time.perf_counter() - started)
                note += f", loss {float(own.mean()):.4g}, {pace:,.0f} structures/s"
            advance(sum(counts[-1]), note)
        self._stacked.dropout.factors = None
        return torch.stack(losses), np.array(counts)

    def _capture(self, orders: list[Array], done: Array) -> CapturedSteps | None:
        """Return the captured steps, ready for an epoch, where a GPU can repeat them by itself."""
        if self.captured is None:
            left = len(done) * (self.settings.epochs - self.state.next_epoch)
            alone = self.team.size == 1 and not self.scaler.is_enabled()
            known = self._stacked.embedding.capturable and isinstance(self.task, Task)
            pays = left >= max(FEWEST_STEPS, STEPS_PER_NETWORK * len(self.fits))
            if not (self.may_capture and alone and known and pays and self.data.structures.symmetric):
                return None
            start_optimizer(self.optimizer)
            networks = [fit.network for fit in self.fits]
            self.views = [self._stacked] if len(networks) == 1 else member_views(self._stacked, networks)
            size = min(self.settings.batch_size, max(self.data.sizes))
            self.captured = CapturedSteps(
                self.data.structures, self.data.sizes, size, self._captured_gradient, self._captured_update
            )
        buffers = [buffer.clone() for buffer in self.model.buffers()]
        rates = np.array([self.settings.rate(epochs) for epochs in done.tolist()])
        try:
            with torch.random.fork_rng(devices=[self.device.index or 0]):
                places = zip(orders, self.data.first, strict=True)
                self.captured.prepare([order + first for order, first in places], rates)
        except RuntimeError as error:
            warnings.warn(f"steps could not be captured ({error}); they are taken one by one", stacklevel=2)
            self._release(may_capture=False)
        with torch.no_grad():
            for buffer, before in zip(self.model.buffers(), buffers, strict=True):
                buffer.copy_(before)
        return self.captured

    def _release(self, *, may_capture: bool) -> None:
        """Let go of captured steps and what they hold."""
        if self.captured is not None:
            self.captured.graphs.clear()
            self.optimizer.zero_grad(set_to_none=True)
            if not may_capture:
                leave_capture(self.device)
        self.captured, self.may_capture, self.views = None, may_capture, []

    def _captured_gradient(self, number: int, batch: Structures, index: Tensor) -> Tensor:
        """Compute a network's loss on a batch that other structures fill up, and its gradient."""
        network, targets = self.views[number], self.data.structures.targets
        assert targets is not None
        network.zero_grad(set_to_none=True)
        with autocast(self.settings, self.device):
            outputs = network.head(network.embed(batch)[: len(index)])
        factors = None if self.sample_weights is None else self.sample_weights.index_select(0, index)
        loss = objective(self.task, outputs.to(targets.dtype), targets.index_select(0, index), factors)
        loss.backward()
        if len(self.views) > 1:
            copied: tuple[list[Tensor], list[Tensor]] = [], []
            for whole, own in zip(self._stacked.parameters(), network.parameters(), strict=True):
                if own.grad is None or whole.grad is None:
                    whole.grad = None  # what has no part in the output is left alone by the optimizer
                else:
                    copied[0].append(part_of(whole.grad, number, own))
                    copied[1].append(own.grad)
            torch._foreach_copy_(*copied)
        return loss

    def _captured_update(self, rate: Tensor) -> None:
        if self.settings.clip is not None:
            self._clip(self.settings.clip)
        for group in self.optimizer.param_groups:
            group["lr"].copy_(rate)
        self.optimizer.step()

    def _step(self, chosen: list[Array], done: float) -> Float[Tensor, " networks"]:
        for group in self.optimizer.param_groups:
            group["lr"] = self.settings.rate(done)
        self.optimizer.zero_grad(set_to_none=True)
        own = [self.team.part(positions) for positions in chosen]
        structures, prepared = self.data.batch(own)
        with autocast(self.settings, self.device):
            outputs = self.model(structures, *prepared)
        assert structures.targets is not None
        factors = None
        if self.sample_weights is not None:
            factors = self.sample_weights[self.data.positions(own).to(self.device)]
        losses, told = self._losses(outputs.to(structures.targets.dtype), structures, factors)
        self.scaler.scale(losses.sum()).backward()
        if self.team.size > 1:
            self._add_gradients()
        if self.settings.clip is not None:
            self.scaler.unscale_(self.optimizer)
            self._clip(self.settings.clip)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        return told

    def _losses(
        self, outputs: Tensor, structures: Structures, factors: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Return the loss of every network, to be differentiated, and its value over the processes' whole batch."""
        assert structures.targets is not None
        values, weights = weighted_entries(self.task, outputs, structures.targets, factors)
        blocks = members_of(structures).structures
        if blocks is not None:
            value, weight = segment_sum(values, blocks.ptr), segment_sum(weights, blocks.ptr)
        else:
            value, weight = values.sum()[None], weights.sum()[None]
        total = value.detach().clone()
        self.team.add([total, weight])
        weight = weight.clamp(min=1e-12)
        return value / weight, total / weight

    def _add_gradients(self) -> None:
        parameters = list(self.model.parameters())
        for parameter in parameters:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        self.team.add([parameter.grad for parameter in parameters if parameter.grad is not None])

    def _clip(self, largest: float) -> None:
        """Shorten every network's gradient to a largest norm."""
        parameters = [p for p in self.model.parameters() if p.grad is not None]
        if len(self.fits) == 1:
            nn.utils.clip_grad_norm_(parameters, largest)
            return
        gradients = [p.grad for p in parameters if p.grad is not None]
        squares = torch.stack([gradient.flatten(1).square().sum(dim=1) for gradient in gradients])
        factor = (largest / (squares.sum(dim=0).sqrt() + 1e-6)).clamp(max=1.0)
        for gradient in gradients:
            gradient.mul_(factor.view(-1, *[1] * (gradient.ndim - 1)))

    def _note_failure(self, number: int, losses: Float[Array, " steps"], order: Array) -> None:
        """Note that a network's loss is no longer finite, with the batch where this was seen first."""
        bad = np.flatnonzero(~np.isfinite(losses))
        if len(bad):
            start = int(bad[0]) * self.settings.batch_size
            batch = order[start : start + self.settings.batch_size]
            self.failed[number] = self.fits[number].not_finite(batch)

    # -- dropout -------------------------------------------------------------------------------------------

    @contextmanager
    def _seeded(
        self, epoch: int, orders: list[Array], one_by_one: bool
    ) -> Iterator[Callable[[slice], Tensor | None]]:
        """Seed what an epoch draws; yield a function from a step's slice to given factors of dropout, if any.

        One network in one process draws for itself, and so do those whose steps are captured. Networks side by side
        otherwise draw for the whole epoch, each from a seed of its own. Of several processes each draws for the whole
        batch, and takes its part.
        """
        rates = [fit.network.dropout.p for fit in self.fits]
        seeds = [
            np.random.SeedSequence([fit.settings.seed, epoch, 1]).generate_state(1)[0].item()
            for fit in self.fits
        ]
        if len(self.fits) > 1 and one_by_one:
            if not any(rates):
                yield lambda part: None
                return
            factors = self._epoch_factors(rates, seeds)
            places = [np.arange(len(order)) for order in orders]
            yield lambda part: factors[self.data.positions([own[part] for own in places]).to(self.device)]
            return
        devices = [self.device.index or 0] if self.device.type == "cuda" else []
        with torch.random.fork_rng(devices=devices):
            torch.manual_seed(seeds[0])
            own = self.team.size == 1 or not rates[0]
            yield lambda part: None if own else self._part_factors(rates[0], part)

    def _epoch_factors(self, rates: list[float], seeds: list[int]) -> Float[Tensor, "structures hidden"]:
        widths = [fit.network.hidden_layer.out_features for fit in self.fits]
        parts = []
        for rate, seed, own, count in zip(rates, seeds, widths, self.data.sizes, strict=True):
            generator = torch.Generator(self.device).manual_seed(seed)
            drawn = torch.rand(count, own, generator=generator, device=self.device)
            factors = (drawn >= rate).float() / (1.0 - rate)
            parts.append(functional.pad(factors, (0, max(widths) - own)))
        return torch.cat(parts)

    def _part_factors(self, rate: float, part: slice) -> Float[Tensor, "structures hidden"]:
        count = len(range(self.data.sizes[0])[part])
        ones = torch.ones(count, self.fits[0].network.hidden_layer.out_features, device=self.device)
        return functional.dropout(ones, rate)[torch.from_numpy(self.team.part(np.arange(count)))]

    # -- validation, best weights, checkpoints -------------------------------------------------------------

    def _validate(self, epoch: int, rows: dict[int, dict[str, float]]) -> None:
        assert self.validation is not None
        outputs, better = self._outputs(self.validation, rows), []
        for number, row in rows.items():
            fit, history = self.fits[number], self.state.histories[number]
            assert fit.validation is not None
            assert fit.validation.targets is not None
            targets = fit.validation.targets.cpu()
            standardized = fit.task.standardize(targets).to(outputs[number].dtype)
            factors = None if fit.weights is None else torch.from_numpy(fit.weights[1])
            found = {"loss": float(objective(fit.task, outputs[number], standardized, factors))}
            found |= fit.task.metrics(outputs[number], targets)
            row |= {f"valid_{name}": value for name, value in found.items()}
            if history.improves(self.settings.monitor in HIGHER_IS_BETTER, found[self.settings.monitor]):
                history.best, history.best_epoch = found[self.settings.monitor], epoch + 1
                better.append(number)
        self._keep(better)

    def _outputs(self, pack: Pack, numbers: Collection[int]) -> list[Float[Tensor, "structures outputs"]]:
        """Return the outputs of these networks for their structures, in host memory; of the others none."""
        self.model.eval()
        parts = max(1, math.ceil(pack.entries / MOST_VALIDATED[self.device.type] / self.team.size))
        pieces: list[list[Tensor]] = [[] for _ in self.fits]
        mine = [
            self.team.part(np.arange(size * (number in numbers))) for number, size in enumerate(pack.sizes)
        ]
        with torch.inference_mode():
            for shares in zip(*(np.array_split(own, parts) for own in mine), strict=True):
                structures, prepared = pack.batch(list(shares))
                outputs = self.model(structures, *prepared).cpu()
                for own, piece in zip(pieces, outputs.split([len(s) for s in shares]), strict=True):
                    own.append(piece)
        return [self.team.join(torch.cat(own)) for own in pieces]

    def _weights(self) -> dict[str, Tensor]:
        """Return the weights as they are, each with a first axis over the networks."""
        weights = self._stacked.state_dict()
        return weights if len(self.fits) > 1 else {name: value[None] for name, value in weights.items()}

    def _keep(self, numbers: list[int]) -> None:
        """Take the present weights of some networks for their best."""
        index = torch.tensor(numbers, dtype=torch.int64, device=self.device)
        best = self.state.best_weights
        for name, value in self._weights().items():
            if name not in best:
                best[name] = value.detach().clone()
            else:
                best[name].index_copy_(0, index, value.index_select(0, index))

    def identity(self) -> dict[str, Any]:
        """Return what must be the same for a run to go on: settings, network, task, data."""
        free, packs = ("device", "devices"), [(fit.structures, fit.validation) for fit in self.fits]
        weighted = {}
        if self.fits[0].weights is not None:
            content = np.concatenate([part for fit in self.fits for part in fit.weights or ()])
            weighted["weights"] = hashlib.sha256(content.astype("<f8").tobytes()).hexdigest()[:16]
        return weighted | {
            "settings": [
                {name: value for name, value in fit.settings.as_dict().items() if name not in free}
                for fit in self.fits
            ],
            "network": [fit.network.settings() for fit in self.fits],
            "task": [fit.task.as_dict() for fit in self.fits],
            "data": [[fingerprint(pack) for pack in own if pack is not None] for own in packs],
        }
