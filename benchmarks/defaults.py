"""Are the defaults of the estimators at least as good as baselines, on sets of all kinds?

``python -m benchmarks.defaults pack --data ../shared/data`` reads the sets once, at most 3,000 structures of each, into
out/sets (this needs RDKit). ``python -m benchmarks.defaults run --jobs 12`` fits candidates and baselines to parts of
each set and tests them on the others; with a GPU the networks of all parts are trained side by side there. It keeps the
rows in benchmarks/defaults.json and writes docs/results/defaults.md; ``--quick`` runs two sets and writes nothing.
The sets of `CHOSEN_ON` had a part in the choice of the defaults; those of `UNTOUCHED` had none.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import lzma
import os
import time
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
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
}
MOLECULES |= {name: MOLECULES[name.split()[0]] for name in LARGE}
NUMBERS = ("ESOL", "FreeSolv", "QM7", "malaria")
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
}
UNTOUCHED = ("HIV", "malaria", "DHFR", "MSRC_9", "MSRC_21", "Synthie", "AIDS IAM", "INEX 2005")
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
of accuracy or area, or half a per cent of the error. The default of the commits below trained networks for up to four
times as many steps as today where targets are classes and structures are few; on three small sets this changes nothing
but the time ([0017](../decisions/0017-defaults-by-evidence.md)). Written by `python -m benchmarks.defaults run`."""
BEFORE = "324cea0 with changes"
"""The revision of rows from before commits were kept with them."""


# -- sets --------------------------------------------------------------------------------------------------


def pack_sets(data: Path, out: Path) -> None:
    """Read every set, cut it to `MOST` structures, and write it with its targets and fingerprints."""
    import hiddenfield as hf

    out.mkdir(parents=True, exist_ok=True)
    for name in (*CHOSEN_ON, *UNTOUCHED, *LARGE):
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


def run_candidate(folder: Path, name: str, candidate: str) -> dict[str, Any]:
    """Fit a candidate to the training part of every split, and return its scores."""
    import hiddenfield as hf
    from hiddenfield.estimators.base import fit_in_parts

    warnings.simplefilter("ignore")
    pack, y, _ = _load(folder, name)
    numbers, pairs = name in NUMBERS, splits(y, name in NUMBERS)
    kind = hf.StructureRegressor if numbers else hf.StructureClassifier
    given = y if numbers else np.array([[None if np.isnan(v) else int(v) for v in row] for row in y], object)
    given = given[:, 0].astype(float if numbers else int) if y.shape[1] == 1 else given
    models = [kind(random_state=k, **CANDIDATES[candidate]) for k in range(len(pairs))]
    started, scores, blends = time.perf_counter(), [], []
    for place, model in fit_in_parts(models, [(pack[train], given[train], None) for train, _ in pairs]):
        assert not isinstance(model, Exception), model
        test = pairs[place][1]
        predicted = model.predict(pack[test]) if numbers else model.predict_proba(pack[test])
        several = y.shape[1] > 1
        columns = predicted if several and not numbers else predicted.T if several else [predicted]
        scores.append(score(y[test], columns, numbers))
        blends.append(list(model.blend_.values()))
    return _row(name, candidate, y, scores, started, np.mean(blends, 0).round(2).tolist())


def run_baseline(folder: Path, name: str, baseline: str) -> dict[str, Any] | None:
    """Fit a baseline to the training part of every split, and return its scores; None where there is none."""
    from scipy.sparse import csr_matrix

    from hiddenfield.kernels.refinement import weisfeiler_lehman
    from hiddenfield.learning.forest import fit_forest
    from hiddenfield.learning.linear import fit_linear

    pack, y, prints = _load(folder, name)
    numbers, started, scores = name in NUMBERS, time.perf_counter(), []
    if baseline == "Morgan forest" and prints is None:
        return None
    for train, test in splits(y, numbers):
        if baseline == "Morgan forest":
            before, after = csr_matrix(prints[train], dtype=float), csr_matrix(prints[test], dtype=float)
        else:
            before, words = weisfeiler_lehman(pack[train], 0 if baseline == "labels" else 3)
            after = weisfeiler_lehman(pack[test], vocabulary=words)[0]
        predicted = []
        for column in y.T:
            rows = np.flatnonzero(~np.isnan(column[train]))
            own, x = column[train][rows], before[rows]
            classes = None if numbers else int(np.nanmax(column)) + 1
            if "forest" in baseline:
                predicted.append(fit_forest(x, own, classes, trees=300)[0].predict(after))
                continue
            order, size = np.random.default_rng(0).permutation(len(rows)), len(rows) // 10
            predicted.append(fit_linear(x, own, order[size:], order[:size], classes).predict(after))
        scores.append(score(y[test], predicted, numbers))
    return _row(name, baseline, y, scores, started)


