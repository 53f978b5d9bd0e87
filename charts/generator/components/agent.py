"""The agent of each node."""

import json
from collections.abc import Iterator
from typing import Any

import yaml
from charts.generator.changes import NAMESPACE, RELEASE_NAMESPACE, Change, filled, value_of
from charts.generator.components.pods import account_values, pod_changes, pod_values
from charts.generator.manifests import ROOT, Manifests
from charts.generator.schemas import ANY_OBJECT, BOOLEAN, LABELS, TEXTS, TOLERATIONS, Group, Value
from charts.generator.template import More, Node, Text, Yaml


def agent_values(base: Manifests) -> Group:
    def at(path: str) -> Any:
        return base.at("DaemonSet", "equipoise-agent", path)

    pod = "spec.template.spec"
    return Group(
        {
            "enabled": Value(
                False,
                BOOLEAN,
                "Run a pod on every Linux node that limits batch pods while they disturb others. It runs as root with"
                " the cgroups of the node, in a namespace `equipoise-agent` that the chart creates; Secrets of"
                " `image.pullSecrets` must exist there, too.",
            ),
            "evictions": Value(
                False,
                BOOLEAN,
                "Permit it to evict batch pods of its node, and let it evict. If false, evictions are only logged.",
            ),
            "serviceAccount": account_values("agent"),
            "podSecurityContext": Value(at(f"{pod}.securityContext"), ANY_OBJECT, "Security context of its pods."),
            "podAnnotations": Value({}, TEXTS, "Annotations of its pods."),
            "podLabels": Value({}, LABELS, "Labels of its pods."),
            **pod_values(at(f"{pod}.containers.0.resources")),
            "nodeSelector": Value(at(f"{pod}.nodeSelector"), TEXTS, "Node selector."),
            "tolerations": Value(at(f"{pod}.tolerations"), TOLERATIONS, "Tolerations."),
        },
        "The agent of each node.",
    )


def agent_changes() -> Iterator[Change]:
    kind, name, values = "DaemonSet", "equipoise-agent", "$.Values.agent"
    labels = More(f"merge (dict) {values}.podLabels $.Values.commonLabels")
    yield Change(kind, name, "spec/revisionHistoryLimit", value_of("$.Values.revisionHistoryLimit"))
    yield Change(kind, name, "spec/template/metadata/annotations", filled(f"{values}.podAnnotations"))
    yield Change(kind, name, "spec/template/metadata/labels/more", labels)
    yield Change(kind, name, "spec/template/spec/containers/0/image", Text('{{ include "equipoise.image" $ }}'))
    yield from pod_changes(kind, name, values)
    yield Change("ServiceAccount", name, "metadata/annotations", filled(f"{values}.serviceAccount.annotations"))
    settings = Yaml('include "equipoise.agentConfiguration" $ | toYaml')
    yield Change("ConfigMap", name, "data", {"equipoise.yaml": settings})

    def expression(old: str) -> Node:
        return Text(json.dumps(old).replace(NAMESPACE, RELEASE_NAMESPACE.text))

    policy = yaml.safe_load_all((ROOT / "k8s" / "colocation" / "agent.yaml").read_text())
    (fence,) = (each for each in policy if each["kind"] == "ValidatingAdmissionPolicy")
    for place, validation in enumerate(fence["spec"]["validations"]):
        if NAMESPACE in validation["expression"]:
            path = f"spec/validations/{place}/expression"
            yield Change("ValidatingAdmissionPolicy", "equipoise-agent-fence", path, expression)
