"""What the chart renders differently from kustomize, with the reasons; everything else is the same."""

import json
from typing import Any

import yaml
from deployment.helm import SETUP
from deployment.kustomize import Document, identity

from equipoise.cli.service_settings import AllSettings, all_settings
from equipoise.runtime.configuration import read_document

Comparable = dict[tuple[str, str, str], Any]


def comparable(documents: list[Document]) -> Comparable:
    """The objects without the differences."""
    result: Comparable = {}
    for document in json.loads(json.dumps(documents)):
        kind, spec = document["kind"], document.get("spec", {})
        if kind == "Namespace":  # helm creates it with --create-namespace
            continue
        document["metadata"].pop("labels", None)  # helm and the chart have their own: version, release, part-of
        # A Job is immutable: its name ends in a hash.
        if SETUP.fullmatch(document["metadata"]["name"]):
            document["metadata"]["name"] = "equipoise-setup"
        # The texts are written from values: the same settings.
        if kind == "ConfigMap" and "equipoise.yaml" in document["data"]:
            document["data"] = settings_of(document)
        elif kind == "ConfigMap" and "scheduler.yaml" in document["data"]:
            document["data"] = yaml.safe_load(document["data"]["scheduler.yaml"])
        # Values that have the defaults of Kubernetes; also imagePullPolicy.
        if kind == "Service" and spec.get("type") == "ClusterIP":
            del spec["type"]
        if kind in ("Deployment", "DaemonSet") and spec.get("revisionHistoryLimit") == 10:
            del spec["revisionHistoryLimit"]
        if "template" in spec:
            _compare_pod(spec["template"])
        assert identity(document) not in result, f"twice: {identity(document)}"
        result[identity(document)] = document
    return result


def _compare_pod(template: Document) -> None:
    # checksum/config replaces the hash in the names of ConfigMaps.
    template["metadata"].pop("annotations", None)
    # The release; no selector uses it.
    template["metadata"]["labels"].pop("app.kubernetes.io/instance", None)
    (container,) = template["spec"]["containers"]
    if container.get("imagePullPolicy") == "IfNotPresent":
        del container["imagePullPolicy"]
    if container["name"] == "kube-scheduler":  # the version of the cluster, from registry.k8s.io
        container["image"] = container["image"].removeprefix("registry.k8s.io/")


def settings_of(config_map: Document) -> AllSettings:
    """What a service reads from the ConfigMap."""
    return all_settings(read_document(config_map["data"]["equipoise.yaml"]))
