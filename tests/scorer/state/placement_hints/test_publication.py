"""Which hints are published when."""

from collections.abc import Mapping

import msgspec
from builders import NOW, a_workload

from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.messages.placement import PlacementHints, WeightedNodes, WorkloadHint
from equipoise.runtime.bus.codec import MAX_PAYLOAD
from equipoise.scorer.state.placement_hints.publication import REPEAT_PERIOD, HintPublication

HINT = WorkloadHint(prefer=(WeightedNodes(weight=50, hostnames=("a",)),))
OTHER = WorkloadHint(prefer=(WeightedNodes(weight=50, hostnames=("b",)),))


def publish(
    publication: HintPublication, hints: Mapping[Workload, WorkloadHint], now: float = NOW, *, own: str = "shop"
) -> list[PlacementHints]:
    """Publish what is due."""
    due = [message for message in publication.due(hints, own.__eq__, now) if message is not None]
    for message in due:
        publication.on_published(message)
    return due


def test_hints_are_published_when_they_change() -> None:
    """And not before the repeat period without a change."""
    publication = HintPublication()

    assert [{"Deployment.web": HINT}] == [message.hints for message in publish(publication, {a_workload(): HINT})]
    assert [] == publish(publication, {a_workload(): HINT})
    assert [{"Deployment.web": OTHER}] == [message.hints for message in publish(publication, {a_workload(): OTHER})]


def test_unchanged_hints_are_repeated() -> None:
    """Who writes them sees that they are still computed."""
    publication = HintPublication()
    publish(publication, {a_workload(): HINT})

    [message] = publish(publication, {a_workload(): HINT}, NOW + REPEAT_PERIOD)

    assert message.computed_at == NOW + REPEAT_PERIOD


def test_a_namespace_whose_hints_are_gone_gets_one_empty_message() -> None:
    """Nobody follows an old one."""
    publication = HintPublication()
    publish(publication, {a_workload(): HINT})

    assert [{}] == [message.hints for message in publish(publication, {})]
    assert [] == publish(publication, {}, NOW + 2 * REPEAT_PERIOD)


def test_a_message_that_was_not_published_is_due_again() -> None:
    """The bus did not accept it."""
    publication = HintPublication()

    assert len(list(publication.due({a_workload(): HINT}, "shop".__eq__, NOW))) == 1
    assert len(publish(publication, {a_workload(): HINT})) == 1


def test_namespaces_of_other_replicas_are_not_published() -> None:
    """Also not emptied, when another replica takes a namespace over."""
    publication = HintPublication()
    publish(publication, {a_workload(): HINT})

    assert [] == publish(publication, {a_workload(): OTHER}, own="other")
    assert [] == publish(publication, {}, own="other")


def test_a_message_stays_below_the_limit_of_the_bus() -> None:
    """It has as many of the first hints as it holds."""
    names = tuple(f"ip-10-0-{number}.eu-central-1.compute.internal" for number in range(50))
    workloads = [a_workload(f"web-{number}") for number in range(500)]
    hints = {
        workload: WorkloadHint(prefer=(WeightedNodes(weight=50, hostnames=(f"own-{number}", *names[1:])),) * 4)
        for number, workload in enumerate(workloads)
    }

    [message] = publish(HintPublication(), hints)

    assert len(msgspec.json.encode(message)) < MAX_PAYLOAD
    assert [f"Deployment.web-{number}" for number in range(len(message.hints))] == list(message.hints)
    assert len(message.hints) > 50


def test_a_message_holds_a_hint_once_that_several_workloads_have() -> None:
    """And is published again when one of them gets another one."""
    publication = HintPublication()
    workloads = [a_workload(f"web-{number}") for number in range(3)]
    [message] = publish(publication, dict.fromkeys(workloads, HINT))

    assert ({}, (HINT,)) == (message.hints, message.shared)
    assert [] == publish(publication, dict.fromkeys(workloads, HINT))
    [message] = publish(publication, dict.fromkeys(workloads, HINT) | {workloads[0]: OTHER})
    assert ({"Deployment.web-0": OTHER}, (HINT,)) == (message.hints, message.shared)


def test_hints_that_were_published_while_a_clock_was_ahead_are_published_again() -> None:
    """Who writes them takes no message of the future, and their hints would expire."""
    publication = HintPublication()
    publish(publication, {a_workload(): HINT}, NOW + 31_536_000)

    [message] = publish(publication, {a_workload(): HINT})
    assert message.computed_at == NOW
