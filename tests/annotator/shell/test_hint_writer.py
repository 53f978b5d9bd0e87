"""The annotator writes placement hints, on an in-memory bus and API server with a manual clock."""

from collections.abc import AsyncIterator, Mapping
from typing import Any

import msgspec
import pytest
from annotator.worlds import ROUND, SETTINGS, World
from builders import NOW
from kube_objects import a_lease

from equipoise.annotator.settings import AnnotatorSettings, HintWriteSettings
from equipoise.annotator.shell.hint_writer import FENCE, POLICY_PERIOD
from equipoise.contracts.bus.subjects import placement_hint
from equipoise.contracts.hints.definition import GROUP, KIND
from equipoise.contracts.hints.hints_object import HintsObject, workload_hints
from equipoise.contracts.hints.policy import NAME
from equipoise.contracts.kubernetes.mutating_policy import API_GROUP, POLICY_KIND
from equipoise.contracts.kubernetes.objects.metadata import Object, ObjectMeta
from equipoise.contracts.messages.placement import PlacementHints, WeightedNodes, WorkloadHint
from equipoise.runtime.kubernetes import fence
from equipoise.runtime.kubernetes.client import HINTS, LEASES, mutating_policies

HINT = WorkloadHint(prefer=(WeightedNodes(weight=50, hostnames=("a", "b")),))
OTHER = WorkloadHint(prefer=(WeightedNodes(weight=50, hostnames=("x", "y")),))


class HintWorld(World):
    """With the policy that adds hints, and hints that a scorer publishes."""

    def install(self, uid: str = "", versions: tuple[str, ...] = ("v1", "v1beta1")) -> None:
        self.kube.served = {(API_GROUP, POLICY_KIND): [*versions], (GROUP, KIND): ["v1alpha1"]}
        self.kube.put(mutating_policies(versions[0]), Object(metadata=ObjectMeta(name=NAME, uid=uid or "uid-policy")))

    async def computed(
        self, *namespaces: str, hint: WorkloadHint | None = HINT, ago: float = 0.0, replacing: bool = False
    ) -> None:
        """And wait for a read and a write at the default rate."""
        hints = {} if hint is None else {"Deployment.web": hint}
        for name in namespaces or ("shop",):
            computed_at = self.clock.now() - ago
            await self.publish(
                PlacementHints(namespace=name, computed_at=computed_at, hints=hints, replacing=replacing)
            )
        await self.clock.advance(0.2)

    async def publish(self, message: PlacementHints) -> None:
        await self.bus.publish(placement_hint(message.namespace), message)

    @property
    def objects(self) -> Mapping[str, HintsObject]:
        """By namespace."""
        return {found.metadata.namespace: found for found in self.kube.stored(HINTS)}

    def until(self, namespace: str = "shop") -> float:
        """Seconds from now on, by the clock of the test."""
        until = self.objects[namespace].until
        assert until is not None
        return until.timestamp() - self.clock.now()

    @property
    def hint_writes(self) -> int:
        return sum(call.resource == "placementhints" and call.verb in ("create", "replace") for call in self.kube.calls)

    def problems(self, identity: str = "annotator-1") -> str:
        return "; ".join(self.health[identity].problems)


@pytest.fixture
async def world() -> AsyncIterator[HintWorld]:
    world = HintWorld()
    world.install()
    yield world
    for identity in list(world.running):
        await world.end(identity)


async def test_by_default_no_hints_are_written(world: HintWorld) -> None:
    """And nothing about them is requested."""
    await world.begin()
    await world.computed()
    await world.clock.advance(600)

    assert {} == world.objects
    assert {"placementhints", "pods"}.isdisjoint(call.resource for call in world.kube.calls)


async def test_hints_are_written_into_their_namespace(world: HintWorld) -> None:
    """Owned by the policy, and valid for five minutes from their computation on by the clock of the API server."""
    world.kube.skew = 7.0
    await world.begin(hints=True)
    await world.computed(ago=10)
    [written] = world.objects.values()

    assert ("shop", NAME) == (written.metadata.namespace, written.metadata.name)
    assert {"Deployment.web": HINT} == workload_hints(written)
    assert pytest.approx(297, abs=1) == world.until()
    [owner] = written.metadata.owner_references
    assert (f"{API_GROUP}/v1", POLICY_KIND, NAME, "uid-policy") == (
        owner.api_version,
        owner.kind,
        owner.name,
        owner.uid,
    )


