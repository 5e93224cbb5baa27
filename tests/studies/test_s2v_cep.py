"""Molecules that were written as Parquet are read without RDKit."""

from __future__ import annotations

import hiddenfield as hf
from hiddenfield.studies import EXPERIMENTS


def test_parquet_is_read_where_it_is(tmp_path):
    folder = tmp_path / "graphs" / "CEP"
    folder.mkdir(parents=True)
    pack = hf.datasets.huckel(20)
    hf.write(pack, folder / "cep-processed.parquet")
    (folder / "cep-processed.csv.xz").write_bytes(b"not to be read")
    experiment = EXPERIMENTS["s2v-cep"]
    trial = experiment.trials(experiment.scale(quick=True))[0]
    structures, splits = trial.load(tmp_path)
    assert structures == pack
    assert splits is None
