from .checkpoint import load_checkpoint as load_checkpoint, save_checkpoint as save_checkpoint
from .predicting import predict as predict
from .settings import TrainSettings as TrainSettings
from .state import History as History
from .task import Task as Task
from .trainer import train as train