async def test_hints_are_renewed_while_they_are_computed_and_then_expire(world: HintWorld) -> None:
    """Unchanged messages need a write in two to three minutes. After the last one, hints are valid for five minutes."""
    await world.begin(hints=True)
    for _ in range(4):
        await world.computed()
        await world.clock.advance(60)

    assert 2 == world.hint_writes
    assert pytest.approx(180, abs=1) == world.until()
    await world.clock.advance(600)
    assert 3 == world.hint_writes
    assert pytest.approx(300 - 60 - 600, abs=1) == world.until()


async def test_a_changed_hint_is_written_at_once(world: HintWorld) -> None:
    await world.begin(hints=True)
    await world.computed()
    await world.clock.advance(15)
    await world.computed(hint=OTHER)

    assert {"Deployment.web": OTHER} == workload_hints(world.objects["shop"])


@pytest.mark.parametrize(("replacing", "writes"), [(False, 1), (True, 2)])
async def test_a_hint_for_a_replacement_does_not_wait(world: HintWorld, replacing: bool, writes: int) -> None:
    """The replacement of an evicted pod is created at once. Other changes are at least ten seconds apart."""
    await world.begin(hints=True)
    await world.computed()
    await world.clock.advance(2)
    await world.computed(hint=OTHER, replacing=replacing)

    assert writes == world.hint_writes


async def test_hints_that_are_not_computed_any_more_are_removed(world: HintWorld) -> None:
    """Without sufficient data the scorer publishes none. Then nothing is renewed."""
    await world.begin(hints=True)
    await world.computed()
    for _ in range(10):
        await world.clock.advance(60)
        await world.computed(hint=None)

    assert {} == world.objects["shop"].hints
    assert 2 == world.hint_writes


@pytest.mark.parametrize("ago", [301.0, -16.0])
async def test_old_and_future_hints_are_not_written(world: HintWorld, ago: float) -> None:
    """The bus keeps the last message of a scorer that ended; and a forged time must not make hints valid for long."""
    await world.begin(hints=True)
    await world.computed(ago=ago)
    await world.clock.advance(60)

    assert {} == world.objects


async def test_each_namespace_has_one_writer(world: HintWorld) -> None:
    """Two replicas read and write each object once; after the end of one the other continues."""
    for identity in ("annotator-1", "annotator-2"):
        await world.begin(identity, hints=True)
    await world.clock.advance(2 * ROUND)
    names = [f"team-{number}" for number in range(40)]
    await world.computed(*names)
    await world.clock.advance(10)
    by_replica = [
        world.metrics[identity].get_sample_value(
            "equipoise_annotator_writes_total", {"kind": KIND, "result": "written"}
        )
        or 0
        for identity in world.running
    ]

    assert 40 == sum(by_replica) == world.hint_writes
    assert 40 == sum(call.resource == "placementhints" and call.verb == "get" for call in world.kube.calls)
    assert min(by_replica) > 5
    await world.end("annotator-1")
    for _ in range(4):
        await world.clock.advance(60)
        await world.computed(*names)
    await world.clock.advance(10)
    assert min(world.until(name) for name in names) > 100


async def test_the_younger_of_two_installations_writes_no_hints(world: HintWorld) -> None:
    """While the other one works: there is one policy, and one object per namespace."""
    world.kube.put(LEASES, a_lease("balance"))
    await world.begin(hints=True)
    await world.computed()
    assert {} == world.objects
    world.kube.remove(LEASES, "equipoise-descheduler", "balance")
    await world.clock.advance(20)

    assert {"shop"} == world.objects.keys()


async def test_a_replica_that_takes_over_reads_and_does_not_write_again(world: HintWorld) -> None:
    await world.begin("annotator-1", hints=True)
    await world.computed()
    await world.end("annotator-1")
    await world.begin("annotator-2", hints=True)
    await world.clock.advance(15)
    await world.computed()

    assert 1 == world.hint_writes


async def test_an_object_that_was_changed_by_another_client_is_read_again(world: HintWorld) -> None:
    """The next significant change is written, in place of what the other wrote."""
    await world.begin(hints=True)
    await world.computed()
    world.kube.put(HINTS, world.objects["shop"])
    await world.clock.advance(15)
    await world.computed(hint=OTHER)

    assert {"Deployment.web": OTHER} == workload_hints(world.objects["shop"])


