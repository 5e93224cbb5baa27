from .assessment.assessing import assess as assess
from .assessment.details import find_leakage as find_leakage
from .assessment.settings import AssessmentSettings as AssessmentSettings, Between as Between
from .assessment.several import assess_targets as assess_targets
from .baselines import BASELINES as BASELINES, fit_baselines as fit_baselines
from .comparing import MethodResult as MethodResult, compare_methods as compare_methods
from .measuring import (
    Score as Score,
    accuracy as accuracy,
    balanced_accuracy as balanced_accuracy,
    mae as mae,
    r2 as r2,
    rmse as rmse,
    roc_auc as roc_auc,
)
from .query import Answer as Answer, Samples as Samples, ask as ask
from .records import Assessment as Assessment, Assessments as Assessments
from .significance import (
    Comparison as Comparison,
    compare as compare,
    confidence_interval as confidence_interval,
    corrected_t_test as corrected_t_test,
)
from .splits.base import (
    SPLITTERS as SPLITTERS,
    Request as Request,
    Split as Split,
    make_splits as make_splits,
)
