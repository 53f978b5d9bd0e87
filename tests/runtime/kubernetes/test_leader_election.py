"""One leads, and its work ends with its Lease."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kube_worlds import NAMESPACE, RealWorld

from equipoise.contracts.kubernetes.objects.cluster import Lease, LeaseSpec
from equipoise.contracts.kubernetes.objects.metadata import ObjectMeta
from equipoise.contracts.messages.values.lease import LeaseEpoch
from equipoise.runtime.kubernetes.client import LEASES, Kube
from equipoise.runtime.kubernetes.leader_election import lead
from equipoise.runtime.process.clock import Clock, SystemClock
from equipoise.testbed.memory.clock import ManualClock, settle
from equipoise.testbed.memory.kube import MemoryKube


class Line:
    """One candidate's connection to the API server; nothing comes back over it while it is cut."""

    def __init__(self, kube: Kube) -> None:
        self.kube = kube
        self.cut = False

    def __getattr__(self, verb: str) -> Callable[..., Any]:
        async def ask(*arguments: Any, **options: Any) -> Any:
            if self.cut:
                await asyncio.Event().wait()
            return await getattr(self.kube, verb)(*arguments, **options)

        return ask


class Candidate:
    """A replica that wants to lead."""

    def __init__(self, kube: Kube, clock: Clock, identity: str, **options: Any) -> None:
        self.line: Any = Line(kube)
        self.clock = clock
        self.identity = identity
        self.options = options
        self.leading: bool | None = None
        self.epochs: list[LeaseEpoch] = []
        self.working = False
        self.fault: Exception | None = None
        self.task: asyncio.Task[None] | None = None

    async def work(self, epoch: LeaseEpoch) -> None:
        self.epochs.append(epoch)
        self.working = True
        try:
            while self.fault is None:
                await self.clock.sleep(0.1)
            raise self.fault
        finally:
            self.working = False

    def start(self) -> "Candidate":
        self.task = asyncio.create_task(
            lead(
                self.line,
                self.clock,
                namespace=NAMESPACE,
                name="descheduler",
                identity=self.identity,
                worker=self.work,
                health=self,
                **self.options,
            )
        )
        return self

    async def stop(self) -> None:
        assert self.task is not None
        self.task.cancel()
        await asyncio.wait({self.task})


class Election:
    """Candidates for one Lease in memory."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.kube = MemoryKube(self.clock)
        self.candidates: list[Candidate] = []
        self._random = random.Random(1)

    async def join(self, identity: str) -> Candidate:
        candidate = Candidate(self.kube, self.clock, identity, random=self._random.random).start()
        self.candidates.append(candidate)
        await settle()
        return candidate

    @property
    def working(self) -> list[str]:
        return [candidate.identity for candidate in self.candidates if candidate.working]

    @property
    def lease(self) -> LeaseSpec:
        return self.kube.stored(LEASES)[0].spec

    def hold(self, holder: str, **fields: Any) -> None:
        """Somebody writes the Lease."""
        spec = LeaseSpec(holder_identity=holder, lease_duration_seconds=15, lease_transitions=7)
        self.kube.put(
            LEASES,
            Lease(
                metadata=ObjectMeta(name="descheduler", namespace=NAMESPACE),
                spec=msgspec.structs.replace(spec, **fields),
            ),
        )

    async def end(self) -> None:
        for candidate in self.candidates:
            candidate.line.cut = False
        await asyncio.gather(*(candidate.stop() for candidate in self.candidates))


@pytest.fixture
async def election() -> AsyncIterator[Election]:
    election = Election()
    yield election
    await election.end()


async def test_the_first_leads_and_the_second_waits(election: Election) -> None:
    """The Lease names its holder; the epoch names the Lease and the reign; health shows who leads."""
    first = await election.join("a")
    second = await election.join("b")
    await election.clock.advance(120)

    assert ["a"] == election.working
    assert (True, False) == (first.leading, second.leading)
    assert ("a", 15, 0) == (
        election.lease.holder_identity, election.lease.lease_duration_seconds, election.lease.lease_transitions
    )  # fmt: skip
    assert [LeaseEpoch(lease_uid="uid-descheduler", transitions=0, holder="a")] == first.epochs
    assert election.clock.now() - election.lease.renew_time.timestamp() <= 2  # type: ignore[union-attr]


@pytest.mark.parametrize("year", [1970, 2200])
async def test_a_follower_waits_for_the_end_of_a_lease_by_its_own_clock(election: Election, year: int) -> None:
    """What another machine's clock wrote counts for nothing: a whole lease duration since the first look, no more."""
    election.hold("dead", renew_time=datetime(year, 1, 1, tzinfo=UTC))
    candidate = await election.join("a")

    await election.clock.advance(14.9)
    assert [] == election.working
    await election.clock.advance(5)

    assert ["a"] == election.working
    assert [8] == [epoch.transitions for epoch in candidate.epochs]


async def test_who_stops_gives_the_lease_back(election: Election) -> None:
    """The next one does not have to wait for the end of the Lease."""
    first = await election.join("a")
    second = await election.join("b")
    await first.stop()
    assert "" == election.lease.holder_identity
    await election.clock.advance(4.5)

    assert ["b"] == election.working
    assert [1] == [epoch.transitions for epoch in second.epochs]
    assert not first.leading


