"""``hiddenfield kernel``."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, Literal

from typer import Option

from hiddenfield.cli import options as cli
from hiddenfield.errors import InputError


def kernel(
    path: cli.Source,
    reader: cli.Reader,
    kernel: str = Option(
        "wl_subtree",
        "--kernel",
        "-k",
        help="Name of the kernel: wl_subtree, spectrum, ...; an unknown name lists all.",
    ),
    out: Path = Option(
        ...,
        "--out",
        "-o",
        help="A .npz file for sparse features, or a .npy file for the Gram matrix.",
        show_default=False,
    ),
    against: Path | None = Option(
        None, help="Reference structures, one column each; by default those of PATH."
    ),
    dtype: Literal["float64", "float32"] = Option("float64", help="Data type of the Gram matrix."),
    parameter: cli.Parameter = None,
    json: cli.Json = False,
) -> None:
    """Compute a kernel of structures: explicit features, or the Gram matrix of all similarities.

    With --against, the kernel is fitted to the reference structures: features count the substructures that occur in
    them, and the matrix has one column per reference structure. Memory is checked before anything is computed.
    """
    import numpy as np
    from scipy import sparse

    import hiddenfield
    from hiddenfield.data.paths import atomic
    from hiddenfield.kernels.base import FeatureKernel, check_memory, make_kernel

    start = time.perf_counter()
    cli.check_writable(out, "--out", ".npz", ".npy")
    chosen = make_kernel(kernel, cli.named_values(parameter, "--parameter"))
    explicit = out.suffix.lower() == ".npz"
    if explicit and not isinstance(chosen, FeatureKernel):
        raise InputError(
            f"the kernel {kernel} has no explicit features; write its Gram matrix: --out gram.npy"
        )
    structures = hiddenfield.read(path, **reader)
    columns = structures if against is None else hiddenfield.read(against, **reader)
    size = 0 if explicit else check_memory((len(structures), len(columns)), dtype)
    if size and not json:
        print(f"{len(structures):,} x {len(columns):,} similarities take {size / 2**20:,.1f} MiB", flush=True)
    if against is not None:
        chosen.fit(columns)
    if isinstance(chosen, FeatureKernel) and explicit:
        found: Any = chosen.fit_transform(structures) if against is None else chosen.transform(structures)
        what = f"{found.nnz:,} counts of {found.shape[1]:,} substructures"
    else:
        precision = np.dtype(dtype)
        found = (
            chosen.fit_gram(structures, dtype=precision)
            if against is None
            else chosen.gram(structures, columns, dtype=precision)
        )
        what = "similarities"
    with atomic(out) as partial, open(partial, "wb") as sink:
        if explicit:
            sparse.save_npz(sink, found)
        else:
            np.save(sink, found)
    result = {"kernel": repr(chosen), "output": str(out), "shape": [int(each) for each in found.shape]}
    cli.emit(result, f"{chosen!r}\n{found.shape[0]:,} rows, {what}, written to {out}", json, start)
