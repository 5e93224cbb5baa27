from .assessing import assess as assess
from .outcome import Assessment as Assessment, compare as compare
from .settings import AssessmentSettings as AssessmentSettings
