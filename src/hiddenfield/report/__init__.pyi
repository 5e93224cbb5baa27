from .distributions import Distributions as Distributions
from .results import (
    Results as Results,
    build as build,
    collect as collect,
    collect_run as collect_run,
    write_report as write_report,
)
