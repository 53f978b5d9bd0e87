"""`equipoise doctor`: what its checks decide."""

import asyncio
import io
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import msgspec
import pytest
import yaml
from builders import NOW
from deployment.base import base_documents
from rich.console import Console

from equipoise.cli.doctor.checks import CHECKS
from equipoise.cli.doctor.checks.clocks import judged as judged_clocks
from equipoise.cli.doctor.checks.extender import Told, entries_of, judged_entry
from equipoise.cli.doctor.checks.extender import judged as judged_scores
from equipoise.cli.doctor.checks.needed_rights import EVICT, NEEDED, Right
from equipoise.cli.doctor.checks.nodes import TO_DO, Unknown, coverage, longer, told
from equipoise.cli.doctor.checks.prometheus import Fit, fit_of
from equipoise.cli.doctor.checks.prometheus import judged as judged_profile
from equipoise.cli.doctor.checks.rights import is_needed, judged_evictions
from equipoise.cli.doctor.checks.rights import judged as judged_rights
from equipoise.cli.doctor.checks.streams import differences, judged_identity, judged_stream
from equipoise.cli.doctor.environment import Configured, Surroundings
from equipoise.cli.doctor.finding import Diagnosis, Finding
from equipoise.cli.doctor.run import diagnose
from equipoise.cli.doctor.text import show
from equipoise.collector.decisions.query import MetricQuery, Sample, SourceError
from equipoise.collector.decisions.sample_validation import NodeReading, Reason, UnknownUsage
from equipoise.collector.settings import CollectorSettings, LoadWatcherSettings
from equipoise.collector.sources.metrics_server import (
    NODE_METRICS,
    POD_METRICS,
    ContainerMetrics,
    NodeMetrics,
    PodMetrics,
)
from equipoise.contracts.bus.streams import STREAMS
from equipoise.contracts.configuration.settings import Freshness, LoadSettings, Protection
from equipoise.contracts.kubernetes.objects import Condition, ConfigMap, Node, NodeStatus, ObjectMeta
from equipoise.contracts.messages.advice import ScoresFollowed
from equipoise.runtime.bus.inspection import Allowed, Identity, StreamState
from equipoise.runtime.bus.inspection import Rights as BusRights
from equipoise.runtime.bus.permissions import permissions_of
from equipoise.runtime.configuration.sections import Shared
from equipoise.runtime.kubernetes.client import NODES, KubeError
from equipoise.runtime.process.clock import SystemClock
from equipoise.testbed.memory.clock import ManualClock
from equipoise.testbed.memory.kube import MemoryKube

ROOT = Path(__file__).parents[2]
LOAD = LoadSettings()


# clocks


@pytest.mark.parametrize(
    ("ahead", "state", "word"),
    [
        ((-0.4, 0.6), "ok", "0.6 s"),
        ((-1.0, 3.0), "ok", "3.0 s"),
        ((2.5, 3.5), "warning", "2.5 s ahead"),
        ((-31.0, -30.0), "error", "30.0 s behind"),
    ],
)
def test_clocks_are_judged_by_what_is_certain(ahead: tuple[float, float], state: str, word: str) -> None:
    """Two clocks that may be as close as the limit are not accused."""
    found = judged_clocks("Prometheus and this machine", ahead, Freshness())
    assert (found.state, bool(found.to_do)) == (state, state != "ok")
    assert word in found.what


# streams


INTENT = next(stream for stream in STREAMS if stream.work_queue)
UTILIZATION = STREAMS[0]


def as_made(stream: Any, **fields: Any) -> StreamState:
    made: dict[str, Any] = {"subjects": stream.subjects, "max_age": stream.max_age or 0.0, "differences": {}}
    return StreamState(**(made | ({"waiting": 0, "workers": 1} if stream.work_queue else {}) | fields))


@pytest.mark.parametrize(
    ("stream", "seen", "state", "word"),
    [
        (UTILIZATION, as_made(UTILIZATION), "ok", "equipoise.utilization.>"),
        (UTILIZATION, None, "error", "does not exist"),
        (UTILIZATION, as_made(UTILIZATION, subjects=("other.>",)), "error", "keeps other.>, not equipoise.utilization"),
        (UTILIZATION, as_made(UTILIZATION, max_age=5.0), "error", "for 5 s, not for 1800 s"),
        (UTILIZATION, as_made(UTILIZATION, differences={"storage": ("memory", "file")}), "error", "memory, not file"),
        (INTENT, as_made(INTENT), "ok", ""),
        (INTENT, as_made(INTENT, waiting=None), "error", "consumer of the binders is missing"),
        (INTENT, as_made(INTENT, waiting=3, workers=0), "error", "3 intents wait"),
        (INTENT, as_made(INTENT, waiting=3, workers=2), "ok", ""),
    ],
)
def test_a_stream_is_held_to_what_setup_makes(stream: Any, seen: StreamState | None, state: str, word: str) -> None:
    """Missing, of other subjects, of another life, made otherwise, or with nobody who works."""
    found = judged_stream(stream, seen)
    assert (found.state, bool(found.to_do)) == (state, state != "ok")
    assert word in found.what


