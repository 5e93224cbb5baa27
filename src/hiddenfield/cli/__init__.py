"""The command line: subcommands that parse, call and print.

Exit codes: 0 done; 1 the input or the work failed, with one line that says why and what to do; 2 the command was
called wrongly; 130 interrupted.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit with its code. ``--debug`` may stand anywhere.

    Everything is imported here, so that Ctrl-C while it is ends as quietly as later.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in words
    try:
        from hiddenfield.cli.app import build
        from hiddenfield.cli.options import recorded

        with recorded(words):
            build(debug=debug)([word for word in words if word != "--debug"], prog_name="hiddenfield")
    except KeyboardInterrupt:  # before, between or after commands
        if debug:
            raise
        print("hiddenfield: interrupted: no partial output was left", file=sys.stderr)
        raise SystemExit(130) from None
