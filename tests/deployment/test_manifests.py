"""The deployment files: generated parts, Pod Security, and the same programs in Kubernetes and compose."""

import asyncio
import re
import ssl
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import nats
import pytest
import yaml
from bus_worlds import NatsWorld
from deployment.base import (
    BASE,
    COLOCATION,
    NAMESPACE,
    ROOT,
    base_documents,
    base_programs,
    colocation_documents,
    live_page_documents,
)
from deployment.certificates import CLIENT_SECRET, NATS_SECRET, SECRET_KEYS, SERVER_SECRET
from deployment.compose import COLOCATION as COMPOSE_COLOCATION
from deployment.compose import COMPOSE, colocation_document, compose_document, compose_programs
from deployment.kustomize import Document, identity, named, read_documents, read_kustomization
from deployment.programs import KUBECONFIG, differences

from equipoise.cli.certificates.issue import make_certificates
from equipoise.cli.certificates.purposes import EXTENDER, NATS, PURPOSES
from equipoise.cli.service_settings import SERVICE_SETTINGS, all_settings
from equipoise.contracts.bus.subjects import ALL_SERVICES, SERVICES
from equipoise.runtime.bus.nats.tls import TlsClient
from equipoise.runtime.bus.permissions import STANDARD_USERS, permission_file
from equipoise.runtime.configuration import read_document, validate_document
from equipoise.runtime.process.clock import SystemClock

FOLDERS = [BASE, ROOT / "k8s" / "overlays" / "observe", ROOT / "k8s" / "overlays" / "namespaced"]
FILES = sorted([*(ROOT / "k8s").rglob("*.*"), COMPOSE, COMPOSE_COLOCATION, ROOT / "Dockerfile"])


def test_the_permission_file_is_the_generated_one() -> None:
    """k8s/base/permissions.conf is what `python -m equipoise.runtime.bus.permissions` prints."""
    generated = permission_file({user: f"$EQUIPOISE_{user.upper()}_PASSWORD" for user in STANDARD_USERS})
    assert (BASE / "permissions.conf").read_text() == generated


def test_the_permission_file_of_co_location_has_the_reclaimer_too() -> None:
    """k8s/colocation/permissions.conf is what `python -m equipoise.runtime.bus.permissions reclaimer` prints."""
    generated = permission_file(
        {user: f"$EQUIPOISE_{user.upper()}_PASSWORD" for user in (*STANDARD_USERS, "reclaimer")}
    )
    assert (COLOCATION / "permissions.conf").read_text() == generated


