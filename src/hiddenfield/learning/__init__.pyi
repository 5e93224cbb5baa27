from .batches import predict as predict
from .checkpoint import (
    History as History,
    load_checkpoint as load_checkpoint,
    save_checkpoint as save_checkpoint,
)
from .settings import TrainSettings as TrainSettings
from .task import Task as Task
from .trainer import train as train
