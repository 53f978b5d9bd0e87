"""What `equipoise hints` and `explain pod` print. tests/e2e/test_placement_hints.py has an API server."""

import io
from datetime import UTC, datetime
from functools import partial
from typing import Any

import msgspec
import pytest
from builders import NOW, preferring
from cli.narrow import assert_never_cut
from rich.console import Console

from equipoise.cli.explain.pod_hint import PodHint, pod_hint
from equipoise.cli.hints.run import NamespaceHints, namespace_hints, show
from equipoise.cli.hints.state import hints_state, read_hints_state
from equipoise.contracts.hints.definition import GROUP, KIND
from equipoise.contracts.hints.hints_object import HintsObject, stored_hints
from equipoise.contracts.hints.policy import HINTED, NAME, UNSUPPORTED
from equipoise.contracts.hints.webhook import STATE, WebhookConfiguration, webhooks
from equipoise.contracts.kubernetes.mutating_policy import API_GROUP, POLICY_KIND
from equipoise.contracts.kubernetes.objects.metadata import Object, ObjectMeta
from equipoise.contracts.kubernetes.objects.pod import Pod, PodSpec
from equipoise.contracts.messages.health import EffectiveConfiguration
from equipoise.contracts.messages.placement import WeightedNodes, WorkloadHint
from equipoise.runtime.kubernetes.client import HINTS as PLACEMENT_HINTS
from equipoise.runtime.kubernetes.client import WEBHOOK_CONFIGURATIONS, mutating_bindings, mutating_policies
from equipoise.runtime.process.clock import Clock, SystemClock
from equipoise.testbed.memory.clock import ManualClock
from equipoise.testbed.memory.kube import MemoryKube

FIVE = WeightedNodes(weight=50, hostnames=("a", "b", "c", "d", "e"))
HINTS = {
    "Deployment.web": WorkloadHint(prefer=(FIVE, WeightedNodes(weight=12, hostnames=("b", "f")))),
    "StatefulSet.web": WorkloadHint(avoid=FIVE),
    "Job.import": WorkloadHint(prefer=(FIVE,)),
}


def stored() -> HintsObject:
    return msgspec.structs.replace(
        stored_hints(HINTS, 10_000),
        metadata=ObjectMeta(resource_version="812"),
        until=datetime.fromtimestamp(NOW + 200, UTC),
    )


@pytest.mark.parametrize(
    ("workload", "keys"),
    [
        ("", [*HINTS]),
        ("web", ["Deployment.web", "StatefulSet.web"]),
        ("Job.import", ["Job.import"]),
        ("import", ["Job.import"]),
        ("we", []),
    ],
)
def test_a_workload_is_found_by_its_name(workload: str, keys: list[str]) -> None:
    """Or by kind and name; without any, all of the namespace are shown."""
    found = namespace_hints(stored(), "shop", workload, NOW)

    assert {key: HINTS[key] for key in keys} == found.hints
    assert "812" == found.version


def printed(found: NamespaceHints, now: float, *, wide: bool = False) -> str:
    output = io.StringIO()
    show(found, Console(file=output, width=200), wide=wide, now=now)
    return output.getvalue()


def test_no_terminal_is_too_narrow_for_hints() -> None:
    """Names of nodes are the values of labels, of up to 63 characters."""
    long = WeightedNodes(weight=50, hostnames=tuple(name * 63 for name in "abcde"))
    found = msgspec.structs.replace(
        namespace_hints(stored(), "shop", "", NOW), hints={f"Deployment.{63 * 'w'}": WorkloadHint(prefer=(long,))}
    )
    assert_never_cut(partial(show, wide=True, now=NOW), found)


def test_the_nodes_with_the_highest_weights_are_shown() -> None:
    """The weight of a node is the sum of its terms. With -o wide all nodes are shown."""
    found = namespace_hints(stored(), "shop", "", NOW)
    text = printed(found, NOW)

    assert "shop, version 812, until 2027-01-15 08:03:20 UTC (valid for 3.3 min)" in text
    assert "Deployment.web   prefer      6  b 62, a 50, c 50, …" in text
    assert "StatefulSet.web  avoid       5  a 50, b 50, c 50, …" in text
    assert "b 62, a 50, c 50, d 50, e 50, f 12" in printed(found, NOW, wide=True)


