"""What the chart renders: the objects of k8s, every mode, every value."""

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from charts.generator.configuration import config_default, config_schema
from charts.generator.manifests import ROOT, Manifests
from charts.generator.schemas import Group, Value, leaves
from charts.generator.values import chart_values
from deployment.base import base_documents, colocation_documents
from deployment.chart_differences import comparable, settings_of
from deployment.helm import ALL_ON, CHART, SETUP, Helm, HelmError, documents_in, merged, nested
from deployment.kustomize import Document, identity, named, read_documents, read_kustomization

from equipoise.contracts.configuration.moves import MovesLevel, deletion_costs
from equipoise.contracts.configuration.settings import Namespaces, Placement

pytestmark = pytest.mark.timeout(1800)  # only for the first build of helm

OVERLAYS = ROOT / "k8s" / "overlays"
COSTS, SURGE, DETACH = "equipoise-annotator-deletion-costs", "equipoise-binder-surge", "equipoise-binder-detach"
FOLDERS = {COSTS, SURGE, DETACH}
"""The ClusterRoles of k8s/deletion-costs and k8s/surge."""


def values_of_chart() -> Group:
    schema, _ = config_schema()
    return chart_values(Manifests(), config_default(ROOT), schema)


def names_in(rendered: Sequence[Document]) -> set[str]:
    return {document["metadata"]["name"] for document in rendered}


def test_without_values_it_only_observes(helm: Helm) -> None:
    """The same objects as k8s/overlays/observe."""
    assert comparable(helm.template()) == comparable(read_kustomization(OVERLAYS / "observe"))


def test_advise_is_the_base(helm: Helm) -> None:
    """With the permission to evict, and without evictions."""
    assert comparable(helm.template({"mode": "advise"})) == comparable(base_documents())


def test_evict_is_the_base_that_evicts(helm: Helm) -> None:
    rendered = helm.template({"mode": "evict"})
    binder = settings_of(named(rendered, "ConfigMap", "equipoise")).binder
    assert binder.evict
    assert without_config(comparable(rendered)) == without_config(comparable(base_documents()))


@pytest.mark.parametrize("mode", ["advise", "evict"])
def test_namespaces_restrict_the_permission_to_evict(helm: Helm, mode: str) -> None:
    """As k8s/overlays/namespaced; moves are proposed in them only, unless the configuration names others."""
    rendered = helm.template({"mode": mode, "namespaces": ["default"]})
    overlay = read_kustomization(OVERLAYS / "namespaced")
    assert without_config(comparable(rendered)) == without_config(comparable(overlay))
    assert settings_of(named(rendered, "ConfigMap", "equipoise")).shared.namespaces == Namespaces(include=("default",))
    config = {"namespaces": {"exclude": ["kube-system"]}}
    rendered = helm.template({"mode": mode, "namespaces": ["default"], "config": config})
    assert settings_of(named(rendered, "ConfigMap", "equipoise")).shared.namespaces == Namespaces(
        exclude=("kube-system",)
    )


def test_observe_never_has_the_permission_to_evict(helm: Helm) -> None:
    rendered = helm.template({"mode": "observe", "namespaces": ["default"]})
    bindings = [each for each in rendered if each["kind"].endswith("Binding") and "roleRef" in each]
    assert bindings
    assert "equipoise-evict" not in {each["roleRef"]["name"] for each in bindings}


def test_crane_is_the_overlay(helm: Helm) -> None:
    """Its annotations are permitted, and written."""
    rendered = helm.template({"mode": "advise", "crane": {"enabled": True}})
    overlay = read_kustomization(OVERLAYS / "crane")
    assert without_config(comparable(rendered)) == without_config(comparable(overlay))
    assert settings_of(named(rendered, "ConfigMap", "equipoise")).annotator.crane


@pytest.mark.parametrize(
    ("value", "file"),
    [
        ("secondScheduler", "scheduler/second-scheduler.yaml"),
        ("scheduler", "scheduler/equipoise-scheduler.yaml"),
        ("livePage", "live-page/live-page.yaml"),
        ("certManager", "cert-manager/certificates.yaml"),
    ],
)
def test_other_files_of_k8s_are_switches(helm: Helm, value: str, file: str) -> None:
    rendered = comparable(helm.template({"mode": "advise", value: {"enabled": True}}))
    assert rendered == comparable([*base_documents(), *read_documents(ROOT / "k8s" / file)])


def test_hints_are_the_folder(helm: Helm) -> None:
    """The kind, the policy and the permission are there, and hints are computed and written."""
    rendered = helm.template({"mode": "advise", "hints": {"enabled": True}})
    folder = read_kustomization(ROOT / "k8s" / "hints")
    assert without_config(comparable(rendered)) == without_config(comparable([*base_documents(), *folder]))
    settings = settings_of(named(rendered, "ConfigMap", "equipoise"))
    assert settings.shared.placement == Placement(extender=True, hints=True)