async def test_a_deleted_object_is_created_again(world: HintWorld) -> None:
    await world.begin(hints=True)
    await world.computed()
    world.kube.remove(HINTS, NAME, "shop")
    await world.clock.advance(160)
    await world.computed()

    assert {"shop"} == world.objects.keys()


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (404, 'namespaces "shop" not found'),
        (403, "unable to create new content in namespace shop because it is being terminated"),
    ],
)
async def test_a_namespace_that_is_deleted_before_the_write_is_no_problem(
    world: HintWorld, status: int, message: str
) -> None:
    """Its hints are dropped, and those of others are written."""
    world.kube.fail_next("create", status=status, message=message, resource="placementhints", times=None)
    await world.begin(hints=True)
    await world.computed()
    world.kube.clear_faults()
    await world.computed("other")
    await world.clock.advance(100)

    assert {"other"} == world.objects.keys()
    assert "" == world.problems()


async def test_a_thousand_namespaces_are_written_within_the_rate(world: HintWorld) -> None:
    """Each object is read once and written once; all of them stay valid, without more requests than allowed."""
    settings = msgspec.structs.replace(SETTINGS, hints=HintWriteSettings(requests_per_second=20))
    await world.begin(settings=settings, hints=True)
    names = [f"team-{number}" for number in range(1_000)]
    for minute in range(6):
        await world.computed(*names)
        await world.clock.advance(60)
        sent = sum(call.resource == "placementhints" for call in world.kube.calls)
        assert sent <= 20 * 60.2 * (minute + 1) + 1

    assert set(names) == world.objects.keys()
    assert min(map(world.until, names)) > 0
    assert "" == world.problems()


async def test_a_rate_that_is_too_low_is_reported(world: HintWorld) -> None:
    """With the setting to change."""
    settings = msgspec.structs.replace(SETTINGS, hints=HintWriteSettings(requests_per_second=0.1))
    await world.begin(settings=settings, hints=True)
    for _ in range(10):
        await world.computed(*(f"team-{number}" for number in range(50)))
        await world.clock.advance(60)

    assert "raise annotator.hints.requestsPerSecond" in world.problems()