def test_expired_hints_are_named_as_such() -> None:
    found = namespace_hints(stored(), "shop", "web", NOW + 260)

    assert found.expired
    assert "(expired 60 s ago: new pods get none)" in printed(found, NOW + 260)


@pytest.mark.parametrize(
    ("hostname", "weight", "text"),
    [
        ("a", 50, "its node is preferred with weight 50"),
        ("b", 70, "its node is preferred with weight 70"),
        ("d", -30, "its node is avoided with weight 30"),
        ("x", 0, "its node is neither"),
        (None, None, "2 nodes preferred, 1 avoided"),
    ],
)
def test_whether_a_pod_followed_its_hint_is_known_from_the_pod(
    hostname: str | None, weight: int | None, text: str
) -> None:
    """Also when its hints have changed since. Preferences of the user for other labels are none of the hint."""
    host = "kubernetes.io/hostname"
    affinity = preferring(
        (7, "disk", "In", ["a"]),
        (50, host, "In", ["a", "b"]),
        (20, host, "In", ["b"]),
        (30, host, "NotIn", ["d"]),
    )
    metadata = ObjectMeta(annotations={HINTED: "Deployment.web@812"})
    found = pod_hint(Pod(metadata=metadata, spec=PodSpec(affinity=affinity)), hostname)

    assert PodHint(workload="Deployment.web", version="812", preferred=2, avoided=1, node_weight=weight) == found
    assert str(found).startswith("created with the placement hint of Deployment.web: 2 nodes preferred, 1 avoided")
    assert str(found).endswith(text)


LONG_AGO = 1_000_000_000.0


def kube_with(*installed: str, clock: Clock | None = None, created: float = LONG_AGO) -> MemoryKube:
    """`installed`: kind, policy, binding. `created`: when the policy was created."""
    kube = MemoryKube(clock or SystemClock())
    at = datetime.fromtimestamp(created, UTC)
    kube.served = {(API_GROUP, POLICY_KIND): ["v1"]} | ({(GROUP, KIND): ["v1alpha1"]} if "kind" in installed else {})
    policies = mutating_policies("v1")
    if "policy" in installed:
        kube.put(policies, Object(metadata=ObjectMeta(name=NAME, creation_timestamp=at)))
    if "binding" in installed:
        kube.put(mutating_bindings("v1"), Object(metadata=ObjectMeta(name=NAME)))
    return kube


ALL = ("kind", "policy", "binding")
MISSING = (
    "without effect (there is no MutatingAdmissionPolicy equipoise-hints, or no binding of it, and no webhook in its "
    "place)"
)


@pytest.mark.parametrize(
    ("installed", "shown"),
    [
        ((), "off"),
        (("kind",), MISSING),
        (ALL[:2], MISSING),
        (ALL, "without effect (none were written: `equipoise doctor` finds why)"),
    ],
)
async def test_the_state_of_hints_names_what_is_missing(installed: tuple[str, ...], shown: str) -> None:
    assert shown == str(await read_hints_state(kube_with(*installed), SystemClock()))


@pytest.mark.parametrize(
    ("age", "started", "interval", "due_in"),
    [
        (30.0, None, "15s", "105 s"),
        (900.0, 20.0, "15s", "115 s"),
        (900.0, 20.0, "1m", "2.7 min"),
        (900.0, 20.0, "soon", "115 s"),
        (900.0, 900.0, "15s", None),
        (900.0, 136.0, "15s", None),
    ],
)
async def test_hints_are_not_due_yet_shortly_after_an_installation_or_a_start(
    age: float, started: float | None, interval: str, due_in: str | None
) -> None:
    """Nothing is wrong then. Settings of another version may have any form."""
    clock = ManualClock(NOW)
    kube = kube_with(*ALL, clock=clock, created=clock.now() - age)
    settings = {"placement": {"hints": True}, "scorer": {"hints": {"interval": interval}}}
    start = None if started is None else clock.now() - started
    published = [] if start is None else [
        EffectiveConfiguration(
            service="scorer", id="scorer-1", version="1", hash="x", settings=settings, started_at=start, at=clock.now()
        )
    ]  # fmt: skip

    found = await read_hints_state(kube, clock, published)

    none = "none were written: `equipoise doctor` finds why"
    due = f"; the first ones after an installation or a start are due in {due_in}"
    assert str(found) == (f"without effect ({none})" if due_in is None else f"not due yet ({none}{due})")


