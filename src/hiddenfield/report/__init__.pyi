from .assessment_page import build as build, write_report as write_report
from .distributions import Distributions as Distributions
from .results import Results as Results, collect as collect, collect_run as collect_run
