from .jaccard import jaccard as jaccard
from .refinement import (
    ColourDictionary as ColourDictionary,
    bag_of_labels as bag_of_labels,
    copy_classes as copy_classes,
    weisfeiler_lehman as weisfeiler_lehman,
)
