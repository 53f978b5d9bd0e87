"""The figures of a campaign. Where pods were at any time is read from the audit log of the API server."""

from collections.abc import Iterator, Mapping, Sequence
from math import ceil
from typing import Any

import msgspec

from equipoise.cli.demo.figures import spread
from equipoise.cli.demo.surge.figures import SurgeResult, surge_sentence
from equipoise.cli.terminal import count
from equipoise.testbed.audit import Binding, LoggedEviction, PodWrite

FIRST_PART = 3
"""The spread is reported after one move in this many."""


class RebalanceResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a demo with a campaign. Spreads and deviations are percentage points of the CPU load of nodes."""

    nodes: int
    """Nodes at the end."""

    new_nodes: int
    """The nodes of `nodes` that joined without a pod."""

    pods: int
    time_factor: float
    limits: dict[str, Any]
    campaign: str
    ended: str
    """Why the campaign ended, in the words of the ledger."""

    planned_moves: int
    waves: int
    moves: int
    """Evictions that the API server carried out while it ran, and those of its moves that ended after it."""

    spread_before: float
    """Measured by Prometheus, with the new nodes, before Equipoise starts."""

    spread_planned: float | None
    spread_after: float
    """Measured when all of its moves had ended."""

    std_before: float
    std_after: float
    moves_until_half: int | None
    """Moves after which the spread was at most half of that at the start, by where the pods were. None: it never
    was."""

    spread_after_first_third: float | None
    """The same spread after the first third of the moves; None without a move."""

    campaign_seconds: float
    """The real seconds from its start to its end."""

    same_node_returns: int
    surge: SurgeResult
    seconds: float
    """Duration of the whole run, without building the testbed."""

    def encoded(self) -> str:
        """One JSON object on one line."""
        return msgspec.json.encode(self).decode()


Event = Binding | LoggedEviction | PodWrite


def placements(events: Sequence[Event], since: float) -> Iterator[Mapping[tuple[str, str], str]]:
    """The node of each pod by its namespace and name, at `since` (Unix seconds) and whenever a pod leaves after it.

    A pod that was detached is on its node until it is evicted. The same mapping is changed and yielded again.
    """
    node_of: dict[tuple[str, str], str] = {}
    begun = False
    for event in sorted(events, key=lambda event: event.time):
        if not begun and event.time.timestamp() >= since:
            begun = True
            yield node_of
        pod = event.namespace, event.pod
        if isinstance(event, Binding):
            node_of[pod] = event.node
        elif _leaves(event) and node_of.pop(pod, None) is not None and begun:
            yield node_of
    if not begun:
        yield node_of


def _leaves(event: LoggedEviction | PodWrite) -> bool:
    if isinstance(event, LoggedEviction):
        return event.succeeded
    return event.verb == "delete" and not event.subresource


def course(
    events: Sequence[Event], since: float, usage: Mapping[str, float], cores: Mapping[str, float]
) -> tuple[float, ...]:
    """The spread of the nodes at `since`, and after each pod that left later.

    `usage`: cores of one pod by `namespace/workload`; pods of other workloads count as idle. `cores`: those of each
    node.
    """
    spreads = []
    for node_of in placements(events, since):
        used = dict.fromkeys(cores, 0.0)
        for (namespace, pod), node in node_of.items():
            if node in used:
                used[node] += usage.get(f"{namespace}/{pod.rsplit('-', 2)[0]}", 0.0)
        spreads.append(spread({node: 100.0 * used[node] / number for node, number in cores.items()}))
    return tuple(spreads)


def until_half(spreads: Sequence[float]) -> int | None:
    """The number of moves after which the spread was first at most half of the first one; None if it never was."""
    return next((moves for moves, points in enumerate(spreads) if points <= spreads[0] / 2), None)


def after_first_third(spreads: Sequence[float]) -> float | None:
    """The spread after the first third of the moves; None without a move."""
    moves = len(spreads) - 1
    return spreads[ceil(moves / FIRST_PART)] if moves else None


def rebalance_sentences(result: RebalanceResult) -> list[str]:
    """What the demo prints at its end."""
    third = result.spread_after_first_third
    half = "never" if result.moves_until_half is None else f"after {count(result.moves_until_half, 'move')}"
    after = "" if third is None else f", and at {third:.0f} after a third of them"
    return [
        f"campaign {result.campaign}: {result.ended}, after {result.campaign_seconds:.0f} s and "
        f"{count(result.moves, 'move')} of {result.pods} pods (planned: {result.planned_moves} in "
        f"{count(result.waves, 'wave')}); {count(result.same_node_returns, 'replacement')} returned to the same node",
        f"by where the pods were, the spread was halved {half}{after}",
        surge_sentence(result.surge),
    ]
