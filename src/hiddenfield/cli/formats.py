"""``hiddenfield formats``."""

from __future__ import annotations

import inspect

from hiddenfield.cli.options import Json, emit


def command(json: Json = False) -> None:
    """List the file formats that can be read, with their options."""
    from hiddenfield.data.formats import formats

    rows = [
        {
            "name": entry.name,
            "summary": entry.summary,
            "options": list(inspect.signature(entry.read).parameters)[1:],
        }
        for entry in formats().values()
    ]
    lines = [
        f"{row['name']:<12}{row['summary']}\n{'':<12}options: {', '.join(row['options']) or 'none'}"
        for row in rows
    ]
    emit({"formats": rows}, "\n".join(lines), json)
