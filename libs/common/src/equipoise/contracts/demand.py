"""What a pod is expected to use before it was ever measured on its node."""

from typing import Literal

import msgspec

from equipoise.contracts.load import known, usable_window
from equipoise.contracts.messages import Resources, WorkloadUtilization
from equipoise.contracts.settings import LoadSettings

Link = Literal["measured", "limit", "request", "request×1.5", "default"]

WATER_LEVEL: tuple[Link, ...] = ("measured", "limit", "request", "default")
"""The water-level scheduler: the workload's measured usage, else the limit."""

TARGET_LOAD_PACKING: tuple[Link, ...] = ("limit", "request×1.5", "default")
"""Trimaran."""

MEASURED_FIRST: tuple[Link, ...] = ("measured", "request", "limit", "default")

DEFAULT = Resources(cpu=0.1, memory=200.0 * 2**20)
"""What kube-scheduler assumes of a container without requests (non-zero defaults)."""


def fresh(workload: WorkloadUtilization | None, settings: LoadSettings, now: float) -> WorkloadUtilization | None:
    """The workload's usage without the windows that are past their life; None when none is left."""
    if workload is None:
        return None
    windows = {
        window.name: value
        for window in settings.windows
        if (value := usable_window(workload, window, settings, now)) is not None
    }
    return msgspec.structs.replace(workload, windows=windows) if windows else None


def expected_usage(
    *,
    requests: Resources,
    limits: Resources,
    workload: WorkloadUtilization | None,
    window: str,
    chain: tuple[Link, ...] = MEASURED_FIRST,
    default: Resources = DEFAULT,
) -> tuple[Resources, dict[str, Link]]:
    """Expected cores and bytes, and per resource the link of the chain that gave it.

    `workload` is taken as it is: hand it through `fresh` first. Its mean over `window` is "measured", or over the
    first of its windows that knows the resource. A limit of 0 is none: Kubernetes reads it as unlimited.
    """
    amounts: dict[str, float] = {}
    sources: dict[str, Link] = {}
    for resource in ("cpu", "memory"):
        request = known(getattr(requests, resource))
        candidates: dict[Link, float | None] = {
            "measured": _measured(workload, window, resource),
            "limit": known(getattr(limits, resource)) or None,
            "request": request,
            "request×1.5": None if request is None else known(request * 1.5),
            "default": getattr(default, resource),
        }
        for link in chain:
            amount = candidates[link]
            if amount is not None:
                amounts[resource], sources[resource] = amount, link
                break
    return Resources(**amounts), sources


def _measured(workload: WorkloadUtilization | None, window: str, resource: str) -> float | None:
    if workload is None:
        return None
    asked = workload.windows.get(window)
    values = [asked, *workload.windows.values()] if asked is not None else list(workload.windows.values())
    return next((amount for value in values if (amount := known(getattr(value.mean, resource))) is not None), None)