def test_permissions_are_compared_with_our_file() -> None:
    """What is missing is an error, what is too much a warning; a server without permissions is told of."""
    should = permissions_of("scorer")
    exact = {"publish": list(should.publish), "subscribe": list(should.subscribe)}
    assert differences(should, exact) == ([], [])
    assert differences(should, {**exact, "publish": [*should.publish[1:], "a.>"]}) == (
        [f"publish {should.publish[0]}"],
        ["publish a.>"],
    )
    assert differences(should, {**exact, "subscribe": None}) == ([], ["subscribe everything"])
    old = BusRights(publish=Allowed(allow=["a.>"]), subscribe=Allowed(allow=list(should.subscribe)))
    states = [found.state for found in judged_identity("bus", Identity(user="scorer", permissions=old), "scorer")]
    assert states == ["error", "warning"]
    assert [found.state for found in judged_identity("bus", Identity(), "")] == ["warning"]
    assert [found.state for found in judged_identity("bus", Identity(permissions=BusRights()), "bob")] == ["unknown"]


# rights


def test_the_table_of_rights_is_that_of_the_manifests() -> None:
    """Every right of k8s/base is asked for, and no other."""
    found = set()
    for document in base_documents():
        name = document["metadata"]["name"].removeprefix("equipoise-")
        if document["kind"] not in ("Role", "ClusterRole") or name == "setup":
            continue
        found |= {
            Right(
                service="binder" if name == "evict" else name,
                verb=verb,
                group=group,
                resource=resource.partition("/")[0],
                subresource=resource.partition("/")[2],
                name=object_name,
                own=document["kind"] == "Role",
            )
            for rule in document["rules"]
            for verb in rule["verbs"]
            for group in rule["apiGroups"]
            for resource in rule["resources"]
            for object_name in rule.get("resourceNames", [""])
        }
    assert {msgspec.structs.replace(right, when="") for right in (*NEEDED, EVICT)} == found


def test_a_missing_right_is_named() -> None:
    """With the manifest that gives it; of workloads that one may not have, it is a warning."""
    allowed = dict.fromkeys(NEEDED, True)
    assert judged_rights("collector", "account", allowed).state == "ok"
    pods = next(right for right in NEEDED if str(right) == "watch pods")
    found = judged_rights("collector", "account", {**allowed, pods: False})
    assert (found.state, found.what, found.to_do) == ("error", "may not watch pods", "apply k8s/base/collector.yaml")
    clones = next(right for right in NEEDED if str(right) == "patch clonesets.apps.kruise.io")
    assert judged_rights("annotator", "account", {**allowed, clones: False}).state == "warning"


@pytest.mark.parametrize(
    ("collector", "protection", "asked"),
    [
        (CollectorSettings(), Protection(), set()),
        (CollectorSettings(shards=2), Protection(), {"equipoise-collector-0", "equipoise-collector-1"}),
        (CollectorSettings(source="metrics-server"), Protection(), {"nodes", "pods"}),
        (CollectorSettings(), Protection(persistent_volumes=True), {"persistentvolumeclaims", "persistentvolumes"}),
    ],
)
def test_rights_of_what_is_off_are_not_asked_for(
    collector: CollectorSettings, protection: Protection, asked: set[str]
) -> None:
    """Shards, metrics-server and moves of pods with volumes need more than the rest does."""
    configured = Configured(shared=Shared(protection=protection), collector=collector)
    needed = [right for right in NEEDED if is_needed(right, configured)]

    assert {right.name or right.resource for right in needed if right.when not in ("", "workloads")} == asked
    assert {right for right in NEEDED if right.when in ("", "workloads")} <= set(needed)


