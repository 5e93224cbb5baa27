"""XMLBIF, the XML form of the Bayesian interchange format."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path

from hiddenfield.data.formats import Format
from hiddenfield.data.paths import read_bytes
from hiddenfield.data.readers.xml import Document
from hiddenfield.errors import InputError, ReadError
from hiddenfield.fields.factor_graph import FactorGraph
from hiddenfield.fields.readers import FIELD_FORMATS
from hiddenfield.fields.readers.text import BadNumberError, Network, log_numbers

BLOCKS = {"VARIABLE": "VARIABLE", "DEFINITION": "DEFINITION", "PROBABILITY": "DEFINITION"}
PARTS = ("NAME", "OUTCOME", "VALUE", "FOR", "GIVEN", "TABLE")


@dataclass
class _Block:
    """A variable or a definition: the texts of its parts, each as pieces with their lines."""

    kind: str
    first_line: int
    parts: list[tuple[str, list[tuple[int, str]]]] = field(default_factory=list)

    def line(self) -> int:
        return self.first_line

    def texts(self, *tags: str) -> list[str]:
        return ["".join(text for _, text in pieces).strip() for tag, pieces in self.parts if tag in tags]


def read(path: str | Path) -> FactorGraph:
    """Read an ``.xmlbif`` (or ``.xml``) file of version 0.3.

    Each definition is a factor over its ``GIVEN`` variables and, last, its ``FOR`` variable; in its table the last one
    runs fastest. Properties and comments are skipped; decision and utility variables, and entities, are refused.
    """
    network = Network(path)
    blocks = _blocks(path)
    for block in blocks:
        if block.kind == "VARIABLE":
            names = block.texts("NAME")
            if len(names) != 1 or not names[0]:
                network.fail("expected one NAME of a variable", block.line)
            network.add_variable(names[0], block.texts("OUTCOME", "VALUE"), block.line)
    for block in blocks:
        if block.kind == "DEFINITION":
            _define(network, block)
    return network.finish()


def _define(network: Network, block: _Block) -> None:
    children, parents = block.texts("FOR"), block.texts("GIVEN")
    tables = [pieces for tag, pieces in block.parts if tag == "TABLE"]
    if len(children) != 1 or len(tables) != 1:
        got = f"got {len(children)} and {len(tables)}"
        network.fail(f"expected one FOR and one TABLE in a definition, {got}", block.line)
    (child,) = children
    cards = network.shape(child, parents, block.line)
    words, lines = _words(tables[0])
    if len(words) != math.prod(cards):
        network.fail(
            f"expected {math.prod(cards)} numbers in the table of {child!r}, got {len(words)}",
            lambda: lines[0] if lines else block.line(),
        )
    try:
        logs = log_numbers(words)
    except BadNumberError as bad:
        word = words[bad.place][:40]
        raise ReadError(
            f"expected a probability of at least 0, got {word!r}", file=network.file, line=lines[bad.place]
        ) from None
    network.add_table(child, parents, logs.reshape(cards), lambda row: lines[row * cards[-1]])


def _words(pieces: list[tuple[int, str]]) -> tuple[list[str], list[int]]:
    """Return the words of a text that came in pieces, and their lines; no word spans two lines."""
    words: list[str] = []
    lines: list[int] = []
    whole = True  # whether the last word cannot go on
    for line, text in pieces:
        for number, part in enumerate(text.split("\n")):
            found = part.split()
            if found and number == 0 and not whole and not part[0].isspace():
                words[-1] += found.pop(0)
            words += found
            lines += [line + number] * len(found)
        whole = not text or text[-1].isspace()
    return words, lines


def _blocks(path: str | Path) -> list[_Block]:
    """Parse the file into variables and definitions."""
    document = Document(path)
    found: list[_Block] = []
    inside: list[str] = []

    def start(tag: str, attributes: dict[str, str]) -> None:
        name = tag.upper()
        if not inside and name != "BIF":
            raise InputError(f"expected <BIF>, got <{tag}>")
        inside.append(name)
        if name in BLOCKS:
            kind = attributes.get("TYPE", "nature").lower()
            if name == "VARIABLE" and kind not in ("nature", "discrete"):
                raise InputError(f"expected variables of type 'nature', got {kind!r}")
            found.append(_Block(BLOCKS[name], document.line))
        elif name in PARTS and len(inside) > 1 and inside[-2] in BLOCKS:
            found[-1].parts.append((name, []))

    def end(_: str) -> None:
        inside.pop()

    def text(words: str) -> None:
        if len(inside) > 1 and inside[-1] in PARTS and inside[-2] in BLOCKS:
            found[-1].parts[-1][1].append((document.line, words))

    document.parse(read_bytes(path), start=start, end=end, text=text)
    return found


FIELD_FORMATS.add(
    Format.of_suffixes(
        "xmlbif",
        "XML form of the Bayesian interchange format (read only)",
        (".xmlbif", ".bifxml", ".xml"),
        read=read,
        priority=0,
    )
)
