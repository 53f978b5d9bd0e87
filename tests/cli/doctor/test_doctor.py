"""`equipoise doctor`: the findings of its checks."""

import asyncio
import io
import math
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import msgspec
import pytest
import yaml
from builders import NOW
from cli.narrow import assert_never_cut
from collector.collectors import a_node
from collector.sources_in_memory import FakeSource, Usage
from deployment.base import base_documents
from deployment.kustomize import read_documents
from rich.console import Console

from equipoise.annotator.settings import AnnotatorSettings
from equipoise.binder.settings import BinderSettings
from equipoise.cli.doctor.checks import CHECKS
from equipoise.cli.doctor.checks.clocks import skew_finding
from equipoise.cli.doctor.checks.extender import (
    RecentAdvice,
    client_findings,
    config_map_findings,
    entry_finding,
    score_finding,
)
from equipoise.cli.doctor.checks.measurements.nodes import (
    FIXES,
    UnknownNode,
    coverage_finding,
    node_finding,
    window_finding,
)
from equipoise.cli.doctor.checks.measurements.prometheus import ProfileMatch, match_profile, profile_finding
from equipoise.cli.doctor.checks.permissions import (
    AGENT_EVICT,
    EVICT,
    REQUIRED,
    ApiPermission,
    agent_eviction_finding,
    eviction_finding,
    is_required,
    service_finding,
)
from equipoise.cli.doctor.checks.streams import permission_differences, permission_findings, stream_finding
from equipoise.cli.doctor.checks.versions import (
    PROGRAM_FIX,
    SERVICE_FIX,
    contradictions,
    kubernetes_finding,
    service_findings,
)
from equipoise.cli.doctor.environment import Diagnosis, Environment, Finding
from equipoise.cli.doctor.run import diagnose, settings_for, show
from equipoise.cli.effective.settings import file_settings
from equipoise.cli.effective.trust import permitted_moves
from equipoise.cli.prepare.created_objects import DISCOVERED, FILE
from equipoise.cli.prepare.discovery import Discovered
from equipoise.cli.progress import Activity
from equipoise.cli.service_settings import AllSettings
from equipoise.collector.decisions.validation.nodes import NodeReading
from equipoise.collector.decisions.validation.usage import Reason, UnknownUsage
from equipoise.collector.settings import CollectorSettings, LoadWatcherSettings, PrometheusSettings
from equipoise.collector.sources.metrics_server import (
    NODE_METRICS,
    POD_METRICS,
    ContainerMetrics,
    NodeMetrics,
    PodMetrics,
)
from equipoise.contracts.bus.streams import STREAMS
from equipoise.contracts.configuration.moves import MovesLevel, MovesSettings
from equipoise.contracts.configuration.protection import Protection
from equipoise.contracts.configuration.settings import Freshness, LoadSettings
from equipoise.contracts.kubernetes.objects.cluster import ConfigMap
from equipoise.contracts.kubernetes.objects.metadata import Condition, ObjectMeta
from equipoise.contracts.kubernetes.objects.node import Node, NodeStatus
from equipoise.contracts.messages.advice import ScoresFollowed
from equipoise.contracts.messages.health import EFFECTIVE_CONFIGURATION, HEARTBEAT
from equipoise.runtime.bus.inspection import Allowed, Identity, StreamState
from equipoise.runtime.bus.inspection import Rights as BusRights
from equipoise.runtime.bus.permissions import permissions_of
from equipoise.runtime.configuration import API_VERSION, KIND
from equipoise.runtime.configuration.discovered import REASON
from equipoise.runtime.configuration.sections import Shared
from equipoise.runtime.kubernetes.client import CONFIG_MAPS, NODES, KubeError
from equipoise.runtime.process.clock import SystemClock
from equipoise.scorer.settings import ExtenderSettings, ScorerSettings
from equipoise.testbed.memory.clock import ManualClock
from equipoise.testbed.memory.kube import MemoryKube

ROOT = Path(__file__).parents[3]
LOAD = LoadSettings()


# clocks


@pytest.mark.parametrize(
    ("skew", "state", "text"),
    [
        ((-0.4, 0.6), "ok", "0.6 s"),
        ((-1.0, 3.0), "ok", "3.0 s"),
        ((2.5, 3.5), "warning", "2.5 s ahead"),
        ((-31.0, -30.0), "error", "30.0 s behind"),
    ],
)
def test_clocks_are_compared_by_the_smallest_possible_skew(skew: tuple[float, float], state: str, text: str) -> None:
    """Bounds that reach below the threshold are no finding."""
    found = skew_finding("Prometheus and this machine", skew, Freshness())
    assert (found.state, bool(found.fix)) == (state, state != "ok")
    assert text in found.message


# streams


INTENT = next(stream for stream in STREAMS if stream.work_queue)
UTILIZATION = STREAMS[0]


def as_created(stream: Any, **fields: Any) -> StreamState:
    made: dict[str, Any] = {"subjects": stream.subjects, "max_age": stream.max_age or 0.0, "differences": {}}
    return StreamState(**(made | ({"waiting": 0, "workers": 1} if stream.work_queue else {}) | fields))


