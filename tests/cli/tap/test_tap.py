"""`equipoise tap`: subscriptions and descriptions of messages."""

import asyncio
import os
import pty

import msgspec
import pytest
from builders import a_node_utilization, an_intent
from cli.buses import Bus
from cli.programs import PROGRAM

from equipoise.cli.exit_codes import InvalidInput
from equipoise.cli.tap.run import subscriptions_for
from equipoise.cli.tap.text import describe
from equipoise.contracts.bus.channels import CHANNELS
from equipoise.contracts.messages.annotation import AnnotationWritten
from equipoise.contracts.messages.consolidation import NODES_BEING_EMPTIED, NodesBeingEmptied
from equipoise.contracts.messages.eviction import EvictionIntent, EvictionOutcome
from equipoise.contracts.messages.health import EffectiveConfiguration, Heartbeat
from equipoise.contracts.messages.placement import PLACEMENT_HINTS, NodePlacement, PlacementHints
from equipoise.contracts.messages.reclaimed import RECLAIMED_NODE, ReclaimedNode
from equipoise.contracts.messages.utilization import NodeUtilization


def test_without_a_subject_every_channel_is_subscribed() -> None:
    """One subscription per channel."""
    assert [(channel.pattern, channel.message) for channel in CHANNELS] == subscriptions_for("")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("utilization.node.node-a", [("equipoise.utilization.node.node-a", NodeUtilization)]),
        ("equipoise.utilization.node.*", [("equipoise.utilization.node.*", NodeUtilization)]),
        (
            "eviction.>",
            [
                ("equipoise.eviction.intent.*.*", EvictionIntent),
                ("equipoise.eviction.outcome.*.*", EvictionOutcome),
            ],
        ),
        (
            "placement",
            [
                ("equipoise.placement.node.*", NodePlacement),
                ("equipoise.placement.hint.*", PlacementHints),
                ("equipoise.placement.emptying", NodesBeingEmptied),
            ],
        ),
        (
            "*.node.node-a",
            [
                ("equipoise.utilization.node.node-a", NodeUtilization),
                ("equipoise.placement.node.node-a", NodePlacement),
                ("equipoise.reclaim.node.node-a", ReclaimedNode),
                ("equipoise.annotation.node.node-a", AnnotationWritten),
                ("equipoise.health.node.node-a", Heartbeat),
                ("equipoise.configuration.node.node-a", EffectiveConfiguration),
            ],
        ),
        ("annotation.node.node-a", [("equipoise.annotation.node.node-a", AnnotationWritten)]),
    ],
)
def test_a_pattern_subscribes_to_the_channels_it_overlaps(given: str, expected: list[tuple[str, type]]) -> None:
    """The prefix is optional, and so is a trailing `.>`."""
    assert expected == subscriptions_for(given)


@pytest.mark.parametrize("subject", ["utilisation", "unknown.subject"])
def test_an_unknown_subject_is_invalid_input(subject: str) -> None:
    """The error lists the known ones."""
    with pytest.raises(InvalidInput, match=rf"'{subject}': use advice.cluster, .*eviction.intent"):
        subscriptions_for(subject)


async def test_a_terminal_shows_what_it_waits_for(bus: Bus) -> None:
    """Before the first message, which may take long."""
    ours, theirs = pty.openpty()
    access = ("--nats", bus.url, "--user", "tap", "--password-file", bus.password_file("tap"))
    process = await asyncio.create_subprocess_exec(
        *PROGRAM, "tap", "eviction", *access, stdout=theirs, stderr=theirs, env={**os.environ, "KUBECONFIG": "/nowhere"}
    )
    os.close(theirs)
    printed = ""
    try:
        async with asyncio.timeout(60):
            while "\n" not in printed:
                printed += (await asyncio.to_thread(os.read, ours, 1_000)).decode()
    finally:
        process.terminate()
        await process.wait()
        os.close(ours)

    assert f"waiting for messages of eviction at {bus.url} (Ctrl-C ends this)" == printed.strip()


def test_an_intent_is_described_by_source_target_and_reason() -> None:
    """In one line."""
    line = describe(an_intent())

    assert "evict from node-a, target node-b: node is hot: cpu 68.5% is above 50%" == line


def test_hints_are_described_by_the_best_node_and_numbers_of_nodes() -> None:
    """Of each workload."""
    assert "Deployment.web: best node-2.example.com, 1 preferred, 1 avoided" == describe(PLACEMENT_HINTS)
    assert "none" == describe(msgspec.structs.replace(PLACEMENT_HINTS, hints={}))


def test_nodes_that_are_being_emptied_are_described_with_the_reason() -> None:
    expected = "node-2.example.com is being emptied: its 6 pods fit on 4 other nodes"
    assert describe(NODES_BEING_EMPTIED) == expected
    assert describe(msgspec.structs.replace(NODES_BEING_EMPTIED, nodes=[])) == "no node"


def test_every_published_message_has_a_description() -> None:
    """Requests are not published: they are printed as JSON."""
    published = {channel.message for channel in CHANNELS if channel.responder is None}

    assert published <= describe.registry.keys()


def test_what_a_node_offers_is_described_by_band() -> None:
    assert describe(RECLAIMED_NODE).startswith("offered mid 0.50 cores, 6.00 GiB; batch 1.20 cores, 7.00 GiB")
    assert describe(msgspec.structs.replace(RECLAIMED_NODE, degraded="too old")).endswith("(too old)")


def test_an_unknown_value_is_shown_as_unknown() -> None:
    """Never as 0."""
    assert "5m ? cores, 4.00 GiB" in describe(a_node_utilization(cpu=None))


def test_a_sample_that_is_newer_than_its_query_has_no_negative_age() -> None:
    """Prometheus may ingest samples while it answers."""
    message = a_node_utilization()
    newer = msgspec.structs.replace(message, sampled_at=message.queried_at + 2)
    assert describe(newer).endswith("sample age 0.0 s)")