def test_deletion_costs_are_the_folder(helm: Helm) -> None:
    """The permission is there, and costs are written."""
    rendered = helm.template({"mode": "advise", "deletionCosts": "emptiestNodes"})
    folder = read_kustomization(ROOT / "k8s" / "deletion-costs")
    assert without_config(comparable(rendered)) == without_config(comparable([*base_documents(), *folder]))
    assert settings_of(named(rendered, "ConfigMap", "equipoise")).annotator.deletion_costs == "emptiestNodes"


def test_emptying_of_nodes_is_the_folder(helm: Helm) -> None:
    """Only if nodes are emptied. Helm reads `off` as false."""
    folder = read_kustomization(ROOT / "k8s" / "consolidation")
    for mode, expected in (("act", folder), ("observe", []), ("off", []), (False, [])):
        values = {"mode": "advise", "config": {"descheduler": {"consolidation": {"mode": mode}}}}
        rendered = helm.template(values)
        assert without_config(comparable(rendered)) == without_config(comparable([*base_documents(), *expected])), mode


def test_every_setting_that_can_be_off_may_be_written_without_quotes(helm: Helm) -> None:
    """Helm reads `off` as false. The services read it as `off` again."""
    config = {
        "load": {"compensation": False},
        "descheduler": {
            "consolidation": {"mode": False},
            "strategies": [{"name": "low_node_load", "pools": [{"name": "a", "nodeSelector": {}, "deviation": False}]}],
        },
        "agent": {"suppression": {"policy": False}},
    }
    settings = settings_of(named(helm.template({"mode": "advise", "config": config}), "ConfigMap", "equipoise"))
    assert settings.shared.load.compensation == "off"
    assert settings.descheduler.consolidation.mode == "off"


def test_moves_without_a_gap_are_the_folder(helm: Helm) -> None:
    """The permissions are there, and both the descheduler and the binder have the setting."""
    rendered = helm.template({"mode": "advise", "surge": "singleReplicas"})
    folder = read_kustomization(ROOT / "k8s" / "surge")
    assert without_config(comparable(rendered)) == without_config(comparable([*base_documents(), *folder]))
    assert settings_of(named(rendered, "ConfigMap", "equipoise")).shared.surge.mode == "singleReplicas"


def test_namespaces_restrict_the_permission_to_detach_pods(helm: Helm) -> None:
    """As that to evict them."""
    rendered = helm.template({"mode": "evict", "surge": "always", "namespaces": ["default", "shop"]})
    bindings = [each for each in rendered if each.get("roleRef", {}).get("name") == "equipoise-binder-detach"]
    assert {(each["kind"], each["metadata"]["namespace"]) for each in bindings} == {
        ("RoleBinding", "default"),
        ("RoleBinding", "shop"),
    }
    assert all(each["subjects"][0]["name"] == "equipoise-binder" for each in bindings)


def test_without_a_level_values_have_the_meaning_that_they_had_before_there_were_levels(helm: Helm) -> None:
    """Nothing is raised or lowered."""
    for values in ({}, {"mode": "evict"}, {"mode": "evict", "surge": "none", "deletionCosts": "none"}):
        rendered = helm.template(values)
        settings = settings_of(named(rendered, "ConfigMap", "equipoise"))
        assert settings.shared.moves.level is None
        assert (settings.shared.rules.surge, settings.annotator.deletion_costs or "none") == ("none", "none")
        assert not FOLDERS & names_in(rendered)


@pytest.mark.parametrize(
    ("values", "level", "folders"),
    [
        ({"moves": False}, "off", set()),  # `off` in a YAML file
        ({"moves": "off", "surge": "always", "deletionCosts": "hottestNodes"}, "off", set()),
        ({"moves": "scaleDowns", "surge": "always"}, "scaleDowns", {COSTS}),
        ({"moves": "withoutGap"}, "withoutGap", {COSTS, SURGE, DETACH}),
        ({"moves": "withoutGap", "deletionCosts": "none"}, "withoutGap", {SURGE, DETACH}),
        ({"moves": "hotNodes", "surge": "none"}, "hotNodes", {COSTS}),
        ({"moves": "levelDay", "mode": "observe"}, "levelDay", {COSTS, SURGE}),
    ],
)
def test_one_level_decides_what_is_installed_and_configured(
    helm: Helm, values: dict[str, Any], level: MovesLevel, folders: set[str]
) -> None:
    """With the permissions of what it decides, unless other values or the mode permit less."""
    rendered = helm.template({"mode": "evict"} | values)
    settings = settings_of(named(rendered, "ConfigMap", "equipoise"))
    assert settings.shared.moves.level == level
    assert FOLDERS & names_in(rendered) == folders
    assert (settings.shared.rules.surge != "none") == (SURGE in folders)
    costs = deletion_costs(settings.shared.moves.level, settings.annotator.deletion_costs)
    assert (costs != "none") == (COSTS in folders)
    assert settings.binder.evict == (values.get("mode") != "observe")


def test_another_level_is_refused(helm: Helm) -> None:
    for level in (True, "on", "hotnodes", 3, None):
        with pytest.raises(HelmError):
            helm.template({"moves": level})


