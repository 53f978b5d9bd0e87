"""What an answer of the eviction API means."""

from typing import Literal

import msgspec

from equipoise.binder.doubts import Verdict
from equipoise.contracts.messages import Outcome

_PAUSE = 1.0
"""Seconds to wait when the API server wants to be left alone and does not say how long."""

_LACKS_RIGHT = 'cannot create resource "pods/eviction"'
"""How the API server's role-based access control says no; admission says it otherwise."""

_UNTRIED = "the right to `create` `pods/eviction` is missing, so budgets and admission were not asked"
"""Not a failure: a user who only wants to look gives no such right."""


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """done: the eviction happened. refused: it definitely did not. later: not now. unknown: look whether it did."""

    meaning: Literal["done", "refused", "later", "unknown"]
    verdict: Verdict | None = None
    """Set when done or refused."""

    why: str = ""
    retry_after: float = 0.0
    operator: str = ""
    """What a person has to put right."""


def _refused(outcome: Outcome, detail: str, operator: str = "") -> Reading:
    return Reading(meaning="refused", verdict=Verdict(outcome=outcome, detail=detail), operator=operator)


def read_answer(
    status: int,
    message: str,
    *,
    disruption_budget: bool = False,
    retry_after: float | None = None,
    dry_run: bool = False,
) -> Reading:
    """`status` 0: there was no answer.

    Source of the cases: kubernetes v1.36, pkg/registry/core/pod/storage/eviction.go, and priority and fairness.
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
        return _refused(Outcome.BLOCKED_PDB, message)
    if status == 429:
        # Flow control, or a budget that its controller has not looked at yet.
        return Reading(meaning="later", why=message or "too many requests", retry_after=retry_after or _PAUSE)
    if status == 403 and dry_run and _LACKS_RIGHT in message:
        return Reading(meaning="done", verdict=Verdict(outcome=Outcome.DRY_RUN, detail=_UNTRIED))
    if status == 403:
        advice = f"may not evict: {message}. Grant `create` on `pods/eviction`, or see which admission policy says no"
        return _refused(Outcome.FAILED, message, operator=advice)
    if status >= 500 and "more than one PodDisruptionBudget" in message:
        return _refused(Outcome.REJECTED_POLICY, message)
    if 400 <= status < 500:
        return _refused(Outcome.FAILED, f"{status}: {message}", operator=f"the API server refused: {status} {message}")
    return Reading(meaning="unknown", why=f"{status or 'no answer'}: {message}")
