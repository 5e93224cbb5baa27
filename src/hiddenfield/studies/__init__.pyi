from .base import (
    EXPERIMENTS as EXPERIMENTS,
    FULL as FULL,
    QUICK as QUICK,
    Experiment as Experiment,
    Figure as Figure,
    Result as Result,
    Scale as Scale,
    Trial as Trial,
    join_results as join_results,
    merge_results as merge_results,
    run_experiment as run_experiment,
)
