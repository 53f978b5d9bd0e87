"""In what the chart renders other objects than kustomize, with its reasons; everything else is the same."""

import json
from typing import Any

import yaml
from deployment.helm import SETUP
from deployment.kustomize import Document, identity

from equipoise.cli.service_settings import AllSettings, all_settings
from equipoise.runtime.configuration import read_document

Comparable = dict[tuple[str, str, str], Any]

DIFFERENCES = {
    "Namespace": "helm creates it with --create-namespace",
    "labels of objects": "helm and the chart have their own: version, release, part-of",
    "label app.kubernetes.io/instance of pods": "the release; no selector uses it",
    "annotations of pods": "checksum/config replaces the hash in the names of ConfigMaps",
    "name of the setup Job": "a Job is immutable: its name ends in a hash",
    "text of equipoise.yaml": "written from values: the same settings",
    "revisionHistoryLimit, imagePullPolicy, type of a Service": "values that have the defaults of Kubernetes",
    "image of the second scheduler": "the version of the cluster, from registry.k8s.io",
}


def comparable(documents: list[Document]) -> Comparable:
    """Without DIFFERENCES."""
    result: Comparable = {}
    for document in json.loads(json.dumps(documents)):
        kind, spec = document["kind"], document.get("spec", {})
        if kind == "Namespace":
            continue
        document["metadata"].pop("labels", None)
        if SETUP.fullmatch(document["metadata"]["name"]):
            document["metadata"]["name"] = "equipoise-setup"
        if kind == "ConfigMap" and "equipoise.yaml" in document["data"]:
            document["data"] = settings_of(document)
        elif kind == "ConfigMap" and "scheduler.yaml" in document["data"]:
            document["data"] = yaml.safe_load(document["data"]["scheduler.yaml"])
        if kind == "Service" and spec.get("type") == "ClusterIP":
            del spec["type"]
        if kind == "Deployment" and spec.get("revisionHistoryLimit") == 10:
            del spec["revisionHistoryLimit"]
        if "template" in spec:
            _compare_pod(spec["template"])
        assert identity(document) not in result, f"twice: {identity(document)}"
        result[identity(document)] = document
    return result


def _compare_pod(template: Document) -> None:
    template["metadata"].pop("annotations", None)
    template["metadata"]["labels"].pop("app.kubernetes.io/instance", None)
    (container,) = template["spec"]["containers"]
    if container.get("imagePullPolicy") == "IfNotPresent":
        del container["imagePullPolicy"]
    if container["name"] == "kube-scheduler":
        container["image"] = container["image"].removeprefix("registry.k8s.io/")


def settings_of(config_map: Document) -> AllSettings:
    """What a service reads from the ConfigMap."""
    return all_settings(read_document(config_map["data"]["equipoise.yaml"]))
