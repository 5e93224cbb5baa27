"""Draw the rooms of the package and the order of their imports: docs/pictures/architecture.svg."""

from __future__ import annotations

from html import escape
from pathlib import Path

PICTURE = Path(__file__).resolve().parents[1] / "docs" / "pictures" / "architecture.svg"

# Column after column, from left to right; what shares a column does not import one another.
ROOMS: tuple[tuple[tuple[str, str], ...], ...] = (
    (("ops", "sums and cuts over packed rows, on CPU and GPU"),),
    (("data", "Structures, readers, converters, Arrow"),),
    (("datasets", "generated molecules"),),
    (("fields", "FactorGraph, its one layout, regions, lifting, relational schemes"),),
    (
        ("inference", "marginals, log Z, assignments"),
        ("embedding", "the same with learned messages"),
        ("kernels", "similarities of structures"),
    ),
    (("learning", "what is learned, the loops that learn it"),),
    (("models", "relational models"),),
    (("estimators", "scikit-learn classes"),),
    (("evaluation", "splits, assessment, baselines, records"),),
    (("report", "tables, plots, pages"),),
    (("studies", "published experiments"),),
    (("cli", "one file per command"),),
)
WIDTH, GAP, HEIGHT, TOP = 104, 14, 96, 30


def draw() -> str:
    """Return the picture."""
    tallest = max(map(len, ROOMS))
    width = len(ROOMS) * (WIDTH + GAP) + GAP
    height = TOP + tallest * (HEIGHT + GAP) + 40
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif">',
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
    ]
    for column, rooms in enumerate(ROOMS):
        left = GAP + column * (WIDTH + GAP)
        top = TOP + (tallest - len(rooms)) * (HEIGHT + GAP) / 2
        for name, text in rooms:
            parts += box(left, top, name, text)
            top += HEIGHT + GAP
    line = height - 28
    parts += [
        f'<path d="M {width - GAP} {line} H {GAP + 8}" stroke="#8a949e" stroke-width="2"/>',
        f'<path d="M {GAP + 12} {line - 6} L {GAP} {line} L {GAP + 12} {line + 6} Z" fill="#8a949e"/>',
        label(width / 2, line + 19, "imports point to the left only", 13, "#55606b"),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def box(left: float, top: float, name: str, text: str) -> list[str]:
    """Return one room: its name, and what it holds in a few words."""
    middle = left + WIDTH / 2
    parts = [
        f'<rect x="{left}" y="{top}" width="{WIDTH}" height="{HEIGHT}" rx="6" fill="#eef3f8" stroke="#3b6ea5"/>',
        label(middle, top + 20, name, 14, "#1f3a57"),
    ]
    lines, line = [], ""
    for word in text.split():
        if len(line) + len(word) > 16:
            lines.append(line)
            line = ""
        line = f"{line} {word}".strip()
    for number, words in enumerate([*lines, line]):
        parts.append(label(middle, top + 37 + 13 * number, words, 11, "#333333"))
    return parts


def label(x: float, y: float, text: str, size: int, colour: str) -> str:
    """Return a centred text."""
    return (
        f'<text x="{x}" y="{y}" font-size="{size}" fill="{colour}" text-anchor="middle">{escape(text)}</text>'
    )


if __name__ == "__main__":
    PICTURE.write_text(draw(), encoding="utf-8")
