from .batches import predict as predict
from .checkpoint import (
    History as History,
    load_checkpoint as load_checkpoint,
    save_checkpoint as save_checkpoint,
)
from .em import (
    Learned as Learned,
    fit_em as fit_em,
)
from .multiple_imputation import (
    Pooled as Pooled,
    pool as pool,
)
from .settings import TrainSettings as TrainSettings
from .shards import Shards as Shards
from .task import Task as Task
from .trainer import train as train
