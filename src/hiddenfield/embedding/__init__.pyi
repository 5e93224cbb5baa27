from .base import ACTIVATIONS as ACTIVATIONS, EMBEDDINGS as EMBEDDINGS, Embedding as Embedding
from .damped import Damped as Damped
from .double_loop import DoubleLoop as DoubleLoop
from .generalized_bp import GeneralizedBP as GeneralizedBP
from .inputs import FeatureSizes as FeatureSizes
from .loopy_bp import LoopyBP as LoopyBP
from .mean_field import MeanField as MeanField
from .predictor import POOLINGS as POOLINGS, Predictor as Predictor
from .tree_reweighted import TreeReweighted as TreeReweighted
