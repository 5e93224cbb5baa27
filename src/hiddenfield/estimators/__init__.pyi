from .base import StructureEstimator as StructureEstimator
from .relational import RelationalModel as RelationalModel
from .saving import load as load
from .supervised import (
    StructureClassifier as StructureClassifier,
    StructureEncoder as StructureEncoder,
    StructureRegressor as StructureRegressor,
)
