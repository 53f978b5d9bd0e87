"""The programs of k8s/base."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from deployment.kustomize import Document, read_documents, read_kustomization
from deployment.programs import SERVICE_ACCOUNT, VOLUME, Health, Program, health_of

from equipoise.runtime.configuration.discovered import DISCOVERED

ROOT = Path(__file__).resolve().parents[2]
BASE = ROOT / "k8s" / "base"
COLOCATION = ROOT / "k8s" / "colocation"
NAMESPACE = "equipoise-system"

ACCOUNT_KINDS = (
    "Namespace",
    "ServiceAccount",
    "Role",
    "ClusterRole",
    "RoleBinding",
    "ClusterRoleBinding",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
)

_REFERENCE = re.compile(r"\$\((\w+)\)")


def base_documents() -> list[Document]:
    return read_kustomization(BASE)


def colocation_documents() -> list[Document]:
    return read_kustomization(ROOT / "k8s" / "overlays" / "colocation")


def optional_accounts() -> list[Document]:
    """The accounts of k8s/colocation, k8s/prepare and the webhook of hints, with what restricts them, without pods."""
    webhook = read_documents(ROOT / "k8s" / "hints" / "webhook.yaml")
    documents = [
        *colocation_documents(),
        *read_kustomization(ROOT / "k8s" / "prepare"),
        *(each for each in webhook if each["metadata"]["name"] == "equipoise-hints-webhook"),
    ]
    return [each for each in documents if each["kind"] in ACCOUNT_KINDS]


def live_page_documents() -> list[Document]:
    return read_kustomization(ROOT / "k8s" / "live-page")


def base_programs(documents: list[Document]) -> dict[str, Program]:
    """By container name."""
    templates = [
        document["spec"]["template"]["spec"]
        for document in documents
        if document["kind"] in ("Deployment", "StatefulSet", "Job")
    ]
    programs = [_program(template) for template in templates]
    return {program.name: program for program in programs}


def _program(pod: Document) -> Program:
    (container,) = pod["containers"]
    token = [volume for volume in pod.get("volumes", ()) if _token_of(volume)]
    sources = {volume["name"]: _files_of(volume) for volume in pod.get("volumes", ()) if volume not in token}
    sources |= {volume["name"]: {"": SERVICE_ACCOUNT} for volume in token}
    mounts = {}
    for mount in container.get("volumeMounts", ()):
        for name, source in sources.get(mount["name"], {"": VOLUME}).items():
            mounts[f"{mount['mountPath']}/{name}".rstrip("/")] = source
    ports = {port["name"]: port["containerPort"] for port in container.get("ports", ())}
    probe = container.get("livenessProbe", container.get("readinessProbe"))
    return Program(
        name=container["name"],
        image=container["image"],
        command=tuple(container["command"] + container.get("args", [])),
        environment=_environment(container.get("env", ())),
        mounts=mounts,
        user=str(pod["securityContext"]["runAsUser"]),
        read_only=container["securityContext"]["readOnlyRootFilesystem"],
        grace_seconds=pod.get("terminationGracePeriodSeconds", 30),
        health=_health(probe, ports) if probe else None,
    )


def _token_of(volume: Document) -> Document:
    """The token of the ServiceAccount that the volume contains, as well as the CA and the namespace; empty: none."""
    sources = volume.get("projected", {}).get("sources", ())
    found: Document = next((source["serviceAccountToken"] for source in sources if "serviceAccountToken" in source), {})
    return found


def _files_of(volume: Document) -> dict[str, str]:
    if "configMap" in volume:
        if volume["configMap"].get("optional"):
            return {}  # nothing was discovered: compose has no such file
        generated = {"equipoise": ("equipoise.yaml",), "nats": ("nats.conf", "permissions.conf")}
        return {name: f"k8s/base/{name}" for name in generated[volume["configMap"]["name"]]}
    if "projected" in volume:
        sources = [source["secret"] for source in volume["projected"]["sources"]]
        return {path: source for secret in sources for path, source in _files_of_secret(secret["name"], secret).items()}
    if volume["secret"].get("optional"):
        return {}  # of a part that is not always there
    return _files_of_secret(volume["secret"]["secretName"], volume["secret"])


def _files_of_secret(name: str, secret: Document) -> dict[str, str]:
    folder = "" if name == "equipoise-nats" else f"{name}/"
    return {item["path"]: f"secret:{folder}{item['key']}" for item in secret["items"]}


def _environment(entries: Iterable[Document]) -> dict[str, str]:
    """Without the variables that are only part of others, and without that of the optional file."""
    values: dict[str, str] = {}
    parts: set[str] = set()
    for entry in entries:
        value = _value_of(entry)
        parts |= set(_REFERENCE.findall(value))
        values[entry["name"]] = _REFERENCE.sub(lambda reference: values[reference[1]], value)
    return {name: value for name, value in values.items() if name not in parts and name != DISCOVERED}


def _value_of(entry: Document) -> str:
    if "value" in entry:
        return str(entry["value"])
    reference = entry["valueFrom"]["secretKeyRef"]
    assert reference["name"] == "equipoise-nats"
    return f"secret:{reference['key']}"


def _health(probe: dict[str, Any], ports: dict[str, int]) -> Health:
    if "exec" in probe:
        return health_of(probe["exec"]["command"][-1])
    port = probe["httpGet"]["port"]
    return Health(port=ports[port] if isinstance(port, str) else port, path=probe["httpGet"]["path"])
