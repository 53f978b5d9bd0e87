"""Placement hints, which a policy or the webhook adds to pods."""

from collections.abc import Iterator
from typing import Any

from charts.generator.changes import Change, Rewrite, item_named, value_of
from charts.generator.components.pods import deployment_changes, replicated_pod_values
from charts.generator.manifests import Manifests
from charts.generator.schemas import BOOLEAN, COUNT, LABELS, NAME, TEXTS, Group, Value
from charts.generator.template import Each, Node, Text, When

BY_POLICY = 'and $.Values.hints.enabled (eq (include "equipoise.hintsAdmission" $) "policy")'
BY_WEBHOOK = 'and $.Values.hints.enabled (eq (include "equipoise.hintsAdmission" $) "webhook")'
"""What adds placement hints to pods."""


def hints_values(base: Manifests) -> Group:
    return Group(
        {
            "enabled": Value(
                False,
                BOOLEAN,
                "Add preferred node affinity to new pods, towards the nodes with headroom for their workload. Needs"
                " no configuration of kube-scheduler.",
            ),
            "admission": Value(
                "auto",
                {"enum": ["auto", "policy", "webhook"]},
                "What adds the hints to pods. `policy`: an admission policy in the API server, from Kubernetes 1.36"
                " on (or 1.34 with the feature gate MutatingAdmissionPolicy). `webhook`: a program of Equipoise."
                " `auto`: the policy from 1.36 on, if the API server serves it, and the webhook below.",
            ),
            "webhook": _webhook_values(base),
        },
        "Placement hints, which the API server adds to pods.",
    )


def _webhook_values(base: Manifests) -> Group:
    def at(path: str) -> Any:
        return base.at("Deployment", "equipoise-hints-webhook", path)

    return Group(
        {
            "replicas": Value(at("spec.replicas"), COUNT, "Number of pods."),
            "tls": Group(
                {
                    "existingSecret": Value(
                        "equipoise-hints-webhook-tls",
                        NAME,
                        "Secret with `tls.crt`, `tls.key` and `ca.crt`, by the Job `equipoise-prepare`, by `equipoise"
                        " certificates --for hints-webhook` or cert-manager.",
                    )
                },
                "TLS of the API server to the webhook.",
            ),
            **replicated_pod_values(at("spec.template.spec")),
            "podAnnotations": Value({}, TEXTS, "Annotations of its pods."),
            "podLabels": Value({}, LABELS, "Labels of its pods."),
        },
        "The webhook, where it is used.",
    )


def hints_changes() -> Iterator[Change]:
    """The webhook of hints, and its CA in the annotators."""
    kind, name, values = "Deployment", "equipoise-hints-webhook", "$.Values.hints.webhook"
    pod = "spec/template/spec"
    secret = value_of(f"{values}.tls.existingSecret")

    def volume(at: str) -> Rewrite:
        def changed(volumes: list[Node]) -> Node:
            item_named(volumes, at)["secret"]["secretName"] = secret
            return volumes

        return changed

    yield from deployment_changes(name, values, component="hints-webhook")
    yield Change(kind, name, f"{pod}/volumes", volume("tls"))
    cidrs = [Each("$.Values.networkPolicy.apiServerCidrs", {"ipBlock": {"cidr": Text("{{ . | toJson }}")}})]
    yield Change("NetworkPolicy", name, "spec/ingress/0/from", cidrs)
    yield Change(
        "NetworkPolicy", name, "spec/ingress", lambda rules: When("$.Values.networkPolicy.apiServerCidrs", rules)
    )
    yield Change(kind, "equipoise-annotator", f"{pod}/volumes", volume("hints-webhook"))
