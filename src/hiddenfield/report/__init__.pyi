from .assemble import build as build, collect as collect
from .distributions import Distributions as Distributions
from .of_run import collect_run as collect_run
from .results import Results as Results
from .write import write_report as write_report