def test_without_evictions_no_pod_may_be_detached(helm: Helm) -> None:
    """Dry runs only read."""
    names = {document["metadata"]["name"] for document in helm.template({"mode": "observe", "surge": "always"})}
    assert "equipoise-binder-surge" in names
    assert "equipoise-binder-detach" not in names


@pytest.mark.parametrize(
    ("values", "points"),
    [
        ({}, 250),
        ({"hints": {"enabled": True}}, 250),
        ({"extender": {"enabled": False}}, 0),
        ({"extender": {"enabled": False}, "hints": {"enabled": True}}, 180),
        ({"extender": {"enabled": False}, "config": {"descheduler": {"targetPoints": 500}}}, 500),
    ],
)
def test_the_points_of_targets_depend_on_how_scores_reach_kube_scheduler(
    helm: Helm, values: dict[str, Any], points: int
) -> None:
    settings = settings_of(named(helm.template(values), "ConfigMap", "equipoise"))
    assert settings.descheduler.points(settings.shared.placement) == points


@pytest.mark.parametrize("hints", [False, True])
def test_helm_test_may_read_the_policy_of_hints(helm: Helm, hints: bool) -> None:
    """`doctor` reads it in every installation, and what it says about them where they are used."""
    rendered = documents_in(helm.text({"hints": {"enabled": hints}}))
    rules = named(rendered, "ClusterRole", "equipoise-test")["rules"]
    permitted = {
        (resource, verb, name)
        for rule in rules
        for resource in rule["resources"]
        for verb in rule["verbs"]
        for name in rule.get("resourceNames", [""])
    }
    assert ("mutatingadmissionpolicies", "get", "equipoise-hints") in permitted
    assert ("mutatingadmissionpolicybindings", "get", "") in permitted
    assert (("placementhints", "list", "") in permitted) == hints


def test_helm_test_has_the_files_that_the_collector_has(helm: Helm) -> None:
    """`doctor` reads them where the configuration of the collector names them: tokens, CAs. And the source of metrics
    that was found, if the configuration names none."""
    volume = {"name": "prometheus", "secret": {"secretName": "prometheus-client"}}
    mount = {"name": "prometheus", "mountPath": "/etc/prometheus-client", "readOnly": True}
    values = {"collector": {"extraVolumes": [volume], "extraVolumeMounts": [mount]}}
    rendered = documents_in(helm.text(values))
    for kind, name in (("Deployment", "equipoise-collector"), ("Job", "equipoise-test")):
        pod = named(rendered, kind, name)["spec"]["template"]["spec"]
        [container] = pod["containers"]
        assert volume in pod["volumes"]
        assert mount in container["volumeMounts"]
        [discovered] = [each for each in pod["volumes"] if each["name"] == "discovered"]
        assert discovered["configMap"] == {"name": "equipoise-discovered", "optional": True}
        folders = {each["name"]: each["mountPath"] for each in container["volumeMounts"]}
        variables = {each["name"]: each["value"] for each in container["env"] if "value" in each}
        assert variables["EQUIPOISE_DISCOVERED"] == f"{folders['discovered']}/equipoise.yaml"


def test_co_location_is_the_overlay(helm: Helm) -> None:
    """With the permissions of NATS, and with the evictions of agents as k8s/colocation/evictions."""
    values = {"mode": "advise", "reclaimer": {"enabled": True}, "agent": {"enabled": True}}
    rendered = comparable(helm.template(values))
    assert without_config(rendered) == without_config(comparable(colocation_documents()))
    values["agent"]["evictions"] = True
    evicting = helm.template(values)
    folder = comparable(read_kustomization(ROOT / "k8s" / "colocation" / "evictions"))
    assert {key: each for key, each in comparable(evicting).items() if key not in rendered} == folder
    assert settings_of(named(evicting, "ConfigMap", "equipoise-agent")).agent.evict


@pytest.mark.parametrize("part", ["reclaimer", "agent"])
def test_each_part_of_co_location_runs_alone(helm: Helm, part: str) -> None:
    """Its objects are added; only the reclaimer needs a user of NATS."""
    both = (helm.template(values) for values in ({}, {part: {"enabled": True}}))
    # The name of the setup Job ends in a hash of its content.
    base, rendered = ([each for each in documents if each["kind"] != "Job"] for documents in both)
    added = {identity(each): each for each in rendered}
    changed = {identity(each)[2] for each in base if added.pop(identity(each)) != each}
    assert ("nats" in changed) == (part == "reclaimer")
    assert {part in name or "colocation" in name for _, _, name in added} == {True}


