"""How long does a pass of latent Dirichlet allocation take, and how well are held-out words predicted, beside others?

2,246 articles of the Associated Press (10,473 words), a tenth of them held out. Every package learns the same number of
topics on one thread; a pass is counted in CPU seconds, reading left out, starting included. Words of the second half of
each held-out document are predicted from the first: the perplexity of each package's topics and concentration, with one
inference of shares for all. scikit-learn is used as it comes (variational Bayes), gensim with concentrations learned
(``alpha="auto"``), tomotopy as it comes but for the same smoothing. gensim and tomotopy are left out unless
`$HIDDENFIELD_GENSIM` is a Python that has both; the data are read from the folder that HIDDENFIELD_DATA names.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.environment import main
from hiddenfield.data import Documents, as_documents
from hiddenfield.errors import InputError
from hiddenfield.estimators import LatentDirichletAllocation

RIVALS = """
import json, sys, time
import numpy as np
name, topics, passes, smoothing, source, target = sys.argv[1:]
topics, passes, smoothing = int(topics), int(passes), float(smoothing)
with np.load(source) as data:
    ptr, word, count, width = data["ptr"], data["word"], data["count"].astype(int), int(data["width"])
bags = [(word[a:b].tolist(), count[a:b].tolist()) for a, b in zip(ptr[:-1], ptr[1:])]
if name == "gensim":
    from gensim.models import LdaModel
    corpus = [list(zip(*bag)) for bag in bags]
    names = {number: str(number) for number in range(width)}
    begin = time.process_time()
    model = LdaModel(corpus, topics, names, passes=passes, alpha="auto", eval_every=None, random_state=0)
    seconds, law, prior = time.process_time() - begin, model.get_topics(), model.alpha
else:
    import tomotopy
    model = tomotopy.LDAModel(k=topics, eta=smoothing, seed=1)
    for words, counts in bags:
        model.add_doc([str(w) for w, c in zip(words, counts) for _ in range(c)])
    begin = time.process_time()
    model.train(passes, workers=1)
    seconds, prior, law = time.process_time() - begin, model.alpha, np.zeros((topics, width))
    for number in range(topics):
        known = model.get_topic_word_dist(number)
        law[number] = min(known)  # of words that do not occur
        law[number, [int(w) for w in model.used_vocabs]] = known
np.savez(target, law=np.maximum(law, 1e-12), prior=prior, seconds=seconds)
"""
OURS = {"variational": 50, "variational, batches of 256": 10, "gibbs": 200}
PASSES = {"scikit-learn": 50, "gensim": 20, "tomotopy": 200}


def corpus() -> tuple[Documents, Documents]:
    """Return the articles to learn from, and those held out."""
    folder = Path(os.environ.get("HIDDENFIELD_DATA", "../shared/data")) / "incomplete"
    file = folder / "lda_ap.ldac.txt.xz"
    if not file.exists():
        raise InputError(f"there is no {file}; set HIDDENFIELD_DATA to the folder of the data")
    documents = as_documents(file)
    order = np.random.default_rng(0).permutation(len(documents))
    return documents[order[224:]], documents[order[:224]]


def theirs(name: str, topics: int, passes: int, train: Documents) -> tuple[float, Any, Any]:
    """Return the seconds of a package, and what it has learned."""
    if name == "scikit-learn":
        from sklearn.decomposition import LatentDirichletAllocation as Peer

        begin = time.process_time()
        peer = Peer(topics, max_iter=passes, random_state=0).fit(train.counts)
        return time.process_time() - begin, peer.components_, np.full(topics, 1 / topics)
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "counts.npz", Path(folder) / "topics.npz"
        counts = train.counts
        shape = {"ptr": counts.indptr, "word": counts.indices, "count": counts.data, "width": counts.shape[1]}
        np.savez(source, **shape)
        command = [
            os.environ["HIDDENFIELD_GENSIM"],
            "-W",
            "ignore",
            "-c",
            RIVALS,
            name,
            str(topics),
            str(passes),
        ]
        environment = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        subprocess.run([*command, "0.1", str(source), str(target)], check=True, env=environment)
        with np.load(target) as found:
            return float(found["seconds"]), found["law"], found["prior"]


def judged(model: LatentDirichletAllocation, law: Any, prior: Any, test: Documents) -> float:
    """Return the perplexity of topics and concentrations, wherever they are from."""
    model.parameters_ = {
        "topics": law / law.sum(axis=1, keepdims=True),
        "concentration": np.array(prior, float),
    }
    return model.perplexity(test, random_state=0)


def run(*, quick: bool = False) -> dict[str, Any]:
    """Measure all, for two numbers of topics."""
    torch.set_num_threads(1)
    train, test = corpus()
    if quick:
        train, test = train[:200], test[:50]
    rows = []
    for topics in (10,) if quick else (50, 200):
        for name, passes in OURS.items():
            options: dict[str, Any] = {"max_iterations": 3 if quick else passes, "tolerance": 1e-9}
            options |= {"batch_size": 256} if "batches" in name else {}
            model = LatentDirichletAllocation(topics, fill=name.split(",")[0], **options)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                few = {"num_components": 2, "max_iterations": 2}
                LatentDirichletAllocation(**model.get_params() | few).fit(train[:20])  # compiles
                begin = time.process_time()
                model.fit(train)
            seconds = time.process_time() - begin
            quality = model.perplexity(test, random_state=0)
            rows.append(_row(topics, f"hiddenfield, {name}", model.n_iter_, seconds, quality))
        for name, passes in PASSES.items():
            if name == "scikit-learn" or "HIDDENFIELD_GENSIM" in os.environ:
                seconds, law, prior = theirs(name, topics, 3 if quick else passes, train)
                rows.append(
                    _row(topics, name, 3 if quick else passes, seconds, judged(model, law, prior, test))
                )
    return {"rows": rows}


def _row(topics: int, name: str, passes: int, seconds: float, quality: float) -> dict[str, Any]:
    return {
        "topics": topics,
        "package": name,
        "passes": passes,
        "ms a pass": 1e3 * seconds / passes,
        "CPU seconds": seconds,
        "held-out perplexity": quality,
    }


if __name__ == "__main__":
    main(run)
