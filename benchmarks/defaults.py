"""Are the defaults of the estimators at least as good as baselines, on sets of all kinds?

``python -m benchmarks.defaults pack --data ../shared/data`` reads the sets once, at most 3,000 structures of each, into
out/sets (this needs RDKit). ``python -m benchmarks.defaults run --jobs 12`` fits candidates and baselines to parts of
each set and tests them on the others, every fit in a process of its own, and keeps the rows in benchmarks/defaults.json
(``--out`` and ``--seconds`` are for a run elsewhere); ``python -m benchmarks.defaults page`` writes
docs/results/defaults.md, with ``--merge`` rows of other files too. ``run --quick`` runs two sets and writes nothing.
The sets of `CHOSEN_ON` had a part in the choice of the defaults; those of `UNTOUCHED` had none.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import lzma
import os
import threading
import time
import warnings
import zipfile
from collections.abc import Callable, Sequence
from multiprocessing import TimeoutError, get_context
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.environment import environment, table

MOST = 3000
LARGE = {"Tox21 whole": 10_000, "HIV half": 25_000}
"""Sets that are large enough for networks alone, with the most structures that are read; one part is tested on."""
PARTS, TESTED = 5, 3
"""Parts that a set is cut into, and how many of them are tested on: all of a set below `SMALL` structures."""
SMALL = 1300
CANDIDATES: dict[str, dict[str, Any]] = {
    "default": {},
    "networks": {"counts": False},
    "one network": {
        "counts": False,
        "ensemble": 1,
        "every_round": False,
        "standardise": False,
    },
    "counted": {"counts": True},
}
ORDER = ("default", "WL-3", "Morgan forest", "forest", "one network", "labels", "networks")
BASELINES = ("labels", "WL-3", "forest", "Morgan forest")
MOLECULES = {
    "ESOL": ("MOLECULENET/esol.csv.xz", "smiles", "measured log solubility in mols per litre"),
    "FreeSolv": ("MOLECULENET/freesolv.csv.xz", "smiles", "expt"),
    "QM7": ("MOLECULENET/qm7.csv.xz", "smiles", "u0_atom"),
    "BBBP": ("MOLECULENET/bbbp.csv.xz", "smiles", "BBBP"),
    "ClinTox": ("MOLECULENET/clintox.csv.xz", "smiles", "FDA_APPROVED,CT_TOX"),
    "Tox21": (
        "MOLECULENET/tox21.csv.xz",
        "smiles",
        "NR-AR,NR-AR-LBD,NR-AhR,NR-Aromatase,NR-ER,NR-ER-LBD,NR-PPAR-gamma,SR-ARE,SR-ATAD5,SR-HSE,SR-MMP,SR-p53",
    ),
    "AIDS CA-CM": ("AIDS_CAvsCM/aids_ca_vs_cm.csv.gz", "smiles", "label"),
    "HIV": ("MOLECULENET/hiv.csv.xz", "smiles", "HIV_active"),
    "malaria": ("MOLECULENET/malaria.csv.xz", "1", "0"),
    "CEP": ("CEP/cep-processed.csv.xz", "smiles", "PCE"),
    "QM9 G4MP2": ("QM9_G4MP2/train.csv.xz", "smiles", "output"),
}
MOLECULES |= {name: MOLECULES[name.split()[0]] for name in LARGE}
BOILING = {
    "Alkane": ("ALKANE/Alkane.zip", "dataset_boiling_point_names.txt", 1),
    "Acyclic": ("ACYCLIC/Acyclic.zip", "dataset_bps.ds", 0),
}
"""Sets of small molecules with boiling points: the archive, its list, and the list's column of files."""
NUMBERS = ("ESOL", "FreeSolv", "QM7", "malaria", "CEP", "QM9 G4MP2", *BOILING)
GRAPHS = {
    "MUTAG": "MUTAG/MUTAG.zip",
    "NCI1": "NCI1/NCI1.zip",
    "ENZYMES": "ENZYMES/ENZYMES.zip",
    "CPDB": "CPDB/CPDB.zip",
    "IMDB-MULTI": "TU_MORE/IMDB-MULTI.zip",
    "Letter-med": "TU_MORE/Letter-med.zip",
    "Fingerprint": "TU_MORE/Fingerprint.zip",
    "INEX 2006": "INEX2006/inex06.train.elastic.tree.xz",
    "DHFR": "TU_MORE/DHFR.zip",
    "MSRC_9": "TU_MORE/MSRC_9.zip",
    "MSRC_21": "TU_MORE/MSRC_21.zip",
    "Synthie": "TU_MORE/Synthie.zip",
    "AIDS IAM": "AIDS_IAM/AIDS.zip",
    "INEX 2005": "INEX2005/inex05.train.elastic.tree.xz",
    "NCI109": "NCI109/NCI109.zip",
    "SST": "SST/train.txt.xz",
}
UNTOUCHED = (
    *("Alkane", "Acyclic", "MSRC_9", "Synthie", "MSRC_21", "AIDS IAM", "HIV", "malaria", "INEX 2005"),
    *("CEP", "QM9 G4MP2", "NCI109", "SST"),
)
CHOSEN_ON = tuple(name for name in ("splice sites", *MOLECULES, *GRAPHS) if name not in (*UNTOUCHED, *LARGE))


