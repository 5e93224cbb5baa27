"""The mean-field update: compiled loops for the CPU, and plain torch for any device."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch

from hiddenfield.fields.factor_graph import FactorGraph
from hiddenfield.fields.layout import FlatField, flatten
from hiddenfield.inference.messages.loops import normalise
from hiddenfield.inference.messages.passing import largest, normalise_segments
from hiddenfield.inference.sampling.chains import colour_variables
from hiddenfield.ops import gather_sum, segment_max, segment_sum
from hiddenfield.ops.compile import as_array, compiled, prange
from hiddenfield.ops.dispatch import use_compiled
from hiddenfield.shapes import Float, Tensor

EVIDENCE = 1e9
"""Broken factors that a state which a variable's own potential excludes counts for: evidence comes first."""


FLOOR = -50.0
"""Log probability that a zero counts as where an old marginal is mixed with a new one."""


def self_coupled(field: FactorGraph) -> bool:
    """Whether a factor names one variable twice, as it may in a field with counts."""
    return any(bool((group.scopes.sort(1).values.diff(dim=1) == 0).any()) for group in field.groups)


@dataclass(frozen=True, eq=False)
class ProductUpdate:
    """A sweep of updates over all variables; see `hiddenfield.inference.mean_field`.

    Parameters
    ----------
    field
        The field.
    parallel
        All variables from all old marginals, instead of one after another.
    damping
        Weight of the old log marginal.
    flat
        The field as the compiled loops read it; None runs torch.
    colours
        Masks over the states, one row per colour, for sequential torch.
    """

    field: FactorGraph
    parallel: bool
    damping: float
    flat: FlatField | None
    colours: Tensor | None

    @classmethod
    def make(cls, field: FactorGraph, schedule: str, damping: float, backend: str) -> ProductUpdate:
        """Choose the back end and prepare what it needs."""
        parallel = schedule == "parallel"
        if use_compiled(field.log_unary.detach(), backend=backend, converts=True):
            return cls(field, parallel, damping, flatten(field), None)
        if parallel:
            return cls(field, parallel, damping, None, None)
        colour = colour_variables(field).to(field.device)
        number = int(colour.max()) + 1 if len(colour) else 0
        masks = colour[field.state_variable] == torch.arange(number, device=field.device)[:, None]
        return cls(field, parallel, damping, None, masks)

    @property
    def monotone(self) -> bool:
        """Whether the bound is known after each sweep, and never falls."""
        return not self.parallel

    def sweep(
        self, log_q: Float[Tensor, " states"], damping: Float[Tensor, " graphs"]
    ) -> tuple[Float[Tensor, " states"], Float[Tensor, " graphs"], Float[Tensor, " graphs"]]:
        """Update every variable once; return log marginals, and each graph's largest change and gain of the bound."""
        keep = damping + (1 - damping) * self.damping
        if self.flat is not None:
            return self._sweep_loop(self.flat, log_q, keep)
        here = keep[self.field.variable_graph[self.field.state_variable]]
        if self.colours is None:
            new = _mixed(self.field, log_q, self.target(log_q), here)
            return new, self._change(log_q, self.target(log_q)), torch.zeros_like(keep)
        old, gain = log_q, torch.zeros_like(keep)
        for mask in self.colours:
            new = torch.where(mask, _mixed(self.field, log_q, self.target(log_q), here), log_q)
            gain = gain + self._gain(log_q, new)
            log_q = new
        return log_q, self._change(old, log_q), gain

    def residual(self, log_q: Float[Tensor, " states"]) -> Float[Tensor, " graphs"]:
        """Return for each graph how far the marginals are from solving their equations."""
        return self._change(log_q, self.target(log_q)).detach()

    def target(self, log_q: Float[Tensor, " states"]) -> Float[Tensor, " states"]:
        """Return the best marginal of every variable given all others, in torch."""
        field = self.field
        q = log_q.exp()
        never = field.log_unary == -math.inf
        value, broken = [], []
        for group in field.groups:
            table = group.expanded()
            hard = table == -math.inf
            finite = torch.where(hard, torch.zeros_like(table), table)
            weight = field.multiplicity(group)
            blocks = [
                q[field.state_ptr[group.scopes[:, port], None] + torch.arange(states, device=field.device)]
                for port, states in enumerate(group.states)
            ]
            for port in range(group.arity):
                value.append((weight[:, port, None] * _expected(finite, blocks, port)).reshape(-1))
                if bool(hard.any()):
                    broken.append((weight[:, port, None] * _expected(hard.to(q), blocks, port)).reshape(-1))
                else:
                    broken.append(torch.zeros_like(value[-1]))
        score, violation = (
            torch.where(never, torch.zeros_like(field.log_unary), field.log_unary),
            never * EVIDENCE,
        )
        if value:
            sums = gather_sum(torch.stack([torch.cat(value), torch.cat(broken)], 1), field.wiring.to_states)
            score, violation = score + sums[:, 0], violation + sums[:, 1]
        return _softmax_of_least_broken(field, score, violation.detach())

    def _gain(self, old: Tensor, new: Tensor) -> Tensor:
        """Return what the bound of each graph gains: counts times the divergence of old from new."""
        q = old.exp()
        each = torch.where(q > 0, q * (old - new), torch.zeros_like(q))
        each = self.field.counts * segment_sum(each, self.field.state_ptr).clamp(min=0)
        return segment_sum(each.double(), self.field.variable_ptr).to(q.dtype)

    def _change(self, old: Tensor, new: Tensor) -> Tensor:
        owner = self.field.variable_graph[self.field.state_variable]
        return largest((new.exp() - old.exp()).abs(), owner, self.field.num_graphs)

    def _sweep_loop(self, flat: FlatField, log_q: Tensor, keep: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        field = self.field
        read_log = as_array(log_q.to(torch.float64)).copy()
        read = np.exp(read_log)
        write_log, write = (read_log.copy(), read.copy()) if self.parallel else (read_log, read)
        # Sequential: graph by graph, one variable after another. Parallel: every variable by itself.
        blocks = np.arange(field.num_variables + 1) if self.parallel else flat.variable_ptr
        keep_of = as_array(keep[field.variable_graph].to(torch.float64))
        gain, change = np.zeros(field.num_variables), np.zeros(field.num_variables)
        scratch = np.zeros((2, len(read)))
        work = len(flat.tables) if len(blocks) > 2 else 0
        _sweep(blocks, flat, keep_of, *scratch, read, read_log, write, write_log, gain, change, work=work)
        new = torch.from_numpy(write_log).to(log_q)
        if field.num_graphs == 1:
            totals = np.array([[change.max(initial=0.0)], [gain.sum()]])
        else:
            owner = as_array(field.variable_graph)
            totals = np.stack([np.zeros(field.num_graphs), np.bincount(owner, gain, field.num_graphs)])
            np.maximum.at(totals[0], owner, change)
        largest, total = torch.from_numpy(totals).to(log_q)
        return new, largest, total


def _expected(table: Tensor, blocks: list[Tensor], port: int) -> Tensor:
    """Average (factors, states ...) over the marginals of all ports but one; (factors, states of the port)."""
    result = table.expand(blocks[port].shape[0], *table.shape[1:])
    for other in range(len(blocks) - 1, -1, -1):
        if other != port:
            # Axes above `other` have been summed but for the port's, which lies behind `other` if it is greater.
            axis = other + 1
            shape = [blocks[other].shape[0], *(1,) * (result.ndim - 1)]
            shape[axis] = blocks[other].shape[1]
            result = (result * blocks[other].reshape(shape)).sum(axis)
    return result


def _mixed(field: FactorGraph, old: Tensor, new: Tensor, keep: Tensor) -> Tensor:
    """Take the weighted mean of log marginals, normalised; what the new one excludes stays excluded.

    An old zero counts as `FLOOR`, so that a state which is possible again can come back.
    """
    if not bool((keep > 0).any()):
        return new
    return normalise_segments(keep * old.clamp(min=FLOOR) + (1 - keep) * new, field.state_ptr)[0]


def _softmax_of_least_broken(field: FactorGraph, score: Tensor, violation: Tensor) -> Tensor:
    least = -segment_max(-violation, field.state_ptr)[field.state_variable]
    allowed = violation <= least * (1 + 1e-9)
    return normalise_segments(torch.where(allowed, score, -math.inf), field.state_ptr)[0]


@compiled
def _sweep(  # type: ignore[no-untyped-def]
    blocks, flat, keep, score, broken, read, read_log, write, write_log, gain, change
):
    for block in prange(blocks.size - 1):
        for v in range(blocks[block], blocks[block + 1]):
            first, last = flat.state_ptr[v], flat.state_ptr[v + 1]
            card = last - first
            for s in range(first, last):
                hard = flat.log_unary[s] == -np.inf
                score[s] = 0.0 if hard else flat.log_unary[s]
                broken[s] = EVIDENCE if hard else 0.0
            for p in range(flat.port_ptr[v], flat.port_ptr[v + 1]):
                own = flat.port_place[p]
                weight = flat.port_weight[p]
                f = flat.place_factor[own]
                begin, end = flat.scope_ptr[f], flat.scope_ptr[f + 1]
                base = flat.table_start[f]
                if end - begin == 2:
                    other = begin + end - 1 - own
                    u = flat.scope[other]
                    step, across = flat.stride[own], flat.stride[other]
                    for y in range(flat.state_ptr[u + 1] - flat.state_ptr[u]):
                        w = weight * read[flat.state_ptr[u] + y]
                        if w > 0.0:
                            entry = base + y * across
                            for x in range(card):
                                value = flat.tables[entry + x * step]
                                if value == -np.inf:
                                    broken[first + x] += w
                                else:
                                    score[first + x] += w * value
                else:
                    for e in range(flat.table_size[f]):
                        w = weight
                        for other in range(begin, end):
                            if other != own:
                                u = flat.scope[other]
                                states = flat.state_ptr[u + 1] - flat.state_ptr[u]
                                w *= read[flat.state_ptr[u] + (e // flat.stride[other]) % states]
                        if w > 0.0:
                            x = (e // flat.stride[own]) % card
                            value = flat.tables[base + e]
                            if value == -np.inf:
                                broken[first + x] += w
                            else:
                                score[first + x] += w * value
            least = np.inf
            for s in range(first, last):
                least = min(least, broken[s])
            least = least * (1 + 1e-9)
            for s in range(first, last):
                if broken[s] > least:
                    score[s] = -np.inf
            normalise(score[first:last], card, False)
            largest = 0.0
            for s in range(first, last):
                largest = max(largest, abs(np.exp(score[s]) - read[s]))
            change[v] = largest
            if keep[v] > 0.0:
                for s in range(first, last):
                    score[s] = keep[v] * max(read_log[s], FLOOR) + (1 - keep[v]) * score[s]
                normalise(score[first:last], card, False)
            gained = 0.0
            for s in range(first, last):
                if read[s] > 0.0:
                    gained += read[s] * (read_log[s] - score[s])
            gain[v] = flat.counts[v] * max(gained, 0.0)  # rounding aside it is a divergence
            for s in range(first, last):
                write_log[s] = score[s]
                write[s] = np.exp(score[s])
