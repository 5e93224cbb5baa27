"""A file as a row of words, read from left to right; every complaint names the file, the line and the word."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import chain, islice
from pathlib import Path
from typing import NoReturn

from hiddenfield.errors import ReadError
from hiddenfield.fields.readers.numbers import BadNumberError, log_numbers
from hiddenfield.shapes import Array, Float

__all__ = ["MOST_ENTRIES", "Words"]

# A few digits can ask for a table that no memory holds; this many numbers are half a gibibyte.
MOST_ENTRIES = 1 << 26

BLANK_SEPARATED = re.compile(r"\S+")


class Words:
    r"""The words of a text, and how far they have been read.

    Lines are counted only when something is wrong, so that reading is as quick as splitting.

    Examples
    --------
    >>> words = Words("MARKOV 2\n2 two", "model.uai")
    >>> words.take("a word"), words.integer("the number of variables"), words.integer("a number of states")
    ('MARKOV', 2, 2)
    >>> words.integer("a number of states")
    Traceback (most recent call last):
    hiddenfield.errors.ReadError: model.uai, line 2: expected a number of states, got 'two'
    """

    def __init__(self, text: str, file: str | Path, pattern: re.Pattern[str] = BLANK_SEPARATED) -> None:
        self.text = text
        self.file = file
        self.pattern = pattern
        self.list: list[str] = pattern.findall(text)
        self.at = 0

    @property
    def left(self) -> int:
        """How many words are still to be read."""
        return len(self.list) - self.at

    def fail(self, expected: str, at: int | None = None, *, got: str | None = None) -> NoReturn:
        """Say what was expected in place of the word at a position, by default of the last one taken."""
        at = self.at - 1 if at is None else at
        if got is None:
            word = self.list[at] if at < len(self.list) else None
            shown = repr(word[:40] + ("…" if len(word) > 40 else "")) if word else "the end of the file"
            got = f"got {shown}"
        raise ReadError(f"expected {expected}, {got}", file=self.file, line=self.line(at))

    def line(self, at: int) -> int:
        """Return the line of the word at a position, counted from one."""
        end = len(self.text.rstrip())
        for number, match in enumerate(self.pattern.finditer(self.text)):
            if number == at:
                end = match.start()
                break
        return self.text.count("\n", 0, end) + 1

    def take(self, expected: str) -> str:
        """Return the next word."""
        self.at += 1
        if self.at > len(self.list):
            self.fail(expected)
        return self.list[self.at - 1]

    def integer(self, expected: str, least: int = 0, most: int | None = None) -> int:
        """Return the next word as an integer from `least` to `most`."""
        word = self.take(expected)
        # Beyond 15 digits nothing can be counted, and Python refuses thousands of them.
        if not (word.isascii() and word.isdigit()) or len(word) > 15:
            self.fail(expected)
        value = int(word)
        if value < least or (most is not None and value > most):
            bounds = f"of at least {least}" if most is None else f"from {least} to {most}"
            self.fail(expected if least == most else f"{expected} {bounds}")
        return value

    def integers(self, count: int, expected: str, least: int = 0, most: int | None = None) -> list[int]:
        """Return the next words as that many integers."""
        self.need(count, expected)
        part = self.list[self.at : self.at + count]
        joined = "".join(part)
        if joined.isascii() and joined.isdigit() and len(max(part, key=len)) <= 15:
            values = list(map(int, part))
            if least <= min(values) and (most is None or max(values) <= most):
                self.at += count
                return values
        # Something is wrong, or there is nothing: one by one.
        return [self.integer(expected, least, most) for _ in range(count)]

    def log_numbers(self, count: int, expected: str) -> Float[Array, " numbers"]:
        """Return the logarithms of that many numbers."""
        self.need(count, expected)
        self.at += count
        return self.logs([range(self.at - count, self.at)], expected)

    def logs(self, ranges: Sequence[range], expected: str) -> Float[Array, " numbers"]:
        """Return the logarithms of the numbers at ranges of positions, all in one array."""
        parts = [self.list[part.start : part.stop : part.step] for part in ranges]
        try:
            return log_numbers(parts[0] if len(parts) == 1 else list(chain.from_iterable(parts)))
        except BadNumberError as bad:
            self.fail(expected, next(islice(chain.from_iterable(ranges), bad.place, None)))

    def need(self, count: int, expected: str) -> None:
        """Refuse to go on where fewer words are left, before memory is asked for."""
        if count > self.left:
            self.at = len(self.list) + 1
            self.fail(expected, got=f"got the end of the file; {count} are needed here")

    def end(self) -> None:
        """Refuse words that nobody asked for."""
        if self.left:
            self.fail("the end of the file", self.at)
