"""Certificates by cert-manager."""

from collections.abc import Iterator

from charts.generator.changes import NAMESPACE, RELEASE_NAMESPACE, Change, value_of
from charts.generator.schemas import BOOLEAN, DURATION, Group, Value
from charts.generator.template import Node, Text, When


def certificates_values() -> Group:
    return Group(
        {
            "enabled": Value(
                False,
                BOOLEAN,
                "Let cert-manager issue the certificates. If false, the Secrets must exist: `equipoise certificates`.",
            ),
            "duration": Value("8760h", DURATION, "Validity of a certificate."),
            "renewBefore": Value("2160h", DURATION, "Time before its end at which it is renewed."),
        },
        "Certificates by cert-manager.",
    )


def certificates_changes() -> Iterator[Change]:
    for name, secret in (
        ("equipoise-nats", "nats.tls.existingSecret"),
        ("equipoise-extender-tls", "extender.tls.existingSecret"),
        ("equipoise-extender-client", "extender.tls.clientSecret"),
        ("equipoise-hints-webhook-tls", "hints.webhook.tls.existingSecret"),
    ):
        yield Change("Certificate", name, "spec/secretName", value_of(f"$.Values.{secret}"))
        yield Change("Certificate", name, "spec/duration", value_of("$.Values.certManager.duration"))
        yield Change("Certificate", name, "spec/renewBefore", value_of("$.Values.certManager.renewBefore"))

    def names(old: list[str]) -> Node:
        """Those of k8s stay: the entry of kube-scheduler verifies one of them, whatever the namespace is."""
        own = [Text(each.replace(NAMESPACE, RELEASE_NAMESPACE.text)) for each in old if NAMESPACE in each]
        elsewhere = f'ne $.Release.Namespace "{NAMESPACE}"'
        return [*(Text(each) for each in old), *(When(elsewhere, each) for each in own)]

    for name in ("equipoise-nats", "equipoise-extender-tls", "equipoise-hints-webhook-tls"):
        yield Change("Certificate", name, "spec/dnsNames", names)
