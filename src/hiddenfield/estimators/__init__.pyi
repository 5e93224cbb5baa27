from .base import StructureEstimator as StructureEstimator
from .classifier import StructureClassifier as StructureClassifier
from .encoder import StructureEncoder as StructureEncoder
from .regressor import StructureRegressor as StructureRegressor
from .relational import RelationalModel as RelationalModel
from .saving import load as load
