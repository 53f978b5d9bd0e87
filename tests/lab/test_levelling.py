"""The descheduler and the binder on a world that is not there."""

from equipoise.binder.decisions.limits import EvictionsPerCluster, EvictionsPerWorkload, Limits
from equipoise.contracts.configuration.duration import Duration
from equipoise.contracts.configuration.settings import LoadSettings, Thresholds
from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.messages.eviction import EvictionIntent, EvictionOutcome, Outcome
from equipoise.contracts.messages.placement import NodePlacement, PlacedPod
from equipoise.contracts.messages.resources import Resources
from equipoise.contracts.messages.utilization import NodeUtilization, WindowUsage
from equipoise.descheduler.decisions.strategies.low_node_load import LowNodeLoad
from equipoise.descheduler.settings import DeschedulerSettings
from equipoise.lab.model.levelling import Levelling, paced

NOW = 1_800_000_000.0
LOAD = LoadSettings()
GIB = 2.0**30
WEB = Workload(kind="Deployment", group="apps", namespace="shop", name="web")
API = Workload(kind="Deployment", group="apps", namespace="shop", name="api")
BASE = Resources(cpu=8.0, memory=32 * GIB)
ROOMY = Limits(evictions_per_cluster=EvictionsPerCluster(max=20))
"""A hundredth of four pods is one."""

EAGER = DeschedulerSettings(consecutive_abnormalities=1, max_intents_per_node=2, strategies=(LowNodeLoad(),))


class Fleet:
    """A hot node with two pods of each of two workloads, and an idle one."""

    def __init__(self, *, limits: Limits = ROOMY, room: bool = True, minimum_replicas: int = 2) -> None:
        self.evicted: list[str] = []
        self.said: list[EvictionIntent | EvictionOutcome] = []
        self._room = room
        self.levelling = Levelling(
            settings=EAGER,
            limits=limits,
            load=LOAD,
            thresholds=Thresholds(),
            minimum_replicas=minimum_replicas,
            replicas={WEB: 2, API: 2},
            usage_of=lambda workload: Resources(cpu=1.8, memory=GIB),
            days=dict,
            closed=lambda workload: (),
            evict=self._evict,
            say=self.said.append,
            begin=NOW - 86_400.0,
        )

    def _evict(self, intent: EvictionIntent) -> bool:
        if self._room:
            self.evicted.append(intent.pod)
        return self._room

    def look(self, now: float) -> None:
        pods = [
            PlacedPod(
                uid=f"{workload.name}-{number}", namespace="shop", name=f"{workload.name}-{number}", workload=workload,
                placed_at=NOW - 86_400.0 * 2, running_since=NOW - 86_400.0 * 2,
                requests=Resources(cpu=0.5, memory=GIB),
            )
            for workload in (WEB, API)
            for number in range(2)
        ]  # fmt: skip
        for node, held, cpu in (("hot", pods, 7.2), ("idle", [], 0.4)):
            value = WindowUsage(sampled_at=now, mean=Resources(cpu=cpu, memory=len(held) * GIB))
            self.levelling.on_placement(
                NodePlacement(node=node, uid=node, allocatable=BASE, pods=held, epoch=1, sequence=1)
            )
            self.levelling.on_utilization(
                NodeUtilization(
                    node=node, uid=node, base=BASE, sampled_at=now, queried_at=now, epoch=1, sequence=1,
                    windows={window.name: value for window in LOAD.windows},
                    pods={pod.uid: Resources(cpu=1.8, memory=GIB) for pod in held},
                )
            )  # fmt: skip
        self.levelling.evaluate(now)


def test_pods_leave_a_node_over_its_mark() -> None:
    """One of each workload, as many as leave a node at once; each is told as an intent and an outcome."""
    fleet = Fleet()
    fleet.look(NOW)

    assert {"web", "api"} == {name.split("-")[0] for name in fleet.evicted}
    assert 2 == fleet.levelling.tally.evicted == fleet.levelling.tally.proposed
    assert [EvictionIntent, EvictionOutcome] * 2 == [type(message) for message in fleet.said]


def test_a_limit_refuses_by_its_name() -> None:
    """And nothing moves, and the outcome says why."""
    fleet = Fleet(limits=Limits(evictions_per_workload=EvictionsPerWorkload(max=0)))
    fleet.look(NOW)

    assert [] == fleet.evicted
    assert {"evictionsPerWorkload": 2} == dict(fleet.levelling.tally.refused)
    outcomes = [message for message in fleet.said if isinstance(message, EvictionOutcome)]
    assert {Outcome.REJECTED_LIMIT} == {outcome.outcome for outcome in outcomes}


def test_what_was_moved_rests() -> None:
    """A moment later, hot as before, nothing of the same workloads is proposed."""
    fleet = Fleet()
    fleet.look(NOW)
    fleet.look(NOW + 150.0)

    assert 2 == fleet.levelling.tally.proposed


def test_without_room_for_the_replacement_nothing_moves() -> None:
    """And the limits have not been used up by it."""
    fleet = Fleet(room=False)
    fleet.look(NOW)

    assert 0 == fleet.levelling.tally.evicted
    assert {"no node has room for the replacement": 2} == dict(fleet.levelling.tally.refused)


def test_small_workloads_stay() -> None:
    """Their eviction would be an outage."""
    fleet = Fleet(minimum_replicas=3)
    fleet.look(NOW)

    assert 0 == fleet.levelling.tally.proposed


def test_fewer_evaluations_cover_as_much_time() -> None:
    """Five of two minutes are two of five minutes; a finer world changes nothing."""
    settings = DeschedulerSettings()

    stretched = paced(settings, 300.0)

    assert (Duration(300), 2, 10) == (
        stretched.interval, stretched.consecutive_abnormalities, stretched.max_intents_per_evaluation,
    )  # fmt: skip
    assert settings == paced(settings, 60.0)
    assert 1 == paced(settings, 3_600.0).consecutive_abnormalities