INTRODUCTION = """\
What `StructureClassifier()` and `StructureRegressor()` do with nothing but the data: five networks, each of which holds
out another fifth of the structures, averaged with linear models and a forest on Weisfeiler-Lehman counts; the weights
are chosen on predictions of structures that were not seen. The tables compare that with the networks alone, with one
network, and with baselines fitted to the same training parts; the sets that had no part in any choice are the ones to
quote. The decision is [0017](../decisions/0017-defaults-by-evidence.md)."""
HOW = f"""\
At most {MOST:,} structures of each set, drawn at random, in {PARTS} parts; {TESTED} of them are tested on, all of a
set with fewer than {SMALL:,} structures. RMSE is smaller where better; AUC is the mean over the targets where these
have two classes, else accuracy. *Weights* are those of networks, linear models and forests, averaged over the splits.
*Seconds* are of one fit, beside others on the same machine. Baselines: linear models on counted labels and on the
colours of three rounds (strength of the penalty chosen on a tenth of the training part), forests of 300 trees on the
same colours and on Morgan fingerprints (radius 2, 2,048 bits); a blank was not run. Near means: within half a point
of accuracy or area, or half a per cent of the error. Rows of earlier commits than 4866a91 are of
networks that were trained for up to four times as many steps where targets are classes and structures are few, those of
earlier ones than c05605a of forests that saw columns of single rows too
([0017](../decisions/0017-defaults-by-evidence.md)). Written by `python -m benchmarks.defaults run`."""
BEFORE = "324cea0 with changes"
"""The revision of rows from before commits were kept with them."""


# -- sets --------------------------------------------------------------------------------------------------


def pack_sets(data: Path, out: Path, names: Sequence[str]) -> None:
    """Read sets, cut them to `MOST` structures, and write them with their targets and fingerprints."""
    import hiddenfield as hf

    out.mkdir(parents=True, exist_ok=True)
    for name in names:
        draw, prints = np.random.default_rng(0), None
        if name in MOLECULES:
            pack, y, prints = _molecules(
                data / "graphs" / MOLECULES[name][0], *MOLECULES[name][1:], draw, LARGE.get(name, MOST)
            )
        elif name in GRAPHS:
            pack = hf.data.read(data / "graphs" / GRAPHS[name])
            assert pack.targets is not None
            codes = pack.targets[:, 0].long().numpy()
            frequent = np.flatnonzero(np.bincount(codes)[codes] >= 2 * PARTS)
            rows = np.sort(draw.permutation(frequent)[:MOST])
            pack, y = pack[rows], np.unique(codes[rows], return_inverse=True)[1].astype(float)[:, None]
        elif name in BOILING:
            pack, y = _boiling(data / "graphs" / BOILING[name][0], *BOILING[name][1:])
        else:
            texts, y = _splice_sites(data / "sequences/splice_dna.csv.xz", draw)
            pack = hf.data.from_sequences(texts, arc_labels="direction")
        hf.data.write(pack, out / f"{name}.parquet")
        extra = {} if prints is None else {"prints": np.packbits(prints, axis=1)}
        np.savez_compressed(out / f"{name}.npz", y=y, **extra)
        print(name, pack, flush=True)


