"""How fast is a data set read, from the TU text files and from Arrow, and is the result the same?

NCI1 and DD in the TU format, from the unpacked folder and from the zip archive itself, compared with
``torch_geometric.io.read_tu_data`` on the same unpacked folder. The readers alternate; best of several runs, after
one call that compiles. `differences` counts the arcs, node labels and classes that differ from PyG's. Then a pack of
30,000 structures as Arrow IPC (memory-mapped and checked) and as Parquet (also decompressed); here `differences` is
relative to the pack that was written.

The data sets are taken from ``$HIDDENFIELD_DATA``, or from ``shared/data`` beside the repository; where there are
none, random ones of the same size are generated.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.environment import main, side_by_side
from hiddenfield.data import Structures
from hiddenfield.data.arrow_tables import write
from hiddenfield.data.readers import arrow, tu

# graphs, nodes a graph, edges a node, node labels: what the random ones are made of
SHAPES = {"NCI1": (4110, 30, 1.08, 37), "DD": (1178, 284, 2.52, 82)}


def real_archive(name: str) -> Path | None:
    """Return the archive of a real set, if there is one."""
    given = os.environ.get("HIDDENFIELD_DATA")
    data = Path(given) if given else Path(__file__).resolve().parents[2] / "shared" / "data"
    path = data / "graphs" / name / f"{name}.zip"
    return path if path.exists() else None


def random_archive(name: str, folder: Path) -> Path:
    """Write a random set of the same size as a real one, zipped."""
    graphs, size, density, labels = SHAPES[name]
    random = np.random.default_rng(0)
    nodes, edges = graphs * size, round(graphs * size * density)
    first = random.integers(0, nodes, edges)
    second = first - first % size + random.integers(0, size, edges)
    ends = np.unique(np.stack([first, second])[:, first != second], axis=1)
    arcs = np.unique(np.concatenate([ends, ends[::-1]], axis=1), axis=1).T + 1
    inside = folder / "made" / name
    inside.mkdir(parents=True)
    for part, values in {
        "A": arcs,
        "graph_indicator": np.repeat(np.arange(graphs), size) + 1,
        "graph_labels": random.integers(0, 2, graphs),
        "node_labels": np.concatenate([np.arange(labels), random.integers(0, labels, nodes - labels)]),
    }.items():
        np.savetxt(inside / f"{name}_{part}.txt", values, fmt="%d", delimiter=", ")
    return Path(shutil.make_archive(str(folder / f"random_{name}"), "zip", folder / "made", name))


def differences(pack: Structures, theirs: Any) -> int:
    """Count what PyG's reader sees differently: it sorts arcs by source, and every set here is symmetric."""
    data, slices, _ = theirs
    owner = torch.repeat_interleave(torch.arange(len(pack)), slices["edge_index"].diff())
    arcs = data.edge_index.flip(0) + pack.node_ptr[owner]
    ours = torch.stack([pack.source, pack.target])
    symbols = torch.tensor(pack.node_vocabularies[0].symbols)[pack.node_labels[:, 0].long()]
    return int(
        (ours != arcs).any(dim=0).sum()
        + (symbols - symbols.min() != data.x.argmax(dim=1)).sum()
        + (pack.targets[:, 0] != data.y).sum()
    )


def measure_text(name: str, folder: Path, repeats: int) -> list[dict[str, Any]]:
    """Time one set of text files."""
    from torch_geometric.io import read_tu_data

    archive = real_archive(name)
    made = archive is None
    archive = random_archive(name, folder) if archive is None else archive
    shutil.unpack_archive(archive, folder)
    unpacked = folder / name
    calls = {
        "PyG": lambda: read_tu_data(str(unpacked), name),
        "folder": lambda: tu.read(unpacked),
        "zip": lambda: tu.read(archive),
    }
    seconds = side_by_side(calls, repeats)
    pack = calls["zip"]()
    wrong = differences(pack, calls["PyG"]())
    return [
        {
            "set": f"{name}{' (random)' if made else ''}, {kind}",
            "structures": len(pack),
            "arcs": pack.total_arcs,
            "PyG (ms)": seconds["PyG"] * 1e3,
            "hiddenfield (ms)": seconds[kind] * 1e3,
            "ratio": seconds["PyG"] / seconds[kind],
            "differences": wrong,
        }
        for kind in ("folder", "zip")
    ]


def measure_arrow(pack: Structures, folder: Path, repeats: int) -> list[dict[str, Any]]:
    """Time reading and writing one pack in both forms."""
    files = {"Arrow IPC": folder / "pack.arrow", "Parquet": folder / "pack.parquet"}
    calls = {f"{kind}, written": lambda path=path: write(pack, path) for kind, path in files.items()}
    calls |= {f"{kind}, read": lambda path=path: arrow.read(path) for kind, path in files.items()}
    seconds = side_by_side(calls, repeats)
    return [
        {
            "set": kind,
            "structures": len(pack),
            "arcs": pack.total_arcs,
            "PyG (ms)": None,
            "hiddenfield (ms)": seconds[kind] * 1e3,
            "ratio": None,
            "differences": int(arrow.read(files[kind.split(",")[0]]) != pack),
        }
        for kind in seconds
    ]


def run(quick: bool = False) -> dict[str, Any]:
    """Measure the text files, then Arrow on structures drawn from the first set."""
    repeats = 1 if quick else 5
    count = 3_000 if quick else 30_000
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        rows = [
            row for name in (["NCI1"] if quick else SHAPES) for row in measure_text(name, folder, repeats)
        ]
        pack = tu.read(folder / "NCI1")
        chosen = np.random.default_rng(0).integers(0, len(pack), count)
        names = np.array([f"molecule-{k}" for k in range(count)], dtype=np.dtypes.StringDType())
        rows += measure_arrow(pack[chosen].replace(ids=names), folder, 2 * repeats)
    return {"question": "reading text and Arrow", "rows": rows}


if __name__ == "__main__":
    main(run)
