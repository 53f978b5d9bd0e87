"""Laws that the scoring state keeps with every scoring policy of the table: fast ways have the results of slow ones."""

import json
from collections.abc import Sequence

import msgspec
import numpy as np
import pytest
from builders import GIB, NOW, a_batch_pod, a_node_utilization, a_placed_pod, a_placement, a_workload_utilization
from hypothesis import given, settings
from hypothesis import strategies as st
from scorer.clusters import a_cycle
from scorer.example_policies import EXAMPLES
from scorer.extender_bodies import a_body

from equipoise.contracts.configuration.settings import LoadSettings
from equipoise.contracts.messages.placement import GonePod, PlacedPod
from equipoise.contracts.messages.utilization import NodeUtilization, RecentUsage, WindowUsage
from equipoise.contracts.messages.values.resources import Resources
from equipoise.scorer.decisions.extender_protocol import parse_request, write_priorities
from equipoise.scorer.decisions.policies import ScoringPolicy
from equipoise.scorer.decisions.scoring_settings import ScoringSettings
from equipoise.scorer.state.scoring_state import ScoringState

NODES = ("node-a", "node-b", "node-c", "node-d")

every_policy = pytest.mark.parametrize("policy", EXAMPLES.values(), ids=EXAMPLES)

amounts = st.builds(
    Resources,
    cpu=st.one_of(st.none(), st.sampled_from([0.0, 9.0]), st.floats(0, 12)),
    memory=st.one_of(st.none(), st.floats(0, 70 * GIB)),
)
times = st.one_of(st.just(NOW), st.floats(NOW - 4_000, NOW + 100))
windows = st.builds(WindowUsage, sampled_at=times, mean=amounts, p95=amounts, max=amounts, deviation=amounts)
measurements = st.builds(
    a_node_utilization,
    st.sampled_from(NODES),
    uid=st.sampled_from([f"uid-{node}" for node in NODES]),
    base=st.sampled_from([Resources(cpu=10.0, memory=64 * GIB), Resources(cpu=4.0, memory=0.0), Resources(cpu=8.0)]),
    sampled_at=times,
    windows=st.dictionaries(st.sampled_from(["5m", "15m", "1h", "1d", "7d"]), windows),
    system=amounts,
    pods=st.dictionaries(st.sampled_from(["uid-web-1", "uid-new", "uid-job"]), amounts),
    recent=st.one_of(st.none(), st.builds(RecentUsage, length=st.just(60.0), sampled_at=times, mean=amounts)),
    sequence=st.integers(1, 3),
)
placed = st.lists(
    st.sampled_from(
        [
            a_placed_pod("web-1"),
            a_placed_pod("new", placed_at=NOW - 100, running_since=NOW - 90),
            a_placed_pod("waiting", placed_at=NOW - 10, running_since=None, workload=None),
            a_placed_pod("ending", terminating=True, terminates_at=NOW + 10),
            a_batch_pod("job"),
        ]
    ),
    unique_by=lambda pod: pod.uid,
)
gone = st.builds(
    GonePod,
    uid=st.just("uid-gone"),
    namespace=st.just("shop"),
    name=st.just("gone"),
    running_since=st.just(NOW - 3_000),
    gone_at=st.floats(NOW - 200, NOW),
    usage=amounts,
)


def a_state(policy: ScoringPolicy, pods: dict[str, list[PlacedPod]], left: Sequence[GonePod] = ()) -> ScoringState:
    """A workload with a profile, and placements of all nodes but the last one."""
    state = ScoringState(LoadSettings(), ScoringSettings(policy=policy))
    day = [0.5] * 12 + [1.5] * 12
    state.nodes.on_workload(a_workload_utilization(profile={"cpu": day, "memory": [GIB] * 24}), NOW)
    for node in NODES[:-1]:
        state.on_placement(a_placement(node, pods.get(node, []), gone=list(left)), NOW)
    state.on_cycle(a_cycle(1), NOW)
    return state


def everything(state: ScoringState) -> list[bytes]:
    """All that a policy may read of each node, bit for bit. The order of the rows may differ, and with it the rounding
    of the cluster's mean."""
    nodes = state.inputs(parse_request(json.dumps(a_body()).encode()).pod, NODES, NOW)[1]
    cluster = nodes.cluster.load
    known = np.sort(cluster[~np.isnan(cluster).all(axis=(1, 2))], axis=0)
    arrays = [nodes.load, nodes.base, nodes.requests, nodes.limits, nodes.recent_placements, known]
    arrays += [*nodes.statistics.values(), *([] if nodes.waiting is None else [nodes.waiting])]
    if nodes.daily is not None:
        arrays += [nodes.daily.share, nodes.daily.peak]
    return [np.ascontiguousarray(array).tobytes() for array in arrays]


@every_policy
@settings(max_examples=15)
@given(messages=st.lists(measurements, max_size=8), pods=placed, left=st.lists(gone, max_size=1))
def test_many_messages_at_once_have_the_result_of_one_after_the_other(
    policy: ScoringPolicy, messages: list[NodeUtilization], pods: list[PlacedPod], left: list[GonePod]
) -> None:
    """Outdated ones, several of a node, those of an earlier machine and of an unknown node among them."""
    together, alone = (a_state(policy, {"node-a": pods, "node-b": pods[:1]}, left) for _ in range(2))

    used = together.nodes.on_utilizations(messages, NOW)

    assert used == [alone.nodes.on_utilization(message, NOW) for message in messages]
    assert everything(together) == everything(alone)


names = st.lists(st.sampled_from([*NODES, "nowhere", 'quoted"', "nöde"]), min_size=1, max_size=6)


@every_policy
@settings(max_examples=15)
@given(requests=st.lists(st.tuples(names, measurements), min_size=1, max_size=4))
def test_responses_are_the_same_when_rows_are_found_while_parsing(
    policy: ScoringPolicy, requests: list[tuple[list[str], NodeUtilization]]
) -> None:
    """Repeated and unknown names, names that JSON escapes, and nodes that change between two requests among them."""
    fast, slow = a_state(policy, {}), a_state(policy, {})
    for number, (candidates, message) in enumerate(requests):
        body = json.dumps(a_body(NodeNames=candidates), ensure_ascii=number % 2 == 0).encode()
        for state in (fast, slow):
            state.nodes.on_utilization(message, NOW)
        request, plain = parse_request(body, fast.nodes.rows), parse_request(body)
        scores = fast.prioritize(request.pod, request.names, NOW, rows=request.rows).scores.scores
        expected = slow.prioritize(plain.pod, plain.names, NOW).scores.scores

        response = write_priorities(request.names, scores, plain=request.plain)

        assert request.names == plain.names
        assert response == write_priorities(plain.names, expected)
        hosts = [host["Host"] for host in msgspec.json.decode(response)]
        assert hosts == list(dict.fromkeys(candidates))