def _rows(path: Path) -> list[dict[str, str]]:
    with (gzip if path.suffix == ".gz" else lzma).open(path, "rt") as lines:
        if "malaria" in path.name:  # without a header
            return [{str(k): value for k, value in enumerate(row)} for row in csv.reader(lines)]
        return list(csv.DictReader(lines))


def _molecules(
    path: Path, smiles: str, targets: str, draw: np.random.Generator, most: int
) -> tuple[Any, Any, Any]:
    from rdkit import Chem, rdBase
    from rdkit.Chem import rdFingerprintGenerator

    import hiddenfield as hf

    rows = _rows(path)
    rows = [rows[k] for k in np.sort(draw.permutation(len(rows))[:most])]
    with rdBase.BlockLogs():
        found = [(row, Chem.MolFromSmiles(row[smiles].strip())) for row in rows]
    good = [(row, one) for row, one in found if one is not None and one.GetNumAtoms()]
    maker = rdFingerprintGenerator.GetMorganGenerator(radius=2, fpSize=2048)
    prints = np.stack([maker.GetFingerprintAsNumPy(one) for _, one in good]).astype(np.uint8)
    y = np.array([[float(row[t]) if row[t] else np.nan for t in targets.split(",")] for row, _ in good])
    return hf.data.from_smiles([row[smiles].strip() for row, _ in good], progress=False), y, prints


def _boiling(path: Path, listed: str, place: int) -> tuple[Any, Any]:
    """Read an archive of molecules as tables of atoms and bonds, and the list of their boiling points."""
    import networkx

    import hiddenfield as hf

    graphs, y = [], []
    with zipfile.ZipFile(path) as archive:
        texts = {name.split("/")[-1]: archive.read(name).decode() for name in archive.namelist()}
    for row in texts[listed].splitlines():
        file, value = row.split()[place : place + 2]
        lines = [line.split() for line in texts[file].splitlines()[1:] if line.strip()]
        graph, atoms = networkx.Graph(), int(lines[0][0])
        for atom, line in enumerate(lines[1 : atoms + 1]):
            graph.add_node(atom, element=line[3].split("H")[0])  # methane is written CH4
        graph.add_edges_from((int(a) - 1, int(b) - 1) for a, b, *_ in lines[atoms + 1 :])
        graphs.append(graph)
        y.append([float(value)])
    return hf.data.from_networkx(graphs, node_label="element"), np.array(y)


def _splice_sites(path: Path, draw: np.random.Generator) -> tuple[list[str], Any]:
    """Read sequences whose letters are three columns of 0 and 1, all 0 for the fourth."""
    rows = _rows(path)
    rows = [rows[k] for k in np.sort(draw.permutation(len(rows))[:MOST])]
    codes = np.array([[int(row[f"V{k}"]) for k in range(1, 181)] for row in rows]).reshape(len(rows), 60, 3)
    letters = np.where(codes.any(2), codes.argmax(2), 3)
    classes = np.unique([row["Class"] for row in rows], return_inverse=True)[1]
    return ["".join("ACGT"[k] for k in row) for row in letters], classes.astype(float)[:, None]


# -- runs --------------------------------------------------------------------------------------------------


def splits(y: Any, numbers: bool) -> list[tuple[Any, Any]]:
    """Return training and test positions: parts of the set, stratified where there is one target of classes."""
    from sklearn.model_selection import KFold, StratifiedKFold

    single = not numbers and y.shape[1] == 1
    maker = (StratifiedKFold if single else KFold)(PARTS, shuffle=True, random_state=0)
    parts = list(maker.split(np.zeros(len(y)), y[:, 0] if single else None))
    return parts if len(y) < SMALL else parts[: TESTED if len(y) <= MOST else 1]


def score(y: Any, predicted: Sequence[Any], numbers: bool) -> dict[str, float]:
    """Return the root mean square error, or accuracy and area under the ROC curve, averaged over the targets."""
    from sklearn.metrics import roc_auc_score

    found: dict[str, list[float]] = {}
    for column, own in zip(y.T, predicted, strict=True):
        present = ~np.isnan(column)
        truth, own = column[present], own[present]
        if numbers:
            found.setdefault("RMSE", []).append(float(np.sqrt(((truth - own) ** 2).mean())))
            continue
        found.setdefault("accuracy", []).append(float((own.argmax(1) == truth).mean()))
        if own.shape[1] == 2 and len(np.unique(truth)) == 2:
            found.setdefault("AUC", []).append(float(roc_auc_score(truth, own[:, 1])))
    return {name: float(np.mean(values)) for name, values in found.items()}


