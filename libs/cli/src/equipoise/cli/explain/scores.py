"""Requests an explanation of scores from a scorer, and prints it."""

import asyncio
from collections.abc import Iterator

import click
import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from equipoise.cli.bus.cluster import TIMEOUT, BusCluster, bus_cluster
from equipoise.cli.bus.messages import send_request
from equipoise.cli.exit_codes import CommandFailed, InvalidInput
from equipoise.cli.explain.colocation import CoLocatedPod, read_co_located_pod
from equipoise.cli.explain.pod_hint import PodHint, placed_hint_text, read_pod_hint
from equipoise.cli.options import ClusterOptions, Output
from equipoise.cli.terminal import UNIT, amount, percent, percentages, print_result, table
from equipoise.contracts.bus.subjects import SCORE_EXPLAIN
from equipoise.contracts.messages.score import (
    BandExplanation,
    Correction,
    ExplainRequest,
    Explanation,
    NodeExplanation,
    WindowExplanation,
)
from equipoise.contracts.messages.values.resources import Resources
from equipoise.runtime.bus import BusError
from equipoise.runtime.configuration import Logging, Nats
from equipoise.runtime.kubernetes.client import KubeError
from equipoise.runtime.kubernetes.connection import connect_kube
from equipoise.runtime.process.clock import Clock, SystemClock
from equipoise.runtime.process.logging import configure_logging

NO_SCORER = "no scorer responds at {url}: check that one is running and ready (/readyz)"


def pod_request(name: str, node: str) -> ExplainRequest:
    """`name` is NAMESPACE/NAME, `node` may be empty. Raises InvalidInput."""
    namespace, pod = pod_name(name)
    return ExplainRequest(namespace=namespace, name=pod, node=node)


def pod_name(name: str) -> tuple[str, str]:
    """Namespace and name from NAMESPACE/NAME. Raises InvalidInput."""
    namespace, _, pod = name.partition("/")
    if not namespace or not pod or "/" in pod:
        raise InvalidInput(f"{name!r} is not a pod: use NAMESPACE/NAME, for example shop/web-5d8f7")
    return namespace, pod


class ShownExplanation(Explanation, frozen=True, kw_only=True):
    """The explanation, the cluster of the kubeconfig, and what this cluster knows about the pod."""

    cluster: BusCluster
    hint: PodHint | None = None
    hint_problem: str = ""
    """Why it is unknown whether the pod was created with a hint; empty if it is known."""

    co_located: CoLocatedPod | msgspec.UnsetType = msgspec.UNSET
    """The pod, if it requests reclaimed resources."""


async def run_explain(request: ExplainRequest, server: Nats, options: ClusterOptions, *, output: Output) -> None:
    """Run the command. Raises BusError, and CommandFailed if the scorer cannot explain."""
    configure_logging(Logging(level="error"), "explain")
    cluster = bus_cluster(options, server)
    explanation = await request_explanation(server, request)
    if explanation.problem:
        raise CommandFailed(explanation.problem)
    hint, problem = await _hint(request, options, cluster)
    clock = SystemClock()
    co_located = await _co_located(request, explanation, server, clock)
    shown = ShownExplanation(
        cluster=cluster, hint=hint, hint_problem=problem, co_located=co_located, **msgspec.structs.asdict(explanation)
    )

    def show_all(explanation: ShownExplanation, to: Console) -> None:
        to.print(Text(str(cluster)))
        if co_located is not msgspec.UNSET:
            to.print(Text(str(co_located)))
        show(explanation, to, request.node, wide=output == "wide", hint="" if hint is None else str(hint))

    print_result(shown, show_all, output=output)


async def request_explanation(server: Nats, request: ExplainRequest) -> Explanation:
    """The response of a scorer. Raises BusError."""
    no_scorer = NO_SCORER.format(url=server.shown_url)
    return await send_request(server, SCORE_EXPLAIN, request, Explanation, no_responder=no_scorer)


async def _co_located(
    request: ExplainRequest, explanation: Explanation, server: Nats, clock: Clock
) -> CoLocatedPod | msgspec.UnsetType:
    """The reclaimed resources that the pod requests of its node. Unset without co-location, or if they are unknown."""
    if not explanation.current_node:
        return msgspec.UNSET
    try:
        name = f"{request.namespace}/{request.name}"
        return await read_co_located_pod(server, explanation.current_node, name, clock) or msgspec.UNSET
    except BusError as error:
        click.echo(f"reclaimed resources are unknown: {error}", err=True)
        return msgspec.UNSET


