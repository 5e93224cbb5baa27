"""FASTA: what is read, what is refused with its line, and the real files."""

from __future__ import annotations

import gzip
import lzma
import tarfile
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

import hiddenfield as hf
from hiddenfield.data import from_sequences, to_sequences
from hiddenfield.data.readers.fasta import ALPHABET, FORMAT, read
from hiddenfield.errors import InputError, ReadError


@pytest.fixture
def write(tmp_path: Path):
    def write(contents: str, name: str = "set.fasta") -> Path:
        path = tmp_path / name
        path.write_text(contents, encoding="utf-8", newline="")
        return path

    return write


@given(
    st.lists(st.text(st.sampled_from(ALPHABET), min_size=1, max_size=30), min_size=1, max_size=6), st.data()
)
def test_sequences_come_back_however_they_are_broken(
    tmp_path_factory: pytest.TempPathFactory, sequences: list[str], data: st.DataObject
) -> None:
    end = data.draw(st.sampled_from(["\n", "\r\n", "\r"]))
    lines = []
    for number, sequence in enumerate(sequences):
        width = data.draw(st.integers(1, 30))
        lines += [f">id{number} some words"] + [
            sequence[k : k + width] for k in range(0, len(sequence), width)
        ]
        lines += [""] * data.draw(st.integers(0, 2))
    path = tmp_path_factory.mktemp("fasta") / "set.fa"
    path.write_text(end.join(lines), encoding="utf-8", newline="")
    pack = read(path)
    assert to_sequences(pack) == sequences
    assert pack.ids.tolist() == [f"id{number}" for number in range(len(sequences))]
    assert set(pack.columns["description"].tolist()) == {"some words"}


@pytest.mark.parametrize(("suffix", "compress"), [(".gz", gzip.compress), (".xz", lzma.compress)])
def test_compression(tmp_path: Path, suffix: str, compress) -> None:
    path = tmp_path / f"set.fasta{suffix}"
    path.write_bytes(compress(b">a\nACGT\n"))
    assert FORMAT.recognises(path)
    assert to_sequences(hf.read(path)) == ["ACGT"]


def test_case_is_kept_unless_asked(write) -> None:
    path = write(">a\nacGT\n>b\nAC\n")
    assert to_sequences(read(path)) == ["acGT", "AC"]
    assert to_sequences(read(path, upper=True)) == ["ACGT", "AC"]
    assert to_sequences(read(path, upper=True, alphabet="ACGT")) == ["ACGT", "AC"]
    with pytest.raises(ReadError, match="line 2: 'a' is not a character"):
        read(path, alphabet="ACGT")


def test_blanks_at_line_ends_are_no_symbols_unless_all_are_allowed(write) -> None:
    path = write(">a  \nAC \t\nGT \n>b\nA ")
    assert to_sequences(read(path)) == ["ACGT", "A"]
    assert to_sequences(read(path, alphabet=None)) == ["AC \tGT ", "A "]


def test_headers_as_classes(write) -> None:
    pack = read(write(">1\nAC\n>0\nG\n>1\nT\n"), labels="header", arc_labels="direction")
    expected = from_sequences(["AC", "G", "T"], arc_labels="direction")
    assert pack.replace(targets=None, target_names=(), target_vocabularies=()) == expected
    assert pack.ids is None
    assert pack.target_names == ("label",)
    assert pack.target_vocabularies[0].symbols == (0, 1)
    assert pack.targets[:, 0].tolist() == [1.0, 0.0, 1.0]


def test_label_lines(write) -> None:
    path = write("LABEL>good\nsome text, here.\nLABEL>bad\nmore > text\n")
    pack = read(path, labels="header", alphabet=None)
    assert to_sequences(pack) == ["some text, here.", "more > text"]
    assert pack.target_vocabularies[0].symbols == ("bad", "good")
    with pytest.raises(
        ReadError, match=r"line 2: ' ' is not a character of sequences; .* pass alphabet=None"
    ):
        read(path, labels="header")


def test_labels_from_a_table(write, tmp_path: Path) -> None:
    path = write(">a x\nAC\n>b\nG\n>c\nT\n")
    table = tmp_path / "labels.tsv"
    table.write_text("key\tvalue\tclass\nc\t0.5\t1\nz\t9\t1\na\t1.5\t0\nb\t\t0\n")
    pack = read(path, labels=table, label="value", label_id="key")
    assert pack.target_names == ("value",)
    assert pack.targets[:, 0].tolist()[::2] == [1.5, 0.5]
    assert pack.targets[1, 0].isnan()
    assert read(path, labels=str(table), label=2, label_id=0, classes=True).target_vocabularies[
        0
    ].symbols == (0, 1)


