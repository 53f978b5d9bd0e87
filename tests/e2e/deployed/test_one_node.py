"""One node's path through the whole loop, as `equipoise tap` and the node itself show it."""

import json
from collections import defaultdict

import pytest
from deployment.judging import Judged
from deployment.worlds import Run

from equipoise.contracts.kubernetes.annotations import LOAD

pytestmark = pytest.mark.timeout(600)

PATH = ("utilization.node.", "annotation.node.", "decision.scorer.", "eviction.intent.", "eviction.outcome.")


async def test_a_node_can_be_followed_from_its_load_to_the_pod_it_takes(run: Run, judged: Judged) -> None:
    """For one node the tap shows utilization, annotation, a score, an intent for it and its outcome, in this order."""
    seen: dict[str, dict[str, int]] = defaultdict(dict)
    for number, line in enumerate(run.said()):
        kind = next((kind for kind in PATH if line["subject"].startswith(f"equipoise.{kind}")), None)
        for node in nodes_of(kind, line["message"]) if kind else ():
            seen[node].setdefault(kind or "", number)
    whole = [node for node, kinds in seen.items() if set(kinds) == set(PATH)]
    assert whole, {node: list(kinds) for node, kinds in seen.items()}
    node = whole[0]
    order = seen[node]
    assert order[PATH[0]] < order[PATH[1]]
    assert order[PATH[0]] < order[PATH[3]] < order[PATH[4]]
    kept = await run.world.cluster.request("GET", f"/api/v1/nodes/{node}")
    load = json.loads(kept["metadata"]["annotations"][LOAD])
    assert 0 < load["windows"]["15m"]["mean"]["cpu"] < 1


def nodes_of(kind: str, message: dict[str, object]) -> list[str]:
    """Whom a message is about: for a move, the node that takes the pod."""
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