def run_candidate(folder: Path, name: str, candidate: str, place: int) -> dict[str, Any]:
    """Fit a candidate to the training part of one split; return its scores, weights and seconds."""
    import hiddenfield as hf

    warnings.simplefilter("ignore")
    pack, y, _ = _load(folder, name)
    numbers, several = name in NUMBERS, y.shape[1] > 1
    train, test = splits(y, numbers)[place]
    kind = hf.StructureRegressor if numbers else hf.StructureClassifier
    given = y if numbers else np.array([[None if np.isnan(v) else int(v) for v in row] for row in y], object)
    given = given if several else given[:, 0].astype(float if numbers else int)
    started = time.perf_counter()
    model = kind(random_state=place, **CANDIDATES[candidate]).fit(pack[train], given[train])
    predicted = model.predict(pack[test]) if numbers else model.predict_proba(pack[test])
    columns = predicted if several and not numbers else predicted.T if several else [predicted]
    found = {"scores": score(y[test], columns, numbers), "seconds": time.perf_counter() - started}
    return found | {"blend": list(model.blend_.values())}


def run_baseline(folder: Path, name: str, baseline: str, place: int) -> dict[str, Any]:
    """Fit a baseline to the training part of one split; return its scores and seconds."""
    from scipy.sparse import csr_matrix

    from hiddenfield.kernels.refinement import weisfeiler_lehman
    from hiddenfield.learning.forest import fit_forest
    from hiddenfield.learning.linear import fit_linear

    pack, y, prints = _load(folder, name)
    numbers, started, predicted = name in NUMBERS, time.perf_counter(), []
    train, test = splits(y, numbers)[place]
    if baseline == "Morgan forest":
        before, after = csr_matrix(prints[train], dtype=float), csr_matrix(prints[test], dtype=float)
    else:
        before, words = weisfeiler_lehman(pack[train], 0 if baseline == "labels" else 3)
        after = weisfeiler_lehman(pack[test], vocabulary=words)[0]
    for column in y.T:
        rows = np.flatnonzero(~np.isnan(column[train]))
        own, x = column[train][rows], before[rows]
        classes = None if numbers else int(np.nanmax(column)) + 1
        if "forest" in baseline:
            predicted.append(fit_forest(x, own, classes, trees=300)[0].predict(after))
            continue
        order, size = np.random.default_rng(0).permutation(len(rows)), len(rows) // 10
        predicted.append(fit_linear(x, own, order[size:], order[:size], classes).predict(after))
    return {"scores": score(y[test], predicted, numbers), "seconds": time.perf_counter() - started}


def _load(folder: Path, name: str) -> tuple[Any, Any, Any]:
    import hiddenfield as hf

    values = np.load(folder / f"{name}.npz")
    prints = np.unpackbits(values["prints"], axis=1) if "prints" in values else None
    return hf.data.read(folder / f"{name}.parquet"), values["y"], prints


