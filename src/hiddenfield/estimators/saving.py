"""Fitted estimators in a folder: weights as safetensors, everything else as JSON; nothing in it is ever executed."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from hiddenfield import estimators
from hiddenfield.data.paths import atomic, read_bytes
from hiddenfield.embedding.predictor import Predictor
from hiddenfield.errors import InputError, ReadError
from hiddenfield.estimators.cgmm import ContextualGraphMarkovModel
from hiddenfield.estimators.cgmm_predictors import CGMM
from hiddenfield.estimators.counting import KINDS, PREFIX, as_arrays, from_arrays
from hiddenfield.estimators.crf import ConditionalRandomField
from hiddenfield.estimators.kernel_machines import KERNEL_MACHINES, KernelPredictor
from hiddenfield.estimators.latent import LATENT, LatentEstimator
from hiddenfield.estimators.node_encoders import NODE_ENCODERS, NodeEncoder
from hiddenfield.estimators.parameters import as_json, from_json
from hiddenfield.estimators.supervised import TYPES
from hiddenfield.learning.checkpoint import History

if TYPE_CHECKING:
    from hiddenfield.estimators.base import StructureEstimator

FORMAT, VERSION = "hiddenfield estimator", 1
DESCRIPTION, WEIGHTS = "model.json", "model.safetensors"
SelfSaved = (
    LatentEstimator | ContextualGraphMarkovModel | KernelPredictor | ConditionalRandomField | NodeEncoder
)
"""Estimators that say themselves what of them is saved."""
CLASSES = ("StructureClassifier", "StructureEncoder", "StructureRegressor")
# A description of this size has more symbols in its vocabularies than any model that was ever fitted here.
LARGEST_DESCRIPTION = 256 * 2**20


def save(estimator: StructureEstimator | SelfSaved, path: str | Path, *, overwrite: bool = False) -> None:
    """Write a fitted estimator into a folder, atomically; see `StructureEstimator.save`."""
    path = Path(path)
    if path.exists() and not overwrite:
        raise InputError(f"{path} exists already; choose another name, or overwrite=True for a saved model")
    if path.exists() and not (path.is_dir() and set(os.listdir(path)) <= {DESCRIPTION, WEIGHTS}):
        raise InputError(f"{path} exists already and is no saved model; choose another name")
    old: Path | None = None
    with atomic(path) as partial:
        partial.mkdir()
        _write_folder(estimator, partial)
        if path.exists():  # kept under another name until the new one is in its place
            old = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
            os.replace(path, old)
    if old is not None:
        shutil.rmtree(old)


def _write_folder(estimator: StructureEstimator | SelfSaved, folder: Path) -> None:
    from safetensors.torch import save as pack_tensors

    saved = estimator.as_saved() if isinstance(estimator, SelfSaved) else _of_networks(estimator)
    weights, parameters = pack_tensors(saved[0]), estimator.get_params(deep=False)
    parameters |= estimator.plain_parameters() if isinstance(estimator, LatentEstimator) else {}
    parameters |= {"checkpoint": None} if "checkpoint" in parameters else {}
    content = {
        "format": FORMAT,
        "version": VERSION,
        "hiddenfield": sys.modules["hiddenfield"].__version__,
        "class": type(estimator).__name__,
        "parameters": {name: as_json(name, value) for name, value in parameters.items()},
        **saved[1],
        "weights_sha256": hashlib.sha256(weights).hexdigest(),
    }
    content["checksum"] = _checksum(content)
    for name, data in ((WEIGHTS, weights), (DESCRIPTION, json.dumps(content, indent=1).encode())):
        with open(folder / name, "wb") as sink:
            sink.write(data)
            sink.flush()
            os.fsync(sink.fileno())


def _of_networks(estimator: StructureEstimator) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return the weights of an estimator of structures, and what describes it."""
    tensors = {
        f"{member}.{name}": value.detach().cpu().contiguous()
        for member, network in enumerate(estimator.networks_)
        for name, value in network.state_dict().items()
    }
    if estimator.counting_ is not None:
        tensors |= {name: torch.from_numpy(value) for name, value in as_arrays(estimator.counting_).items()}
    return tensors, estimator._described() | {
        "network": estimator.network_.settings(),
        "members": len(estimator.networks_),
        "histories": [vars(history) for history in estimator.histories_],
        "resolved": estimator.resolved_,
        "blend": estimator.blend_,
    }


