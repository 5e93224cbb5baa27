"""``python -m hiddenfield``."""

from hiddenfield.cli import main

main()