@pytest.mark.parametrize(
    ("state", "shown"),
    [(None, "not due yet"), ("not called since 09:00: slow", "without effect"), ("called since 09:00", "not due yet")],
)
async def test_a_webhook_that_was_slow_has_no_effect_also_shortly_after_its_installation(
    state: str | None, shown: str
) -> None:
    clock = ManualClock(NOW)
    kube = kube_with("kind", clock=clock)
    annotations = {} if state is None else {STATE: state}
    created = datetime.fromtimestamp(clock.now() - 10, UTC)
    metadata = ObjectMeta(name=NAME, annotations=annotations, creation_timestamp=created)
    called = CALLED if state == "called since 09:00" else []
    kube.put(WEBHOOK_CONFIGURATIONS, WebhookConfiguration(metadata=metadata, webhooks=called))

    assert (await read_hints_state(kube, clock)).state == shown


async def test_hints_are_without_effect_in_a_cluster_without_the_kind_of_policy() -> None:
    kube = kube_with(*ALL)
    del kube.served[API_GROUP, POLICY_KIND]

    assert f"without effect ({UNSUPPORTED})" == str(await read_hints_state(kube, SystemClock()))


CALLED = webhooks(ca=b"PEM", namespace="equipoise-system", port=443, hinted=["web"])


@pytest.mark.parametrize(
    ("called", "state", "shown"),
    [
        (CALLED, "called since 09:00", "without effect (none were written: `equipoise doctor` finds why)"),
        (CALLED[:1], "not called since 09:00: slow", "without effect (the webhook is not called since 09:00: slow)"),
        ([], None, "without effect (the webhook is not called yet)"),
    ],
)
@pytest.mark.parametrize("served", [True, False])
async def test_the_state_of_hints_is_that_of_the_webhook_where_there_is_no_policy(
    called: list[dict[str, Any]], state: str | None, shown: str, served: bool
) -> None:
    """Whether or not the API server has such policies. Removed by the annotators, it has no effect."""
    kube = kube_with("kind")
    if not served:
        del kube.served[API_GROUP, POLICY_KIND]
    annotations = {} if state is None else {STATE: state}
    created = datetime.fromtimestamp(LONG_AGO, UTC)
    metadata = ObjectMeta(name=NAME, annotations=annotations, creation_timestamp=created)
    kube.put(WEBHOOK_CONFIGURATIONS, WebhookConfiguration(metadata=metadata, webhooks=called))
    found = await read_hints_state(kube, SystemClock())

    assert ("webhook", shown) == (found.admission, str(found))


async def test_the_state_names_what_adds_the_hints() -> None:
    kube = kube_with(*ALL)
    kube.put(PLACEMENT_HINTS, stored_until(SystemClock().now() + 100))

    assert str(await read_hints_state(kube, SystemClock())).startswith("on, by the policy, for 3 workloads")


async def test_the_state_of_hints_is_unknown_if_they_may_not_be_listed() -> None:
    """Not: that there are none."""
    kube = kube_with(*ALL)
    kube.fail_next("list", status=403, resource="placementhints")
    found = await read_hints_state(kube, SystemClock())

    assert ("unknown", None) == (found.state, found.namespaces)
    assert "403" in found.why


def stored_until(until: float, hints: int = 3) -> HintsObject:
    return msgspec.structs.replace(
        stored(), until=datetime.fromtimestamp(until, UTC), workloads=dict(list(stored().workloads.items())[:hints])
    )


@pytest.mark.parametrize(
    ("objects", "shown"),
    [
        (
            [stored_until(NOW + 200), stored_until(NOW + 100, 2)],
            "on, for 5 workloads in 2 namespaces, valid for 100 s or longer",
        ),
        (
            [stored_until(NOW + 200, 1), stored_until(NOW - 5), stored_until(NOW - 5, 0)],
            "on, for 1 workload in 1 namespace, valid for 3.3 min or longer; expired in 1 namespace",
        ),
        (
            [stored_until(NOW - 600), stored_until(NOW - 300)],
            "without effect (the newest have expired 5 min ago: `equipoise doctor` finds why)",
        ),
        ([stored_until(NOW + 200, 0)], "without effect (none were written: `equipoise doctor` finds why)"),
    ],
)
def test_hints_are_on_as_long_as_some_are_valid(objects: list[HintsObject], shown: str) -> None:
    """The object of a namespace without hints does not count."""
    assert shown == str(hints_state(objects, NOW))
