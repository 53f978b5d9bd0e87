"""The extender of kube-scheduler, which the scorer serves."""

from collections.abc import Iterator
from functools import partial

from charts.generator.changes import Change, filled, item_named, only_if, value_of
from charts.generator.manifests import Document, Manifests
from charts.generator.schemas import BOOLEAN, NAME, OPTIONAL_NAME, TEXT, TEXTS, Group, Value
from charts.generator.template import Each, More, Node, Text, When


def extender_values(base: Manifests) -> Group:
    return Group(
        {
            "enabled": Value(
                True, BOOLEAN, "Serve scores to kube-scheduler. If false, the scorer only explains and reports."
            ),
            "service": Group(
                {
                    "type": Value(
                        "ClusterIP", {"enum": ["ClusterIP", "NodePort", "LoadBalancer"]}, "Type of the Service."
                    ),
                    "clusterIP": Value(
                        "", TEXT, "A fixed address for the configuration of kube-scheduler; empty: any free one."
                    ),
                    "annotations": Value({}, TEXTS, "Annotations of the Service."),
                },
                "The Service of the extender.",
            ),
            "tls": Group(
                {
                    "existingSecret": Value(
                        "equipoise-extender-tls",
                        OPTIONAL_NAME,
                        "Secret with `tls.crt`, `tls.key` and `ca.crt`, by `equipoise certificates --for extender`"
                        " or cert-manager. Empty: plain HTTP, which needs"
                        " `config.scorer.extender.allowUnauthenticated`.",
                    ),
                    "clientSecret": Value(
                        "equipoise-extender-client", NAME, "Secret with the files of kube-scheduler."
                    ),
                },
                "Certificates of the extender.",
            ),
        },
        "The scheduler extender.",
    )


def extender_changes() -> Iterator[Change]:
    """The port of the extender, and its certificate."""
    name, pod = "equipoise-scorer", "spec/template/spec"
    enabled = "$.Values.extender.enabled"
    secret = "and $.Values.extender.enabled $.Values.extender.tls.existingSecret"  # noqa: S105  an expression

    def volume(volumes: list[Node]) -> Node:
        item_named(volumes, "extender-tls")["secret"]["secretName"] = value_of("$.Values.extender.tls.existingSecret")
        return only_if(secret, "extender-tls", volumes)

    yield Change("Deployment", name, f"{pod}/containers/0/ports", partial(only_if, enabled, "extender"))
    yield Change("Deployment", name, f"{pod}/containers/0/volumeMounts", partial(only_if, secret, "extender-tls"))
    yield Change("Deployment", name, f"{pod}/volumes", volume)
    service = "$.Values.extender.service"
    yield Change("Service", name, "metadata/annotations", filled(f"{service}.annotations"))
    yield Change("Service", name, "spec/type", value_of(f"{service}.type"))
    yield Change("Service", name, "spec/clusterIP", When(f"{service}.clusterIP", value_of(f"{service}.clusterIP")))
    policy = "NetworkPolicy"
    cidrs = [Each("$.Values.networkPolicy.schedulerCidrs", {"ipBlock": {"cidr": Text("{{ . | toJson }}")}})]
    yield Change(policy, name, "spec/ingress/0/from", cidrs)
    yield Change(
        policy, name, "spec/ingress", lambda rules: When(f"and {enabled} $.Values.networkPolicy.schedulerCidrs", rules)
    )

    def egress(rules: list[Document]) -> Node:
        bus, dns = rules
        yours = {"ports": [Each('include "equipoise.natsPorts" $ | splitList ","', {"port": Text("{{ . }}")})]}
        return [
            When("$.Values.nats.enabled", bus),
            When("not $.Values.nats.enabled", yours),
            dns,
            More("$.Values.networkPolicy.extraEgress"),
        ]

    yield Change(policy, name, "spec/egress", egress)
