"""What an answer of the eviction API means."""

from typing import Literal

import msgspec

from equipoise.binder.decisions.staleness import Verdict
from equipoise.contracts.messages.eviction import Outcome

_PAUSE = 1.0
"""Seconds to wait when the API server wants to be left alone and does not say how long."""

_LACKS_RIGHT = 'cannot create resource "pods/eviction"'
"""How the API server's role-based access control says no; admission says it otherwise."""

_UNTRIED = "the right to `create` `pods/eviction` is missing, so budgets and admission were not asked"
"""Not a failure: a user who only wants to look gives no such right."""


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """What to do next.

    done: it happened. refused: it definitely did not, and never will. blocked: a disruption budget allows it not now.
    throttled: the API server wants to be left alone. later: not now. unknown: look whether it happened, try again.
    strange: look whether it happened, and do not try again.
    """

    meaning: Literal["done", "refused", "blocked", "throttled", "later", "unknown", "strange"]
    verdict: Verdict | None = None
    """Set when done, refused or blocked: what is said if the intent ends here."""

    why: str = ""
    retry_after: float = 0.0
    budget: str = ""
    """The budget that blocks, if the answer names it."""

    operator: str = ""
    """What a person has to put right."""

    of_workload: bool = False
    """Who owns the workload has to put it right."""


def _refused(outcome: Outcome, detail: str, operator: str = "") -> Reading:
    return Reading(meaning="refused", verdict=Verdict(outcome=outcome, detail=detail), operator=operator)


def read_answer(
    status: int,
    message: str,
    *,
    disruption_budget: bool = False,
    budget: str = "",
    retry_after: float | None = None,
    dry_run: bool = False,
) -> Reading:
    """`status` 0: there was no answer.

    Source of the cases: kubernetes v1.36, pkg/registry/core/pod/storage/eviction.go, priority and fairness, and the
    table of `reliability.md` 6.
    """
    if status in (200, 201):
        return Reading(meaning="done", verdict=Verdict(outcome=Outcome.DRY_RUN if dry_run else Outcome.EVICTED))
    if status == 404:
        return _refused(Outcome.ALREADY_GONE, "the pod was gone")
    if status == 409 and "precondition" in message:
        return _refused(Outcome.UID_CHANGED, "another pod has its name")
    if status == 409:
        return Reading(meaning="later", why=f"conflict: {message}")
    if status == 429 and disruption_budget and not retry_after:
        return Reading(
            meaning="blocked",
            verdict=Verdict(outcome=Outcome.BLOCKED_PDB, detail=message),
            why=message,
            budget=budget,
        )
    if status == 429 and disruption_budget:
        # A budget that its controller has not looked at yet.
        return Reading(meaning="later", why=message, retry_after=retry_after or _PAUSE)
    if status == 429:
        return Reading(meaning="throttled", why=message or "too many requests", retry_after=retry_after or _PAUSE)
    if status == 403 and dry_run and _LACKS_RIGHT in message:
        return Reading(meaning="done", verdict=Verdict(outcome=Outcome.DRY_RUN, detail=_UNTRIED))
    if status == 403:
        advice = f"may not evict: {message}. Grant `create` on `pods/eviction`, or see which admission policy says no"
        return _refused(Outcome.FAILED, message, operator=advice)
    if status >= 500 and "more than one PodDisruptionBudget" in message:
        return Reading(
            meaning="refused", verdict=Verdict(outcome=Outcome.REJECTED_POLICY, detail=message), of_workload=True
        )
    if 400 <= status < 500:
        return _refused(Outcome.FAILED, f"{status}: {message}", operator=f"the API server refused: {status} {message}")
    meaning: Literal["unknown", "strange"] = "unknown" if status == 0 or status >= 500 else "strange"
    return Reading(meaning=meaning, why=f"{status or 'no answer'}: {message}")
