"""Network policies, priorities, and the API versions of admission policies."""

from collections.abc import Iterator

import yaml
from charts.generator.changes import Change, value_of
from charts.generator.manifests import ROOT, Document, Manifests
from charts.generator.schemas import BOOLEAN, COUNT, EGRESS, OPTIONAL_NAME, TEXTS, Group, Value, list_of
from charts.generator.template import Node, Text, When, Yaml

from equipoise.contracts.hints.policy import NAME as HINTS
from equipoise.contracts.kubernetes.mutating_policy import POLICY_KIND


def priority_class_values(base: Manifests) -> Group:
    return Group(
        {
            "create": Value(True, BOOLEAN, "Create the PriorityClass."),
            "name": Value(
                "equipoise", OPTIONAL_NAME, "PriorityClass of the services and of NATS; empty: that of the cluster."
            ),
            "value": Value(
                base.at("PriorityClass", "equipoise", "value"),
                {"type": "integer", "maximum": 1000000000},
                "Its priority.",
            ),
        },
        "Priority of the pods.",
    )


def flow_control_values(base: Manifests) -> Group:
    return Group(
        {
            "enabled": Value(
                True, BOOLEAN, "A priority level of their own in the API server for the services' requests."
            ),
            "nominalConcurrencyShares": Value(
                base.at("PriorityLevelConfiguration", "equipoise", "spec.limited.nominalConcurrencyShares"),
                COUNT,
                "Share of that level.",
            ),
        },
        "API Priority and Fairness.",
    )


def network_policy_values(base: Manifests) -> Group:
    return Group(
        {
            "enabled": Value(True, BOOLEAN, "Deny all ingress to the namespace except what the services need."),
            "schedulerCidrs": Value(
                [
                    source["ipBlock"]["cidr"]
                    for source in base.at("NetworkPolicy", "equipoise-scorer", "spec.ingress.0.from")
                ],
                list_of({"type": "string", "pattern": "^[0-9a-fA-F.:]+/[0-9]+$"}),
                "Addresses of kube-scheduler: replace them by those of your control-plane nodes.",
            ),
            "apiServerCidrs": Value(
                [
                    source["ipBlock"]["cidr"]
                    for source in base.at("NetworkPolicy", "equipoise-hints-webhook", "spec.ingress.0.from")
                ],
                list_of({"type": "string", "pattern": "^[0-9a-fA-F.:]+/[0-9]+$"}),
                "Addresses from which your API servers call the webhook of hints.",
            ),
            "metricsNamespaceLabels": Value(
                base.at("NetworkPolicy", "equipoise-metrics", "spec.ingress.0.from.0.namespaceSelector.matchLabels"),
                TEXTS,
                "Labels of the namespaces whose pods may read metrics and health.",
            ),
            "extraEgress": Value(
                [], EGRESS, "More rules for the egress of the scorer, the only service with restricted egress."
            ),
        },
        "NetworkPolicies.",
    )


def policies_changes() -> Iterator[Change]:
    overlay = yaml.safe_load((ROOT / "k8s" / "overlays" / "crane" / "kustomization.yaml").read_text())
    (patch,) = overlay["patches"]
    (operation,) = yaml.safe_load(patch["patch"])

    def own_annotations(variables: list[Document]) -> Node:
        crane, base = "$.Values.crane.enabled", "not $.Values.crane.enabled"
        return [When(crane, operation["value"]), When(base, variables[0]), *variables[1:]]

    yield Change(patch["target"]["kind"], patch["target"]["name"], "spec/variables", own_annotations)
    for name in ("equipoise-metrics", "equipoise-colocation-metrics", "equipoise-agent"):
        yield Change(
            "NetworkPolicy",
            name,
            "spec/ingress/0/from/0/namespaceSelector/matchLabels",
            Yaml("toYaml $.Values.networkPolicy.metricsNamespaceLabels"),
        )
    for kind in (POLICY_KIND, f"{POLICY_KIND}Binding"):
        yield Change(kind, HINTS, "apiVersion", Text('{{ include "equipoise.hintsApiVersion" $ }}'))
    yield Change("PriorityClass", "equipoise", "value", value_of("int64 $.Values.priorityClass.value"))
    shares = "spec/limited/nominalConcurrencyShares"
    yield Change(
        "PriorityLevelConfiguration", "equipoise", shares, value_of("$.Values.flowControl.nominalConcurrencyShares")
    )
