"""What pytest leaves out: modules whose examples need a package that is not installed."""

from __future__ import annotations

import importlib.util

collect_ignore_glob = []
if not importlib.util.find_spec("triton"):
    collect_ignore_glob += [
        "src/hiddenfield/ops/triton_*.py",
        "src/hiddenfield/inference/messages/triton_*.py",
    ]
if not (importlib.util.find_spec("pgmpy") and importlib.util.find_spec("pyagrum")):
    collect_ignore_glob.append("src/hiddenfield/fields/peers.py")
