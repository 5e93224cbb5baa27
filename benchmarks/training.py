"""How fast do embedded mean field and loopy belief propagation train, compared with the same models in PyG?

T = 4 rounds, d = 64, sum pooling, a two-layer head, Adam, squared loss; graphs of about 30 nodes and 63 arcs with one
node label and one arc label; an epoch includes loader, forward, backward and step. Compared with idiomatic PyTorch
Geometric (``MessagePassing`` with ``aggr="add"``, ``DataLoader`` with shuffling; loopy propagation on directed edges
with a ``reverse`` index, node sums by ``scatter``), with the same optimisation: what does not change between rounds
is computed once. Both networks have the same weights, and the largest difference of their outputs is in the table.
They alternate; best epoch of several. On a GPU our pack is on the device and batches are cut there. On the CPU the
last column says where the time of our batches goes, by ``torch.profiler``: the fused sums include the rectifier and
its gradient.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from benchmarks.environment import main
from benchmarks.loader import molecule_sized
from hiddenfield import Structures
from hiddenfield.embedding import FeatureSizes, Predictor
from hiddenfield.learning import Task, TrainSettings, train
from hiddenfield.learning.protocol import objective

DIM, ROUNDS = 64, 4
WORK = {
    "products": ("aten::mm", "aten::addmm"),
    "sums": ("_CavitySum", "_GatherSum", "_SegmentSum", "_SegmentRepeat"),
    "rectifier": ("aten::threshold_backward", "aten::clamp_min", "aten::relu"),
    "loader": ("loader",),
    "optimizer": ("Optimizer.step",),
}


def rival_network(model: str, ours: Predictor) -> nn.Module:
    """Return the PyG network with the weights of ours."""
    from torch_geometric.nn import MessagePassing, global_add_pool
    from torch_geometric.utils import scatter

    embedding = ours.embedding

    class Sum(MessagePassing):
        def __init__(self) -> None:
            super().__init__(aggr="add")

        def forward(self, x: Any, edge_index: Any) -> Any:
            return self.propagate(edge_index, x=x)

    class Rival(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.sum = Sum()
            self.tables = nn.ModuleDict()
            names = ("own", "neighbours") if model == "mean_field" else ("own", "sender")
            for name in names:
                self.tables[name] = nn.Embedding.from_pretrained(
                    getattr(embedding, name).table.detach().clone(), freeze=False
                )
            self.tables["arcs"] = nn.Embedding.from_pretrained(
                embedding.arcs.table.detach().clone(), freeze=False
            )
            self.bias = nn.ParameterDict()
            for name in names:
                if getattr(embedding, name).bias is not None:
                    self.bias[name] = nn.Parameter(getattr(embedding, name).bias.detach().clone())
            self.messages = nn.Linear(DIM, DIM, bias=False)
            self.messages.weight.data.copy_(embedding.messages.data)
            self.received = nn.Linear(DIM, DIM, bias=False)
            if model == "loopy_bp":
                self.received.weight.data.copy_(embedding.received.data)
            self.hidden, self.output = nn.Linear(DIM, 64), nn.Linear(64, 1)
            self.hidden.load_state_dict(ours.hidden_layer.state_dict())
            self.output.load_state_dict(ours.output_layer.state_dict())

        def project(self, name: str, labels: Any) -> Any:
            result = self.tables[name](labels)
            return result + self.bias[name] if name in self.bias else result

        def mean_field(self, batch: Any) -> Any:
            x = batch.x
            neighbours = self.sum(self.project("neighbours", x), batch.edge_index)
            arcs = scatter(
                self.project("arcs", batch.edge_attr), batch.edge_index[1], dim_size=len(x), reduce="sum"
            )
            constant = self.project("own", x) + neighbours + arcs
            state = constant.relu()
            for _ in range(ROUNDS - 1):
                state = (constant + self.messages(self.sum(state, batch.edge_index))).relu()
            return state

        def loopy_bp(self, batch: Any) -> Any:
            source, target = batch.edge_index
            nodes = batch.num_nodes
            constant = self.project("sender", batch.x)[source] + self.project("arcs", batch.edge_attr)
            messages = constant.relu()
            for _ in range(ROUNDS - 1):
                total = scatter(messages, target, dim_size=nodes, reduce="sum")
                messages = (constant + self.messages(total[source] - messages[batch.reverse_index])).relu()
            total = scatter(messages, target, dim_size=nodes, reduce="sum")
            return (self.project("own", batch.x) + self.received(total)).relu()

        def forward(self, batch: Any) -> Any:
            nodes = self.mean_field(batch) if model == "mean_field" else self.loopy_bp(batch)
            pooled = global_add_pool(nodes, batch.batch, size=batch.num_graphs)
            return self.output(self.hidden(pooled.relu()).relu())

    return Rival()


def rival_data(pack: Structures) -> list[Any]:
    """Return the pack as PyG objects with single labels and the reverse of every edge."""
    from torch_geometric.data import Data

    class Graph(Data):
        def __inc__(self, key: str, value: Any, *arguments: Any, **options: Any) -> Any:
            return (
                self.num_edges
                if key == "reverse_index"
                else super().__inc__(key, value, *arguments, **options)
            )

    node, arc = pack.node_ptr.tolist(), pack.arc_ptr.tolist()
    edges = torch.stack([pack.source, pack.target]).long()
    graphs = []
    for n in range(len(pack)):
        nodes, arcs = slice(node[n], node[n + 1]), slice(arc[n], arc[n + 1])
        graphs.append(
            Graph(
                x=pack.node_labels[nodes, 0].long(),
                edge_index=edges[:, arcs] - node[n],
                edge_attr=pack.arc_labels[arcs, 0].long(),
                reverse_index=pack.reverse[arcs].long() - arc[n],
                y=pack.targets[n].float(),
                num_nodes=node[n + 1] - node[n],
            )
        )
    return graphs


def our_epoch(
    network: Predictor, task: Task, pack: Structures, batch_size: int, device: str, precision: str = "32"
) -> Callable[[], float]:
    """Return a call that trains for some epochs with the library's own trainer and gives the time of the fastest."""
    epochs = 2 if device == "cpu" else 5
    common: dict[str, Any] = {"device": device, "schedule": "constant", "clip": None, "precision": precision}
    settings = TrainSettings(epochs=epochs, batch_size=batch_size, **common)

    def epoch() -> float:
        history = train(network, task, pack, settings=settings)
        return min(row["seconds"] for row in history.rows)

    return epoch


