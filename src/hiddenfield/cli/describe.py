"""``hiddenfield describe``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hiddenfield.cli.options import (
    Format,
    Json,
    OnError,
    Setting,
    Source,
    Structure,
    Target,
    emit,
    reader_options,
)


def command(
    path: Source,
    format: Format = None,
    structure: Structure = None,
    target: Target = None,
    on_error: OnError = None,
    setting: Setting = None,
    plot: Annotated[
        Path | None, typer.Option(help="Also draw the distributions into this .png, .svg or .pdf.")
    ] = None,
    json: Json = False,
) -> None:
    """Count and summarise a data set: sizes, degrees, labels, targets, what is missing."""
    from hiddenfield.data.description import Description
    from hiddenfield.data.formats import scan
    from hiddenfield.progress import counted, progress
    from hiddenfield.report.distributions import Distributions

    distributions = Distributions()
    with progress(None, "describing") as advance:
        packs = counted(scan(path, **reader_options(format, structure, target, on_error, setting)), advance)
        description = Description.of(packs if plot is None else distributions.watch(packs))
    if plot is not None:
        distributions.draw(description, plot, title=path.name)
    result = {"path": str(path), **description.as_dict()}
    if plot is not None:
        result["plot"] = str(plot)
    emit(result, str(description) + ("" if plot is None else f"\nplot: {plot}"), json)