@pytest.mark.parametrize(
    ("stream", "actual", "state", "text"),
    [
        (UTILIZATION, as_created(UTILIZATION), "ok", "equipoise.utilization.>"),
        (UTILIZATION, None, "error", "does not exist"),
        (
            UTILIZATION,
            as_created(UTILIZATION, subjects=("other.>",)),
            "error",
            "has other.>, not equipoise.utilization",
        ),
        (UTILIZATION, as_created(UTILIZATION, max_age=5.0), "error", "for 5 s, not for 1800 s"),
        (
            UTILIZATION,
            as_created(UTILIZATION, differences={"storage": ("memory", "file")}),
            "error",
            "memory, not file",
        ),
        (INTENT, as_created(INTENT), "ok", ""),
        (INTENT, as_created(INTENT, waiting=None), "error", "consumer of the binders is missing"),
        (INTENT, as_created(INTENT, waiting=3, workers=0), "error", "3 intents are pending"),
        (INTENT, as_created(INTENT, waiting=3, workers=2), "ok", ""),
        (INTENT, as_created(INTENT, skipped=3), "error", "skips the next 3"),
    ],
)
def test_a_stream_is_compared_with_the_one_of_setup(
    stream: Any, actual: StreamState | None, state: str, text: str
) -> None:
    """It exists, with subjects, age and properties of setup, and with a consumer that receives intents."""
    found = stream_finding(stream, actual)
    assert (found.state, bool(found.fix)) == (state, state != "ok")
    assert text in found.message


def test_nats_permissions_are_compared_with_the_permission_file() -> None:
    """Missing ones are an error, excess ones a warning, as is a server without permissions."""
    expected = permissions_of("scorer")
    exact = {"publish": list(expected.publish), "subscribe": list(expected.subscribe)}
    assert permission_differences(expected, exact) == ([], [])
    assert permission_differences(expected, {**exact, "publish": [*expected.publish[1:], "a.>"]}) == (
        [f"publish {expected.publish[0]}"],
        ["publish a.>"],
    )
    assert permission_differences(expected, {**exact, "subscribe": None}) == ([], ["subscribe everything"])
    old = BusRights(publish=Allowed(allow=["a.>"]), subscribe=Allowed(allow=list(expected.subscribe)))
    states = [found.state for found in permission_findings("bus", Identity(user="scorer", permissions=old), "scorer")]
    assert states == ["error", "warning"]
    assert [found.state for found in permission_findings("bus", Identity(), "")] == ["warning"]
    assert [found.state for found in permission_findings("bus", Identity(permissions=BusRights()), "bob")] == [
        "unknown"
    ]


# rights


def test_the_required_permissions_are_those_of_the_manifests() -> None:
    """Every permission of k8s/base and of the optional folders is checked, and no other."""
    found = set()
    files = (
        "hints/annotator.yaml",
        "hints/webhook.yaml",
        "consolidation/annotator.yaml",
        "deletion-costs/annotator.yaml",
        "surge/binder.yaml",
        "colocation/reclaimer.yaml",
        "colocation/agent.yaml",
        "colocation/evictions/evictions.yaml",
    )
    for document in [*base_documents(), *(each for file in files for each in read_documents(ROOT / "k8s" / file))]:
        name = document["metadata"]["name"].removeprefix("equipoise-")
        name = (
            name
            if name == "hints-webhook"
            else name.removesuffix("-webhook")
            .removesuffix("-hints")
            .removesuffix("-consolidation")
            .removesuffix("-deletion-costs")
            .removesuffix("-surge")
            .removesuffix("-detach")
        )
        if document["kind"] not in ("Role", "ClusterRole") or name == "setup":
            continue
        found |= {
            ApiPermission(
                service="binder" if name == "evict" else name.removesuffix("-evict"),
                verb=verb,
                group=group,
                resource=resource.partition("/")[0],
                subresource=resource.partition("/")[2],
                name=object_name,
                own_namespace=document["kind"] == "Role",
            )
            for rule in document.get("rules", [])
            for verb in rule["verbs"]
            for group in rule["apiGroups"]
            for resource in rule["resources"]
            for object_name in rule.get("resourceNames", [""])
        }
    assert {msgspec.structs.replace(permission, when="") for permission in (*REQUIRED, EVICT, AGENT_EVICT)} == found


