"""What the pods of all programs have in common."""

from collections.abc import Iterator, Mapping
from typing import Any

from charts.generator.changes import Change, Rewrite, filled, item_named, value_of
from charts.generator.manifests import Document
from charts.generator.schemas import AFFINITY, BOOLEAN, RESOURCES, SPREAD, TEXTS, TOLERATIONS, Group, Value
from charts.generator.template import More, Node, Text, When, Yaml


def pod_values(resources: Mapping[str, Any], *, affinity: str = "Affinity.") -> dict[str, Value | Group]:
    """The values of every pod: its resources, and on which nodes it may run."""
    return {
        "resources": Value(dict(resources), RESOURCES, "Requests and limits."),
        "nodeSelector": Value({}, TEXTS, "Node selector."),
        "tolerations": Value([], TOLERATIONS, "Tolerations."),
        "affinity": Value({}, AFFINITY, affinity),
    }


def replicated_pod_values(pod: Mapping[str, Any]) -> dict[str, Value | Group]:
    """The values of pods that are spread over nodes and zones."""
    spread = [
        {key: value for key, value in constraint.items() if key != "labelSelector"}
        for constraint in pod["topologySpreadConstraints"]
    ]
    affinity = "Affinity; it replaces the preference of replicas for different zones."
    return {
        **pod_values(pod["containers"][0]["resources"], affinity=affinity),
        "topologySpreadConstraints": Value(spread, SPREAD, "Spread of the pods; selectors are added."),
    }


def account_values(name: str) -> Group:
    """The values of the ServiceAccount of a program."""
    return Group(
        {
            "create": Value(True, BOOLEAN, f"Create the ServiceAccount `equipoise-{name}`."),
            "annotations": Value({}, TEXTS, "Its annotations."),
        },
        "Its account.",
    )


def pod_changes(
    kind: str, name: str, values: str, *, template: str = "spec/template", component: str = ""
) -> Iterator[Change]:
    """What the pods of all programs have in common. `values`: the expression of their section. `component`: the label
    of the replicas that are spread over nodes and zones; empty if there is one pod.
    """

    def change(path: str, value: Node | Rewrite) -> Change:
        return Change(kind, name, f"{template}/{path}", value)

    yield change("spec/nodeSelector", filled(f"{values}.nodeSelector"))
    yield change("spec/tolerations", filled(f"{values}.tolerations"))
    if component:
        spread = f'include "equipoise.spread" (list $ "{component}" {values}.topologySpreadConstraints)'
        affinity = f'include "equipoise.affinity" (list $ "{component}" {values}.affinity)'
        yield change("spec/topologySpreadConstraints", When(f"{values}.topologySpreadConstraints", Yaml(spread)))
        yield change("spec/affinity", Yaml(affinity))
    else:
        yield change("spec/affinity", filled(f"{values}.affinity"))
    yield change(
        "spec/imagePullSecrets", When('include "equipoise.pullSecrets" $', Yaml('include "equipoise.pullSecrets" $'))
    )
    if name not in (
        "equipoise-prepare",
        "equipoise-setup",
        "equipoise-scheduler",
        "equipoise-python-scheduler",
        "equipoise-live-page",
    ):
        yield change(
            "spec/priorityClassName", When("$.Values.priorityClass.name", value_of("$.Values.priorityClass.name"))
        )
    yield change("spec/containers/0/imagePullPolicy", value_of("$.Values.image.pullPolicy"))
    yield change("spec/containers/0/resources", Yaml(f"toYaml {values}.resources"))
    yield change("spec/containers/0/securityContext", Yaml("toYaml $.Values.containerSecurityContext"))
    pod_context = (
        f"{values}.podSecurityContext" if name in ("nats", "equipoise-agent") else "$.Values.podSecurityContext"
    )
    yield change("spec/securityContext", Yaml(f"toYaml {pod_context}"))


def deployment_changes(name: str, values: str, *, component: str = "") -> Iterator[Change]:
    """What all Deployments with the image of the product have in common. `values`: the path of their values.
    `component`: as in `_pod`.
    """
    kind = "Deployment"
    annotations = {
        "checksum/config": Text('{{ include "equipoise.configuration" $ | sha256sum }}'),
        "more": More(f"{values}.podAnnotations"),
    }
    yield Change(kind, name, "spec/replicas", value_of(f"{values}.replicas"))
    yield Change(kind, name, "spec/revisionHistoryLimit", value_of("$.Values.revisionHistoryLimit"))
    yield Change(kind, name, "spec/template/metadata/annotations", annotations)
    yield Change(
        kind, name, "spec/template/metadata/labels/more", More(f"merge (dict) {values}.podLabels $.Values.commonLabels")
    )
    yield from pod_changes(kind, name, values, component=component)
    yield Change(kind, name, "spec/template/spec/containers/0/image", Text('{{ include "equipoise.image" $ }}'))


def secrets_of_the_bus(kind: str, name: str) -> Iterator[Change]:
    """The Secrets of the bus in the projected volume `nats` of a service."""

    def sources(volumes: list[Document]) -> Node:
        volume = item_named(volumes, "nats")
        passwords, certificate = volume["projected"]["sources"]
        passwords["secret"]["name"] = value_of("$.Values.nats.existingSecret")
        certificate["secret"]["name"] = value_of("$.Values.nats.tls.existingSecret")
        volume["projected"]["sources"] = [passwords, When("$.Values.nats.tls.existingSecret", certificate)]
        return volumes

    yield Change(kind, name, "spec/template/spec/volumes", sources)