def _checksum(content: Mapping[str, Any]) -> str:
    """Return the SHA-256 of everything but the checksum, in one spelling."""
    rest = {name: value for name, value in content.items() if name != "checksum"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


# -- opening -----------------------------------------------------------------------------------------------


def load(path: str | Path) -> Any:
    """Open a saved estimator, or the one in the folder of a run of ``hiddenfield fit``.

    A folder from a stranger is safe to open: nothing in it is executed, and no network is made that is larger than the
    weights in the folder.

    Parameters
    ----------
    path
        The folder.

    Raises
    ------
    ReadError
        If the folder is altered, truncated, incomplete, of a later version, or something else.

    Examples
    --------
    >>> import hiddenfield as hf, tempfile
    >>> model = hf.StructureRegressor(dim=4, epochs=1, random_state=0).fit(["GA", "TTT"], [2.0, 3.0])
    >>> folder = tempfile.mkdtemp() + "/model"
    >>> model.save(folder)
    >>> bool((hf.load(folder).predict(["GAT"]) == model.predict(["GAT"])).all())
    True
    """
    folder = Path(path)
    if (folder / "model").is_dir() and not (folder / DESCRIPTION).exists():
        folder = folder / "model"
    for name in (DESCRIPTION, WEIGHTS):
        if not (folder / name).is_file():
            what = "holds no saved model" if folder.is_dir() else "is no folder"
            raise ReadError(
                f"{what}: there is no {name} in it; save one with save() or hiddenfield fit", file=folder
            )
    content = _read_description(folder / DESCRIPTION)
    tensors = _read_weights(folder / WEIGHTS, content["weights_sha256"])
    try:
        return _build(content, tensors)
    except (LookupError, TypeError, ValueError, AttributeError, RuntimeError, OverflowError) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ReadError(
            f"describes no model that can be built ({reason:.300})", file=folder / DESCRIPTION
        ) from None


def _read_description(file: Path) -> dict[str, Any]:
    if file.stat().st_size > LARGEST_DESCRIPTION:
        raise ReadError(f"has {file.stat().st_size:,} bytes, far more than a model needs", file=file)
    data = read_bytes(file)
    try:
        content = json.loads(data)
    except (ValueError, RecursionError):
        raise ReadError("is no whole JSON file; restore the folder from where it came", file=file) from None
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise ReadError("does not describe a model of hiddenfield", file=file)
    version = content.get("version")
    if isinstance(version, int) and version > VERSION:
        raise ReadError(
            f"has version {version}, written by hiddenfield {content.get('hiddenfield')!s:.20}, and this one reads up "
            f"to {VERSION}; upgrade it",
            file=file,
        )
    if version != VERSION or content.get("checksum") != _checksum(content):
        raise ReadError(
            "is damaged: its content does not fit its checksum; restore the folder from where it came",
            file=file,
        )
    if not isinstance(content.get("weights_sha256"), str):
        raise ReadError("does not say what the weights' checksum is", file=file)
    return content


def _read_weights(file: Path, expected: str) -> dict[str, Tensor]:
    from safetensors import SafetensorError
    from safetensors.torch import load as unpack_tensors

    data = read_bytes(file)
    if hashlib.sha256(data).hexdigest() != expected:
        raise ReadError(
            "is damaged, or belongs to another model: it does not fit the checksum in "
            f"{DESCRIPTION}; restore the folder from where it came",
            file=file,
        )
    try:
        return unpack_tensors(data)
    except (SafetensorError, ValueError, KeyError) as error:
        raise ReadError(f"is no safetensors file ({error!s:.200})", file=file) from None


def _build(content: Mapping[str, Any], tensors: dict[str, Tensor]) -> Any:
    """Make the estimator; whatever is wrong with the content becomes an error here, and none of it is run."""
    name = content["class"]
    registered: tuple[Any, ...] = (*LATENT.values(), *NODE_ENCODERS.values(), ConditionalRandomField)
    latent = {cls.__name__: cls for cls in registered} | CGMM | KERNEL_MACHINES
    if name not in (*CLASSES, *latent):
        raise InputError(
            f"there is no class {name!r:.50}; it must be one of {', '.join((*CLASSES, *latent))}"
        )
    parameters = {key: from_json(value) for key, value in content["parameters"].items()}
    if "checkpoint" in parameters:
        parameters["checkpoint"] = None  # where a model of ours has none, a stranger's shall not write either
    if name in latent:
        return latent[name](**parameters).from_saved(content, tensors)
    estimator: StructureEstimator = getattr(estimators, name)(**parameters)
    estimator._check_parameters()
    estimator._take_description(content)
    estimator.histories_ = [History(**history) for history in content["histories"]]
    estimator.resolved_ = dict(content.get("resolved", {}))
    _check_consistent(estimator, content)
    counted = {name: tensors.pop(name).numpy() for name in sorted(tensors) if name.startswith(PREFIX)}
    estimator.networks_ = _networks(estimator, content, tensors)
    estimator.blend_ = dict(content["blend"])
    if tuple(estimator.blend_) != KINDS or not np.isfinite(list(estimator.blend_.values())).all():
        raise InputError("the weights of the blend are not those of " + ", ".join(KINDS))
    if not counted and estimator.blend_["networks"] != 1.0:
        raise InputError("the models on counts are missing")
    features, columns = estimator.features_, estimator.task_.columns
    estimator.counting_ = from_arrays(counted, features, columns, content["members"]) if counted else None
    return estimator


def _check_consistent(estimator: StructureEstimator, content: Mapping[str, Any]) -> None:
    columns, kinds = estimator.task_.columns, estimator.target_kinds_
    if not columns or len(kinds) != len(columns) or not set(kinds) <= set(TYPES):
        raise InputError("the targets and their kinds do not fit each other")
    if not isinstance(estimator.single_target_, bool) or (estimator.single_target_ and len(columns) != 1):
        raise InputError("a single target is one column")
    words = [column.vocabulary for column in columns]
    unwanted = {"StructureClassifier": False, "StructureRegressor": True}.get(content["class"])
    if any((v is not None) == unwanted or (v is not None and len(v) < 2) for v in words):
        raise InputError(f"the targets are not such as {content['class']} predicts")
    features = estimator.features_
    scaled: list[Any] = [*columns, *features.node_attributes, *features.arc_attributes]
    numbers = [(each.mean, each.scale) for each in scaled]
    if not np.isfinite(numbers).all() or any(column.scale <= 0 for column in columns):
        raise InputError("means and scales must be finite, and scales positive")
    if len(estimator.histories_) != content["members"] or estimator.ensemble not in (
        "auto",
        content["members"],
    ):
        raise InputError("the number of networks is not that of their histories")


def _networks(
    estimator: StructureEstimator, content: Mapping[str, Any], tensors: dict[str, Tensor]
) -> list[Predictor]:
    """Make the networks without memory of their own, compare their shapes with the weights, and put these in."""
    with torch.device("meta"):
        options = estimator._network_options(estimator.features_, estimator.task_)
        outputs = estimator.task_.outputs
        networks = [
            Predictor(estimator.features_.sizes, outputs, **options)
            for _ in range(min(content["members"], len(tensors)))
        ]
    if json.loads(json.dumps(networks[0].settings())) != content["network"]:
        raise InputError("the settings of the network do not fit the parameters")
    expected = {
        f"{k}.{name}": value for k, n in enumerate(networks) for name, value in n.state_dict().items()
    }
    wanted = torch.float64 if str(estimator.precision) == "64" else torch.float32
    if expected.keys() != tensors.keys():
        raise InputError("the weights are not those of the networks that are described")
    for name, value in tensors.items():
        if value.shape != expected[name].shape or value.dtype != wanted:
            raise InputError(
                f"weight {name!r} should have shape {tuple(expected[name].shape)} of {wanted}, and has "
                f"{tuple(value.shape)} of {value.dtype}"
            )
        if not bool(value.isfinite().all()):
            raise InputError(f"weight {name!r} is not finite")
    for member, network in enumerate(networks):
        own = {name: tensors[f"{member}.{name}"] for name in network.state_dict()}
        network.load_state_dict(own, assign=True)
        network.eval()
    return networks