def run_all(
    folder: Path,
    jobs: int,
    pairs: Sequence[tuple[str, str]],
    limit: float,
    keep: Callable[[list[dict[str, Any]]], None],
) -> None:
    """Run every split of pairs of set and candidate in a process of its own, in order; keep the rows that are whole.

    Splits that are not done after `limit` seconds are given up.
    """
    os.environ |= {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
    rows: list[dict[str, Any]] = []
    y = {name: np.load(folder / f"{name}.npz")["y"] for name, _ in pairs}
    parts = {(name, one): [None] * len(splits(y[name], name in NUMBERS)) for name, one in pairs}
    tasks = [(folder, *pair, place) for pair, own in parts.items() for place in range(len(own))]
    with get_context("spawn").Pool(jobs, maxtasksperchild=1) as pool:
        end, results = time.perf_counter() + limit, pool.imap_unordered(_run_split, tasks)
        try:
            for _ in tasks:
                name, one, place, found = results.next(min(end - time.perf_counter(), threading.TIMEOUT_MAX))
                own = parts[name, one]
                own[place] = found
                print(f"{name} {one} {place}: {found}", flush=True)
                if None not in own:
                    rows.append(_row(name, one, y[name], own))
                    keep(rows)
        except TimeoutError:
            left = {pair: own.count(None) for pair, own in parts.items() if None in own}
            print(f"after {limit:.0f} s these splits were left:", left, flush=True)


def _run_split(task: tuple[Path, str, str, int]) -> tuple[str, str, int, dict[str, Any]]:
    folder, name, one, place = task
    run = run_candidate if one in CANDIDATES else run_baseline
    return name, one, place, run(folder, name, one, place)


def _row(name: str, who: str, y: Any, parts: list[dict[str, Any]]) -> dict[str, Any]:
    means = {
        metric: float(np.mean([one["scores"][metric] for one in parts])) for metric in parts[0]["scores"]
    }
    row = {"set": name, "who": who, "structures": len(y), "targets": y.shape[1], "splits": len(parts)}
    row |= {"scores": means, "seconds": round(float(np.mean([one["seconds"] for one in parts])), 1)}
    if "blend" in parts[0]:
        row["blend"] = np.mean([one["blend"] for one in parts], 0).round(2).tolist()
    return row


# -- the page ----------------------------------------------------------------------------------------------


def main_metric(row: dict[str, Any]) -> tuple[str, float]:
    """Return the metric that a set is compared by: RMSE, AUC where every target has two classes, else accuracy."""
    name = next(metric for metric in ("RMSE", "AUC", "accuracy") if metric in row["scores"])
    return name, row["scores"][name]


GROUPS = {
    "Sets that had no part in any choice": UNTOUCHED,
    "Sets that the defaults were chosen on": CHOSEN_ON,
    "Large sets": tuple(LARGE),
}


def page(found: dict[str, Any]) -> str:
    """Write the results as a page: the conclusion, one small table, then the sets."""
    rows = found["rows"]
    verdicts = {title: [_verdict(rows, name) for name in names] for title, names in GROUPS.items()}
    verdicts = {title: [one for one in own if one] for title, own in verdicts.items()}
    quoted, *_ = verdicts.values()
    every = [one for own in verdicts.values() for one in own]
    behind = [
        f"{one['set']} ({one['default']:.4g} against {one['best']:.4g})" for one in every if not one["near"]
    ]
    told = (
        f"On sets that had no part in any choice the default is at least as good as the best baseline on "
        f"{sum(one['wins'] for one in quoted)} of {len(quoted)}, and on {sum(one['near'] for one in quoted)} within "
        f"half a per cent. Of all {len(every)} sets it is behind by more on {len(behind)}"
        f"{': ' if behind else ''}{', '.join(behind)}."
    )
    summary = [
        {
            "sets": title,
            "number": len(own),
            "at least as good": sum(one["wins"] for one in own),
            "within half a per cent": sum(one["near"] and not one["wins"] for one in own),
            "behind by more": sum(not one["near"] for one in own),
        }
        for title, own in verdicts.items()
        if own
    ]
    parts = ["# Defaults", told, table(summary), INTRODUCTION]
    for title, names in GROUPS.items():
        if verdicts[title]:
            parts += [f"## {title}", table(_lines(rows, names))]
    missing = [name for names in GROUPS.values() for name in names if "default" not in _of_set(rows, name)]
    if missing:
        parts.append(f"Left out, since only baselines were run: {', '.join(missing)}.")
    where = found["environment"]
    packages = ", ".join(f"{name} {number}" for name, number in where["packages"].items() if number)
    machine = f"{where['processor']}, {where['cores']} cores, {where['gpu'] or 'no GPU'}, {packages}"
    return (
        "\n\n".join(
            [
                *parts,
                "## Appendix: how it was run",
                HOW,
                f"Measured on {machine}, where no other machine is named. Commits of the rows:",
                _commits(rows),
            ]
        )
        + "\n"
    )


def _of_set(rows: Sequence[dict[str, Any]], name: str) -> dict[str, dict[str, Any]]:
    return {row["who"]: row for row in rows if row["set"] == name}


def _verdict(rows: Sequence[dict[str, Any]], name: str) -> dict[str, Any] | None:
    """Compare the default with the best baseline on one set; None where one of them was not run."""
    own = _of_set(rows, name)
    others = [main_metric(own[who])[1] for who in BASELINES if who in own]
    if "default" not in own or not others:
        return None
    metric, value = main_metric(own["default"])
    sign = -1 if metric == "RMSE" else 1
    best = sign * max(sign * number for number in others)
    slack = 0.005 * (abs(best) if metric == "RMSE" else 1.0)
    ahead = sign * (value - best)
    return {"set": name, "default": value, "best": best, "wins": ahead >= 0, "near": ahead >= -slack}


def _lines(rows: Sequence[dict[str, Any]], names: Sequence[str]) -> list[dict[str, Any]]:
    there = {row["who"] for row in rows if row["set"] in names}
    lines = []
    for name in names:
        own = _of_set(rows, name)
        if "default" not in own:
            continue
        metric, _ = main_metric(own["default"])
        line = {"set": name, "structures": own["default"]["structures"], "measure": metric}
        for who in (*CANDIDATES, *BASELINES):
            if who in there:
                line[who] = f"{main_metric(own[who])[1]:.4g}" if who in own else ""
        blend = own["default"].get("blend")
        line["weights"] = "" if blend is None else " / ".join(f"{share:.1f}" for share in blend)
        line["seconds"] = f"{own['default']['seconds']:.0f}"
        lines.append(line)
    return lines


def _commits(rows: Sequence[dict[str, Any]]) -> str:
    """Say which rows are of which commit."""
    found: dict[str, dict[str, list[str]]] = {}
    for row in rows:
        when = (row.get("commit") or BEFORE) + (f", on {row['where']}" if "where" in row else "")
        found.setdefault(when, {}).setdefault(row["who"], []).append(row["set"])
    return "\n".join(
        f"- {commit}: " + "; ".join(f"{who} ({', '.join(sets)})" for who, sets in own.items()) + "."
        for commit, own in found.items()
    )


def main() -> None:
    """Read arguments, run, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("action", choices=("pack", "run", "page"))
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--sets", type=Path, default=Path("out/sets"))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument(
        "--seconds", type=float, default=float("inf"), help="splits that take longer are given up"
    )
    parser.add_argument("--only", default="", help="names of sets, by commas; the rows of others are kept")
    parser.add_argument("--who", default="", help="candidates and baselines; the rows of others are kept")
    parser.add_argument("--commit", default="", help="of this code, where it is not in its repository")
    parser.add_argument("--resume", action="store_true", help="skip rows of this commit that are there")
    parser.add_argument(
        "--merge", type=Path, nargs="*", default=[], help="with page: files of rows to take over"
    )
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/defaults.json"))
    chosen = parser.parse_args()
    names = [name for name in chosen.only.split(",") if name] or [*LARGE, *CHOSEN_ON, *UNTOUCHED]
    if chosen.action == "pack":
        pack_sets(chosen.data, chosen.sets, names)
        return
    found = json.loads(chosen.out.read_text()) if chosen.out.exists() else {"rows": []}
    if chosen.action == "run":
        who = [name for name in chosen.who.split(",") if name] or ORDER
        where = environment()
        own = {"commit": chosen.commit or where["revision"], "where": _machine(where)}

        def keep(rows: list[dict[str, Any]]) -> None:
            every = _replaced(found["rows"], [row | own for row in rows])
            if not chosen.quick:
                chosen.out.write_text(json.dumps({"environment": where, "rows": every}, indent=1) + "\n")

        names = ["MUTAG", "FreeSolv"] if chosen.quick else names
        there = {(row["set"], row["who"]) for row in found["rows"] if row.get("commit") == own["commit"]}
        pairs = [(name, one) for one in who for name in names if one != "Morgan forest" or name in MOLECULES]
        pairs = [pair for pair in pairs if not (chosen.resume and pair in there)]
        run_all(chosen.sets, chosen.jobs, pairs, chosen.seconds, keep)
        return
    for path in chosen.merge:
        found["rows"] = _replaced(found["rows"], json.loads(path.read_text())["rows"])
    chosen.out.write_text(json.dumps(found, indent=1) + "\n")
    Path("docs/results/defaults.md").write_text(page(found))


def _machine(where: dict[str, Any]) -> str:
    return f"{where['cores']} cores, {where['gpu'] or 'no GPU'}"


def _replaced(old: list[dict[str, Any]], new: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return rows, of which new ones take the place of old ones of the same set and candidate."""
    there = {(row["set"], row["who"]) for row in new}
    return [row for row in old if (row["set"], row["who"]) not in there] + new


if __name__ == "__main__":
    main()