async def test_an_object_stays_below_64_kib(world: HintWorld) -> None:
    """What has no space is counted."""
    nodes = tuple(f"ip-10-0-{number}-17.eu-west-1.compute.internal" for number in range(50))
    hints = {
        f"Deployment.{'long-name' * 10}-{number}": WorkloadHint(
            prefer=(
                WeightedNodes(weight=50, hostnames=nodes),
                WeightedNodes(weight=1 + number % 10, hostnames=nodes[: 1 + number // 10]),
            )
        )
        for number in range(250)
    }
    await world.begin(hints=True)
    await world.publish(PlacementHints(namespace="shop", computed_at=NOW, hints=hints))
    await world.clock.advance(1)
    [written] = world.objects.values()
    left_out = world.metrics["annotator-1"].get_sample_value("equipoise_annotator_hints_left_out")

    assert 60_000 < len(msgspec.json.encode(written)) < 65_536
    assert {key: hints[key] for key in [*hints][: len(written.keys)]} == workload_hints(written)
    assert 250 == len(written.keys) + (left_out or 0)


async def test_a_shared_hint_is_written_once_for_all_workloads(world: HintWorld) -> None:
    await world.begin(hints=True)
    workloads = {f"Deployment.web-{number}": 0 for number in range(500)}
    await world.publish(
        PlacementHints(namespace="shop", computed_at=NOW, hints={"Job.own": OTHER}, shared=(HINT,), workloads=workloads)
    )
    await world.clock.advance(1)
    [written] = world.objects.values()

    assert dict.fromkeys(workloads, HINT) | {"Job.own": OTHER} == workload_hints(written)
    assert 20_000 > len(msgspec.json.encode(written))
    assert "" == world.problems()


async def test_an_earlier_definition_is_reported(world: HintWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """The API server drops fields that it does not know. The problem ends with a write that it keeps."""
    create = world.kube.create

    async def drop(resource: Any, value: Any, **options: Any) -> Any:
        if isinstance(value, HintsObject):
            value = msgspec.structs.replace(value, nodes="", distinct_hints=())
        return await create(resource, value, **options)

    monkeypatch.setattr(world.kube, "create", drop)
    message = PlacementHints(
        namespace="shop", computed_at=NOW, hints={}, shared=(HINT,), workloads={"Job.a": 0, "Job.b": 0}
    )
    await world.begin(hints=True)
    await world.publish(message)
    await world.clock.advance(1)
    assert "the kind PlacementHints is that of an earlier version: apply k8s/hints" in world.problems()

    await world.clock.advance(20)
    await world.publish(msgspec.structs.replace(message, computed_at=NOW + 20, shared=(OTHER,)))
    await world.clock.advance(1)
    assert "" == world.problems()


MISSING = {
    "policy kind": ({}, "Kubernetes 1.36"),
    "hints": ({(API_GROUP, POLICY_KIND): ["v1"]}, "does not know the kind PlacementHints: apply k8s/hints"),
}


@pytest.mark.parametrize("missing", MISSING)
async def test_without_the_kinds_nothing_is_written_and_the_problem_is_named(world: HintWorld, missing: str) -> None:
    """Until they are there."""
    served, problem = MISSING[missing]
    complete = world.kube.served
    world.kube.served = dict(served)
    await world.begin(hints=True)
    await world.computed()

    assert 0 == world.hint_writes
    assert problem in world.problems()
    world.kube.served = complete
    await world.clock.advance(POLICY_PERIOD)
    assert {"shop"} == world.objects.keys()
    assert "" == world.problems()


async def test_without_the_policy_nothing_is_written(world: HintWorld) -> None:
    """After it was created again, its new object owns the hints."""
    await world.begin(hints=True)
    await world.computed()
    world.kube.remove(mutating_policies("v1"), NAME)
    await world.clock.advance(POLICY_PERIOD)
    await world.computed(hint=OTHER)

    assert 1 == world.hint_writes
    assert "there is no MutatingAdmissionPolicy equipoise-hints" in world.problems()
    world.install(uid="another")
    await world.clock.advance(POLICY_PERIOD)
    assert ["another"] == [each.uid for each in world.objects["shop"].metadata.owner_references]
    assert "" == world.problems()


async def test_a_service_account_writes_no_hints_without_its_fence(world: HintWorld) -> None:
    """As it writes no annotations without theirs."""
    world.kube.as_service_account = True
    refused = "denied by ValidatingAdmissionPolicy '{}'"
    world.kube.fail_next(
        "create", status=422, message=refused.format("equipoise-annotator-fence"), resource="leases", name=fence.PROBE,
        times=None,
    )  # fmt: skip
    await world.begin(hints=True)
    await world.computed()

    assert {} == world.objects
    assert f"the admission policy {FENCE} does not restrict this service" in world.problems()
    world.kube.fail_next(
        "create", status=422, message=refused.format(FENCE), resource="placementhints", name=fence.PROBE, times=None
    )
    await world.clock.advance(fence.RETRY_PERIOD)
    assert {"shop"} == world.objects.keys()


async def test_a_refused_object_does_not_delay_others(world: HintWorld) -> None:
    """It is reported, and tried again later."""
    world.kube.fail_next("create", status=422, message="no", resource="placementhints")
    await world.begin(hints=True)
    await world.computed()
    await world.computed("other")

    assert {"other"} == world.objects.keys()
    await world.clock.advance(ROUND)
    assert "the hints of namespace shop cannot be written" in world.problems()
    await world.computed()
    await world.clock.advance(ROUND)
    assert {"shop", "other"} == world.objects.keys()
    assert "" == world.problems()


async def test_an_api_server_that_fails_gets_fewer_requests(world: HintWorld) -> None:
    """And the hints are written when it works again."""
    await world.begin(hints=True)
    world.kube.fail_next(status=503, resource="placementhints", times=None)
    await world.computed()
    await world.computed("other")
    await world.clock.advance(4)
    requests = sum(call.resource == "placementhints" for call in world.kube.calls)
    world.kube.clear_faults()
    await world.clock.advance(60)
    for name in ("shop", "other"):
        await world.computed(name)

    assert requests <= 2
    assert {"shop", "other"} == world.objects.keys()


def test_the_default_rate_is_enough_for_a_thousand_namespaces() -> None:
    """Two requests each in five minutes."""
    settings = AnnotatorSettings().hints

    assert settings.requests_per_second >= 2 * 1_000 / settings.validity


async def test_after_a_clock_was_ahead_hints_are_written_and_expire_as_before(world: HintWorld) -> None:
    """Those of that time would be the newest, and valid, until then."""
    await world.begin(hints=True)
    world.clock.step(31_536_000)
    await world.computed()
    world.clock.step(-31_536_000)
    await world.computed(hint=OTHER)
    await world.clock.advance(10)

    [written] = world.objects.values()
    assert {"Deployment.web": OTHER} == workload_hints(written)
    assert pytest.approx(290, abs=1) == world.until()