def test_a_missing_permission_is_reported() -> None:
    """With the manifest that grants it; for kinds of workloads that a cluster may not have, as a warning."""
    allowed = dict.fromkeys(REQUIRED, True)
    assert service_finding("collector", "account", allowed).state == "ok"
    pods = next(permission for permission in REQUIRED if str(permission) == "watch pods")
    found = service_finding("collector", "account", {**allowed, pods: False})
    assert (found.state, found.message) == ("error", "may not watch pods")
    assert found.fix == "apply k8s/base/collector.yaml (with Helm: upgrade the release)"
    clones = next(permission for permission in REQUIRED if str(permission) == "patch clonesets.apps.kruise.io")
    assert service_finding("annotator", "account", {**allowed, clones: False}).state == "warning"
    hints = next(permission for permission in REQUIRED if str(permission) == "create placementhints.equipoise.dev")
    fix = service_finding("annotator", "account", {**allowed, hints: False}).fix
    assert fix == "apply k8s/hints (with Helm: set hints.enabled)"
    costs = next(permission for permission in REQUIRED if str(permission) == "patch pods")
    fix = service_finding("annotator", "account", {**allowed, costs: False}).fix
    assert fix == "apply k8s/deletion-costs (with Helm: set deletionCosts)"
    taint = next(permission for permission in REQUIRED if str(permission) == "taint nodes.equipoise.dev")
    fix = service_finding("annotator", "account", {**allowed, taint: False}).fix
    assert fix == "apply k8s/consolidation (with Helm: upgrade the release)"
    quotas = next(permission for permission in REQUIRED if str(permission) == "list resourcequotas")
    fix = service_finding("binder", "account", {**allowed, quotas: False}).fix
    assert fix == "apply k8s/surge (with Helm: set surge)"
    status = next(permission for permission in REQUIRED if str(permission) == "patch nodes/status")
    found = service_finding("reclaimer", "account", {**allowed, status: False})
    assert (found.state, found.message) == ("error", "may not patch nodes/status")
    assert found.fix == "apply k8s/colocation/reclaimer.yaml (with Helm: upgrade the release)"


@pytest.mark.parametrize(
    ("collector", "protection", "names"),
    [
        (CollectorSettings(), Protection(), set()),
        (CollectorSettings(shards=2), Protection(), {"equipoise-collector-0", "equipoise-collector-1"}),
        (CollectorSettings(source="metrics-server"), Protection(), {"nodes", "pods"}),
        (CollectorSettings(), Protection(persistent_volumes=True), {"persistentvolumeclaims", "persistentvolumes"}),
    ],
)
def test_permissions_of_disabled_features_are_not_required(
    collector: CollectorSettings, protection: Protection, names: set[str]
) -> None:
    """Shards, metrics-server and moves of pods with volumes require additional permissions; so do ServiceAccounts."""
    settings = AllSettings(shared=Shared(protection=protection), collector=collector)
    required = [permission for permission in REQUIRED if is_required(permission, settings, deployed=False)]

    assert {each.name or each.resource for each in required if each.when not in ("", "workloads")} == names
    assert {each for each in REQUIRED if each.when in ("", "workloads")} <= set(required)
    with_accounts = {permission for permission in REQUIRED if is_required(permission, settings, deployed=True)}
    assert {permission.resource for permission in with_accounts - set(required)} == {"roles", "evictions"}


def test_deletion_costs_require_pods_that_can_be_read_and_patched() -> None:
    """Nothing else does."""
    settings = AllSettings(annotator=AnnotatorSettings(deletion_costs="hottestNodes"))
    added = [permission for permission in REQUIRED if is_required(permission, settings, deployed=True)]
    added = [permission for permission in added if not is_required(permission, AllSettings(), deployed=True)]

    assert list(map(str, added)) == ["get pods", "patch pods"]


def test_a_level_requires_the_permissions_of_what_it_decides() -> None:
    """As the settings would that are left out."""

    def added(**settings: Any) -> list[str]:
        with_settings = AllSettings(**settings)
        required = [permission for permission in REQUIRED if is_required(permission, with_settings, deployed=True)]
        return [str(each) for each in required if not is_required(each, AllSettings(), deployed=True)]

    def at(level: MovesLevel) -> Shared:
        return Shared(moves=MovesSettings(level=level))

    costs = ["get pods", "patch pods"]
    surge = ["list pods", "list services", "list resourcequotas", "get nodes", "list poddisruptionbudgets.policy"]
    assert added(shared=at("off")) == []
    assert added(shared=at("scaleDowns")) == costs
    assert added(shared=at("withoutGap")) == costs + surge
    assert added(shared=at("levelDay"), binder=BinderSettings(evict=True)) == [*costs, *surge, "patch pods"]
    refusing = AnnotatorSettings(deletion_costs="none")
    assert added(shared=at("withoutGap"), annotator=refusing) == surge


@pytest.mark.parametrize(
    ("may_evict", "missing", "text"),
    [
        (True, set(), "hotNodes (moves.level is hotNodes)"),
        (True, {"surge"}, "hotNodes (moves.level is hotNodes; k8s/surge is not applied)"),
        (True, {"deletionCosts"}, "hotNodes (moves.level is hotNodes; k8s/deletion-costs is not applied)"),
        (False, set(), "scaleDowns (moves.level is hotNodes; the binder has no permission to evict)"),
        (False, {"detach", "deletionCosts"},
         "off (moves.level is hotNodes; k8s/deletion-costs is not applied; the binder has no permission to evict)"),
    ],
)  # fmt: skip
def test_the_level_of_moves_is_no_higher_than_its_permissions(may_evict: bool, missing: set[str], text: str) -> None:
    settings = AllSettings(shared=Shared(moves=MovesSettings(level="hotNodes")), binder=BinderSettings(evict=True))
    assert str(permitted_moves(settings, may_evict=may_evict, missing=missing)) == text


