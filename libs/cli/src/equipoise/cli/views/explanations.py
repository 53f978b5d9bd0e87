"""What a click shows: facts and pods from the view, and the text of `equipoise explain`."""

import asyncio
import io
from collections.abc import Callable, Sequence
from typing import Literal, get_args

import msgspec
from rich.console import Console

from equipoise.cli.exit_codes import InvalidInput
from equipoise.cli.explain.eviction import NOT_ON_BUS, not_found, read_history, read_recorded_of
from equipoise.cli.explain.eviction import show as show_history
from equipoise.cli.explain.eviction_history import with_recorded
from equipoise.cli.explain.scores import pod_name, pod_request
from equipoise.cli.explain.scores import show as show_scores
from equipoise.cli.options import ClusterOptions
from equipoise.cli.terminal import VisibleConsole
from equipoise.cli.views.rows import NodeRow, PodRow
from equipoise.cli.views.state import LiveState
from equipoise.contracts.bus.subjects import SCORE_EXPLAIN
from equipoise.contracts.messages.score import ExplainRequest, Explanation
from equipoise.runtime.bus import Bus, BusError, NoResponders
from equipoise.runtime.configuration import Nats

Kind = Literal["node", "pod", "workload", "eviction"]
KINDS: Sequence[str] = get_args(Kind)

WIDTH = 118
TIMEOUT = 20.0
AT_ONCE = 4
"""Explanations in progress: each costs the scorer or the bus."""

MAX_PODS = 500


class Explained(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The response for one object."""

    kind: str
    name: str
    row: NodeRow | None = None
    facts: dict[str, str | float | None] = {}
    pods: list[PodRow] = []
    """Pods of a node or workload, at most 500, those of the highest usage first."""

    text: str = ""
    """The text as the command prints it, with the escape sequences of colors."""

    command: str = ""
    """The command that prints the same."""

    problem: str = ""
    """Why there is no text."""


class Explanations:
    """Computes explanations, a few at a time; further requests wait."""

    def __init__(
        self, state: LiveState, server: Nats, bus: Callable[[], Bus | None], options: ClusterOptions | None = None
    ) -> None:
        """`bus`: None while it is not connected. `options`: the cluster whose ledger and Events are read."""
        self._state, self._server, self._bus, self._options = state, server, bus, options
        self._slots = asyncio.Semaphore(AT_ONCE)

    async def of(self, kind: Kind, name: str) -> Explained:
        """The explanation of one object. Raises InvalidInput for an invalid name."""
        command = f"equipoise explain {kind} {name}"
        if kind == "workload":
            pods = await asyncio.to_thread(lambda: list(self._state.pods_of(name)))
            problem = "" if pods else "no pod of this workload is known"
            return Explained(kind=kind, name=name, pods=_largest(pods), problem=problem)
        found = Explained(kind=kind, name=name, command=command)
        if kind == "node":
            found = msgspec.structs.replace(found, **self._of_view(name))
        else:
            pod_name(name)  # raises InvalidInput
        try:
            async with asyncio.timeout(TIMEOUT), self._slots:
                text = await (self._history(name) if kind == "eviction" else self._scores(kind, name))
        except (BusError, TimeoutError) as error:
            return msgspec.structs.replace(found, problem=str(error) or f"no response within {TIMEOUT:g} s")
        return msgspec.structs.replace(found, **text)

    def _of_view(self, name: str) -> dict[str, object]:
        node = self._state.node(name)
        if node is None:
            return {"problem": "this node is not known"}
        return {"row": self._state.row(name), "facts": node.facts(), "pods": _largest(list(node.pods()))}

    async def _scores(self, kind: Kind, name: str) -> dict[str, str]:
        request = ExplainRequest(node=name) if kind == "node" else pod_request(name, "")
        bus = self._bus()
        if bus is None:
            return {"problem": "the bus is not connected"}
        try:
            explanation = await bus.request(SCORE_EXPLAIN, request, Explanation, timeout=TIMEOUT)
        except NoResponders:
            return {"problem": "no scorer responds: check that one is running and ready (/readyz)"}
        if explanation.problem:
            return {"problem": explanation.problem}
        return {"text": _text(lambda to: show_scores(explanation, to, request.node))}

    async def _history(self, name: str) -> dict[str, str]:
        namespace, pod = pod_name(name)
        found, searched = await read_history(namespace, pod, self._server), [NOT_ON_BUS]
        if self._options is not None:
            recorded = await read_recorded_of(self._options, namespace, pod)
            found, searched = with_recorded(found, recorded.evictions), [NOT_ON_BUS, *recorded.searched]
        if found.empty:
            return {"problem": not_found(name, searched)}
        return {"text": _text(lambda to: show_history(found, to))}


def kind_of(text: str) -> Kind:
    """Raises InvalidInput."""
    for kind in get_args(Kind):
        if kind == text:
            return kind  # type: ignore[no-any-return]  # get_args has no types
    raise InvalidInput(f"{text!r} cannot be explained: {', '.join(KINDS)} can")


def _text(show: Callable[[Console], object]) -> str:
    file = io.StringIO()
    show(VisibleConsole(file=file, width=WIDTH, force_terminal=True, color_system="standard"))
    return file.getvalue()


def _largest(pods: list[PodRow]) -> list[PodRow]:
    return sorted(pods, key=lambda pod: -(pod.cpu or 0.0))[:MAX_PODS]
