"""``python -m hiddenfield.cli``."""

from hiddenfield.cli import main

main()
