"""`equipoise install` checks the cluster before Helm does anything."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from equipoise.cli.exit_codes import InvalidInput
from equipoise.cli.install.given_values import given_values
from equipoise.cli.install.run import Request, checks, helm_command, job_quota_problem, source_finding, used_source
from equipoise.cli.main import main
from equipoise.cli.prepare.created_objects import DISCOVERED
from equipoise.cli.prometheus.access import PrometheusServer
from equipoise.cli.prometheus.services import ServiceAddress
from equipoise.cli.prometheus.trusted import Servers
from equipoise.contracts.kubernetes.objects.cluster import (
    ConfigMap,
    Lease,
    LeaseSpec,
    ResourceQuota,
    ResourceQuotaStatus,
)
from equipoise.contracts.kubernetes.objects.metadata import ObjectMeta
from equipoise.runtime.configuration import Kubernetes
from equipoise.runtime.configuration.discovered import REASON
from equipoise.runtime.configuration.loading import API_VERSION, KIND
from equipoise.runtime.kubernetes.client import CONFIG_MAPS, LEASES, QUOTAS
from equipoise.testbed.memory.clock import ManualClock
from equipoise.testbed.memory.kube import MemoryKube

PACKAGED = Request(chart="equipoise-0.1.0.tgz", values=[], settings=[])


def server(namespace: str) -> PrometheusServer:
    address = ServiceAddress(namespace=namespace, name="prometheus", port=9090)
    return PrometheusServer(address=address, port=None, accounts=("prometheus",))


def test_helm_gets_the_cluster_and_the_values_of_the_command() -> None:
    request = Request(chart="charts/equipoise", values=["mine.yaml"], settings=["mode=advise"])
    command = " ".join(helm_command(request, Kubernetes(namespace="balance", context="prod")))
    assert command == (
        "helm upgrade --install equipoise charts/equipoise --namespace balance --create-namespace --wait --timeout 5m "
        "--reset-then-reuse-values --values mine.yaml --set mode=advise --kube-context prod"
    )


async def test_another_installation_is_an_error_and_missing_storage_a_warning() -> None:
    """The other one works; this one would write nothing."""
    clock = ManualClock()
    kube = MemoryKube(clock)
    states = {each.subject: each.state for each in await checks(kube, PACKAGED, "equipoise-system", clock)}
    assert states["storage"] == states["source of metrics"] == "warning"
    assert "installation" not in states
    renewed = datetime.fromtimestamp(clock.now(), UTC)
    spec = LeaseSpec(holder_identity="a", renew_time=renewed, lease_duration_seconds=15)
    kube.put(LEASES, Lease(metadata=ObjectMeta(name="equipoise-descheduler", namespace="other"), spec=spec))
    findings = await checks(kube, PACKAGED, "equipoise-system", clock)
    [other] = [each for each in findings if each.subject == "installation"]
    assert other.state == "error"
    assert "equipoise uninstall -n other" in other.fix


@pytest.mark.parametrize(
    ("collector", "expected"), [({}, "one was found"), ({"prometheus": {"url": "http://own:9090"}}, "")]
)
async def test_the_source_that_was_found_is_named_unless_the_installed_values_name_one(
    collector: dict[str, object], expected: str
) -> None:
    """An upgrade keeps the values of the release. Without permissions, nothing is named."""
    kube = MemoryKube(ManualClock())
    configuration = yaml.safe_dump({"apiVersion": API_VERSION, "kind": KIND, "collector": collector})
    for name, data in ((DISCOVERED, {REASON: "one was found"}), ("equipoise", {"equipoise.yaml": configuration})):
        kube.put(CONFIG_MAPS, ConfigMap(metadata=ObjectMeta(name=name, namespace="equipoise-system"), data=data))
    assert await used_source(kube, "equipoise-system") == expected
    kube.refuse("get", status=403)
    assert await used_source(kube, "equipoise-system") == ""


@pytest.mark.parametrize(
    ("trusted", "others", "state", "words"),
    [
        (["monitoring"], [], "ok", "prometheus.monitoring.svc"),
        (
            ["monitoring"],
            ["tenant"],
            "ok",
            "not used: their accounts may not read nodes/metrics: http://prometheus.tenant",
        ),
        (["a", "b"], [], "warning", "http://prometheus.a.svc:9090, http://prometheus.b.svc:9090"),
        ([], ["tenant"], "warning", "no Prometheus (not used"),
        ([], [], "warning", "no Prometheus: nothing would be measured"),
    ],
)
def test_the_source_of_metrics_is_named(trusted: list[str], others: list[str], state: str, words: str) -> None:
    found = source_finding(
        Servers(trusted=[*map(server, trusted)], others=[*map(server, others)]), metrics_server=False
    )
    assert found.state == state
    assert words in found.message


def test_without_a_prometheus_metrics_server_is_named() -> None:
    assert "metrics-server would be used" in source_finding(Servers(trusted=[], others=[]), metrics_server=True).message


async def test_what_the_values_answer_is_not_asked(tmp_path: Path) -> None:
    """Neither in a file nor one by one."""
    clock = ManualClock()
    kube = MemoryKube(clock)
    file = tmp_path / "mine.yaml"
    file.write_text("nats: {persistence: {enabled: false}}\n")
    settings = ["image.registry=registry.example.com,config.collector.prometheus.url=http://prometheus.monitoring:9090"]

    async def subjects(request: Request) -> set[str]:
        return {each.subject for each in await checks(kube, request, "equipoise-system", clock)}

    nothing_given = Request(chart=str(tmp_path), values=[], settings=[])
    assert await subjects(nothing_given) == {"Kubernetes", "image", "storage", "source of metrics"}
    assert await subjects(Request(chart=str(tmp_path), values=[str(file)], settings=settings)) == {"Kubernetes"}
    kube.put(LEASES, Lease(metadata=ObjectMeta(name="equipoise-descheduler", namespace="equipoise-system")))
    assert "image" not in await subjects(nothing_given), "an upgrade keeps the earlier value"


async def test_without_the_right_to_read_leases_the_image_is_named_nevertheless(tmp_path: Path) -> None:
    """It is not known whether this is an upgrade, which would keep an earlier value."""
    clock = ManualClock()
    kube = MemoryKube(clock)
    kube.refuse("list", resource="leases")
    request = Request(chart=str(tmp_path), values=[], settings=[])
    states = {each.subject: each.state for each in await checks(kube, request, "equipoise-system", clock)}
    assert ("unknown", "warning") == (states["installation"], states["image"])


def test_a_file_of_values_that_is_no_yaml_is_named(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("a: [")
    with pytest.raises(InvalidInput, match=r"mine\.yaml cannot be read as YAML"):
        given_values([str(file)], [])


def test_single_values_override_those_of_files_and_later_files_override_earlier_ones(tmp_path: Path) -> None:
    """As in Helm. A list is one value."""
    first, second = tmp_path / "first.yaml", tmp_path / "second.yaml"
    first.write_text("nats: {existingSecret: a, enabled: true}\nmode: advise\n")
    second.write_text("nats: {existingSecret: b}\ncollector: {extraVolumes: [{name: c}]}\n")
    assert given_values([str(first), str(second)], ["mode=evict,nats.tls.existingSecret=d", "moves="]) == {
        "nats.existingSecret": "b",
        "nats.enabled": True,
        "collector.extraVolumes": [{"name": "c"}],
        "mode": "evict",
        "nats.tls.existingSecret": "d",
        "moves": "",
    }


@pytest.mark.parametrize(
    ("hard", "used", "words"),
    [
        ({"count/jobs.batch": "1"}, {}, "allows count/jobs.batch 1, of which 0 exist: Helm creates 2 at once"),
        ({"count/jobs.batch": "5"}, {"count/jobs.batch": "4"}, "allows count/jobs.batch 5, of which 4 exist"),
        ({"count/jobs.batch": "many"}, {}, "whether ResourceQuota limited has room for 2 Jobs cannot be read"),
        ({"count/jobs.batch": "2"}, {}, ""),
        ({"pods": "0"}, {}, ""),
    ],
)
def test_a_quota_without_room_for_the_jobs_is_named(hard: dict[str, str], used: dict[str, str], words: str) -> None:
    quota = ResourceQuota(metadata=ObjectMeta(name="limited"), status=ResourceQuotaStatus(hard=hard, used=used))
    problem = job_quota_problem([quota])
    assert words in problem
    assert bool(problem) == bool(words)


async def test_quotas_of_other_namespaces_do_not_count() -> None:
    clock = ManualClock()
    kube = MemoryKube(clock)
    status = ResourceQuotaStatus(hard={"count/jobs.batch": "0"})
    for namespace in ("other", "equipoise-system"):
        assert "quota" not in {each.subject for each in await checks(kube, PACKAGED, "equipoise-system", clock)}
        kube.put(QUOTAS, ResourceQuota(metadata=ObjectMeta(name="none", namespace=namespace), status=status))
    assert "quota" in {each.subject for each in await checks(kube, PACKAGED, "equipoise-system", clock)}


@pytest.mark.parametrize(
    ("resource", "subject"),
    [
        ("leases", "installation"),
        ("storageclasses", "storage"),
        ("secrets", "secret"),
        ("services", "source of metrics"),
    ],
)
async def test_a_check_without_its_permission_is_unknown(resource: str, subject: str) -> None:
    """Helm itself may need no such permission, and the other checks have their results."""
    clock = ManualClock()
    kube = MemoryKube(clock)
    complete = await checks(kube, PACKAGED, "equipoise-system", clock)
    kube.refuse(resource=resource)

    findings = await checks(kube, PACKAGED, "equipoise-system", clock)

    [unknown] = [finding for finding in findings if finding.state == "unknown"]
    assert unknown.subject == subject
    assert unknown.message.startswith("not checked: ")
    assert {finding.subject for finding in findings} >= {finding.subject for finding in complete}


async def test_quotas_that_may_not_be_listed_are_a_warning() -> None:
    """The chart lists them, too, so Helm would fail."""
    clock = ManualClock()
    kube = MemoryKube(clock)
    kube.refuse("list", resource="resourcequotas")

    [finding] = [each for each in await checks(kube, PACKAGED, "equipoise-system", clock) if each.subject == "quota"]

    assert finding.state == "warning"
    assert "Helm lists the quotas, too, and would fail" in finding.message


def test_a_missing_chart_is_named(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "config"
    kubeconfig.write_text("current-context: a\ncontexts: [{name: a, context: {cluster: a}}]\nclusters: []\n")
    chart = str(tmp_path / "none")
    result = CliRunner().invoke(main, ["install", "--chart", chart, "--kubeconfig", str(kubeconfig)])
    assert result.exit_code == 2
    assert f"there is no chart {chart}" in result.output
