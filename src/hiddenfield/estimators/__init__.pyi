from .base import StructureEstimator as StructureEstimator
from .bayesian_network import BayesianNetwork as BayesianNetwork
from .cgmm import CGMMEncoder as CGMMEncoder
from .cgmm_predictors import CGMMClassifier as CGMMClassifier, CGMMRegressor as CGMMRegressor
from .crf import ConditionalRandomField as ConditionalRandomField
from .factor_analysis import FactorAnalysis as FactorAnalysis, ProbabilisticPCA as ProbabilisticPCA
from .gaussian_mixture import GaussianMixture as GaussianMixture
from .hidden_markov import Forecast as Forecast, HiddenMarkovModel as HiddenMarkovModel
from .kernel_machines import KernelClassifier as KernelClassifier, KernelRegressor as KernelRegressor
from .latent import (
    LATENT as LATENT,
    LatentEstimator as LatentEstimator,
)
from .lda import LatentDirichletAllocation as LatentDirichletAllocation
from .markov_network import MarkovNetwork as MarkovNetwork
from .mixed_mixture import MixedMixture as MixedMixture
from .node_encoders import (
    NODE_ENCODERS as NODE_ENCODERS,
    LINEEncoder as LINEEncoder,
    NodeEncoder as NodeEncoder,
    SDNEEncoder as SDNEEncoder,
    SpectralEncoder as SpectralEncoder,
)
from .partial_least_squares import PartialLeastSquares as PartialLeastSquares
from .rbm import RestrictedBoltzmannMachine as RestrictedBoltzmannMachine
from .relational import RelationalModel as RelationalModel
from .saving import load as load
from .sizes import (
    Sizes as Sizes,
    choose_size as choose_size,
)
from .supervised import (
    StructureClassifier as StructureClassifier,
    StructureEncoder as StructureEncoder,
    StructureRegressor as StructureRegressor,
)
from .vae import VariationalAutoencoder as VariationalAutoencoder
