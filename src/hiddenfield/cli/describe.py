"""``hiddenfield describe``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hiddenfield.cli import options as cli


def command(
    path: cli.Source,
    format: cli.Format = None,
    structure: cli.Structure = None,
    target: cli.Target = None,
    on_error: cli.OnError = None,
    setting: cli.Setting = None,
    plot: Annotated[
        Path | None, typer.Option(help="Also draw the distributions into this .png, .svg or .pdf.")
    ] = None,
    json: cli.Json = False,
) -> None:
    """Count and summarise a data set: sizes, degrees, labels, targets, what is missing."""
    from hiddenfield.data.description import Description
    from hiddenfield.data.formats import scan
    from hiddenfield.progress import counted, progress
    from hiddenfield.report.distributions import Distributions

    distributions = Distributions()
    with progress(None, "describing") as advance:
        packs = counted(
            scan(path, **cli.reader_options(format, structure, target, on_error, setting)), advance
        )
        description = Description.of(packs if plot is None else distributions.watch(packs))
    result, text = {"path": str(path), **description.as_dict()}, str(description)
    if plot is not None:
        distributions.draw(description, plot, title=path.name)
        result["plot"] = str(plot)
        text += f"\nplot: {plot}"
    cli.emit(result, text, json)
