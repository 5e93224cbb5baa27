from .base import KERNELS as KERNELS, Kernel as Kernel
from .colours import (
    ShortestPath as ShortestPath,
    WLAssignment as WLAssignment,
    WLEdge as WLEdge,
    WLShortestPath as WLShortestPath,
    WLSubtree as WLSubtree,
)
from .combinations import Product as Product, Sum as Sum
from .common_subtrees import CommonSubtrees as CommonSubtrees
from .generative import (
    Fisher as Fisher,
    ProbabilityProduct as ProbabilityProduct,
    ProbabilityProductHMM as ProbabilityProductHMM,
)
from .graphlets import Graphlet as Graphlet
from .jaccard import jaccard as jaccard
from .pairwise_field import FisherField as FisherField, PairwiseField as PairwiseField
from .refinement import (
    ColourDictionary as ColourDictionary,
    bag_of_labels as bag_of_labels,
    copy_classes as copy_classes,
    weisfeiler_lehman as weisfeiler_lehman,
)
from .strings import (
    BlendedSpectrum as BlendedSpectrum,
    GappedKmers as GappedKmers,
    Mismatch as Mismatch,
    Spectrum as Spectrum,
)
from .trees import PartialTree as PartialTree, SubsetTree as SubsetTree
from .walks import GeometricWalk as GeometricWalk, RandomWalk as RandomWalk
