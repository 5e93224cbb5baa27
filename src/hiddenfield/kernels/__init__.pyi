from .base import KERNELS as KERNELS, Kernel as Kernel
from .colours import (
    ShortestPath as ShortestPath,
    WLEdge as WLEdge,
    WLShortestPath as WLShortestPath,
    WLSubtree as WLSubtree,
)
from .graphlets import Graphlet as Graphlet
from .jaccard import jaccard as jaccard
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
from .walks import GeometricWalk as GeometricWalk, RandomWalk as RandomWalk