async def test_nats_takes_passwords_literally(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It parses the values of its variables: a password must be neither cut off nor become a number."""
    texts = ["abc#def", "12345", "true", "10k", 'a"b\\c', "a: b, {c", "$2y$HOME"]
    passwords = dict(zip(STANDARD_USERS, texts, strict=True))
    for name, value in base_programs(base_documents())["nats"].environment.items():
        user = next(user for user in STANDARD_USERS if user.upper() in name)
        monkeypatch.setenv(name, value.replace(f"secret:{user}", passwords[user]))
    world = NatsWorld(tmp_path, (BASE / "permissions.conf").read_text())
    await world.start()
    try:
        for user, password in passwords.items():
            client = await nats.connect(world.settings.url, user=user, password=password, allow_reconnect=False)
            await client.close()
    finally:
        await world.stop()


async def test_nats_speaks_only_tls(tmp_path: Path) -> None:
    """The shipped nats.conf, with the certificate of `equipoise certificates`: TLS 1.3, and nothing without TLS."""
    make_certificates(tmp_path, NATS, names=(), addresses=(), days=1, force=False, now=SystemClock().now())
    for key, file in (("tls.crt", "server.crt"), ("tls.key", "server.key")):
        (tmp_path / key).symlink_to(tmp_path / file)
    block = re.search(r"^tls \{.*?^\}", (BASE / "nats.conf").read_text(), re.DOTALL | re.MULTILINE)
    assert block is not None
    world = NatsWorld(tmp_path / "nats", block[0].replace("/run/secrets/tls", str(tmp_path)))
    await world.start()
    trusting = ssl.create_default_context(cafile=str(tmp_path / "ca.crt"))
    older = ssl.create_default_context(cafile=str(tmp_path / "ca.crt"))
    older.maximum_version = ssl.TLSVersion.TLSv1_2
    try:
        client = await nats.connect(f"tls://localhost:{world.port}", tls=trusting, allow_reconnect=False)
        await client.close()
        with pytest.raises(ssl.SSLError):
            await TlsClient(required=True).connect(f"tls://localhost:{world.port}", tls=older, allow_reconnect=False)
        reader, writer = await asyncio.open_connection("127.0.0.1", world.port)
        assert b'"tls_required":true' in await reader.readline()
        writer.write(b'CONNECT {"verbose":true}\r\nPING\r\n')
        assert b"PONG" not in await reader.read()
        writer.close()
    finally:
        await world.stop()


def test_every_program_verifies_the_certificate_of_nats() -> None:
    """With the CA of the Secret, whose certificate has the name in the address."""
    settings = all_settings(read_document((BASE / "equipoise.yaml").read_text())).shared.nats
    assert not settings.unencrypted
    assert settings.tls is not None
    assert [urlsplit(url).hostname in NATS.names for url in settings.urls] == [True]
    programs = base_programs(base_documents())
    for name in (*SERVICES, "setup"):
        assert programs[name].mounts[str(settings.tls.ca_file)] == f"secret:{NATS_SECRET}/ca.crt", name
    server = (BASE / "nats.conf").read_text()
    for path, source in programs["nats"].mounts.items():
        if source.startswith("secret:"):
            assert f'"{path}"' in server
    assert [source for source in programs["nats"].mounts.values() if "secret:" in source] == [
        f"secret:{NATS_SECRET}/tls.crt",
        f"secret:{NATS_SECRET}/tls.key",
    ]


def test_cert_manager_issues_the_same_certificates() -> None:
    """The same Secrets, names and CAs as `equipoise certificates`; a certificate of NATS is none for the extender."""
    documents = read_documents(ROOT / "k8s" / "cert-manager" / "certificates.yaml")
    certificates = [d["spec"] for d in documents if d["kind"] == "Certificate"]
    issuers = {d["metadata"]["name"]: d["spec"].get("ca", {}) for d in documents if d["kind"] == "Issuer"}
    issued = {each["secretName"]: each for each in certificates if not each.get("isCA")}
    assert set(issued) == {secret.name for purpose in PURPOSES.values() for secret in purpose.secrets}
    for purpose in PURPOSES.values():
        for secret in purpose.secrets:
            each = issued[secret.name]
            [ca] = [c for c in certificates if c["secretName"] == issuers[each["issuerRef"]["name"]]["secretName"]]
            assert ca["commonName"] == purpose.ca
            assert each["usages"] == ["digital signature", f"{secret.pair} auth"]
            if secret.pair == "server":
                assert tuple(each["dnsNames"]) == purpose.names
                assert each.get("ipAddresses", []) == [str(address) for address in purpose.addresses]


def test_the_shipped_configuration_is_valid() -> None:
    """`equipoise config validate` accepts every section, and evictions are dry runs."""
    text = (BASE / "equipoise.yaml").read_text()
    validate_document(text, SERVICE_SETTINGS)
    assert "evict: false" in text


def test_the_kustomization_includes_every_file_of_the_base() -> None:
    """A file that is missing there would not be installed."""
    text = (BASE / "kustomization.yaml").read_text()
    assert [path.name for path in BASE.iterdir() if path.name not in text] == ["kustomization.yaml"]
    assert {f"{service}.yaml" for service in SERVICES} <= {path.name for path in BASE.iterdir()}


def pod_templates() -> list[tuple[str, Document]]:
    names = ("second-scheduler.yaml", "equipoise-scheduler.yaml")
    schedulers = [each for name in names for each in read_documents(ROOT / "k8s" / "scheduler" / name)]
    documents = [*colocation_documents(), *live_page_documents(), *schedulers]
    return [
        (document["metadata"]["name"], document["spec"]["template"]["spec"])
        for document in documents
        if "template" in document.get("spec", {}) and document["kind"] != "DaemonSet"
    ]


@pytest.mark.parametrize(("name", "pod"), pod_templates(), ids=lambda value: value if isinstance(value, str) else "")
def test_every_container_is_restricted(name: str, pod: Document) -> None:
    """No root user, no writable root filesystem, no capability, a memory limit. tests/e2e has Pod Security itself."""
    assert pod["securityContext"]["runAsNonRoot"]
    for container in pod["containers"]:
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert container["resources"]["limits"]["memory"]


def test_a_container_may_take_five_minutes_to_start() -> None:
    """On a full node, where it is needed: its liveness counts from then on, by the same request."""
    templates = [
        each["spec"]["template"]["spec"]
        for folder in ("base", "colocation", "live-page", "scheduler")
        for file in sorted((ROOT / "k8s" / folder).glob("*.yaml"))
        for each in read_documents(file)
        if each and each.get("kind") in ("Deployment", "StatefulSet", "DaemonSet")
    ]
    containers = [container for template in templates for container in template["containers"]]
    assert len(containers) >= 11
    for container in containers:
        liveness, startup = container["livenessProbe"], container["startupProbe"]
        for handler in ("httpGet", "exec"):
            assert liveness.get(handler) == startup.get(handler)
        assert startup["periodSeconds"] * startup["failureThreshold"] == 300


def test_the_agent_is_root_without_privileges() -> None:
    """It writes the cgroups of the node, and nothing else of it, in a namespace that only it uses."""
    (document,) = [each for each in colocation_documents() if each["kind"] == "DaemonSet"]
    assert document["metadata"]["namespace"] == "equipoise-agent"
    pod = document["spec"]["template"]["spec"]
    assert not {"hostNetwork", "hostPID", "hostIPC"} & set(pod)
    (container,) = pod["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert container["resources"]["limits"]["memory"]
    assert [each["hostPath"]["path"] for each in pod["volumes"] if "hostPath" in each] == ["/sys/fs/cgroup"]
    writable = [each["name"] for each in container["volumeMounts"] if not each.get("readOnly")]
    assert writable == ["cgroup"]


def test_co_location_changes_only_the_user_of_nats() -> None:
    """Every other object of the base is the same with it: what is added needs no change elsewhere."""
    changed = {identity(each): each for each in colocation_documents()}
    differing = {identity(each) for each in base_documents() if changed[identity(each)] != each}
    assert differing == {("StatefulSet", NAMESPACE, "nats"), ("ConfigMap", NAMESPACE, "nats")}
    programs = base_programs(colocation_documents())
    added = programs["nats"].environment.items() - base_programs(base_documents())["nats"].environment.items()
    assert added == {("EQUIPOISE_RECLAIMER_PASSWORD", "'secret:reclaimer'")}


def test_each_service_is_spread_and_disrupted_one_pod_at_a_time() -> None:
    """A drained node, a lost node or a lost zone takes one of two replicas, and preemption takes others first."""
    documents = colocation_documents()
    budgets = {d["metadata"]["name"]: d["spec"] for d in documents if d["kind"] == "PodDisruptionBudget"}
    deployments = [d for d in documents if d["kind"] == "Deployment"]
    assert (
        set(budgets) == {d["metadata"]["name"] for d in deployments} == {f"equipoise-{name}" for name in ALL_SERVICES}
    )
    for deployment in deployments:
        spec, pod = deployment["spec"], deployment["spec"]["template"]["spec"]
        budget = budgets[deployment["metadata"]["name"]]
        assert budget == {"maxUnavailable": 1, "selector": spec["selector"]}
        assert spec["replicas"] > 1
        assert pod["priorityClassName"] == named(documents, "PriorityClass", "equipoise")["metadata"]["name"]
        (spread,) = pod["topologySpreadConstraints"]
        (zones,) = pod["affinity"]["podAntiAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
        assert spread["topologyKey"] == "kubernetes.io/hostname"
        assert zones["podAffinityTerm"]["topologyKey"] == "topology.kubernetes.io/zone"
        assert spread["labelSelector"] == zones["podAffinityTerm"]["labelSelector"] == spec["selector"]


def test_every_port_is_closed_but_those_of_a_network_policy() -> None:
    """The bus admits the services, the extender kube-scheduler, health and metrics a labeled namespace."""
    documents = colocation_documents()
    policies = {d["metadata"]["name"]: d["spec"] for d in documents if d["kind"] == "NetworkPolicy"}
    assert policies.pop("equipoise-closed") == {"podSelector": {}, "policyTypes": ["Ingress"]}
    opened = {name: [rule["ports"] for rule in policy["ingress"]] for name, policy in policies.items()}
    assert opened == {
        "equipoise-nats": [[{"port": 4222}]],
        "equipoise-scorer": [[{"port": 8888}]],
        "equipoise-metrics": [[{"port": 8081, "endPort": 8085}]],
        "equipoise-colocation-metrics": [[{"port": 8086, "endPort": 8087}]],
        "equipoise-agent": [[{"port": 8087}]],
    }
    (rule,) = policies["equipoise-nats"]["ingress"]
    assert rule["from"] == [{"podSelector": {"matchLabels": {"app.kubernetes.io/name": "equipoise"}}}]
    assert 'http: "127.0.0.1:' in (BASE / "nats.conf").read_text()


def test_every_account_that_uses_the_api_server_has_its_priority_level() -> None:
    """An account that is missing there would share the level of all ServiceAccounts. Its Lease is apart."""
    documents = colocation_documents()
    using = {f"equipoise-{name}" for name, program in base_programs(documents).items() if program.reaches_cluster}
    assert using
    found: list[str] = []
    for schema in (d["spec"] for d in documents if d["kind"] == "FlowSchema"):
        named(documents, "PriorityLevelConfiguration", schema["priorityLevelConfiguration"]["name"])
        (rule,) = schema["rules"]
        found += [subject["serviceAccount"]["name"] for subject in rule["subjects"]]
    assert sorted(found) == sorted([*using, *using])


@pytest.mark.parametrize("folder", [*FOLDERS, ROOT / "k8s" / "overlays" / "colocation"], ids=lambda folder: folder.name)
def test_each_account_is_used_by_one_program(folder: Path) -> None:
    """Every service has its own ServiceAccount, and no other program runs with it."""
    documents = read_kustomization(folder)
    accounts = {d["metadata"]["name"] for d in documents if d["kind"] == "ServiceAccount"}
    used = [
        document["spec"]["template"]["spec"].get("serviceAccountName")
        for document in documents
        if document["kind"] in ("Deployment", "DaemonSet", "Job")
    ]
    assert sorted(used) == sorted(accounts)
    optional = {"agent", "reclaimer"} if folder.name == "colocation" else set()
    assert accounts == {f"equipoise-{name}" for name in {*SERVICES, "setup", *optional}}


def test_only_the_full_installation_may_evict_everywhere() -> None:
    """observe does not bind the permission to evict, namespaced binds it in one namespace, the base everywhere."""
    bound = [
        [(d["kind"], d["metadata"].get("namespace")) for d in read_kustomization(folder) if is_eviction_binding(d)]
        for folder in FOLDERS
    ]
    assert bound == [[("ClusterRoleBinding", None)], [], [("RoleBinding", "default")]]


def is_eviction_binding(document: Document) -> bool:
    return bool(document["kind"].endswith("RoleBinding") and document["roleRef"]["name"] == "equipoise-evict")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_no_image_name_contains_a_registry(path: Path) -> None:
    """The user chooses the registry."""
    for image in re.findall(r"(?:image:|FROM) +(\S+)", path.read_text()):
        assert "." not in image.split("/")[0] or "/" not in image, image


def test_both_schedulers_have_the_same_extender_entry() -> None:
    """The second scheduler is configured with the entry that is shipped for the first."""
    second = read_documents(ROOT / "k8s" / "scheduler" / "second-scheduler.yaml")
    (entry,) = read_documents(ROOT / "k8s" / "scheduler" / "extender.yaml")
    (own,) = read_configuration(named(second, "ConfigMap", "equipoise-scheduler")["data"]["scheduler.yaml"])
    assert own["extenders"] == entry["extenders"]
    assert entry["extenders"][0]["ignorable"]
    service = named(base_documents(), "Service", "equipoise-scorer")
    (port,) = service["spec"]["ports"]
    assert f":{port['port']}" in entry["extenders"][0]["urlPrefix"]


def read_configuration(text: str) -> list[Any]:
    return list(yaml.safe_load_all(text))


def test_the_extender_verifies_its_clients_with_mounted_files() -> None:
    """k8s/base/equipoise.yaml names a client CA and files that exist in the container; the Secret is required."""
    settings = all_settings(read_document((BASE / "equipoise.yaml").read_text())).scorer
    assert not settings.serves_any_client
    assert not settings.extender.allow_unauthenticated
    tls = settings.extender.tls
    assert tls is not None
    mounts = base_programs(base_documents())["scorer"].mounts
    paths = (tls.certificate_file, tls.key_file, tls.client_ca_file)
    assert [mounts[str(path)] for path in paths] == [f"secret:{SERVER_SECRET}/{key}" for key in SECRET_KEYS]
    (volume,) = [
        each["secret"]
        for each in named(base_documents(), "Deployment", "equipoise-scorer")["spec"]["template"]["spec"]["volumes"]
        if each.get("secret", {}).get("secretName") == SERVER_SECRET
    ]
    assert not volume.get("optional")


def test_the_second_scheduler_mounts_the_files_of_its_extender_entry() -> None:
    """Its Secret is mounted at the paths of the entry, and `serverName` is a name of the scorer's certificate."""
    (entry,) = read_documents(ROOT / "k8s" / "scheduler" / "extender.yaml")[0]["extenders"]
    second = read_documents(ROOT / "k8s" / "scheduler" / "second-scheduler.yaml")
    pod = named(second, "Deployment", "equipoise-scheduler")["spec"]["template"]["spec"]
    (volume,) = [each["name"] for each in pod["volumes"] if each.get("secret") == {"secretName": CLIENT_SECRET}]
    (mount,) = [each for each in pod["containers"][0]["volumeMounts"] if each["name"] == volume]
    assert entry["enableHTTPS"]
    assert entry["tlsConfig"] == {
        "caFile": f"{mount['mountPath']}/ca.crt",
        "certFile": f"{mount['mountPath']}/tls.crt",
        "keyFile": f"{mount['mountPath']}/tls.key",
        "serverName": EXTENDER.names[0],
    }


def test_compose_and_kubernetes_run_the_same_programs() -> None:
    """The same services, images, commands, variables, paths and health checks in both."""
    assert differences(base_programs(base_documents()), compose_programs(compose_document())) == []


def test_compose_and_kubernetes_run_the_same_programs_with_co_location() -> None:
    """The reclaimer, and NATS with the permissions of its user."""
    base, compose = base_programs(colocation_documents()), compose_programs(colocation_document())
    assert compose["nats"].mounts["/etc/nats/permissions.conf"] == "k8s/colocation/permissions.conf"
    assert differences({"reclaimer": base["reclaimer"]}, {"reclaimer": compose["reclaimer"]}) == []
    assert base.keys() == compose.keys() - {"prometheus"}


def test_only_programs_that_use_the_api_server_get_the_kubeconfig_of_the_user() -> None:
    """Prometheus discovers nodes with a kubeconfig and a token of its own, and NATS and the scorer have none."""
    programs = compose_programs(compose_document())
    with_kubeconfig = {name for name, program in programs.items() if KUBECONFIG in program.mounts.values()}
    assert with_kubeconfig == {"setup", "collector", "annotator", "descheduler", "binder"}
    own = {path: source for path, source in programs["prometheus"].mounts.items() if "secret:" in source}
    assert set(own.values()) == {"secret:prometheus-token", "secret:prometheus-kubeconfig"}
    (scrape,) = yaml.safe_load((ROOT / "k8s" / "compose" / "prometheus.yaml").read_text())["scrape_configs"]
    discovery, access = scrape["kubernetes_sd_configs"][0], scrape["authorization"]
    assert {discovery["kubeconfig_file"], access["credentials_file"]} == set(own)
    [token] = [path for path, source in own.items() if source == "secret:prometheus-token"]
    assert f"set users.prometheus.tokenFile {token}" in (ROOT / "docs" / "install.md").read_text()


MUTATIONS = [
    ("command: [python, -m, equipoise.binder]", "command: [python, -m, equipoise.scorer]", "binder: command"),
    ("EQUIPOISE_NATS__USER: scorer", "EQUIPOISE_NATS__USER: collector", "scorer: variable EQUIPOISE_NATS__USER"),
    ("      EQUIPOISE_NATS__USER: binder\n", "", "binder: variable EQUIPOISE_NATS__USER"),
    ("    secrets: [{source: binder,", "    secrets: [{source: scorer,", "binder: path /run/secrets/nats/password"),
    ("./k8s/base/equipoise.yaml:/etc/equipoise/equipoise.yaml", "./other.yaml:/etc/equipoise/equipoise.yaml", "path"),
    ("./k8s/base/nats.conf:/etc/nats/", "./k8s/base/nats.conf:/etc/other/", "nats: path /etc/nats/nats.conf"),
    ("  annotator:\n    <<: *service", "  writer:\n    <<: *service", "only one of the two has annotator"),
    ("127.0.0.1:8084/healthz", "127.0.0.1:8085/healthz", "descheduler: health"),
    ("image: equipoise:0.1.0", "image: equipoise:0.2.0", "collector: image"),
    ("EQUIPOISE_KUBERNETES__KUBECONFIG: /etc/equipoise/kubeconfig", "OTHER: x", "does not name the mounted kubeconfig"),
]


@pytest.mark.parametrize(("text", "replacement", "expected"), MUTATIONS, ids=[case[2] for case in MUTATIONS])
def test_a_difference_is_reported(tmp_path: Path, text: str, replacement: str, expected: str) -> None:
    """Each of these changes to a copy of docker-compose.yml is reported."""
    copy = tmp_path / "docker-compose.yml"
    original = COMPOSE.read_text()
    assert text in original
    copy.write_text(original.replace(text, replacement))
    reported = differences(base_programs(base_documents()), compose_programs(compose_document(copy)))
    assert any(expected in line for line in reported), reported


def test_a_token_is_valid_for_ten_minutes() -> None:
    """The API server makes one that is mounted automatically valid for a year."""
    own = read_documents(ROOT / "k8s" / "scheduler" / "equipoise-scheduler.yaml")
    documents = [*colocation_documents(), *live_page_documents(), *own]
    templates = [d["spec"]["template"]["spec"] for d in documents if "template" in d.get("spec", {})]
    assert not any(template.get("automountServiceAccountToken", True) for template in templates)
    lifetimes = {
        template["containers"][0]["name"]: source["serviceAccountToken"]["expirationSeconds"]
        for template in templates
        for volume in template.get("volumes", ())
        for source in volume.get("projected", {}).get("sources", ())
        if "serviceAccountToken" in source
    }
    assert lifetimes == {
        name: 600 for name in (*ALL_SERVICES, "agent", "setup", "live-page", "scheduler") if name != "scorer"
    }
