"""Why a pod goes where: asks the scorer, and shows what its answer stands on."""

import asyncio
from collections.abc import Iterator

import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from equipoise.cli.endings import WrongInput
from equipoise.cli.telling import UNIT, amount, console, percent
from equipoise.contracts.bus.subjects import SCORE_EXPLAIN
from equipoise.contracts.messages.explanation import (
    Correction,
    ExplainRequest,
    Explanation,
    NodeExplanation,
    WindowExplanation,
)
from equipoise.contracts.messages.resources import Resources
from equipoise.runtime.bus import BusUnavailable, NoAnswer, connect
from equipoise.runtime.configuration import Logging, Nats
from equipoise.runtime.process.clock import SystemClock
from equipoise.runtime.process.logging import configure_logging

TIMEOUT = 20.0
"""Seconds for the bus and the scorer together; an answer takes milliseconds, a second attempt to connect seconds."""

_SHOWN = 10


def question_about_pod(name: str, node: str) -> ExplainRequest:
    """`name` is NAMESPACE/NAME, `node` may be empty. Raises WrongInput."""
    namespace, pod = pod_named(name)
    return ExplainRequest(namespace=namespace, name=pod, node=node)


def pod_named(name: str) -> tuple[str, str]:
    """Namespace and name of a pod as people write it: NAMESPACE/NAME. Raises WrongInput."""
    namespace, _, pod = name.partition("/")
    if not namespace or not pod or "/" in pod:
        raise WrongInput(f"{name!r} names no pod: NAMESPACE/NAME, as in shop/web-5d8f7")
    return namespace, pod


async def run_explain(question: ExplainRequest, server: Nats, *, as_json: bool) -> str:
    """The command; what keeps it from explaining, empty when nothing does. Raises BusError when nobody answers."""
    configure_logging(Logging(level="error"), "explain")
    explanation = await answer_of(question, server)
    if explanation.problem:
        return explanation.problem
    if as_json:
        print(msgspec.json.encode(explanation).decode())
    else:
        show(explanation, console(), question.node)
    return ""


async def answer_of(question: ExplainRequest, server: Nats) -> Explanation:
    """Ask. Raises BusError when nobody answers in time."""
    try:
        async with asyncio.timeout(TIMEOUT), connect(server, "tap", clock=SystemClock()) as bus:
            return await bus.request(SCORE_EXPLAIN, question, Explanation, timeout=TIMEOUT)
    except TimeoutError:
        raise BusUnavailable(
            f"nobody lets us in at {server.url} within {TIMEOUT:g} s: is NATS there (--nats), and is it the right user?"
        ) from None
    except NoAnswer:
        raise NoAnswer(f"no scorer answers at {server.url}: is one running, and ready (its /readyz)?") from None


def show(explanation: Explanation, to: Console, asked_node: str = "") -> None:
    """For people: the pod, its nodes from the best down, and of the best, its own and the one asked about all."""
    for line in _headline(explanation):
        to.print(line)
    if explanation.pod is not None:
        to.print()
        to.print(_ranking(explanation, asked_node))
    best = explanation.nodes[0].node if explanation.pod is not None and explanation.nodes else ""
    for node in explanation.nodes:
        if node.node in (best, explanation.current_node, asked_node):
            to.print()
            for part in _details(node, explanation):
                to.print(part)
    if explanation.rank_change is not None and explanation.pod is not None:
        to.print()
        to.print(Text.assemble(("What would change the order: ", "bold"), explanation.rank_change.why))
    for note in explanation.notes:
        to.print(Text(f"Note: {note}", style="dim"))


def _headline(explanation: Explanation) -> Iterator[Text]:
    pod = explanation.pod
    if pod is not None:
        workload = "" if pod.workload is None else f" of {pod.workload}"
        runs_on = f", scored without itself on {explanation.current_node}" if explanation.current_node else ""
        yield Text.assemble((f"{pod.namespace}/{pod.name}", "bold"), f"{workload}{runs_on}")
    expected = ", ".join(
        f"{_amount(explanation.demand, resource)} {UNIT[resource]} ({source})"
        for resource, source in explanation.demand_sources.items()
    )
    who = "expects" if pod is not None else "scored for a pod that asks for nothing:"
    yield Text(f"{who} {expected}; asked in this order: {', '.join(explanation.chain)}")
    level = f", leads nodes to {_both(explanation.level)}" if explanation.level != Resources() else ""
    yield Text(f"policy {explanation.policy}{level}; {explanation.considered} nodes considered")
    if explanation.neutral:
        yield Text(f"every node is told the same: {explanation.why}", style="bold yellow")
    elif explanation.data_problem:
        yield Text(explanation.data_problem, style="bold yellow")


