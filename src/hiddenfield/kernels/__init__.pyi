from .copies import copy_classes as copy_classes
from .refinement import (
    ColourDictionary as ColourDictionary,
    bag_of_labels as bag_of_labels,
    weisfeiler_lehman as weisfeiler_lehman,
)
