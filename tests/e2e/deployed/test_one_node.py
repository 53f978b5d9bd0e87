"""All messages about one node, as `equipoise tap` shows them, and its annotation."""

import json
from collections import defaultdict

import pytest
from deployment.installation import Installation
from deployment.restarts import RunResult

from equipoise.contracts.kubernetes.annotations import LOAD

pytestmark = pytest.mark.timeout(600)

PATH = ("utilization.node.", "annotation.node.", "decision.scorer.", "eviction.intent.", "eviction.outcome.")


async def test_a_node_is_measured_annotated_scored_and_chosen_as_target(
    installation: Installation, result: RunResult
) -> None:
    """For one node the tap shows utilization, annotation, a score, an intent for it and its outcome, in this order."""
    first: dict[str, dict[str, int]] = defaultdict(dict)
    for number, line in enumerate(installation.messages()):
        kind = next((kind for kind in PATH if line["subject"].startswith(f"equipoise.{kind}")), None)
        for node in nodes_of(kind, line["message"]) if kind else ():
            first[node].setdefault(kind or "", number)
    complete = [node for node, kinds in first.items() if set(kinds) == set(PATH)]
    assert complete, {node: list(kinds) for node, kinds in first.items()}
    # The tap may have begun between the first utilization of a node and its annotation.
    in_order = [
        node
        for node in complete
        if first[node][PATH[0]] < min(first[node][PATH[1]], first[node][PATH[3]])
        and first[node][PATH[3]] < first[node][PATH[4]]
    ]
    assert in_order, {node: first[node] for node in complete}
    node = in_order[0]
    document = await installation.deployed.cluster.request("GET", f"/api/v1/nodes/{node}")
    load = json.loads(document["metadata"]["annotations"][LOAD])
    assert 0 < load["windows"]["15m"]["mean"]["cpu"] < 1


def nodes_of(kind: str, message: dict[str, object]) -> list[str]:
    """The nodes of a message; for an intent or outcome, the target."""
    match kind:
        case "utilization.node.":
            return [str(message["node"])]
        case "annotation.node.":
            return [str(message["object"]).removeprefix("node/")]
        case "decision.scorer.":
            best = message["best"]
            assert isinstance(best, list)
            return [entry["node"] for entry in best if entry["extender_score"] == 10]
        case _:
            return [str(message["target"])]