async def _hint(request: ExplainRequest, options: ClusterOptions, cluster: BusCluster) -> tuple[PodHint | None, str]:
    """The hint with which the pod was created, or why the hint is unknown.

    The pod is read only if the bus and the kubeconfig belong to the same cluster.
    """
    if cluster.state != "confirmed":
        return None, cluster.why
    try:
        async with asyncio.timeout(TIMEOUT), connect_kube(options.connection(), "explain", SystemClock()) as kube:
            return await read_pod_hint(kube, request.namespace, request.name), ""
    except (KubeError, TimeoutError) as error:
        return None, str(error) or "no response"


MAX_ROWS = 10
"""The largest number of nodes in the ranking, not counting the pod's own node and the requested one.

With -o wide the ranking has all nodes.
"""


def show(
    explanation: Explanation, to: Console, requested_node: str = "", *, wide: bool = False, hint: str = ""
) -> None:
    """The ranking, and the inputs of the best node, of the pod's own node and of the requested node.

    `hint`: the hint with which the pod was created, if more is known of it than the explanation contains.
    """
    for line in _headline(explanation, hint or placed_hint_text(explanation.placed_hint)):
        to.print(line)
    if explanation.pod is not None:
        to.print()
        to.print(_ranking(explanation, requested_node, wide=wide))
    best = explanation.nodes[0].node if explanation.pod is not None and explanation.nodes else ""
    for node in explanation.nodes:
        if node.node in (best, explanation.current_node, requested_node):
            to.print()
            for part in _inputs(node, explanation):
                to.print(part)
    if explanation.rank_change is not None and explanation.pod is not None:
        to.print()
        to.print(Text.assemble(("Nearest change of the ranking: ", "bold"), explanation.rank_change.why))
    for note in explanation.notes:
        to.print(Text(f"Note: {note}", style="dim"))


def _headline(explanation: Explanation, hint: str) -> Iterator[Text]:
    pod = explanation.pod
    if pod is not None:
        workload = "" if pod.workload is None else f" of {pod.workload}"
        node = explanation.current_node
        placed = f", placed on {node} (its load there is scored without the pod)" if node else ""
        yield Text.assemble((f"{pod.namespace}/{pod.name}", "bold"), f"{workload}{placed}")
    if hint:
        yield Text(hint)
    expected = ", ".join(
        f"{amount(explanation.demand, resource)} {UNIT[resource]} ({source})"
        for resource, source in explanation.demand_sources.items()
    )
    subject = "" if pod is not None else " of a pod without requests"
    yield Text(f"expected usage{subject}: {expected}; sources in order of precedence: {', '.join(explanation.chain)}")
    target_load = f", target load {percentages(explanation.level)}" if explanation.level != Resources() else ""
    yield Text(f"policy {explanation.policy}{target_load}; {explanation.considered} nodes considered")
    if explanation.neutral:
        yield Text(f"all nodes get the same score: {explanation.why}", style="bold yellow")
    elif explanation.data_problem:
        yield Text(explanation.data_problem, style="bold yellow")


def _ranking(explanation: Explanation, requested_node: str, *, wide: bool) -> Table:
    parts = list(explanation.nodes[0].parts) if explanation.nodes else []
    rows = table(
        "", "node", "extender score>", "score>", *(f"{part}>" for part in parts), "window", "cpu load", "memory load",
        "sample age", "reason",
    )  # fmt: skip
    for node in explanation.nodes:
        if not wide and node.rank > MAX_ROWS and node.node not in (explanation.current_node, requested_node):
            continue
        window = _first_known_window(node, explanation)
        labels = [
            *(["best"] if node.rank == 1 and not explanation.neutral else []),
            *(["current"] if node.node == explanation.current_node else []),
        ]
        rows.add_row(
            ", ".join(labels),
            node.node,
            str(node.extender_score),
            f"{node.score:.1f}",
            *(f"{node.parts.get(part, 0.0):.1f}" for part in parts),
            "" if window is None else window.window,
            *("?" if window is None else _load_change(window, resource) for resource in UNIT),
            _age(node.age),
            node.why,
            style=_style(node, best="best" in labels),
        )
    return rows


def _style(node: NodeExplanation, *, best: bool) -> str:
    if best:
        return "bold green"
    return "red" if node.status in ("unknown", "avoided", "overfull") else ""