async def test_who_cannot_renew_stops_before_another_may_begin(election: Election) -> None:
    """A leader whose requests get no response has ended its work before another one begins."""
    first = await election.join("a")
    await election.join("b")
    await election.clock.advance(5)
    first.line.cut = True
    at_once: list[int] = []
    for _ in range(250):
        await election.clock.advance(0.1)
        at_once.append(len(election.working))

    assert ["b"] == election.working
    assert not first.leading
    assert 1 == max(at_once)
    assert 50 <= at_once.count(0) <= 120  # out of work at 10 s, the next after 15 s and its pause


async def test_a_refusal_that_passes_is_lived_through(election: Election) -> None:
    """Errors for less than the renew deadline cost nothing: same term, same worker."""
    first = await election.join("a")
    election.kube.refuse("replace", status=503)
    await election.clock.advance(7)
    election.kube.clear_faults()
    await election.clock.advance(30)

    assert 1 == len(first.epochs)
    assert ["a"] == election.working


async def test_a_renewal_whose_response_was_lost_is_no_conflict(election: Election) -> None:
    """The version in the store is our own: the reign goes on."""
    first = await election.join("a")
    election.kube.fail_next("replace", status=0, committed=True)
    await election.clock.advance(30)

    assert 1 == len(first.epochs)
    assert ["a"] == election.working


async def test_a_label_on_the_lease_is_no_conflict(election: Election) -> None:
    """Whoever annotates the Lease does not take it."""
    first = await election.join("a")
    await election.kube.annotate(LEASES, "descheduler", {"note": "x"}, namespace=NAMESPACE)
    await election.clock.advance(30)

    assert 1 == len(first.epochs)


async def test_a_lease_taken_away_ends_the_work(election: Election) -> None:
    """At the next renewal, and the new holder's record is left alone."""
    first = await election.join("a")
    election.hold("b")
    await election.clock.advance(2.1)

    assert [] == election.working
    assert not first.leading
    assert "b" == election.lease.holder_identity


async def test_a_deleted_lease_ends_the_term(election: Election) -> None:
    """The epoch named that Lease: with another one there is another epoch."""
    first = await election.join("a")
    election.kube.remove(LEASES, "descheduler", NAMESPACE)
    await election.clock.advance(10)

    assert ["a"] == election.working
    assert ["uid-descheduler", "uid-descheduler-2"] == [epoch.lease_uid for epoch in first.epochs]


async def test_every_term_has_its_own_epoch(election: Election) -> None:
    """Also two of the same replica without another in between: messages of the two workers differ."""
    first = await election.join("a")
    election.kube.refuse("replace", status=0)
    await election.clock.advance(12)
    assert [] == election.working
    election.kube.clear_faults()
    await election.clock.advance(12)

    assert ["a"] == election.working
    assert 2 == len({epoch.transitions for epoch in first.epochs}) == len(first.epochs)


async def test_a_worker_that_fails_releases_the_lease_and_raises(election: Election) -> None:
    """No zombie leader: the exception is the caller's, and the next one leads at once."""
    first = await election.join("a")
    await election.join("b")
    first.fault = RuntimeError("broken")
    await election.clock.advance(5)

    assert first.task is not None
    with pytest.raises(RuntimeError, match="broken"):
        await first.task
    assert ["b"] == election.working


async def test_times_that_cannot_work_are_refused() -> None:
    """A renew deadline beyond the lease duration would let two lead."""
    clock = ManualClock()
    candidate = Candidate(MemoryKube(clock), clock, "a", lease_duration=10, renew_deadline=10)

    with pytest.raises(ValueError, match="renew deadline"):
        await candidate.start().task  # type: ignore[misc]


@settings(max_examples=25, deadline=None)
@given(
    steps=st.lists(
        st.tuples(st.integers(0, 2), st.sampled_from(["cut", "heal", "lose"]), st.floats(0.1, 12)), max_size=12
    )
)
def test_never_two_at_once(steps: list[tuple[int, str, float]]) -> None:
    """Whatever connections and responses are lost, no two work at the same time."""

    async def run() -> None:
        election = Election()
        candidates = [await election.join(identity) for identity in "abc"]
        for place, step, seconds in steps:
            candidates[place].line.cut = step == "cut"
            if step == "lose":
                election.kube.fail_next(status=0, committed=True)
            for _ in range(int(seconds / 0.5) + 1):
                await election.clock.advance(0.5)
                assert len(election.working) <= 1
        await election.end()

    asyncio.run(run())


async def test_two_electors_on_a_real_api_server(real: RealWorld) -> None:
    """One leads, the other conflicts and waits; it takes over when the first is stopped."""
    clock = SystemClock()
    times = {"lease_duration": 60.0, "renew_deadline": 40.0, "retry_period": 0.1}
    first, second = (Candidate(real.kube, clock, identity, **times).start() for identity in "ab")

    async with asyncio.timeout(30):
        while not (first.working or second.working):  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        await asyncio.sleep(0.5)
        assert first.working != second.working
        leader, follower = (first, second) if first.working else (second, first)
        await leader.stop()
        while not follower.working:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        spec = (await real.kube.get(LEASES, "descheduler", NAMESPACE)).spec
        await follower.stop()

    assert (follower.identity, 1) == (spec.holder_identity, spec.lease_transitions)
    assert [1] == [epoch.transitions for epoch in follower.epochs]
