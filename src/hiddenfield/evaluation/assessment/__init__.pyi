from .assessing import assess as assess
from .settings import AssessmentSettings as AssessmentSettings
from .several import Assessments as Assessments, assess_targets as assess_targets
