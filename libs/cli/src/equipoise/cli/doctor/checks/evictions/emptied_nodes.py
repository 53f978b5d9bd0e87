"""Looks for nodes with the taint of consolidation that are not being emptied any more."""

from collections.abc import Iterator, Mapping, Sequence

from equipoise.cli.bus.emptied_nodes import read_emptied
from equipoise.cli.doctor.environment import Environment, Finding
from equipoise.cli.terminal import count, listed
from equipoise.contracts.kubernetes.nodes.consolidation_taint import CONSOLIDATION, is_consolidation, tainted_text
from equipoise.contracts.kubernetes.objects.node import Node, Taint
from equipoise.contracts.messages.consolidation import NodeBeingEmptied
from equipoise.runtime.bus import BusError
from equipoise.runtime.kubernetes.client import KubeError

SUBJECT = "nodes being emptied"
MOST_NAMED = 5


async def emptied_nodes(environment: Environment) -> list[Finding]:
    try:
        nodes = await environment.nodes()
    except KubeError as error:
        return [Finding("unknown", SUBJECT, f"not checked: {error}")]
    tainted = [node for node in nodes if any(taint.key == CONSOLIDATION for taint in node.spec.taints)]
    if not tainted:
        return [Finding("ok", SUBJECT, f"no node has the taint {CONSOLIDATION}")]
    emptied, problem = list[NodeBeingEmptied](), environment.nats_problem
    if not problem:
        try:
            emptied = await read_emptied(environment.settings.shared.nats, environment.clock)
        except BusError as error:
            problem = str(error)
    if problem:
        names = listed([node.metadata.name for node in tainted], MOST_NAMED)
        message = f"{names} with the taint {CONSOLIDATION}; whether they are being emptied is unknown: {problem}"
        return [Finding("unknown", SUBJECT, message)]
    return taint_findings(tainted, {node.uid: node for node in emptied})


def taint_findings(nodes: Sequence[Node], emptied: Mapping[str, NodeBeingEmptied]) -> list[Finding]:
    """Findings about these nodes, which have the taint. `emptied`: the nodes that are being emptied, by UID."""
    current = [node for node in nodes if node.metadata.uid in emptied]
    findings = [Finding("ok", SUBJECT, f"{count(len(current), 'node')} being emptied")] if current else []
    for node in nodes:
        for taint in node.spec.taints:
            if taint.key == CONSOLIDATION:
                findings += _taint_findings(node, taint, is_emptied=node.metadata.uid in emptied)
    return findings


def _taint_findings(node: Node, taint: Taint, *, is_emptied: bool) -> Iterator[Finding]:
    if is_consolidation(taint) and is_emptied:
        return
    fix = f"kubectl taint nodes {node.metadata.name} {CONSOLIDATION}:{taint.effect}-"
    if is_consolidation(taint):
        message = (
            f"it is tainted as {tainted_text(node.spec.taints)}, and no descheduler is emptying it: a running "
            "annotator removes the taint within a minute"
        )
        fix = f"if the taint remains: {fix}"
    else:
        message = f"it has the taint {CONSOLIDATION} with the effect {taint.effect}, which Equipoise does not write"
    yield Finding("warning", f"node {node.metadata.name}", message, fix)
