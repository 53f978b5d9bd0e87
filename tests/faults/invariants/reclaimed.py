"""Reclaimed resources in the status of nodes."""

from equipoise.contracts.colocation.bands import RESOURCE_NAMES
from faults.history import Guarantees, History, ReclaimerWrite

NAMES = frozenset(name for names in RESOURCE_NAMES.values() for name in names)


def bound_pods_fit(history: History, guarantees: Guarantees) -> list[str]:
    """I21: no write offers less than bound pods request, and none removes what they request."""
    wrong = []
    for write in _executed(history):
        before = write.at - guarantees.offer_lag
        bound = [
            pod
            for pod in history.band_pods
            if pod.node == write.node and pod.at < before and (pod.ended_at is None or pod.ended_at > write.at)
        ]
        for name in NAMES & write.amounts.keys():
            needed, offered = sum(pod.amounts.get(name, 0.0) for pod in bound), write.amounts[name]
            if needed and (offered is None or offered < needed):
                wrong.append(f"{write.node}: {name} is {offered}, and bound pods request {needed:g} ({write.program})")
    return wrong


def nodes_are_no_smaller(history: History, guarantees: Guarantees) -> list[str]:
    """I22: no amount is negative or more than the node has."""
    return [
        f"{write.node}: {name} is {offered:g} ({write.program})"
        for write in _executed(history)
        for name, offered in write.amounts.items()
        if offered is not None and not 0 <= offered <= guarantees.node_amounts.get(name, 0.0)
    ]


def only_amounts_are_written(history: History, guarantees: Guarantees) -> list[str]:
    """I23: a reclaimer writes these four names in the status of nodes, and nothing else; refused writes count."""
    return [
        f"{write.program}: {write.verb} {write.resource} {write.node} {', '.join(write.others)}".rstrip()
        for write in history.reclaimer_writes
        if write.at >= history.since and (write.resource != "nodes/status" or write.verb != "patch" or write.others)
    ]


def _executed(history: History) -> list[ReclaimerWrite]:
    return [
        write
        for write in history.reclaimer_writes
        if write.at >= history.since and write.executed and write.resource == "nodes/status"
    ]