def rival_epoch(network: nn.Module, graphs: list[Any], batch_size: int, device: str) -> Callable[[], float]:
    """Return a call that trains the PyG network for an epoch and gives its time."""
    from torch_geometric.loader import DataLoader

    network.to(device)
    loader = DataLoader(graphs, batch_size=batch_size, shuffle=True)
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3, fused=True)

    def epoch() -> float:
        start = time.perf_counter()
        for batch in loader:
            batch = batch.to(device)
            optimizer.zero_grad()
            ((network(batch)[:, 0] - batch.y) ** 2).mean().backward()
            optimizer.step()
        if device == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter() - start

    return epoch


def shares(network: Predictor, task: Task, pack: Structures, batch_size: int) -> str:
    """Profile batches of an epoch and return the share of the time in each kind of work, largest first."""
    from torch.profiler import ProfilerActivity, profile, record_function

    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3, fused=True)
    index = torch.randperm(len(pack), generator=torch.Generator().manual_seed(0)).split(batch_size)

    def step(chosen: torch.Tensor) -> None:
        with record_function("batch"):
            with record_function("loader"):
                batch = pack[chosen]
            optimizer.zero_grad()
            objective(task, network(batch), task.standardize(batch.targets).float()).backward()
            optimizer.step()

    step(index[0])
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        for chosen in index:
            step(chosen)
    events = list(profiler.events())
    total = sum(event.cpu_time_total for event in events if event.name == "batch")
    spent = dict.fromkeys(WORK, 0.0)
    for event in events:
        for kind, names in WORK.items():
            # The loader's and the optimizer's ops belong to them.
            whole = kind in ("loader", "optimizer")
            if event.name.startswith(names) and (whole or not _within(event, "loader", "Optimizer.step")):
                spent[kind] += event.cpu_time_total if whole else event.self_cpu_time_total
    spent["rest"] = total - sum(spent.values())
    ordered = sorted(spent.items(), key=lambda item: -item[1])
    return ", ".join(f"{kind} {time / total:.0%}" for kind, time in ordered)


def _within(event: Any, *names: str) -> bool:
    parent = event.cpu_parent
    return parent is not None and (parent.name.startswith(names) or _within(parent, *names))


def measure(
    model: str, device: str, threads: int, count: int, batch_size: int, rounds: int
) -> list[dict[str, Any]]:
    """Time both on one device."""
    from torch_geometric.data import Batch

    torch.set_num_threads(threads)
    torch.manual_seed(0)
    pack = molecule_sized(count)
    task = Task.of(pack)
    network = Predictor(FeatureSizes.of(pack), 1, model=model, dim=DIM, rounds=ROUNDS)
    rival, few = rival_network(model, network), rival_data(pack[: min(count, 8192)])
    with torch.no_grad():
        difference = float((network(pack[:64]) - rival(Batch.from_data_list(few[:64]))).abs().max())
    epochs = {
        "PyG": (rival_epoch(rival, few, batch_size, device), len(few)),
        "hiddenfield": (our_epoch(network, task, pack, batch_size, device), count),
    }
    best = dict.fromkeys(epochs, float("inf"))
    for attempt in range(rounds + 1):
        for name, (epoch, size) in epochs.items():
            seconds = epoch()
            if attempt:
                best[name] = min(best[name], seconds / size)
    where = (
        f"CPU, {threads} thread{'s' if threads > 1 else ''}"
        if device == "cpu"
        else torch.cuda.get_device_name()
    )
    return [
        {
            "model": model,
            "on": where,
            "batch": batch_size,
            "PyG graphs/s": 1 / best["PyG"],
            "hiddenfield graphs/s": 1 / best["hiddenfield"],
            "ratio": best["PyG"] / best["hiddenfield"],
            "greatest difference": difference,
            "where the time goes": shares(network, task, pack, batch_size) if device == "cpu" else None,
        }
    ]


def run(quick: bool = False) -> dict[str, Any]:
    """Time every combination that this machine has."""
    before = torch.get_num_threads()
    rows: list[dict[str, Any]] = []
    for model in ("mean_field", "loopy_bp"):
        for threads in (1, 2):
            rows += measure(model, "cpu", threads, 1024 if quick else 8192, 512, 1 if quick else 5)
        if torch.cuda.is_available():
            rows += measure(model, "cuda", 1, 8192 if quick else 200_000, 4096, 2 if quick else 4)
    torch.set_num_threads(before)
    return {"question": "training throughput of embedded inference", "rows": rows}


if __name__ == "__main__":
    main(run)
