"""The result of one replay: the figures that are compared, and the hourly loads."""

from typing import Literal

import msgspec
import numpy as np
import numpy.typing as npt

ForecastSource = Literal["profile", "past", "6h"]
"""What the descheduler's forecast is based on: profiles of the days before, profiles of the hours since it started,
or (an oracle) the real mean usage of the next six hours."""

Scenario = Literal["given", "churn", "fresh", "autoscaled"]

PlacementMode = Literal["extender", "hints", "none"]
"""How scores reach kube-scheduler: through its extender, as preferred node affinity of new pods, or not at all."""

STOCK = "stock"
"""kube-scheduler alone."""

GREEDY = "greedy"
"""The reference `GreedyScheduler`."""

PODS_PER_TOLERATED = 500
"""The number of pods for which one more unplaced pod is tolerated. Where memory is nearly full, it is random whether
the last pod fits."""

HourlyLoads = npt.NDArray[np.float32]
"""An array nodes × hours of the load, in percent of what is allocatable on the node."""


class RunFigures(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of a run. Spread (max − min) and std over nodes of the hourly mean CPU load, in points of percent.

    Fields with `peak` are values of the hour with the highest usage of the cluster; `memory_…` are the same for memory.
    """

    scenario: Scenario
    policy: str
    """The name of a policy or plugin; "stock" for kube-scheduler alone; "greedy" for an unattainable reference."""

    placement: PlacementMode = "extender"
    descheduler: bool
    arrival_seed: int
    sample: Literal["in", "out"]
    """The days that the profiles are from: "in" the measured days, or "out" of them (earlier days)."""

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
    memory_hours_above_100: float = 0.0
    """Node-hours in which the memory in use exceeded what is allocatable, for however short a time."""

    work_lost: float
    """Share (0..1) of the CPU demand that nodes above 100 % could not serve."""

    moved: int = 0
    moved_share: float = 0.0
    without_gap: int = 0
    """The number of moved pods that ran until their replacement was ready."""

    gap_seconds: float = 0.0
    """Seconds, summed over the workloads, with fewer running replicas than wanted. A replica counts once it has run."""

    moves_per_hour: float = 0.0
    moves_executable: float = 1.0
    """Share (0..1) of the proposed moves that limits and free resources allowed; 1 if none was proposed."""

    moves_landed: float | None = None
    """Share (0..1) of placed replacements that run on the target of their move; None when none was placed."""

    refused: dict[str, int] = {}
    """Number of refused moves by reason."""

    movable: dict[str, int] = {}
    """Number of pods by how they could be moved at the first evaluation, or by the rule that protects them."""

    preempted: int = 0
    """Pods that kube-scheduler deleted for pods of higher priority."""

    unplaced: int = 0
    violations: int = 0
    """Violated anti-affinity rules and exceeded eviction limits: must be 0."""

    plugin_problems: dict[str, int] = {}
    """The number of scheduling attempts in which the plugin of a user failed, by the problem."""

    seconds: float = 0.0
    """Duration of the replay."""


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """The figures and hourly loads of a replay."""

    figures: RunFigures
    node_names: tuple[str, ...]
    before: HourlyLoads
    """CPU load with the stock scheduler alone."""

    after: HourlyLoads
    """CPU load in this run."""

    spread: tuple[float, ...]
    """Spread of `after` by hour."""