def test_settings_of_the_agent_are_those_of_the_configuration(helm: Helm) -> None:
    """The agent has a ConfigMap of its own, in its namespace."""
    config = {"agent": {"period": 2}, "logging": {"level": "debug"}}
    rendered = helm.template({"agent": {"enabled": True}, "config": config}, namespace="elsewhere")
    config_map = named(rendered, "ConfigMap", "equipoise-agent")
    settings = settings_of(config_map)
    assert (settings.agent.period, settings.agent.cgroup_root, settings.agent.evict) == (2.0, "/host/cgroup", False)
    assert settings.shared.logging.level == "debug"
    assert config_map["metadata"]["namespace"] == "equipoise-agent"
    (fence,) = [
        each for each in rendered if identity(each)[::2] == ("ValidatingAdmissionPolicy", "equipoise-agent-fence")
    ]
    assert '"elsewhere"' in str(fence["spec"]["validations"])


@pytest.mark.parametrize(
    ("cluster", "version"),
    [("v1.36.0", "v1"), ("v1.37.1-gke.100", "v1"), ("v1.35.9", "v1beta1"), ("v1.34.0", "v1beta1")],
)
def test_the_policy_of_hints_has_the_version_of_the_cluster(helm: Helm, cluster: str, version: str) -> None:
    values = {"hints": {"enabled": True, "admission": "policy"}}
    rendered = helm.template(values, options=["--kube-version", cluster])
    policies = [each for each in rendered if each["kind"].startswith("MutatingAdmissionPolicy")]
    assert [f"admissionregistration.k8s.io/{version}"] * 2 == [each["apiVersion"] for each in policies]


@pytest.mark.parametrize(
    ("cluster", "admission", "expected"),
    [
        ("v1.30.0", "auto", "webhook"),
        ("v1.35.9-eks-1", "auto", "webhook"),
        ("v1.36.0", "auto", "policy"),
        ("v1.37.2", "auto", "policy"),
        ("v1.37.2", "webhook", "webhook"),
    ],
)
def test_hints_reach_pods_by_a_policy_from_kubernetes_1_36_on_and_by_a_webhook_below(
    helm: Helm, cluster: str, admission: str, expected: str
) -> None:
    """A value overrides it. The annotators get the choice, and there is never both."""
    rendered = helm.template({"hints": {"enabled": True, "admission": admission}}, options=["--kube-version", cluster])
    kinds = {each["kind"] for each in rendered} & {"MutatingAdmissionPolicy", "MutatingWebhookConfiguration"}
    assert {"policy": {"MutatingAdmissionPolicy"}, "webhook": {"MutatingWebhookConfiguration"}}[expected] == kinds
    assert settings_of(named(rendered, "ConfigMap", "equipoise")).annotator.hints.admission == expected


def test_the_webhook_of_hints_is_its_file(helm: Helm) -> None:
    """Instead of the policy; its Service keeps its name, which its certificate has."""
    values = {"mode": "advise", "hints": {"enabled": True, "admission": "webhook"}}
    files = [document for name in ("definition", "annotator", "webhook") for document in hints_file(name)]
    rendered = comparable(helm.template(values))
    assert without_config(rendered) == without_config(comparable([*base_documents(), *files]))
    renamed = helm.template(values | {"fullnameOverride": "other"})
    assert [each["metadata"]["name"] for each in renamed if each["kind"] == "Service" and "webhook" in str(each)] == [
        "equipoise-hints-webhook"
    ]


def hints_file(name: str) -> list[dict[str, Any]]:
    return list(read_documents(ROOT / "k8s" / "hints" / f"{name}.yaml"))


def test_a_policy_of_hints_is_refused_where_there_are_none(helm: Helm) -> None:
    """With the way out."""
    with pytest.raises(HelmError, match=r"hints.admission: .*v1.33.9.* needs Kubernetes 1.36.*admission: webhook"):
        helm.template({"hints": {"enabled": True, "admission": "policy"}}, options=["--kube-version", "v1.33.9"])
    assert helm.template({"hints": {"admission": "policy"}}, options=["--kube-version", "v1.33.9"])


def without_config(objects: Mapping[tuple[str, str, str], Any]) -> dict[tuple[str, str, str], Any]:
    return {key: value for key, value in objects.items() if key[0] != "ConfigMap" or key[2] != "equipoise"}


def test_another_namespace_is_named_everywhere(helm: Helm) -> None:
    """Accounts, policies, certificates and the configuration follow the release."""
    switches = {"secondScheduler": {"enabled": True}, "certManager": {"enabled": True}, "mode": "advise"}
    rendered = helm.template(switches, namespace="elsewhere")
    verified = "equipoise-scorer.equipoise-system.svc"  # a name in the certificate, which kube-scheduler verifies
    text = yaml.safe_dump(rendered)
    assert f"serverName: {verified}" in text
    assert "urlPrefix: https://equipoise-scorer.elsewhere.svc:8888" in text
    for document in rendered:
        if document["kind"] == "Certificate":
            names = document["spec"].get("dnsNames", [])
            assert [name.replace("equipoise-system", "elsewhere") for name in names if "equipoise-system" in name] == [
                name for name in names if "elsewhere" in name
            ]
            document["spec"]["dnsNames"] = []
    text = yaml.safe_dump(rendered).replace(verified, "")
    assert "equipoise-system" not in text
    assert settings_of(named(rendered, "ConfigMap", "equipoise")).shared.kubernetes.namespace == "elsewhere"