def _inputs(node: NodeExplanation, explanation: Explanation) -> Iterator[Text | Table]:
    """A table of the load: measured + arrived − departed + reserved, in cores and GiB, as a share of the base."""
    rank = f"rank {node.rank} of {explanation.considered}"
    scores = f"extender score {node.extender_score}, score {node.score:.1f}"
    yield Text.assemble((node.node, "bold"), f": {rank}, {scores}{'; ' if node.why else ''}{node.why}")
    if node.band is not None:
        yield Text(_band(node.band))
    batch_work = any(window.batch_work.count for window in node.windows)
    rows = table(
        "window", "", "measured>", "+ arrived>", "− departed>", *(["− batch work>"] if batch_work else []),
        "+ reserved>", "of>", "= load", "sample age"
    )  # fmt: skip
    for window in node.windows:
        for resource, unit in UNIT.items():
            first = resource == "cpu"
            rows.add_row(
                _window_name(window, explanation) if first else "",
                f"{resource}, {unit}",
                "?" if window.measured is None else amount(window.measured.mean, resource),
                _corrected(window.added, resource),
                _corrected(window.subtracted, resource),
                *([_corrected(window.batch_work, resource)] if batch_work else []),
                "–" if getattr(window.reserved, resource) is None else amount(window.reserved, resource),
                amount(node.base, resource),
                f"unknown: {window.unknown_reason}" if window.unknown_reason else _load_change(window, resource),
                f"{max(0.0, window.age):.1f} of {window.lifetime:.0f} s" if first and window.age is not None else "",
            )
        measured_to_of = [""] * (6 if batch_work else 5)  # statistics have only a load
        for name, value in window.statistics.items():
            if not window.unknown_reason:
                rows.add_row("", name, *measured_to_of, percentages(value), "")
    yield rows
    if node.further:
        yield Text(", ".join(f"{name} {percent(share)}" for name, share in sorted(node.further.items())))
    if node.total_load != Resources():
        yield Text(
            f"load of high-priority pods {percentages(node.high_priority_load)}, "
            f"of all pods {percentages(node.total_load)}: batch work gives way, so that it counts in part"
        )
    for title, corrections in (
        ("arrived", [window.added for window in node.windows]),
        ("departed", [window.subtracted for window in node.windows]),
        ("batch work", [window.batch_work for window in node.windows]),
    ):
        largest = max(corrections, key=lambda correction: correction.count, default=Correction())
        if largest.count:
            yield Text(f"{title}: {_pods(largest, explanation, on_this_node=node.node == explanation.current_node)}")
    if node.reserved_by_responses or node.reserved_for_replacements:
        yield Text(
            f"reserved: {node.reserved_by_responses} pods that may be placed here by the latest responses, "
            f"{node.reserved_for_replacements} expected replacements of evicted pods"
        )
    if (recent := node.recent) is not None:
        yield Text(
            f"pods are new here, so that the last {recent.length:.0f} s count where they are higher: "
            + ", ".join(f"{resource} {amount(recent.mean, resource)} {unit}" for resource, unit in UNIT.items())
        )
    yield Text(f"newest sample of the node: {_sample(node.age, node.lifetime)}")


def _band(band: BandExplanation) -> str:
    """`band batch: reclaimed 4.00 − requested 1.00 − reserved 0.00 − the pod = left 2.00 of 10.00 cores, …`."""
    if band.unknown_reason:
        return f"band {band.band}: unknown: {band.unknown_reason}"
    parts = [
        f"{resource} {amount(band.left, resource)} of {amount(band.capacity, resource)} {unit}, of "
        f"{amount(band.reclaimed, resource)} reclaimed with {amount(band.requested, resource)} requested and "
        f"{amount(band.reserved, resource)} reserved"
        for resource, unit in UNIT.items()
    ]
    evaluated = "" if band.age is None else f"; evaluated {_age(band.age)} ago"
    return f"band {band.band}, for {band.hours:g} hours: left with the pod: {'; '.join(parts)}{evaluated}"


def _pods(correction: Correction, explanation: Explanation, *, on_this_node: bool) -> str:
    pod = explanation.pod
    own_name = "" if pod is None or not on_this_node else f"{pod.namespace}/{pod.name}"
    names = ", ".join(f"{name} (this pod)" if name == own_name else name for name in correction.pods)
    more = correction.count - len(correction.pods)
    return f"{names} and {more} more" if more > 0 else names


def _first_known_window(node: NodeExplanation, explanation: Explanation) -> WindowExplanation | None:
    """The first known window that the policy uses; otherwise the shortest known window."""
    known = {window.window: window for window in node.windows if not window.unknown_reason}
    return next((known[name] for name in (*explanation.windows_used, *known) if name in known), None)


def _window_name(window: WindowExplanation, explanation: Explanation) -> str:
    unused = explanation.windows_used and window.window not in explanation.windows_used
    return f"{window.window} (unused)" if unused else window.window


def _load_change(window: WindowExplanation, resource: str) -> str:
    """The present load, and the load with the pod."""
    return f"{percent(getattr(window.load, resource))} → {percent(getattr(window.load_with_pod, resource))}"


def _corrected(correction: Correction, resource: str) -> str:
    """`0.50 (2)`: the amount, and the number of pods."""
    return f"{amount(correction.amount, resource)} ({correction.count})" if correction.count else "–"


def _sample(age: float | None, lifetime: float) -> str:
    return f"{_age(age)} old, valid for {lifetime:.0f} s"


def _age(seconds: float | None) -> str:
    return "never" if seconds is None else f"{max(0.0, seconds):.1f} s"
