from .assessing import assess as assess
from .settings import AssessmentSettings as AssessmentSettings
from .several import assess_targets as assess_targets