def test_the_setup_job_has_another_name_with_another_pod(helm: Helm) -> None:
    """It is immutable: an upgrade with the same name would fail until the Job is deleted."""

    def name(values: Mapping[str, Any] | None = None) -> str:
        (job,) = (each for each in helm.template(values) if each["kind"] == "Job")
        return str(job["metadata"]["name"])

    names = [
        name(),
        name({"image": {"tag": "0.2.0"}}),
        name({"config": {"load": {"base": "capacity"}}}),
        name({"setup": {"nodeSelector": {"a": "b"}}}),
        name({"commonLabels": {"team": "a"}}),
    ]
    assert all(SETUP.fullmatch(each) for each in names)
    assert len(set(names)) == len(names)
    assert name() == names[0]


def test_another_configuration_replaces_the_pods(helm: Helm) -> None:
    """Of all services, as with kustomize."""

    def checksums(values: Mapping[str, Any] | None = None) -> dict[str, str]:
        pods = [each for each in helm.template(values) if each["kind"] == "Deployment"]
        return {
            each["metadata"]["name"]: each["spec"]["template"]["metadata"]["annotations"]["checksum/config"]
            for each in pods
        }

    before, after = checksums(), checksums({"config": {"load": {"base": "capacity"}}})
    assert len(before) == 5
    assert all(before[name] != after[name] for name in before)


def test_nats_of_your_own(helm: Helm) -> None:
    """Nothing of the server is there, and the services use its address, its ports and its CA."""
    nats = {"enabled": False, "url": "tls://a.example:4333,tls://b.example", "replicas": 3}
    rendered = helm.template({"nats": nats})
    assert not [identity(each) for each in rendered if each["metadata"]["name"] == "nats"]
    settings = settings_of(named(rendered, "ConfigMap", "equipoise")).shared.nats
    assert (settings.url, settings.replicas) == (nats["url"], 3)
    assert settings.tls is not None
    ports = named(rendered, "NetworkPolicy", "equipoise-scorer")["spec"]["egress"][0]["ports"]
    assert ports == [{"port": 4333}, {"port": 4222}]
    rendered = helm.template({"nats": nats | {"url": "nats://a:4222", "tls": {"existingSecret": ""}}})
    assert settings_of(named(rendered, "ConfigMap", "equipoise")).shared.nats.tls is None
    assert "equipoise-nats-tls" not in yaml.safe_dump(rendered)


def test_without_the_extender_the_scorer_listens_on_loopback_only(helm: Helm) -> None:
    """And needs no certificate."""
    rendered = helm.template({"extender": {"enabled": False}})
    assert "equipoise-extender-tls" not in yaml.safe_dump(rendered)
    assert settings_of(named(rendered, "ConfigMap", "equipoise")).scorer.listen == "127.0.0.1:8888"
    assert not [each for each in rendered if identity(each)[::2] == ("Service", "equipoise-scorer")]
    assert "ingress" not in named(rendered, "NetworkPolicy", "equipoise-scorer")["spec"]


def test_the_live_page_is_open_to_nobody_unless_named(helm: Helm) -> None:
    """No host is allowed, no Service is reached from outside. An empty list is no policy: it would admit everybody."""
    rendered = helm.template({"livePage": {"enabled": True, "allowFrom": [], "allowHosts": ["page.example"]}})
    page = {each["kind"]: each for each in rendered if each["metadata"]["name"] == "equipoise-live-page"}
    assert page.keys() == {"ServiceAccount", "Role", "RoleBinding", "Deployment", "Service"}
    assert page["Service"]["spec"].get("type", "ClusterIP") == "ClusterIP"
    (container,) = page["Deployment"]["spec"]["template"]["spec"]["containers"]
    assert container["args"][-1] == "--allow-host=page.example"
    default = named(helm.template({"livePage": {"enabled": True}}), "Deployment", "equipoise-live-page")
    assert "allow-host" not in str(default)


def test_the_notes_name_the_way_to_the_live_page(helm: Helm) -> None:
    """And who else can read it."""
    values = {"livePage": {"enabled": True}, "networkPolicy": {"enabled": False}}
    options = ("--namespace", "elsewhere", "--dry-run=client")
    notes = helm.run("install", "equipoise", CHART, *options, values=values).partition("\nNOTES:\n")[2]
    assert "kubectl -n elsewhere port-forward service/equipoise-live-page 8765" in notes
    assert "networkPolicy.enabled is false: every pod of the cluster can read it" in notes


def test_the_live_page_connects_to_nats_of_your_own(helm: Helm) -> None:
    """As the services: without a CA, if there is none."""
    nats = {"enabled": False, "url": "nats://a:4222", "tls": {"existingSecret": ""}}
    rendered = helm.template({"livePage": {"enabled": True}, "nats": nats})
    (container,) = named(rendered, "Deployment", "equipoise-live-page")["spec"]["template"]["spec"]["containers"]
    assert {each["name"]: each["value"] for each in container["env"]} == {
        "EQUIPOISE_CONFIG": "/etc/equipoise/equipoise.yaml",
        "EQUIPOISE_NATS__URL": "nats://a:4222",
    }