@pytest.mark.parametrize(
    ("everywhere", "evict", "granted", "state", "text"),
    [
        (True, True, [], "ok", "may evict"),
        (True, False, [], "ok", "binder.evict is false"),
        (False, False, [], "ok", "observe"),
        (False, True, ["shop"], "ok", "in shop"),
        (False, True, [], "error", "binder.evict is true"),
    ],
)
def test_the_permission_to_evict_is_compared_with_the_configuration(
    everywhere: bool, evict: bool, granted: list[str], state: str, text: str
) -> None:
    """It is missing only if binder.evict is true."""
    namespaces = ["shop", "bank"]
    found = eviction_finding("account", everywhere=everywhere, evict=evict, granted=granted, configured=namespaces)
    assert found.state == state
    assert text in found.message


@pytest.mark.parametrize(
    ("permitted", "evict", "state", "text"),
    [
        (True, True, "ok", "may evict batch pods"),
        (True, None, "ok", "may evict batch pods"),
        (True, False, "ok", "agent.evict is false"),
        (False, None, "ok", "only logged"),
        (False, False, "ok", "only logged"),
        (False, True, "error", "may not evict, and agent.evict is true"),
    ],
)
def test_the_permission_of_agents_to_evict_is_compared_with_their_configuration(
    permitted: bool, evict: bool | None, state: str, text: str
) -> None:
    """It is missing only if agent.evict is known to be true."""
    found = agent_eviction_finding(permitted, evict)
    assert (found.state, bool(found.fix)) == (state, state == "error")
    assert text in found.message


# Prometheus and nodes


THREE = {"cpu": 3, "memory": 3}
NONE = {"cpu": 0, "memory": 0}
MATCH = ProfileMatch(nodes=THREE, sampled=THREE, pods=7, sampled_pods=7)
EMPTY = ProfileMatch(nodes=NONE, sampled=NONE)
WHY = "none has 8 samples in a window of 300 s, at one per 30 s"


@pytest.mark.parametrize(
    ("profiles", "state", "text", "fix"),
    [
        ({"kubelet": MATCH}, "ok", "cpu of 3 nodes, memory of 3 nodes, usage of 7 pods", ""),
        ({"kubelet": msgspec.structs.replace(MATCH, pods=0, sampled_pods=0)}, "warning", "0 pods", "scrape the pods"),
        (
            {"kubelet": msgspec.structs.replace(MATCH, pods=0, unknown_pods=WHY)},
            "warning", f"usage of 0 pods of 7: {WHY}", "wait for one window",
        ),
        (
            {"kubelet": msgspec.structs.replace(MATCH, pods=3, unknown_pods="the others do not have 8 samples")},
            "warning", "usage of 3 pods of 7: the others do not have 8 samples", "wait for one window",
        ),
        (
            {"kubelet": msgspec.structs.replace(MATCH, nodes=NONE, unknown="cpu: samples cover 40% of a window")},
            "warning", "has series of 3 nodes, and measures none: cpu: samples cover 40%", "see the nodes below",
        ),
        (
            {"kubelet": ProfileMatch(nodes={"cpu": 3}, sampled={"cpu": 3}, pods=7, sampled_pods=7)},
            "ok", "memory of nodes is not measured", "",
        ),
        ({"kubelet": EMPTY}, "error", "has no metrics", "missing: node_cpu_usage_seconds_total and"),
        ({"kubelet": EMPTY, "kube-prometheus": MATCH}, "error", "has no metrics", "profile to kube-prometheus"),
        ({"kubelet": msgspec.structs.replace(EMPTY, foreign_series='node="x"')}, "error", 'has node="x"', "nodeLabels"),
        ({"kubelet": ProfileMatch(problem="too slow")}, "error", "too slow", "check the limits"),
    ],
)  # fmt: skip
def test_a_profile_matches_or_the_finding_names_one(
    profiles: dict[str, ProfileMatch], state: str, text: str, fix: str
) -> None:
    """Nodes and pods of known usage are counted."""
    found = profile_finding("http://prometheus", "kubelet", profiles)
    assert found.state == state
    assert text in found.message
    assert fix in found.fix


async def test_a_profile_may_measure_nodes_only() -> None:
    """Unsupported queries are not sent; the finding has the reason."""
    source = FakeSource(ManualClock(NOW), nodes={"a": Usage()})
    source.rejects = lambda query: "pods are not measured" if query.subject == "pod" else ""
    match = await match_profile(source, [a_node("a")], LOAD)
    found = profile_finding("http://prometheus", "custom", {"custom": match})
    assert found.state == "warning"
    assert "profile custom matches: cpu of 1 nodes, memory of 1 nodes, usage of 0 pods" in found.message
    assert "pods are not measured" in found.fix
    assert {"node"} == {query.subject for query in source.queries}


