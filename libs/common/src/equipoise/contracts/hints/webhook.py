"""The MutatingWebhookConfiguration for API servers without MutatingAdmissionPolicy.

The chart creates it without webhooks. The annotators write them, because only they know whether the webhook responds,
in which namespaces there are hints, and which CA signed its certificate.
"""

import base64
from collections.abc import Collection
from typing import Any

import msgspec

from equipoise.contracts.hints.definition import GROUP
from equipoise.contracts.hints.policy import NAME, NEW_PODS, POD_CONDITIONS, SWITCHED_ON, named_expressions
from equipoise.contracts.kubernetes.mutating_policy import API_GROUP
from equipoise.contracts.kubernetes.objects.metadata import Object

CONFIGURATION_KIND = "MutatingWebhookConfiguration"

SERVICE = "equipoise-hints-webhook"
"""The Deployment, the Service and the account of the webhook."""

PODS_WEBHOOK = f"hints.{GROUP}"
"""Called for new pods of namespaces with hints."""

PROBE_WEBHOOK = f"probe.hints.{GROUP}"
"""Called for the pods with which the annotators measure how long the webhook takes."""

PODS_PATH = "/hints"
PROBE_PATH = "/probe"

PROBE = "equipoise.dev/hints-probe"
"""Label of these pods, which are created in a dry run only."""

PROBE_KEY = "Job.equipoise-hints-probe"
"""Their workload."""

STATE = "equipoise.dev/hints-webhook"
"""Annotation of the configuration: what the annotators last decided about the webhook, and why."""

NO_LONGER_CALLED = "not called since"
"""The beginning of this annotation if the webhook was slow, or did not respond."""

TIMEOUT_SECONDS = 1
"""What a new pod waits at most. The API server accepts no shorter time."""

SYSTEM_NAMESPACES = ("kube-system", "kube-public", "kube-node-lease")

NAMESPACE_NAME = "kubernetes.io/metadata.name"
"""Label that the API server sets on each namespace."""


class WebhookConfiguration(Object, frozen=True, kw_only=True):
    """The configuration, with webhooks as the API server stores them."""

    webhooks: list[dict[str, Any]] = msgspec.field(default_factory=list)


def configuration() -> dict[str, Any]:
    """The manifest, without webhooks."""
    return {"apiVersion": f"{API_GROUP}/v1", "kind": CONFIGURATION_KIND, "metadata": {"name": NAME}}


def webhooks(
    *, ca: bytes, namespace: str, port: int, hinted: Collection[str], pods: bool = True
) -> list[dict[str, Any]]:
    """The webhooks with every field that the API server would add.

    `ca`: certificates in PEM. `namespace` and `port`: those of the Service. `hinted`: the namespaces with hints.
    Without `pods`, or without such a namespace, the webhook is called for no pod but those that measure it.
    """
    found = [
        _webhook(
            PROBE_WEBHOOK,
            PROBE_PATH,
            ca,
            namespace,
            port,
            namespaces={"matchExpressions": [_names("In", [namespace])]},
            objects={"matchLabels": {PROBE: "true"}},
            conditions={"dry-run": "request.dryRun"},
        )
    ]
    names = sorted({*hinted} - {*SYSTEM_NAMESPACES, namespace})
    if pods and names:
        found.append(
            _webhook(
                PODS_WEBHOOK,
                PODS_PATH,
                ca,
                namespace,
                port,
                namespaces={"matchExpressions": [*SWITCHED_ON["matchExpressions"], _names("In", names)]},
                objects=SWITCHED_ON,
                conditions=POD_CONDITIONS,
            )
        )
    return found


def serves_pods(found: WebhookConfiguration) -> bool:
    """Whether the API server calls the webhook for new pods."""
    return any(each.get("name") == PODS_WEBHOOK for each in found.webhooks)


def hinted_namespaces(found: WebhookConfiguration) -> list[str]:
    """The namespaces for whose pods the webhook is called."""
    return [
        name
        for each in found.webhooks
        if each.get("name") == PODS_WEBHOOK
        for rule in each.get("namespaceSelector", {}).get("matchExpressions", ())
        if (rule.get("key"), rule.get("operator")) == (NAMESPACE_NAME, "In")
        for name in rule.get("values", ())
    ]


def ca_of(found: WebhookConfiguration) -> bytes:
    """The CA (PEM) with which the API server verifies the webhook; empty if there is none."""
    return next((base64.b64decode(each["clientConfig"].get("caBundle", "")) for each in found.webhooks), b"")


def _names(operator: str, names: list[str]) -> dict[str, Any]:
    return {"key": NAMESPACE_NAME, "operator": operator, "values": names}


def _webhook(
    name: str,
    path: str,
    ca: bytes,
    namespace: str,
    port: int,
    *,
    namespaces: dict[str, Any],
    objects: dict[str, Any],
    conditions: dict[str, str],
) -> dict[str, Any]:
    return {
        "name": name,
        "admissionReviewVersions": ["v1"],
        "clientConfig": {
            "caBundle": base64.b64encode(ca).decode(),
            "service": {"name": SERVICE, "namespace": namespace, "path": path, "port": port},
        },
        "rules": [NEW_PODS | {"scope": "*"}],
        "namespaceSelector": namespaces,
        "objectSelector": objects,
        "matchConditions": named_expressions(conditions),
        "matchPolicy": "Equivalent",
        "reinvocationPolicy": "Never",
        "sideEffects": "None",
        "failurePolicy": "Ignore",
        "timeoutSeconds": TIMEOUT_SECONDS,
    }