def test_rules_and_dashboards_are_taken_from_files(helm: Helm, tmp_path: Path) -> None:
    """Whatever is there, unchanged: expressions of Prometheus are not those of helm. Without files, there are none."""
    switches = {
        "prometheusRule": {"enabled": True, "files": []},
        "dashboards": {"enabled": True},
        "serviceMonitor": {"enabled": True},
    }
    chart = tmp_path / "chart"
    shutil.copytree(CHART, chart, ignore=shutil.ignore_patterns("rules", "dashboards"))

    def kinds() -> list[tuple[str, str]]:
        rendered = documents_in(helm.run("template", "equipoise", chart, values=switches))
        return [
            identity(each)[::2]
            for each in rendered
            if each and each["metadata"]["labels"].get(COMPONENT) == "monitoring"
        ]

    monitors = [("Service", "equipoise-metrics"), ("ServiceMonitor", "equipoise")]
    assert kinds() == monitors
    rule = {"groups": [{"name": "a", "rules": [{"alert": "B", "annotations": {"text": "{{ $value }} of {{ .x }}"}}]}]}
    write(chart / "files" / "rules" / "alerts.yaml", yaml.safe_dump(rule))
    write(chart / "files" / "dashboards" / "fleet.json", '{"title": "{{instance}}"}\n')
    assert sorted(kinds()) == sorted(
        [*monitors, ("PrometheusRule", "equipoise-alerts"), ("ConfigMap", "equipoise-dashboard-fleet")]
    )
    rendered = documents_in(helm.run("template", "equipoise", chart, values=switches))
    assert named(rendered, "PrometheusRule", "equipoise-alerts")["spec"] == rule
    assert named(rendered, "ConfigMap", "equipoise-dashboard-fleet")["data"] == {
        "fleet.json": '{"title": "{{instance}}"}\n'
    }


@pytest.mark.parametrize("agents", [False, True])
def test_every_namespace_with_pods_is_scraped(helm: Helm, agents: bool) -> None:
    """The agents have one of their own, and a Service selects pods of its namespace only."""
    rendered = helm.template({"serviceMonitor": {"enabled": True}, "agent": {"enabled": agents}})
    monitor = named(rendered, "ServiceMonitor", "equipoise")["spec"]
    services = [each for each in rendered if identity(each)[::2] == ("Service", "equipoise-metrics")]
    pods = {each["metadata"]["namespace"] for each in rendered if each["kind"] in ("Deployment", "DaemonSet")}

    assert (
        {each["metadata"]["namespace"] for each in services} == set(monitor["namespaceSelector"]["matchNames"]) == pods
    )
    assert all(monitor["selector"]["matchLabels"].items() <= each["metadata"]["labels"].items() for each in services)


def test_alerts_refer_to_another_page_of_runbooks(helm: Helm) -> None:
    """Nothing else of the rules changes."""
    page = "https://git.example.com/equipoise/runbooks.md"

    def rules(**settings: str) -> list[Any]:
        rendered = helm.template({"prometheusRule": {"enabled": True, **settings}})
        [group] = named(rendered, "PrometheusRule", "equipoise-alerting-rules")["spec"]["groups"]
        return list(group["rules"])

    expected = rules()
    for rule in expected:
        rule["annotations"]["runbook_url"] = f"{page}#{rule['alert'].lower()}"

    assert rules(runbookUrl=page) == expected


COMPONENT = "app.kubernetes.io/component"


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


ALONE: Mapping[str, tuple[Mapping[str, Any], Any]] = {
    "mode": ({}, "evict"),
    "config": ({}, {"load": {"base": "capacity"}}),
    "image.digest": ({}, "sha256:" + "a" * 64),
    "nats.image.digest": ({}, "sha256:" + "b" * 64),
    "secondScheduler.image.digest": ({}, "sha256:" + "c" * 64),
    "global.imageRegistry": ({}, "changed.example"),
    "prometheusRule.files": ({}, ["recording-rules"]),
    "prometheusRule.runbookUrl": ({}, "https://changed.example/runbooks"),
    "podSecurityContext": ({}, {"runAsUser": 12345}),
    "nats.podSecurityContext": ({}, {"runAsUser": 12345}),
    "containerSecurityContext": ({}, {"readOnlyRootFilesystem": False}),
    "nats.url": ({"nats": {"enabled": False, "url": "tls://first:4222"}}, "tls://second:4222"),
    "nats.replicas": ({"nats": {"enabled": False, "url": "tls://first:4222"}}, 3),
    "nats.enabled": ({"nats": {"enabled": False, "url": "tls://first:4222"}}, None),
    "extender.enabled": ({"secondScheduler": {"enabled": False}}, False),
    "annotator.enabled": ({"hints": {"enabled": False}}, False),
}
"""Values that are set alone, besides switches: what is set with them, and to what. `nats.enabled`: to its default."""