async def test_a_profile_matches_what_it_measures() -> None:
    """The validation of the collector decides: series alone are no usage."""
    source = FakeSource(ManualClock(NOW), nodes={"a": Usage(), "b": Usage(coverage=0.5)})
    source.pods = {("shop", "web-1", "a"): Usage(coverage=0.5), ("shop", "web-2", "b"): Usage(coverage=0.5)}
    match = await match_profile(source, [a_node("a"), a_node("b")], LOAD)

    assert ({"cpu": 1, "memory": 1}, {"cpu": 2, "memory": 2}) == (match.nodes, match.sampled)
    assert "cpu: samples cover 53% of a window of 300 s at one per 15 s" == match.unknown
    assert (0, 2, "none has 16 samples in a window of 300 s, at one per 15 s") == (
        match.pods, match.sampled_pods, match.unknown_pods,
    )  # fmt: skip


async def test_a_profile_that_measures_fewer_than_half_of_the_pods_has_a_reason() -> None:
    """It names the resource if most pods lack only one. Some pods may have just begun."""
    source = FakeSource(ManualClock(NOW), nodes={"a": Usage()})
    names = [("shop", f"web-{number}", "a") for number in range(5)]
    reasons = []
    for measured in (3, 2, 0):
        source.pods = {name: Usage(coverage=1.0 if at < measured else 0.5) for at, name in enumerate(names)}
        reasons.append((await match_profile(source, [a_node("a")], LOAD)).unknown_pods)
    source.pods = dict.fromkeys(names, Usage())
    source.pods |= {name: Usage(memory=math.nan) for name in names[1:]}
    reasons.append((await match_profile(source, [a_node("a")], LOAD)).unknown_pods)

    enough = "16 samples in a window of 300 s, at one per 15 s"
    assert reasons == [
        "", f"the others do not have {enough}", f"none has {enough}", f"memory: the others do not have {enough}"
    ]  # fmt: skip


def test_every_reason_has_a_fix() -> None:
    """Also new ones."""
    assert set(FIXES) == set(Reason.__args__)  # type: ignore[attr-defined]


def polled_world(source: Literal["metrics-server", "load-watcher"]) -> tuple[Environment, MemoryKube]:
    """Two nodes and a pod with metrics in metrics-server, one node without; there is no load-watcher."""
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
    return Environment(settings=AllSettings(collector=collector), clock=clock, kube=kube), kube


async def findings_of(name: str, environment: Environment) -> dict[str, Finding]:
    """The findings of a check by subject; a source that is not polled would delay it for two minutes."""
    async with asyncio.timeout(60):
        return {finding.subject: finding for finding in await CHECKS[name](environment)}


async def test_a_source_without_history_is_polled_and_checked_by_current_values() -> None:
    """Windows are known to the collector only."""
    environment, _ = polled_world("metrics-server")
    findings = await findings_of("prometheus", environment)
    message = "metrics-server matches: cpu of 2 nodes, memory of 2 nodes, usage of 1 pods"
    assert (findings["metrics-server"].state, findings["metrics-server"].message) == ("ok", message)
    findings = await findings_of("nodes", environment)
    assert (findings["node silent"].state, findings["node silent"].message) == (
        "warning",
        "metrics-server has no sample of it",
    )
    assert "2 of 3 nodes is known" in findings["nodes"].message
    assert "node a" not in findings
    assert findings["windows"].state == "unknown"
    assert "retention is 1h" in findings["window 1d"].message
    assert {"API server and this machine"} == set(await findings_of("clocks", environment))


async def test_a_source_without_our_nodes_has_a_fix_of_its_own() -> None:
    """It has no profiles and does not scrape kubelets."""
    environment, kube = polled_world("metrics-server")
    for name in ("a", "b"):
        kube.remove(NODE_METRICS, name)
    assert "kubectl top nodes" in (await findings_of("prometheus", environment))["metrics-server"].fix


@pytest.mark.parametrize("was_found", [True, False])
async def test_why_the_services_use_no_prometheus_is_named_beside_the_one_that_doctor_found(was_found: bool) -> None:
    """Otherwise the services seem to use the one that only this command has found."""
    clock = SystemClock()
    kube = MemoryKube(clock)
    metadata = ObjectMeta(name=DISCOVERED, namespace="equipoise-system")
    kube.put(CONFIG_MAPS, ConfigMap(metadata=metadata, data={REASON: "nothing is measured: 401"}))
    collector = CollectorSettings(prometheus=PrometheusSettings(url="http://127.0.0.1:9"))
    environment = Environment(
        settings=AllSettings(collector=collector), clock=clock, kube=kube, prometheus_was_found=was_found
    )

    findings = await findings_of("prometheus", environment)

    assert findings["http://127.0.0.1:9"].state == "error"
    assert ("source of metrics" in findings) == was_found


async def test_without_a_source_only_the_reason_is_named() -> None:
    """Nobody has configured the default URL."""
    clock = SystemClock()
    kube = MemoryKube(clock)
    metadata = ObjectMeta(name=DISCOVERED, namespace="equipoise-system")
    kube.put(CONFIG_MAPS, ConfigMap(metadata=metadata, data={REASON: "nothing is measured: no Prometheus"}))

    findings = await findings_of("prometheus", Environment(settings=AllSettings(), clock=clock, kube=kube))

    assert {subject: finding.state for subject, finding in findings.items()} == {"source of metrics": "error"}
    assert "no Prometheus" in findings["source of metrics"].message


