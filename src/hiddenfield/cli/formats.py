"""``hiddenfield formats``."""

from __future__ import annotations

import inspect

from hiddenfield.cli.options import Json, emit


def command(json: Json = False) -> None:
    """List the file formats that can be read, with their options; and those of models, for infer."""
    from hiddenfield.data.formats import FORMATS
    from hiddenfield.fields.reading import FIELD_FORMATS

    rows = [
        {
            "name": entry.name,
            "summary": entry.summary,
            "options": list(inspect.signature(entry.read).parameters)[1:],
        }
        for entry in FORMATS.values()
    ]
    lines = [
        f"{row['name']:<12}{row['summary']}\n{'':<12}options: {', '.join(row['options']) or 'none'}"
        for row in rows
    ]
    models = [
        {"name": entry.name, "summary": entry.summary, "suffixes": list(entry.suffixes)}
        for entry in FIELD_FORMATS.values()
    ]
    lines += [f"{row['name']:<12}{row['summary']}; a model, for hiddenfield infer" for row in models]
    emit({"formats": rows, "models": models}, "\n".join(lines), json)
