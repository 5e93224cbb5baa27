"""Draw the rooms of the package, and the walks of four commands through them: docs/pictures/architecture.svg.

The steps are those of docs/architecture.md, one list item each, which names the room of the step in bold.
"""

from __future__ import annotations

import re
from html import escape
from pathlib import Path

DOCS = Path(__file__).resolve().parents[1] / "docs"
PAGE, PICTURE = DOCS / "architecture.md", DOCS / "pictures" / "architecture.svg"

# Column after column, from left to right; rooms that share a column do not import one another.
ROOMS: tuple[tuple[tuple[str, str], ...], ...] = (
    (("ops", "sums and cuts over packed rows, on CPU and GPU"),),
    (("data", "Structures, readers, converters, Arrow"),),
    (("datasets", "generated molecules"),),
    (("fields", "FactorGraph, regions, lifting, relational schemes"),),
    (
        ("inference", "marginals, log Z, assignments"),
        ("embedding", "the same with learned messages"),
    ),
    (("learning", "what is learned, and the loops that learn it"),),
    (("models", "mixtures, HMMs, networks, CGMM, relational models"),),
    (("kernels", "similarities of structures"),),
    (("estimators", "scikit-learn classes"),),
    (("evaluation", "splits, assessment, baselines, records"),),
    (("report", "tables, plots, pages"),),
    (("studies", "published experiments"),),
    (("cli", "one file per command"),),
)
COLUMN = {name: column for column, rooms in enumerate(ROOMS) for name, _ in rooms}
WIDTH, GAP, HEIGHT, ROW, LEFT = 104, 14, 92, 40, 150
COLOURS = ("#3b6ea5", "#b5483a", "#4d8b57", "#8a5fa8")


def walks(page: str) -> dict[str, list[str]]:
    """Return the rooms of every walk of the page, step by step.

    Examples
    --------
    >>> walks("## `infer`" + chr(10) + "1. **cli** reads." + chr(10) + "2. **fields** builds.")
    {'infer': ['cli', 'fields']}
    """
    sections = re.split(r"^## `([\w ]+)`$", page, flags=re.MULTILINE)[1:]
    return {
        name: re.findall(r"^\d+\. \*\*(\w+)\*\*", text, flags=re.MULTILINE)
        for name, text in zip(sections[::2], sections[1::2], strict=True)
    }


def draw(steps: dict[str, list[str]]) -> str:
    """Return the picture."""
    tallest = max(map(len, ROOMS))
    width = LEFT + len(ROOMS) * (WIDTH + GAP)
    below = GAP + tallest * (HEIGHT + GAP)
    height = below + len(steps) * ROW + 40
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif">',
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
    ]
    for column, rooms in enumerate(ROOMS):
        top = GAP + (tallest - len(rooms)) * (HEIGHT + GAP) / 2
        for name, text in rooms:
            parts += room(LEFT + column * (WIDTH + GAP), top, name, text)
            top += HEIGHT + GAP
    for number, (name, visited) in enumerate(steps.items()):
        parts += walk(below + number * ROW + 20, width, name, visited, COLOURS[number % len(COLOURS)])
    line = height - 24
    parts += [
        f'<path d="M {width - GAP} {line} H {LEFT + 8}" stroke="#8a949e" stroke-width="2"/>',
        f'<path d="M {LEFT + 12} {line - 6} L {LEFT} {line} L {LEFT + 12} {line + 6} Z" fill="#8a949e"/>',
        label((LEFT + width) / 2, line + 17, "imports point to the left only", 13, "#55606b"),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def room(left: float, top: float, name: str, text: str) -> list[str]:
    """Return one room: its name, and what it holds in a few words."""
    middle = left + WIDTH / 2
    parts = [
        f'<rect x="{left}" y="{top}" width="{WIDTH}" height="{HEIGHT}" rx="6" fill="#eef3f8" stroke="#3b6ea5"/>',
        label(middle, top + 20, name, 14, "#1f3a57"),
    ]
    lines, line = [], ""
    for word in text.split():
        if len(line) + len(word) > 15:
            lines.append(line)
            line = ""
        line = f"{line} {word}".strip()
    for number, words in enumerate([*lines, line]):
        parts.append(label(middle, top + 37 + 13 * number, words, 11, "#333333"))
    return parts


def walk(height: float, width: float, name: str, visited: list[str], colour: str) -> list[str]:
    """Return one row: the numbers of a walk's steps, below the rooms in which they are done."""
    parts = [
        label(LEFT / 2, height + 5, name, 14, colour),
        f'<path d="M {LEFT} {height} H {width - GAP}" stroke="{colour}" stroke-width="1" opacity="0.4"/>',
    ]
    for column in sorted({COLUMN[place] for place in visited}):
        numbers = [str(number) for number, place in enumerate(visited, 1) if COLUMN[place] == column]
        text, middle = ", ".join(numbers), LEFT + column * (WIDTH + GAP) + WIDTH / 2
        half = 8 + 4 * len(text)
        parts += [
            f'<rect x="{middle - half}" y="{height - 12}" width="{2 * half}" height="24" rx="12" fill="{colour}"/>',
            label(middle, height + 5, text, 13, "#ffffff"),
        ]
    return parts


def label(x: float, y: float, text: str, size: int, colour: str) -> str:
    """Return a centred text."""
    return (
        f'<text x="{x}" y="{y}" font-size="{size}" fill="{colour}" text-anchor="middle">{escape(text)}</text>'
    )


if __name__ == "__main__":
    PICTURE.write_text(draw(walks(PAGE.read_text(encoding="utf-8"))), encoding="utf-8")