@pytest.mark.parametrize(
    ("collector", "subjects"),
    [
        ({"source": "prometheus", "prometheus": {"url": "http://a:9090"}}, ["Prometheus"]),
        ({"source": "metrics-server"}, ["Prometheus", "source of metrics"]),
    ],
)
async def test_a_prometheus_that_the_installation_found_is_no_problem_but_that_it_cannot_be_reached(
    collector: dict[str, Any], subjects: list[str]
) -> None:
    clock = SystemClock()
    kube = MemoryKube(clock)
    metadata = ObjectMeta(name=DISCOVERED, namespace="equipoise-system")
    found = Discovered(collector=collector, reason="a reason")
    kube.put(CONFIG_MAPS, ConfigMap(metadata=metadata, data={FILE: found.document, REASON: found.reason}))
    environment = Environment(
        settings=AllSettings(), clock=clock, kube=kube, prometheus_problem="no pod of Prometheus is Ready"
    )

    findings = await findings_of("prometheus", environment)

    assert subjects == list(findings)
    assert findings["Prometheus"].message == "no pod of Prometheus is Ready"


def test_a_file_is_read_with_the_source_of_metrics_that_was_found(tmp_path: Path) -> None:
    """As the collectors read it, in the Job of `helm test`."""
    file, found = tmp_path / "equipoise.yaml", tmp_path / "found.yaml"
    header = {"apiVersion": API_VERSION, "kind": KIND}
    source = {"prometheus": {"url": "http://found:9090", "profile": "kube-prometheus"}}
    found.write_text(yaml.safe_dump(header | {"collector": source}))

    def settings(collector: dict[str, Any]) -> PrometheusSettings:
        file.write_text(yaml.safe_dump(header | {"collector": collector}))
        variables = {"EQUIPOISE_DISCOVERED": str(found)}
        read = settings_for(file, variables, prometheus_url=None, nats={}, cluster=None).collector.prometheus
        assert file_settings(file, variables)["collector"]["prometheus"]["url"] == read.url
        return read

    assert settings({}) == PrometheusSettings(url="http://found:9090", profile="kube-prometheus")
    own = {"prometheus": {"url": "http://own:9090"}}
    assert settings(own) == PrometheusSettings(url="http://own:9090"), "two sources are never mixed"


async def test_an_unreachable_load_watcher_is_an_error_with_its_own_setting() -> None:
    """Other checks report the error at once."""
    environment, _ = polled_world("load-watcher")
    finding = (await findings_of("prometheus", environment))["load-watcher"]
    assert (finding.state, "loadWatcher.url" in finding.fix) == ("error", True)
    assert "does not respond" in (await findings_of("nodes", environment))["nodes"].message
    assert "does not respond" in (await findings_of("clocks", environment))["load-watcher"].message


def unknown(name: str, expected: str = "") -> UnknownNode:
    return UnknownNode(node=name, reason="stale", why="cpu: newest sample is 400 s old", expected=expected)


def test_an_unknown_node_has_its_reason_and_a_fix() -> None:
    """A node that is not expected to have data is no fault."""
    found = node_finding(unknown("node-a"))
    assert (found.state, found.subject, found.fix) == ("warning", "node node-a", FIXES["stale"])
    assert "400 s old" in found.message
    assert node_finding(unknown("node-b", "virtual: no machine")).state == "ok"


@pytest.mark.parametrize(
    ("count", "missing", "state", "text"),
    [(10, 1, "ok", "90%"), (10, 2, "ok", "80%"), (4, 1, "error", "nothing is evicted"), (10, 4, "error", "neutral")],
)
def test_coverage_has_the_thresholds_of_the_services(count: int, missing: int, state: str, text: str) -> None:
    """Below them scores are neutral, or nothing is evicted."""
    found = coverage_finding(count, [unknown(f"node-{number}") for number in range(missing)], LOAD)
    assert found.state == state
    assert text in found.message


def test_nodes_that_are_not_expected_do_not_count() -> None:
    """Two of two expected nodes are known."""
    found = coverage_finding(4, [unknown("a", "virtual"), unknown("b", "here for 10 s")], LOAD)
    assert "2 of 2" in found.message
    assert coverage_finding(1, [unknown("a", "virtual")], LOAD).state == "warning"


def test_a_young_prometheus_has_no_long_windows() -> None:
    """That is a warning."""
    young = NodeReading(unknown=UnknownUsage("gap", "cpu: samples cover 3% of a window of 86400 s"))
    nodes = [Node(metadata=ObjectMeta(name=name)) for name in ("a", "b")]
    found = window_finding("1d", nodes, {"cpu": {"a": young, "b": young}})
    assert found.state == "warning"
    assert "0 of 2 nodes" in found.message
    assert window_finding("1d", nodes, {"cpu": dict.fromkeys("ab", NodeReading(mean=0.0))}).state == "ok"


