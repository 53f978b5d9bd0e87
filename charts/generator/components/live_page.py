"""The live page of the cluster."""

from collections.abc import Iterator
from typing import Any

from charts.generator.changes import Change, filled, item_named, only_if
from charts.generator.components.pods import account_values, deployment_changes, pod_values, secrets_of_the_bus
from charts.generator.manifests import Document, Manifests
from charts.generator.schemas import ANY_OBJECT, BOOLEAN, COUNT, LABELS, TEXTS, Group, Value, closed, list_of
from charts.generator.template import Each, Node, Text, Yaml


def live_page_values(base: Manifests) -> Group:
    def at(path: str) -> Any:
        return base.at("Deployment", "equipoise-live-page", path)

    return Group(
        {
            "enabled": Value(
                False,
                BOOLEAN,
                "Run `equipoise dashboard` in the cluster. The page has no login: see docs/operate.md.",
            ),
            "replicas": Value(at("spec.replicas"), COUNT, "Number of pods."),
            "allowHosts": Value(
                [],
                list_of({"type": "string", "pattern": "^[A-Za-z0-9.:-]+$"}),
                "Host names, without a port, under which browsers may open the page: that of your proxy with"
                " authentication. `localhost`, as behind `kubectl port-forward`, needs no entry.",
            ),
            "allowFrom": Value(
                base.at("NetworkPolicy", "equipoise-live-page", "spec.ingress.0.from"),
                list_of(
                    closed(dict.fromkeys(("namespaceSelector", "podSelector", "ipBlock"), ANY_OBJECT))
                    | {"minProperties": 1}
                ),
                "Who may connect to the page, as the peers of a NetworkPolicy; empty: nobody, only `kubectl"
                " port-forward` works.",
            ),
            "serviceAccount": account_values("live-page"),
            "podAnnotations": Value({}, TEXTS, "Annotations of its pods."),
            "podLabels": Value({}, LABELS, "Labels of its pods."),
            **pod_values(at("spec.template.spec.containers.0.resources")),
        },
        "The live page of the cluster, for browsers.",
    )


def live_page_changes() -> Iterator[Change]:
    kind, name, values = "Deployment", "equipoise-live-page", "$.Values.livePage"
    yield from deployment_changes(name, values)

    def variables(old: list[Document]) -> Node:
        item_named(old, "EQUIPOISE_NATS__URL")["value"] = Text('{{ include "equipoise.natsUrl" $ | toJson }}')
        return only_if("$.Values.nats.tls.existingSecret", "EQUIPOISE_NATS__TLS__CA_FILE", old)

    container = "spec/template/spec/containers/0"
    yield Change(kind, name, f"{container}/image", Text('{{ include "equipoise.image" $ }}'))
    yield Change(kind, name, f"{container}/env", variables)
    hosts = Each(f"{values}.allowHosts", Text('{{ print "--allow-host=" . | toJson }}'))
    yield Change(kind, name, f"{container}/args/-", hosts)
    yield from secrets_of_the_bus(kind, name)
    yield Change("ServiceAccount", name, "metadata/annotations", filled(f"{values}.serviceAccount.annotations"))
    yield Change("NetworkPolicy", name, "spec/ingress/0/from", Yaml(f"toYaml {values}.allowFrom"))
