"""Description of the machine and the versions that a result was measured with."""

from __future__ import annotations

import os
import platform
import subprocess
import time
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

CHANGED = " with changes"
"""End of a revision whose files have been changed since."""


def describe_machine(packages: Sequence[str]) -> dict[str, Any]:
    """Return where and when something was measured, in plain values.

    Parameters
    ----------
    packages
        Names of packages whose versions are recorded; None for one that is not installed.

    Returns
    -------
    dict
        ``processor``, ``cores``, ``memory_gib``, ``gpu``, ``system``, ``python``, ``packages``, ``date`` and
        ``revision``, the commit where the package runs from its repository, "with changes" where its files differ
        from that, else None.

    Examples
    --------
    >>> sorted(describe_machine(["numpy"])["packages"])
    ['numpy']
    """
    import torch

    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "packages": {name: version(name) for name in packages},
        "date": time.strftime("%Y-%m-%d"),
        "revision": _revision(),
    }


def available_memory() -> float:
    """Return how many bytes could be had without swapping."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="utf-8").splitlines()
        return 1024.0 * next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable"))
    except (OSError, StopIteration):
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")) / 2


def _processor() -> str:
    file = Path("/proc/cpuinfo")
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or "unknown processor"


def _revision() -> str | None:
    root = Path(__file__).resolve().parents[2]
    if not (root / ".git").exists():  # installed elsewhere, perhaps inside somebody else's repository
        return None
    try:
        changed = bool(_git(root, "status", "--porcelain", "--", "src"))
        return _git(root, "rev-parse", "--short", "HEAD") + (CHANGED if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return None


def _git(root: Path, *words: str) -> str:
    command = ["git", "-C", str(root), *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def version(name: str) -> str | None:
    """Return the version of a package, or None where it is not installed."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