def _load(folder: Path, name: str) -> tuple[Any, Any, Any]:
    import hiddenfield as hf

    values = np.load(folder / f"{name}.npz")
    prints = np.unpackbits(values["prints"], axis=1) if "prints" in values else None
    return hf.data.read(folder / f"{name}.parquet"), values["y"], prints


def _row(
    name: str, who: str, y: Any, scores: list[dict[str, float]], started: float, blend: Any = None
) -> dict[str, Any]:
    means = {metric: float(np.mean([one[metric] for one in scores])) for metric in scores[0]}
    seconds = (time.perf_counter() - started) / len(scores)
    row = {"set": name, "who": who, "structures": len(y), "targets": y.shape[1], "splits": len(scores)}
    return row | {"scores": means, "seconds": round(seconds, 1)} | ({} if blend is None else {"blend": blend})


def run_all(
    folder: Path,
    jobs: int,
    names: Sequence[str],
    who: Sequence[str],
    keep: Callable[[list[dict[str, Any]]], None],
) -> None:
    """Run everything, the default first and of each the longest first, each in a process of its own."""
    os.environ |= {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
    size = {name: (folder / f"{name}.parquet").stat().st_size for name in names}
    work: list[tuple[Callable[..., Any], str, str]] = [
        (run_candidate if one in CANDIDATES else run_baseline, name, one)
        for one in who
        for name in sorted(names, key=lambda name: -size[name])
    ]
    rows = []
    with ProcessPoolExecutor(jobs, get_context("spawn"), max_tasks_per_child=1) as pool:
        waiting = {pool.submit(run, folder, name, who): (name, who) for run, name, who in work}
        for done in as_completed(waiting):
            row = done.result()
            if row is not None:
                rows.append(row)
                keep(rows)
                print(f"{row['set']:13} {row['who']:14} {row['scores']} {row['seconds']} s", flush=True)


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
                f"Measured on: {machine}. Commits of the rows:",
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
    parser.add_argument("--only", default="", help="names of sets, by commas; the rows of others are kept")
    parser.add_argument("--who", default="", help="candidates and baselines; the rows of others are kept")
    parser.add_argument("--commit", default="", help="of this code, where it is not in its repository")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/defaults.json"))
    chosen = parser.parse_args()
    if chosen.action == "pack":
        pack_sets(chosen.data, chosen.sets)
        return
    if chosen.action == "run":
        names = [name for name in chosen.only.split(",") if name] or [*CHOSEN_ON, *UNTOUCHED, *LARGE]
        old = (
            json.loads(chosen.out.read_text())["rows"]
            if chosen.out.exists() and (chosen.only or chosen.who)
            else []
        )

        def keep(rows: list[dict[str, Any]]) -> None:
            new = {(row["set"], row["who"]) for row in rows}
            every = [row for row in old if (row["set"], row["who"]) not in new]
            every += [row | {"commit": chosen.commit or where["revision"]} for row in rows]
            if not chosen.quick:
                chosen.out.write_text(json.dumps({"environment": where, "rows": every}, indent=1) + "\n")

        where = environment()
        who = [name for name in chosen.who.split(",") if name] or ORDER
        run_all(chosen.sets, chosen.jobs, ("MUTAG", "FreeSolv") if chosen.quick else names, who, keep)
        if chosen.quick:
            return
    Path("docs/results/defaults.md").write_text(page(json.loads(chosen.out.read_text())))


if __name__ == "__main__":
    main()
