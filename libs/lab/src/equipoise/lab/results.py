"""What one replay came to: the figures that are compared, and the pictures behind them."""

from typing import Literal

import msgspec
import numpy as np
import numpy.typing as npt

Foresight = Literal["profile", "past", "6h"]
"""What the descheduler knows of what is to come: the profiles of days before, those of the hours since it began to act,
or, as nobody can, what every workload will use on average in the next six hours."""

Scenario = Literal["given", "churn", "fresh"]

Picture = npt.NDArray[np.float32]
"""nodes × hours: load in percent of the node's allocatable."""


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """The row of a run. Spread (max − min) and std over nodes of the hourly mean CPU load, in points of percent.

    `peak`: at the hour in which the fleet uses most. Memory: the same figures of memory.
    """

    scenario: Scenario
    policy: str
    """A policy's name, "stock" for kube-scheduler alone, or a reference that no cluster can have: "greedy"."""

    descheduler: bool
    arrival_seed: int
    sample: Literal["in", "out"]
    """In: the profiles were learned from the days that are judged. Out: from days before."""

    nodes: int
    pods: int
    peak_spread: float
    median_spread: float
    p90_spread: float
    worst_spread: float
    peak_std: float
    median_std: float
    peak_p5: float
    peak_p95: float
    memory_peak_spread: float
    memory_median_spread: float
    memory_peak_std: float
    hours_above_80: float
    """Node-hours with a mean CPU load above 80 %."""

    hours_above_90: float
    work_lost: float
    """Share (0..1) of the CPU work that nodes above 100 % could not do."""

    moved: int = 0
    moved_share: float = 0.0
    moves_per_hour: float = 0.0
    moves_executable: float = 1.0
    """Share (0..1) of proposed moves that limits and fit let pass; 1 when none was proposed."""

    refused: dict[str, int] = {}
    """Proposed moves that were refused, by why."""

    unplaced: int = 0
    violations: int = 0
    """Anti-affinity rules broken by placements of the run, and eviction limits passed: must be 0."""

    seconds: float = 0.0
    """That the replay took."""


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """A replay's figures and pictures."""

    figures: Figures
    node_names: tuple[str, ...]
    before: Picture
    """CPU as the stock scheduler alone (or the trace) had it."""

    after: Picture
    """CPU in this run."""

    spread: tuple[float, ...]
    """By hour, of `after`."""