# kube-scheduler


def scores(requests: int = 100, placed: int = 100, followed: float = 0.9, by_chance: float = 0.3) -> ScoresFollowed:
    return ScoresFollowed(requests=requests, placed=placed, followed=followed, by_chance=by_chance)


@pytest.mark.parametrize(
    ("advice", "state", "text"),
    [
        (RecentAdvice(), "unknown", "no scorer has published"),
        (RecentAdvice(scores=[ScoresFollowed(requests=0)], placed=12), "warning", "12 pods were placed"),
        (RecentAdvice(scores=[ScoresFollowed(requests=7)]), "ok", "too few"),
        (RecentAdvice(scores=[scores()]), "ok", "90% of 100 pods"),
        (RecentAdvice(scores=[scores(followed=0.31)]), "warning", "not used"),
        (RecentAdvice(scores=[scores(followed=1.0, by_chance=1.0)]), "ok", "scores are used"),
        (RecentAdvice(scores=[scores(followed=0.2), ScoresFollowed(requests=0)]), "warning", "20% of 100 pods"),
    ],
)
def test_scores_are_used_or_not(advice: RecentAdvice, state: str, text: str) -> None:
    """No requests, too few pods, followed, or no better than chance."""
    found = score_finding(advice)
    assert found.state == state
    assert text in found.message


def test_a_kube_scheduler_without_requests_is_as_intended_if_hints_are_enabled() -> None:
    """They need no entry in its configuration."""
    advice = RecentAdvice(scores=[ScoresFollowed(requests=0)], placed=30)

    assert "warning" == score_finding(advice).state
    assert "ok" == score_finding(advice, hints=True).state
    assert "warning" == score_finding(advice, hints=True, target_points=250).state


@pytest.mark.parametrize(
    ("listen", "allowed", "found"), [("0.0.0.0:8888", True, 1), ("0.0.0.0:8888", False, 0), ("127.0.0.1:8888", True, 0)]
)
def test_an_extender_that_answers_anyone_is_a_warning(listen: str, allowed: bool, found: int) -> None:
    """Only if that is configured: without it the scorer does not start."""
    findings = client_findings(ScorerSettings(listen=listen, extender=ExtenderSettings(allow_unauthenticated=allowed)))
    assert len(findings) == found
    assert all(each.state == "warning" and "answers anyone" in each.message and each.fix for each in findings)


def test_the_shipped_entries_have_no_fault() -> None:
    """Both of k8s/scheduler; other ConfigMaps are skipped."""
    shipped = (ROOT / "k8s" / "scheduler" / "extender.yaml").read_text()
    assert entry_finding("file", shipped).state == "ok"
    maps = [
        ConfigMap(metadata=ObjectMeta(**each["metadata"]), data=each["data"])
        for each in yaml.safe_load_all((ROOT / "k8s" / "scheduler" / "second-scheduler.yaml").read_text())
        if each["kind"] == "ConfigMap"
    ]
    assert [found.state for found in config_map_findings([*maps, ConfigMap(data={"a": "b"})])] == ["ok"]


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"ignorable": False}, "no pod is placed"),
        ({"nodeCacheCapable": False}, "whole nodes"),
        ({"weight": 0}, "weight"),
        ({"httpTimeout": "3s"}, "delays every pod"),
        ({"httpTimeout": None}, "delays every pod"),
        ({"bindVerb": "bind"}, "does not bind pods"),
        ({"prioritizeVerb": "score"}, "has no scorer"),
    ],
)
def test_a_harmful_entry_is_a_warning(change: dict[str, Any], text: str) -> None:
    """With its effect."""
    document = yaml.safe_load((ROOT / "k8s" / "scheduler" / "extender.yaml").read_text())
    document["extenders"][0] |= change
    found = entry_finding("file", yaml.safe_dump(document))
    assert found.state == "warning"
    assert text in found.message


@pytest.mark.parametrize("text", ["kind: KubeSchedulerConfiguration\n: [", "[KubeSchedulerConfiguration]"])
def test_an_unreadable_entry_is_a_warning(text: str) -> None:
    """Not an error of the check."""
    assert entry_finding("file", text).state == "warning"


# all together


async def test_the_checks_that_have_not_ended_are_shown() -> None:
    """Some take two minutes with a slow Prometheus."""
    texts: list[str] = []
    answer = asyncio.Event()

    async def slow(_: Environment) -> list[Finding]:
        await answer.wait()
        return []

    async def fast(_: Environment) -> list[Finding]:
        asyncio.get_running_loop().call_soon(answer.set)
        return []

    environment = Environment(settings=AllSettings(), clock=SystemClock(), kube=KubeError(0, "NoCluster", "none"))
    await diagnose(environment, {"slow": slow, "fast": fast}, Activity("connecting", texts.append))
    assert ["connecting", "0 of 2 checks, waiting for slow, fast", "1 of 2 checks, waiting for slow"] == texts


