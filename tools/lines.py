"""Count the lines of code of each room: ``python -m tools.lines [FOLDER]``.

Lines that are neither blank, comment nor docstring, as in decision 0015.
"""

from __future__ import annotations

import ast
import io
import sys
import tokenize
from collections import Counter
from pathlib import Path

NO_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}


def lines_of_code(text: str) -> int:
    r"""Return how many lines of a module hold code.

    Examples
    --------
    >>> lines_of_code('"What it is."\n\n# Why.\nx = 1\n')
    1
    """
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            lines.difference_update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return sum(bool(line.strip()) for number, line in enumerate(text.splitlines(), 1) if number in lines)


def main(folder: str = "src/hiddenfield") -> None:
    """Print lines and modules of each room and of all."""
    lines, modules = Counter[str](), Counter[str]()
    for path in sorted(Path(folder).rglob("*.py")):
        inner = path.relative_to(folder).parts
        room = inner[0] if len(inner) > 1 else "."
        lines[room] += lines_of_code(path.read_text(encoding="utf-8"))
        modules[room] += 1
    for room, count in lines.most_common():
        print(f"{count:6,} {modules[room]:4} {room}")
    print(f"{lines.total():6,} {modules.total():4} all")


if __name__ == "__main__":
    main(*sys.argv[1:])