def another(path: str, value: Value, number: int) -> Any:
    """A value that the schema accepts, with a text or number that is found nowhere else."""
    word, schema, default = f"changed-{number}", value.schema, value.default
    if isinstance(default, int):
        return number
    if isinstance(default, list):
        return [item(path.rsplit(".", 1)[-1], word, number)]
    if isinstance(default, dict):
        if path.endswith("resources"):
            return {"requests": {"cpu": f"{number}m"}}
        return {"podAntiAffinity": {"x": word}} if path.endswith("affinity") else {"example.com/changed": word}
    if schema.get("pattern", "").endswith("(ms|s|m|h|d)$"):
        return f"{number}h"
    return f"{number}Gi" if path.endswith("size") else word


def item(name: str, word: str, number: int) -> Any:
    """Of a list of this name."""
    match name:
        case "tolerations":
            return {"key": word, "operator": "Exists"}
        case "topologySpreadConstraints":
            return {"maxSkew": 2, "topologyKey": word, "whenUnsatisfiable": "DoNotSchedule"}
        case "extraVolumeMounts":
            return {"name": word, "mountPath": "/changed"}
        case "extraVolumes":
            return {"name": word, "emptyDir": {}}
        case "extraEnv":
            return {"name": word, "value": "changed"}
        case "relabelings" | "metricRelabelings":
            return {"action": "labeldrop", "regex": word}
        case "pullSecrets" | "imagePullSecrets":
            return {"name": word}
        case "allowFrom":
            return {"podSelector": {"matchLabels": {"changed": word}}}
        case "schedulerCidrs" | "apiServerCidrs":
            return f"{number}::/32"
        case "extraEgress":
            return {"ports": [{"port": number}]}
        case "extraObjects":
            metadata = {"name": word, "labels": {"app.kubernetes.io/name": "{{ .Release.Name }}-more"}}
            return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
        case _:
            return word


def test_every_value_has_an_effect(helm: Helm) -> None:
    """Switches and words of a list are changed one by one, all others together, each to what is found nowhere else."""
    shown: dict[str, str] = {}

    def rendered(values: Mapping[str, Any]) -> str:
        return shown.get(str(values)) or shown.setdefault(str(values), helm.text(values))

    without_effect = []
    together: dict[str, Any] = dict(ALL_ON)
    numbers: dict[str, int] = {}
    for path, value in leaves(values_of_chart()):
        name = ".".join(path)
        if name in ALONE:
            needed, changed = ALONE[name]
            before = merged(ALL_ON, needed)
            after = ALL_ON if changed is None else merged(before, nested(path, changed))
        elif isinstance(value.default, bool):
            on = value.default or path[0] in ALL_ON
            before, after = ALL_ON, merged(ALL_ON, nested(path, not on))
        elif "enum" in value.schema:
            other = next(each for each in value.schema["enum"] if each != value.default)
            before, after = ALL_ON, merged(ALL_ON, nested(path, other))
        else:
            numbers[name] = 7000 + len(numbers)
            together = merged(together, nested(path, another(name, value, numbers[name])))
            continue
        if rendered(before) == rendered(after):
            without_effect.append(name)
    text = rendered(together)
    without_effect += [name for name, number in numbers.items() if str(number) not in text]
    assert "equipoise-more" in text
    assert without_effect == []


def test_values_yaml_has_the_defaults(helm: Helm) -> None:
    """And the table of the README every value."""
    committed = yaml.safe_load((CHART / "values.yaml").read_text())
    readme = (CHART / "README.md").read_text()
    for path, value in leaves(values_of_chart()):
        found = committed
        for name in path:
            found = found[name]
        assert found == value.default
        assert f"| `{'.'.join(path)}` |" in readme
    assert yaml.safe_load(helm.run("show", "values", CHART)) == committed