async def test_a_failing_check_does_not_affect_other_checks() -> None:
    """Its exception is a finding."""

    async def broken(_: Environment) -> list[Finding]:
        raise ZeroDivisionError("a fault of ours")

    async def fine(_: Environment) -> list[Finding]:
        return [Finding(state="ok", subject="there", message="is well")]

    environment = Environment(settings=AllSettings(), clock=SystemClock(), kube=KubeError(0, "NoCluster", "none"))
    diagnosis = await diagnose(environment, {"broken": broken, "fine": fine})
    assert [(found.check, found.state) for found in diagnosis.findings] == [("broken", "unknown"), ("fine", "ok")]
    assert "ZeroDivisionError: a fault of ours" in diagnosis.findings[0].message
    assert diagnosis.healthy


def test_many_alike_findings_are_shortened() -> None:
    """There may be thousands of nodes; JSON output has all."""
    findings = [msgspec.structs.replace(node_finding(unknown(f"node-{n}")), check="nodes") for n in range(40)]
    text = io.StringIO()
    show(Diagnosis(healthy=True, findings=findings), Console(file=text, width=400))
    output = text.getvalue()
    assert output.count("node node-") == 5
    assert "and 35 more" in output
    assert output.count(FIXES["stale"]) == 1
    assert "0 errors, 40 warnings, 0 unknown" in output


def test_one_error_is_an_error() -> None:
    """Not `1 errors`."""
    text = io.StringIO()
    show(Diagnosis(healthy=False, findings=[Finding("error", "a", "b")]), Console(file=text, width=400))
    assert text.getvalue().splitlines()[-1] == "1 error, 0 warnings, 0 unknown"


@pytest.mark.parametrize(
    ("server", "state"),
    [
        ("v1.29.15", "error"),
        ("v1.30.1-gke.200", "ok"),
        ("v1.37.2", "ok"),
        ("v1.38.0-alpha.1+k3s1", "warning"),
        ("unknown", "unknown"),
    ],
)
def test_the_version_of_the_api_server_is_compared_with_the_supported_ones(server: str, state: str) -> None:
    """An untested one is no error: minor versions are compatible."""
    finding = kubernetes_finding(server)
    assert finding.state == state
    assert "supported are 1.30 and newer, tested is 1.37" in finding.message
    assert bool(finding.fix) == (state in ("error", "warning"))


@pytest.mark.parametrize(
    ("theirs", "state", "fix"),
    [
        ("0.2.7", "ok", ""),
        ("0.1.0", "warning", SERVICE_FIX),
        ("0.3.0", "warning", PROGRAM_FIX),
        ("0.4.0", "error", PROGRAM_FIX),
        ("1.2.0", "error", PROGRAM_FIX),
        ("main", "unknown", ""),
    ],
)
def test_services_may_be_one_minor_version_away(theirs: str, state: str, fix: str) -> None:
    """The older side is to be upgraded."""
    heartbeat = msgspec.structs.replace(HEARTBEAT, version=theirs)
    [finding] = service_findings([heartbeat], "0.2.0")
    assert (finding.subject, finding.state, finding.fix) == ("descheduler", state, fix)


def test_each_version_of_a_service_is_named_with_its_processes() -> None:
    """Within an upgrade there are two."""
    beats = [msgspec.structs.replace(HEARTBEAT, id=str(n), version=f"0.{n // 2}.0") for n in range(3)]
    assert [finding.message for finding in service_findings(beats, "0.1.0")] == [
        "version 0.0.0 (2 processes) is older than this program, 0.1.0",
        "version 0.1.0 (1 process)",
    ]
    [nobody] = service_findings([], "0.1.0")
    assert nobody.state == "unknown"


def test_a_configuration_without_a_heartbeat_and_one_that_differs_from_it_are_named() -> None:
    """Somebody may have published it in the name of the service."""
    beats = [msgspec.structs.replace(HEARTBEAT, service="binder", id=f"binder-{n}", evictions="real") for n in (1, 2)]
    one, two, three = (
        msgspec.structs.replace(EFFECTIVE_CONFIGURATION, id=f"binder-{n}", evictions=evictions)
        for n, evictions in ((1, "real"), (2, "dry run"), (3, "real"))
    )
    assert list(contradictions([one], beats)) == []
    assert [
        (finding.state, finding.subject, finding.message) for finding in contradictions([one, two, three], beats)
    ] == [
        ("warning", "binder", "evictions of binder-2 are 'real' by its heartbeat, and 'dry run' by its configuration"),
        ("warning", "binder", "binder-3 has published a configuration, and no heartbeat within 11 s"),
    ]
    assert list(contradictions([one, two, three], [])) == [], "heartbeats are not known"


def test_the_checks_are_documented() -> None:
    """In docs/diagnose.md."""
    page = (ROOT / "docs" / "diagnose.md").read_text()
    assert [name for name in CHECKS if f"`{name}`" not in page] == []


def test_no_terminal_is_too_narrow_for_findings() -> None:
    """With their fixes."""
    findings = [msgspec.structs.replace(node_finding(unknown(f"node-{n}")), check="nodes") for n in range(3)]
    assert_never_cut(show, Diagnosis(healthy=True, findings=findings))