@pytest.mark.parametrize(
    ("everywhere", "evict", "there", "state", "word"),
    [
        (True, True, [], "ok", "may evict"),
        (True, False, [], "ok", "binder.evict is false"),
        (False, False, [], "ok", "observe"),
        (False, True, ["shop"], "ok", "in shop"),
        (False, True, [], "error", "binder.evict is true"),
    ],
)
def test_the_right_to_evict_is_held_against_the_wish(
    everywhere: bool, evict: bool, there: list[str], state: str, word: str
) -> None:
    """Observing without the right is as it should be; wanting without it is not."""
    found = judged_evictions("account", everywhere=everywhere, evict=evict, there=there, wanted=["shop", "bank"])
    assert found.state == state
    assert word in found.what


# Prometheus and nodes


FITS = Fit(nodes={"cpu": 3, "memory": 3}, pods=7)
EMPTY = Fit(nodes={"cpu": 0, "memory": 0})


@pytest.mark.parametrize(
    ("fits", "state", "word", "to_do"),
    [
        ({"kubelet": FITS}, "ok", "cpu of 3 nodes, memory of 3 nodes, usage of 7 pods", ""),
        ({"kubelet": msgspec.structs.replace(FITS, pods=0)}, "warning", "0 pods", "scrape the pods"),
        ({"kubelet": Fit(nodes={"cpu": 3}, pods=7)}, "ok", "memory of nodes is not measured", ""),
        ({"kubelet": EMPTY}, "error", "has no metrics here", "no profile fits"),
        ({"kubelet": EMPTY, "other": FITS}, "error", "has no metrics here", "profile: other"),
        ({"kubelet": msgspec.structs.replace(EMPTY, strangers='node="x"')}, "error", 'has node="x"', "nodeLabels"),
        ({"kubelet": Fit(problem="too slow")}, "error", "too slow", "no profile fits"),
    ],
)
def test_a_profile_fits_or_another_one_does(fits: dict[str, Fit], state: str, word: str, to_do: str) -> None:
    """What is there is counted; what to set is said."""
    found = judged_profile("http://prometheus", "kubelet", fits)
    assert found.state == state
    assert word in found.what
    assert to_do in found.to_do


class OnlyNodes:
    """A source that measures nodes, and refuses every question about pods."""

    async def run(self) -> None: ...

    async def time(self) -> float:
        return 0.0

    def unsupported(self, question: MetricQuery) -> str:
        return "pods are not measured" if question.subject == "pod" else ""

    async def query(self, question: MetricQuery) -> list[Sample]:
        if reason := self.unsupported(question):
            raise SourceError(reason)
        return [Sample(node="a", series="{}", value=0.0)]

    def close(self) -> None: ...


async def test_a_profile_may_leave_the_pods_out() -> None:
    """It fits: only what is never answered there is not asked, and is told."""
    fit = await fit_of(OnlyNodes(), frozenset({"a"}), 0.0)
    found = judged_profile("http://prometheus", "custom", {"custom": fit})
    assert found.state == "warning"
    assert "profile custom fits: cpu of 1 nodes, memory of 1 nodes, usage of 0 pods" in found.what
    assert "pods are not measured" in found.to_do


def test_every_reason_has_something_to_do() -> None:
    """Also those that come to be later."""
    assert set(TO_DO) == set(Reason.__args__)  # type: ignore[attr-defined]


def polled_world(source: Literal["metrics-server", "load-watcher"]) -> tuple[Surroundings, MemoryKube]:
    """Two nodes and a pod that metrics-server tells of, one node that it does not; no load-watcher anywhere."""
    clock = ManualClock(NOW)
    kube = MemoryKube(clock)
    created = datetime.fromtimestamp(NOW - 86_400, UTC)
    sampled = datetime.fromtimestamp(NOW - 5, UTC)
    for name in ("a", "b", "silent"):
        status = NodeStatus(
            capacity={"cpu": "16", "memory": "64Gi"},
            allocatable={"cpu": "16", "memory": "64Gi"},
            conditions=[Condition(type="Ready", status="True")],
        )
        kube.put(NODES, Node(metadata=ObjectMeta(name=name, creation_timestamp=created), status=status))
    usage = {"cpu": "1", "memory": "1Gi"}
    for name in ("a", "b"):
        kube.put(NODE_METRICS, NodeMetrics(metadata=ObjectMeta(name=name), timestamp=sampled, usage=usage))
    pod = PodMetrics(
        metadata=ObjectMeta(name="web-0", namespace="shop"),
        timestamp=sampled,
        containers=[ContainerMetrics(name="main", usage=usage)],
    )
    kube.put(POD_METRICS, pod)
    collector = CollectorSettings(source=source, load_watcher=LoadWatcherSettings(url="http://127.0.0.1:1"))
    return Surroundings(configured=Configured(collector=collector), clock=clock, kube=kube), kube


