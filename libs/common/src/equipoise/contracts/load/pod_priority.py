"""Which pods are production: those that must not suffer, against those that fill what production leaves idle."""

from typing import Literal, cast, get_args

Qos = Literal["Guaranteed", "Burstable", "BestEffort"]

_BANDS = ((9_000, 9_999, True), (7_000, 7_999, False), (5_000, 5_999, False), (3_000, 3_999, False))
"""Priorities of Koordinator's classes prod, mid, batch and free. Source: koordinator, apis/extension/priority.go."""


def qos_of(told: str) -> Qos:
    """The class that a pod's status tells; BestEffort when it tells none."""
    return cast(Qos, told) if told in get_args(Qos) else "BestEffort"


def is_production(priority: int, qos: Qos) -> bool:
    """By the band of its priority; outside every band all but BestEffort pods are production, as Koordinator has it."""
    for low, high, production in _BANDS:
        if low <= priority <= high:
            return production
    return qos != "BestEffort"
