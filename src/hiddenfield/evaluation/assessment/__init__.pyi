from .assessing import assess as assess
from .settings import AssessmentSettings as AssessmentSettings
