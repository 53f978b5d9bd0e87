"""Koordinator's batch and mid resources."""

import math
from typing import Any

import numpy as np
from peers.cases import Case, peer_cases

from equipoise.contracts.configuration.duration import Duration
from equipoise.reclaimer.decisions.degradation import DegradeSettings, share_kept
from equipoise.reclaimer.decisions.formula import HighPriorityPods, mid_amount, reclaimed, terms_of

UNITS = {"cpu": "cpu_m", "memory": "memory_b"}


def high_priority(inputs: dict[str, Any], unit: str) -> HighPriorityPods:
    """Placement messages have no finished pods."""
    pods = [
        pod
        for pod in inputs["pods"]
        if pod["phase"] in ("Running", "Pending") and pod["priority_class"] not in ("batch", "free")
    ]
    return HighPriorityPods(
        requests=np.array([pod["requests"][unit] for pod in pods], dtype=float),
        usage=np.array([math.nan if pod["usage"] is None else pod["usage"][unit] for pod in pods], dtype=float),
        exclusive=np.array([pod["qos"] == "LSE" and unit == "cpu_m" for pod in pods], dtype=bool),
        unplaced=sum(each[unit] for each in inputs["dangling_metrics"]),
    )


def reserved(inputs: dict[str, Any], unit: str) -> float:
    """Capacity minus allocatable, or the reservation, whichever is more."""
    found = inputs["reservation"]
    cores = found.get("reserved_cpu_count")
    amount = 1_000 * cores if cores is not None and unit == "cpu_m" else found.get(unit, 0)
    return float(max(inputs["capacity"][unit] - inputs["allocatable"][unit], amount))


@peer_cases("overcommit.batch")
def test_batch_resources(case: Case) -> None:
    """The idle amount of each resource; the usage of the system contains that of applications outside pods."""
    inputs, strategy, found = case.inputs, case.inputs["strategy"], {}
    for resource, unit in UNITS.items():
        terms = terms_of(
            capacity=inputs["capacity"][unit],
            threshold=strategy[f"{resource}_reclaim_percent"],
            system=inputs["system_used"][unit] + sum(each[unit] for each in inputs["host_apps"]),
            reserved=reserved(inputs, unit),
            pods=high_priority(inputs, unit),
            policy=strategy[f"{resource}_policy"],
        )
        found[f"batch_{unit}"] = reclaimed(terms, cap=strategy[f"batch_{resource}_cap_percent"])

    case.check(**found)


@peer_cases("overcommit.third_party")
def test_allocations_of_other_programs(case: Case) -> None:
    """They are subtracted from what is idle."""
    found = {}
    for unit in UNITS.values():
        idle = terms_of(
            capacity=case.inputs[f"batch_{unit}"],
            threshold=100,
            system=0,
            reserved=0,
            pods=HighPriorityPods(requests=np.zeros(0), usage=np.zeros(0), exclusive=np.zeros(0, dtype=bool)),
            policy="usage",
        )
        found[f"batch_{unit}"] = reclaimed(idle, taken=case.inputs[f"taken_{unit}"])

    case.check(**found)


@peer_cases("overcommit.mid")
def test_mid_resources(case: Case) -> None:
    """The forecast, limited by what is idle now and by the cap."""
    inputs = case.inputs
    case.check(
        **{
            f"mid_{unit}": mid_amount(
                lowest=inputs["prod_reclaimable"][unit],
                capacity=inputs["capacity"][unit],
                node_usage=inputs["node_usage"][unit],
                cap=inputs["cap_percent"][resource],
            )
            for resource, unit in UNITS.items()
        }
    )


@peer_cases("overcommit.degrade")
def test_degradation(case: Case) -> None:
    """Koordinator removes the amounts at this age; nothing that no pod requests is left of them."""
    settings = DegradeSettings(keep=Duration(60), expire=Duration(60 * case.inputs["degrade_minutes"]))

    case.check(reset_resources=share_kept(case.inputs["metric_age_s"], settings) == 0)
