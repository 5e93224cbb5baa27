from .assessment.assessing import assess as assess
from .assessment.outcome import Assessment as Assessment, compare as compare
from .assessment.settings import AssessmentSettings as AssessmentSettings
from .baselines import fit_baselines as fit_baselines
from .leakage import Leakage as Leakage, find_leakage as find_leakage
from .method_comparison import MethodResult as MethodResult, compare_methods as compare_methods
from .query import Answer as Answer, ask as ask
from .score import Score as Score
from .search import Between as Between
from .significance import (
    Comparison as Comparison,
    confidence_interval as confidence_interval,
    corrected_t_test as corrected_t_test,
)
from .splits.base import Request as Request, Split as Split
from .splits.making import SPLITTERS as SPLITTERS, make_splits as make_splits
