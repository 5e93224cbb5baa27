"""How parameters move: tasks and losses, the supervised trainer, checkpoints."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hiddenfield.lazy import attach

if TYPE_CHECKING:
    from hiddenfield.learning.checkpoint import load_checkpoint, save_checkpoint
    from hiddenfield.learning.predicting import predict
    from hiddenfield.learning.settings import TrainSettings
    from hiddenfield.learning.state import History
    from hiddenfield.learning.task import Task
    from hiddenfield.learning.trainer import train

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "History": "hiddenfield.learning.state",
        "Task": "hiddenfield.learning.task",
        "TrainSettings": "hiddenfield.learning.settings",
        "load_checkpoint": "hiddenfield.learning.checkpoint",
        "predict": "hiddenfield.learning.predicting",
        "save_checkpoint": "hiddenfield.learning.checkpoint",
        "train": "hiddenfield.learning.trainer",
    },
)