WRONG: list[tuple[dict[str, Any], str, str]] = [
    ({"mode": "on"}, "/mode", "value must be one of"),
    ({"mode": None}, "''", "missing property 'mode'"),
    ({"networkPolicy": {"enabled": None}}, "/networkPolicy", "missing property 'enabled'"),
    ({"nats": {"tls": None}}, "/nats", "missing property 'tls'"),
    ({"colector": {}}, "''", "additional properties 'colector' not allowed"),
    ({"collector": {"replica": 1}}, "/collector", "'replica' not allowed"),
    ({"collector": {"replicas": -1}}, "/collector/replicas", "minimum"),
    ({"image": {"tag": 1.5}}, "/image/tag", "got number, want string"),
    ({"image": {"digest": "sha256:12"}}, "/image/digest", "does not match pattern"),
    ({"secondScheduler": {"image": {"digest": "sha256:12"}}}, "/secondScheduler/image/digest", "match pattern"),
    ({"scorer": {"resources": {"request": {}}}}, "/scorer/resources", "'request' not allowed"),
    ({"binder": {"resources": {"limits": {"memory": "1 GB"}}}}, "/binder/resources/limits/memory", "match"),
    ({"config": {"collector": {"promtheus": {}}}}, "/config/collector", "'promtheus' not allowed"),
    ({"config": {"collector": {"shards": 99}}}, "/config/collector/shards", "maximum"),
    ({"config": {"binder": {"evict": True}}}, "/config/binder", "'evict' not allowed"),
    ({"config": {"load": {"base": "requests"}}}, "/config/load/base", "value must be one of"),
    ({"config": {"descheduler": {"strategies": [{}]}}}, "/config/descheduler/strategies/0", "missing property 'name'"),
    ({"config": {"scorer": {"policy": {"window": "5m"}}}}, "/config/scorer/policy", "missing property 'name'"),
    ({"nats": {"enabled": False}}, "/nats/url", "minLength"),
    ({"nats": {"url": "tls://mine:4222"}}, "/nats/url", "must be ''"),
    ({"nats": {"replicas": 3}}, "/nats/replicas", "must be 1"),
    ({"nats": {"enabled": False, "url": "mine:4222"}}, "/nats/url", "does not match pattern"),
    ({"secondScheduler": {"enabled": True}, "extender": {"enabled": False}}, "/extender/enabled", "must be true"),
    ({"hints": {"enabled": True}, "annotator": {"enabled": False}}, "/annotator/enabled", "must be true"),
    ({"config": {"annotator": {"hints": {"enabled": True}}}}, "/config/annotator/hints", "'enabled' not allowed"),
    ({"extender": {"tls": {"existingSecret": ""}}}, "extender.tls.existingSecret", "is empty"),
    ({"namespaces": ["kube-system"]}, "namespaces", "pods in kube-system are never evicted"),
    ({"livePage": {"allowFrom": [{}]}}, "/livePage/allowFrom/0", "minProperties"),
    ({"livePage": {"allowHosts": ["https://page.example"]}}, "/livePage/allowHosts/0", "does not match pattern"),
    ({"commonLabels": {"app.kubernetes.io/name": "x"}}, "/commonLabels/app.kubernetes.io~1name", "false schema"),
]


@pytest.mark.parametrize(("values", "path", "message"), WRONG, ids=[f"{path}: {message}" for _, path, message in WRONG])
def test_a_wrong_value_is_refused_with_its_path(helm: Helm, values: dict[str, Any], path: str, message: str) -> None:
    with pytest.raises(HelmError) as refusal:
        helm.template(values)
    line = next((line for line in str(refusal.value).splitlines() if path in line and message in line), None)
    assert line is not None, str(refusal.value)


def test_a_cluster_that_is_too_old_is_refused(helm: Helm) -> None:
    """ValidatingAdmissionPolicies exist since Kubernetes 1.30; versions of vendors are compared by their number."""
    assert helm.template(options=["--kube-version", "v1.30.1-gke.200"])
    with pytest.raises(HelmError, match="chart requires kubeVersion"):
        helm.template(options=["--kube-version", "v1.29.9"])


def test_unknown_global_values_are_accepted(helm: Helm) -> None:
    """An umbrella chart passes its own to all charts."""
    assert helm.template({"global": {"of": {"another": "chart"}}}) == helm.template()


def test_every_setting_of_the_configuration_can_be_set(helm: Helm) -> None:
    """As equipoise.yaml has it: numbers stay numbers, also large ones."""
    config = {
        "scorer": {"extender": {"maxBodyBytes": 2097153}, "advice": {"perSecond": 0.5}},
        "binder": {
            "limits": {"maintenance": {"only": [{"from": "22:00", "to": "05:00", "timeZone": "Europe/Berlin"}]}}
        },
        "collector": {"prometheus": {"url": "http://p:9090"}, "shards": 4},
    }
    settings = settings_of(named(helm.template({"config": config}), "ConfigMap", "equipoise"))
    assert settings.scorer.extender.max_body_bytes == 2097153
    assert settings.scorer.advice.per_second == 0.5
    assert settings.scorer.extender.tls is not None
    assert settings.collector.shards == 4
    assert settings.binder.limits.maintenance.only
    assert not settings.binder.evict


def test_the_chart_passes_lint(helm: Helm) -> None:
    assert "0 chart(s) failed" in helm.run("lint", CHART, "--strict")


def test_accounts_and_policies_keep_their_names(helm: Helm) -> None:
    """The services check them; other objects get the name that is chosen."""
    rendered = helm.template({"fullnameOverride": "level", "nameOverride": "level", "mode": "advise"})
    before = helm.template({"mode": "advise"})
    renamed = {identity(each)[0] for each in rendered} - {
        kind for kind in {identity(each)[0] for each in before} if names(rendered, kind) == names(before, kind)
    }
    assert renamed == {"ConfigMap", "Deployment", "Job", "NetworkPolicy", "PodDisruptionBudget", "Service"}
    selectors = [each["spec"]["selector"]["matchLabels"] for each in rendered if each["kind"] == "Deployment"]
    assert {each["app.kubernetes.io/name"] for each in selectors} == {"level"}


def names(documents: list[Document], kind: str) -> set[str]:
    return {each["metadata"]["name"] for each in documents if each["kind"] == kind}