async def found(name: str, around: Surroundings) -> dict[str, Finding]:
    """What a check finds, by where; a source that nobody polls would hold it up for two minutes."""
    async with asyncio.timeout(60):
        return {finding.where: finding for finding in await CHECKS[name](around)}


async def test_a_source_without_memory_is_polled_and_judged_by_this_moment() -> None:
    """What it tells of which node, and that windows are the collector's to tell."""
    around, _ = polled_world("metrics-server")
    said = await found("prometheus", around)
    what = "metrics-server fits: cpu of 2 nodes, memory of 2 nodes, usage of 1 pods"
    assert (said["metrics-server"].state, said["metrics-server"].what) == ("ok", what)
    said = await found("nodes", around)
    assert (said["node silent"].state, said["node silent"].what) == ("warning", "metrics-server does not tell of it")
    assert "2 of 3 nodes is known" in said["nodes"].what
    assert "node a" not in said
    assert said["windows"].state == "unknown"
    assert "retention is 1h" in said["window 1d"].what
    assert {"API server and this machine"} == set(await found("clocks", around))


async def test_a_source_that_has_nothing_of_ours_is_told_what_to_look_at() -> None:
    """Not to scrape kubelets: no profile of Prometheus is in question."""
    around, kube = polled_world("metrics-server")
    for name in ("a", "b"):
        kube.remove(NODE_METRICS, name)
    assert "kubectl top nodes" in (await found("prometheus", around))["metrics-server"].to_do


async def test_a_load_watcher_that_is_away_is_wrong_and_its_own_setting_named() -> None:
    """Not Prometheus', and not "unknown" after two minutes."""
    around, _ = polled_world("load-watcher")
    finding = (await found("prometheus", around))["load-watcher"]
    assert (finding.state, "loadWatcher.url" in finding.to_do) == ("error", True)
    assert "does not respond" in (await found("nodes", around))["nodes"].what
    assert "does not respond" in (await found("clocks", around))["load-watcher"].what


def unknown(name: str, excuse: str = "") -> Unknown:
    return Unknown(node=name, reason="stale", why="cpu: newest sample is 400 s old", excuse=excuse)


def test_an_unknown_node_is_told_with_its_reason() -> None:
    """A fault has something to do; one of which nothing is expected is none."""
    found = told(unknown("node-a"))
    assert (found.state, found.where, found.to_do) == ("warning", "node node-a", TO_DO["stale"])
    assert "400 s old" in found.what
    assert told(unknown("node-b", "virtual: no machine")).state == "ok"


@pytest.mark.parametrize(
    ("count", "lost", "state", "word"),
    [(10, 1, "ok", "90%"), (10, 2, "ok", "80%"), (4, 1, "error", "nothing is evicted"), (10, 4, "error", "neutral")],
)
def test_what_is_known_of_the_fleet_decides(count: int, lost: int, state: str, word: str) -> None:
    """By the same limits as the services."""
    [found] = coverage(count, [unknown(f"node-{number}") for number in range(lost)], LOAD)
    assert found.state == state
    assert word in found.what


def test_nodes_of_which_nothing_is_expected_do_not_count() -> None:
    """Two of two are known, whatever stands beside them."""
    [found] = coverage(4, [unknown("a", "virtual"), unknown("b", "here for 10 s")], LOAD)
    assert "2 of 2" in found.what
    assert coverage(1, [unknown("a", "virtual")], LOAD)[0].state == "warning"


def test_a_young_prometheus_lacks_its_long_windows() -> None:
    """That is told, and no error."""
    young = NodeReading(unknown=UnknownUsage("gap", "cpu: samples cover 3% of a window of 86400 s"))
    nodes = [Node(metadata=ObjectMeta(name=name)) for name in ("a", "b")]
    found = longer("1d", nodes, {"cpu": {"a": young, "b": young}})
    assert found.state == "warning"
    assert "0 of 2 nodes" in found.what
    assert longer("1d", nodes, {"cpu": dict.fromkeys("ab", NodeReading(mean=0.0))}).state == "ok"


# kube-scheduler


def scores(asked: int = 100, placed: int = 100, followed: float = 0.9, by_chance: float = 0.3) -> ScoresFollowed:
    return ScoresFollowed(requests=asked, placed=placed, followed=followed, by_chance=by_chance)