@pytest.mark.parametrize(
    ("contents", "options", "message"),
    [
        ("", {}, "the file holds no sequences"),
        ("\n \n", {}, "the file holds no sequences"),
        ("ACGT\n", {}, "line 1: expected a header that begins with '>', got 'ACGT'"),
        ("\n\nACGT\n>a\nA\n", {}, "line 3: expected a header"),
        (
            "LABEL>1\nA\n",
            {},
            "line 1: expected a header that begins with '>', got 'LABEL>1'; if header lines",
        ),
        (">a\nAC\n>b\n>c\nA\n", {}, "line 3: the sequence of header 'b' is empty"),
        (">a\nAC\n>b", {}, "line 3: the sequence of header 'b' is empty"),
        (">a\nAC\n> \nA\n", {}, "line 3: the header has no id"),
        (">a\nAC\nGT\n>b\nA\n>a x\nC\n", {}, "line 6: the id 'a' stands in line 1 already"),
        (">a\nAC\nG1T\n", {}, "line 3: '1' is not a character of sequences"),
        (">a\nAC\n>b\nA\n\nC?\n", {}, "line 6: '?' is not a character"),
        (">a\nA C\n", {}, "line 2: ' ' is not a character"),
        (">a\nAÄ\n", {"upper": True}, "line 2: 'Ä' is not a character"),
        (">a\nAß\n", {"upper": True, "alphabet": "AS"}, "line 2: 'ß' is not a character"),
    ],
)
def test_what_is_malformed_is_refused_with_its_line(
    write, contents: str, options: dict, message: str
) -> None:
    with pytest.raises(ReadError) as caught:
        read(write(contents), **options)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("id,label\na,1\n", "set.fasta, line 3: 'b' has no label in"),
        ("id,label\na,1\nb,0\na,1\n", "labels.csv, line 4: the id 'a' has two labels"),
        ("id,label\na,1\nb\n", "labels.csv, line 3: expected 2 entries"),
        ("id,class\na,1\nb,2\n", "label='label': no such column"),
        ("name,label\na,1\nb,2\n", "label_id='id': no such column"),
        ("id,label\na,1\nb,inf\n", "labels.csv, line 3: column 'label': 'inf' is not finite"),
    ],
)
def test_labels_that_do_not_fit_are_refused(write, tmp_path: Path, table: str, message: str) -> None:
    labels = tmp_path / "labels.csv"
    labels.write_text(table)
    with pytest.raises(InputError) as caught:
        read(write(">a\nAC\n>b\nG\n"), labels=labels)
    assert message in str(caught.value)


# -- real files ----------------------------------------------------------------------------------------------


def extract(archive: Path, member: str, folder: Path) -> Path:
    with tarfile.open(archive) as opened:
        contents = opened.extractfile(member)
        path = folder / Path(member).name
        path.write_bytes(contents.read())
    return path


@pytest.mark.parametrize(
    ("archive", "member", "counts", "options"),
    [
        ("scop", "scop/1.1.test.fasta", None, {}),
        (
            "tfbs_encode",
            "tfbs_encode/CTCF.test.fasta",
            {0: 1000, 1: 1000},
            {"upper": True, "alphabet": "ACGTN"},
        ),
        ("text_char", "text_char/AImed.test.fasta", {0: 1000, 1: 500}, {"alphabet": None}),
        ("text_char", "text_char/CC1-LLL.test.fasta", {0: 166, 1: 164}, {"alphabet": None}),
    ],
)
def test_real_files(
    data_path: Path, tmp_path: Path, archive: str, member: str, counts: dict | None, options: dict
) -> None:
    path = extract(data_path / "sequences" / f"{archive}.tar.xz", member, tmp_path)
    pack = read(path, labels="header", **options)
    symbols = pack.target_vocabularies[0].symbols
    found = Counter(symbols[int(code)] for code in pack.targets[:, 0].tolist())
    lines = path.read_text(encoding="utf-8").splitlines()
    assert found == Counter(int(line.split(">")[1]) for line in lines if line.startswith((">", "LABEL>")))
    assert counts is None or found == counts
    if not options:
        assert to_sequences(pack) == lines[1::2]
