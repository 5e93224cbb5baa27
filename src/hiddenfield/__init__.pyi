from . import (
    data as data,
    datasets as datasets,
    embedding as embedding,
    errors as errors,
    estimators as estimators,
    evaluation as evaluation,
    fields as fields,
    inference as inference,
    kernels as kernels,
    learning as learning,
    models as models,
    ops as ops,
    report as report,
)
from .data import (
    Structures as Structures,
    Vocabulary as Vocabulary,
    concatenate as concatenate,
    read as read,
    scan as scan,
    write as write,
)
from .estimators import (
    BayesianNetwork as BayesianNetwork,
    CGMMClassifier as CGMMClassifier,
    CGMMEncoder as CGMMEncoder,
    CGMMRegressor as CGMMRegressor,
    ConditionalRandomField as ConditionalRandomField,
    FactorAnalysis as FactorAnalysis,
    GaussianMixture as GaussianMixture,
    HiddenMarkovModel as HiddenMarkovModel,
    MarkovNetwork as MarkovNetwork,
    MixedMixture as MixedMixture,
    PartialLeastSquares as PartialLeastSquares,
    ProbabilisticPCA as ProbabilisticPCA,
    RelationalModel as RelationalModel,
    StructureClassifier as StructureClassifier,
    StructureEncoder as StructureEncoder,
    StructureRegressor as StructureRegressor,
    load as load,
)
from .inference import infer as infer
from .learning import Shards as Shards

__version__: str