def _ranking(explanation: Explanation, asked_node: str) -> Table:
    table = _table("", "node", "answer>", "score>")
    parts = list(explanation.nodes[0].parts) if explanation.nodes else []
    for part in parts:
        table.add_column(part, justify="right")
    for name in ("window", "cpu load", "memory load", "sample"):
        table.add_column(name)
    table.add_column("why", overflow="fold")
    for node in explanation.nodes:
        if node.rank > _SHOWN and node.node not in (explanation.current_node, asked_node):
            continue
        window = _telling(node, explanation)
        marks = [
            *(["best"] if node.rank == 1 and not explanation.neutral else []),
            *(["here"] if node.node == explanation.current_node else []),
        ]
        table.add_row(
            " ".join(marks),
            node.node,
            str(node.extender_score),
            f"{node.score:.1f}",
            *(f"{node.parts.get(part, 0.0):.1f}" for part in parts),
            "" if window is None else window.window,
            *("?" if window is None else _then(window, resource) for resource in UNIT),
            _seconds(node.age),
            node.why,
            style=_style(node, best="best" in marks),
        )
    return table


def _style(node: NodeExplanation, *, best: bool) -> str:
    if best:
        return "bold green"
    return "red" if node.status in ("unknown", "avoided", "overfull") else ""


def _details(node: NodeExplanation, explanation: Explanation) -> Iterator[Text | Table]:
    """Where its numbers come from: measured + arrived − left + booked, as cores and GiB, of its base."""
    place = f"rank {node.rank} of {explanation.considered}, answer {node.extender_score}, score {node.score:.1f}"
    yield Text.assemble((node.node, "bold"), f": {place}{'; ' if node.why else ''}{node.why}")
    table = _table("window", "", "measured>", "+ arrived>", "− left>", "+ booked>", "of>", "= load", "sample")
    for window in node.windows:
        for resource, unit in UNIT.items():
            first = resource == "cpu"
            table.add_row(
                _label(window, explanation) if first else "",
                f"{resource}, {unit}",
                "?" if window.measured is None else _amount(window.measured.mean, resource),
                _corrected(window.added, resource),
                _corrected(window.subtracted, resource),
                _amount(window.reserved, resource, nothing="–"),
                _amount(node.base, resource),
                f"unknown: {window.unknown_reason}" if window.unknown_reason else _then(window, resource),
                f"{_seconds(window.age)} old, good for {window.lifetime:.0f} s"
                if first and window.age is not None
                else "",
            )
        for name, value in window.statistics.items():
            if not window.unknown_reason:
                table.add_row("", name, "", "", "", "", "", _both(value), "")
    yield table
    pod, here = explanation.pod, node.node == explanation.current_node
    itself = "" if pod is None else f"{pod.namespace}/{pod.name}"
    for title, corrections in (
        ("arrived", [window.added for window in node.windows]),
        ("left", [window.subtracted for window in node.windows]),
    ):
        most = max(corrections, key=lambda each: each.count, default=Correction())
        if most.count:
            more = f" and {most.count - len(most.pods)} more" if most.count > len(most.pods) else ""
            names = (f"{name} (itself)" if here and name == itself else name for name in most.pods)
            yield Text(f"{title}: {', '.join(names)}{more}")
    if node.reserved_by_responses or node.reserved_for_replacements:
        yield Text(
            f"booked: {node.reserved_by_responses} pods that were told of it and are not heard to be placed, "
            f"{node.reserved_for_replacements} replacements of evicted pods on their way"
        )
    yield Text(f"newest sample of the node: {_seconds(node.age)} old, good for {node.lifetime:.0f} s")


def _table(*columns: str) -> Table:
    """Columns that end in `>` are numbers."""
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
    for column in columns:
        table.add_column(column.rstrip(">"), justify="right" if column.endswith(">") else "left", no_wrap=True)
    return table


def _telling(node: NodeExplanation, explanation: Explanation) -> WindowExplanation | None:
    """The first window that the policy looks at and knows, else the shortest known."""
    known = {window.window: window for window in node.windows if not window.unknown_reason}
    return next((known[name] for name in (*explanation.windows_used, *known) if name in known), None)


def _label(window: WindowExplanation, explanation: Explanation) -> str:
    unused = explanation.windows_used and window.window not in explanation.windows_used
    return f"{window.window} (unused)" if unused else window.window


def _then(window: WindowExplanation, resource: str) -> str:
    """Load now, and with the pod."""
    return f"{percent(getattr(window.load, resource))} → {percent(getattr(window.load_with_pod, resource))}"


def _both(load: Resources) -> str:
    return ", ".join(f"{resource} {percent(getattr(load, resource))}" for resource in UNIT)


def _amount(resources: Resources, resource: str, *, nothing: str = "?") -> str:
    return nothing if getattr(resources, resource) is None else amount(resources, resource)


def _corrected(correction: Correction, resource: str) -> str:
    """`0.50 (2)`: so much, of two pods."""
    return f"{_amount(correction.amount, resource)} ({correction.count})" if correction.count else "–"


def _seconds(age: float | None) -> str:
    return "never" if age is None else f"{age:.1f} s"