@pytest.mark.parametrize(
    ("heard", "state", "word"),
    [
        (Told(), "unknown", "no scorer has told"),
        (Told(scores=[ScoresFollowed(requests=0)], placed=12), "warning", "12 pods were placed"),
        (Told(scores=[ScoresFollowed(requests=7)]), "ok", "too few"),
        (Told(scores=[scores()]), "ok", "90% of 100 pods"),
        (Told(scores=[scores(followed=0.31)]), "warning", "not followed"),
        (Told(scores=[scores(followed=1.0, by_chance=1.0)]), "ok", "scores are used"),
        (Told(scores=[scores(followed=0.2), ScoresFollowed(requests=0)]), "warning", "20% of 100 pods"),
    ],
)
def test_scores_are_used_or_not(heard: Told, state: str, word: str) -> None:
    """Never asked, too few to say, followed, or no better than chance."""
    found = judged_scores(heard)
    assert found.state == state
    assert word in found.what


def test_the_entry_that_we_ship_is_without_fault() -> None:
    """Both of k8s/scheduler; and a ConfigMap of something else is passed over."""
    shipped = (ROOT / "k8s" / "scheduler" / "extender.yaml").read_text()
    assert judged_entry("file", shipped).state == "ok"
    maps = [
        ConfigMap(metadata=ObjectMeta(**each["metadata"]), data=each["data"])
        for each in yaml.safe_load_all((ROOT / "k8s" / "scheduler" / "second-scheduler.yaml").read_text())
        if each["kind"] == "ConfigMap"
    ]
    assert [found.state for found in entries_of([*maps, ConfigMap(data={"a": "b"})])] == ["ok"]


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"ignorable": False}, "no pod is placed"),
        ({"nodeCacheCapable": False}, "whole nodes"),
        ({"weight": 0}, "weight"),
        ({"httpTimeout": "3s"}, "holds up every pod"),
        ({"httpTimeout": None}, "holds up every pod"),
        ({"bindVerb": "bind"}, "binds nothing"),
        ({"prioritizeVerb": "score"}, "asks no scorer"),
    ],
)
def test_an_entry_that_can_hurt_is_told(change: dict[str, Any], word: str) -> None:
    """Each with what it does."""
    document = yaml.safe_load((ROOT / "k8s" / "scheduler" / "extender.yaml").read_text())
    document["extenders"][0] |= change
    found = judged_entry("file", yaml.safe_dump(document))
    assert found.state == "warning"
    assert word in found.what


@pytest.mark.parametrize("text", ["kind: KubeSchedulerConfiguration\n: [", "[KubeSchedulerConfiguration]"])
def test_an_entry_that_cannot_be_read_is_no_crash(text: str) -> None:
    """It is told as what it is."""
    assert judged_entry("file", text).state == "warning"


# all together


async def test_a_check_that_fails_keeps_no_other_from_its_work() -> None:
    """Whatever it raises is a finding, in its place."""

    async def broken(_: Surroundings) -> list[Finding]:
        raise ZeroDivisionError("a fault of ours")

    async def fine(_: Surroundings) -> list[Finding]:
        return [Finding(state="ok", where="there", what="is well")]

    around = Surroundings(configured=Configured(), clock=SystemClock(), kube=KubeError(0, "NoCluster", "none"))
    diagnosis = await diagnose(around, {"broken": broken, "fine": fine})
    assert [(found.check, found.state) for found in diagnosis.findings] == [("broken", "unknown"), ("fine", "ok")]
    assert "ZeroDivisionError: a fault of ours" in diagnosis.findings[0].what
    assert diagnosis.well


def test_many_alike_are_shown_as_a_few() -> None:
    """Of nodes there may be thousands; everything is in the JSON."""
    findings = [msgspec.structs.replace(told(unknown(f"node-{n}")), check="nodes") for n in range(40)]
    text = io.StringIO()
    show(Diagnosis(findings=findings), Console(file=text, width=400))
    said = text.getvalue()
    assert said.count("node node-") == 5
    assert "and 35 more" in said
    assert said.count(TO_DO["stale"]) == 1
    assert "Nothing is wrong (40 to look at, 0 not known)" in said


def test_the_checks_are_those_that_are_told_of() -> None:
    """docs/operations.md names each."""
    page = (ROOT / "docs" / "operations.md").read_text()
    assert [name for name in CHECKS if f"`{name}`" not in page] == []
