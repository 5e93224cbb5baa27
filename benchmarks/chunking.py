"""How good are conditional random fields at chunking, and how fast is a pass over the data, beside CRFsuite?

CoNLL-2000: 8,936 sentences to learn from, 2,012 to test on, 22 labels. Both packages get the same features of each
token (words and parts of speech up to two positions away, pairs and triples of neighbouring ones) and the same penalty,
and end after the same number of L-BFGS iterations. CRFsuite is left out where it is not installed (`python-crfsuite`);
the data are read from the folder that the environment variable HIDDENFIELD_DATA names.
"""

from __future__ import annotations

import importlib.util
import lzma
import os
import tempfile
import time
import warnings
from itertools import groupby
from pathlib import Path
from typing import Any

from benchmarks.environment import main
from hiddenfield import ConditionalRandomField
from hiddenfield.errors import InputError

ITERATIONS = 100
Sentences = list[list[list[str]]]


def sentences(name: str) -> Sentences:
    """Read a file of CoNLL-2000: for each sentence the word, part of speech and chunk of each token."""
    folder = Path(os.environ.get("HIDDENFIELD_DATA", "../shared/data")) / "sequences"
    file = folder / f"conll2000.{name}.txt.xz"
    if not file.exists():
        raise InputError(f"there is no {file}; set HIDDENFIELD_DATA to the folder of the data")
    with lzma.open(file, "rt") as lines:
        groups = groupby((line.split() for line in lines), key=bool)
        return [list(tokens) for filled, tokens in groups if filled]


def features(sentence: list[list[str]]) -> list[list[str]]:
    """Return the features of each token: single words and tags, pairs and triples, by position."""
    columns = {name: [token[k] for token in sentence] for k, name in enumerate(("word", "tag"))}
    widths = {
        ("word", 1): (-2, 2),
        ("tag", 1): (-2, 2),
        ("word", 2): (-1, 0),
        ("tag", 2): (-2, 1),
        ("tag", 3): (-2, 0),
    }
    rows = []
    for at in range(len(sentence)):
        found = [name for name, here in (("first", at == 0), ("last", at == len(sentence) - 1)) if here]
        for (name, width), (low, high) in widths.items():
            for offset in range(low, high + 1):
                begin = at + offset
                if begin >= 0 and begin + width <= len(sentence):
                    found.append(f"{name}[{offset}]={'|'.join(columns[name][begin : begin + width])}")
        rows.append(found)
    return rows


def chunks(labels: list[str]) -> set[tuple[int, int, str]]:
    """Return the chunks of a sentence: where each begins and ends, and its kind."""
    found, begin, kind = set(), -1, ""
    for at, label in enumerate([*labels, "O"]):
        mark, _, name = label.partition("-")
        if begin >= 0 and (mark != "I" or name != kind):
            found.add((begin, at, kind))
            begin = -1
        if mark == "B" or (mark == "I" and begin < 0):
            begin, kind = at, name
    return found


def f1(truth: list[list[str]], predicted: list[list[str]]) -> float:
    """Return the harmonic mean of precision and recall of chunks."""
    pairs = [(chunks(a), chunks(b)) for a, b in zip(truth, predicted, strict=True)]
    right = sum(len(a & b) for a, b in pairs)
    return 2 * right / sum(len(a) + len(b) for a, b in pairs)


def crfsuite(X: Any, y: Any, tests: Any) -> tuple[float, float, Any]:
    """Return the seconds that learning and predicting take, and the predictions."""
    import pycrfsuite

    trainer = pycrfsuite.Trainer(verbose=False)
    for tokens, labels in zip(X, y, strict=True):
        trainer.append(tokens, labels)
    # Its penalty is c2 times the squared norm, without the half.
    trainer.set_params(
        {"c1": 0.0, "c2": 0.5, "max_iterations": ITERATIONS, "period": ITERATIONS, "delta": 0.0}
    )
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        trainer.train(f"{folder}/model")
        learned = time.perf_counter() - start
        tagger = pycrfsuite.Tagger()
        tagger.open(f"{folder}/model")
        start = time.perf_counter()
        found = [tagger.tag(tokens) for tokens in tests]
        return learned, time.perf_counter() - start, found


def ours(X: Any, y: Any, tests: Any) -> tuple[float, float, Any]:
    """Do the same with hiddenfield; reading the features is not counted, as with CRFsuite."""
    model = ConditionalRandomField(max_iterations=ITERATIONS)
    learn, seconds = model._learn, [0.0]

    def timed(*arguments: Any) -> None:
        start = time.perf_counter()
        learn(*arguments)
        seconds[0] = time.perf_counter() - start

    model._learn = timed  # type: ignore[method-assign]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ConditionalRandomField(max_iterations=1).fit(X[:100], y[:100])  # compile
        model.fit(X, y)
    start = time.perf_counter()
    found = model.predict(tests)
    return seconds[0], time.perf_counter() - start, [labels.tolist() for labels in found]


def run(*, quick: bool = False) -> dict[str, Any]:
    """Learn and test."""
    training, tests = (sentences(name)[: 300 if quick else None] for name in ("train", "test"))
    X, y = [features(s) for s in training], [[token[2] for token in s] for s in training]
    new, truth = [features(s) for s in tests], [[token[2] for token in s] for s in tests]
    candidates = {"hiddenfield": ours}
    if importlib.util.find_spec("pycrfsuite"):
        candidates["CRFsuite"] = crfsuite
    rows = []
    for name, fit in candidates.items():
        learned, predicted, found = fit(X, y, new)
        rows.append(
            {
                "package": name,
                "learning, s": learned,
                "predicting, s": predicted,
                "F1, %": 100 * f1(truth, found),
            }
        )
    for row in rows:
        row["times ours"] = row["learning, s"] / rows[0]["learning, s"]
    return {"rows": rows, "iterations": ITERATIONS}


if __name__ == "__main__":
    main(run)
