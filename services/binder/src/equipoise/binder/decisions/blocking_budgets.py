"""Disruption budgets that allow nothing at present: each is asked again later and later, and holds up nobody else.

Which budget chooses a pod is learnt from refusals: the binder has no right to list budgets, and needs none.
"""

from collections.abc import Callable

from equipoise.binder.decisions.backoff import BackOff
from equipoise.contracts.kubernetes.workload import Workload

_FIRST = 10.0
_LONGEST = 600.0

_REMEMBERED = 1_000
"""Workloads whose budget is known; the oldest are dropped."""


class BlockingBudgets:
    """One binder's knowledge. Times: seconds of one clock."""

    def __init__(self, chance: Callable[[], float]) -> None:
        self._back_off = BackOff(_FIRST, _LONGEST, chance)
        self._budgets: dict[Workload, str] = {}

    def blocked(self, workload: Workload | None, namespace: str, budget: str, now: float) -> float:
        """The budget refused a pod of this workload; returns the seconds until it is worth asking again.

        An API server that does not name the budget is taken as having one per workload.
        """
        key = f"{namespace}/{budget or workload}"
        if workload is not None:
            self._budgets.pop(workload, None)
            self._budgets[workload] = key
            if len(self._budgets) > _REMEMBERED:
                del self._budgets[next(iter(self._budgets))]
        return self._back_off.refused(key, now)

    def remaining(self, workload: Workload | None, now: float) -> tuple[str, float]:
        """The budget that held this workload up last, and the seconds for which it is not asked; 0.0 when it is."""
        key = self._budgets.get(workload, "") if workload is not None else ""
        return key, self._back_off.remaining(key, now) if key else 0.0

    def allowed(self, workload: Workload | None) -> None:
        """An eviction went through."""
        if workload is not None and (key := self._budgets.pop(workload, "")):
            self._back_off.agreed(key)
