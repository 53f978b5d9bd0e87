"""The NATS server."""

from collections.abc import Iterator

import yaml
from charts.generator.changes import Change, item_named, value_of
from charts.generator.components.pods import pod_changes, pod_values
from charts.generator.manifests import ROOT, Document, Manifests
from charts.generator.schemas import (
    ANY_OBJECT,
    BOOLEAN,
    DIGEST,
    LABELS,
    NAME,
    OPTIONAL_NAME,
    QUANTITY,
    TEXT,
    TEXTS,
    Group,
    Value,
)
from charts.generator.template import More, Node, Text, When


def nats_values(base: Manifests) -> Group:
    image, _, tag = str(base.at("StatefulSet", "nats", "spec.template.spec.containers.0.image")).rpartition(":")
    claim = base.at("StatefulSet", "nats", "spec.volumeClaimTemplates.0.spec.resources.requests.storage")
    return Group(
        {
            "enabled": Value(
                True,
                BOOLEAN,
                "Run a NATS server. If false, `url` names yours, which has the users of files/permissions.conf.",
            ),
            "url": Value(
                "",
                {"type": "string", "pattern": "^((tls|nats|wss|ws)://[^,]+(,(tls|nats|wss|ws)://[^,]+)*)?$"},
                "Address of your NATS servers, separated by commas; only with `enabled: false`.",
            ),
            "replicas": Value(
                1, {"enum": [1, 3, 5]}, "Copies of each stream: more than 1 only with that many servers of your own."
            ),
            "existingSecret": Value(
                "equipoise-nats",
                NAME,
                "Secret with a password per user: setup, collector, annotator, scorer, descheduler, binder, tap, and"
                " reclaimer if it is enabled.",
            ),
            "tls": Group(
                {
                    "existingSecret": Value(
                        "equipoise-nats-tls",
                        OPTIONAL_NAME,
                        "Secret with `ca.crt`, and for the server of the chart `tls.crt` and `tls.key`, by"
                        " `equipoise certificates --for nats` or cert-manager. Empty, only with your own servers: the"
                        " CAs of the image, or no TLS.",
                    )
                },
                "TLS to NATS.",
            ),
            "image": Group(
                {
                    "registry": Value("", TEXT, "Registry."),
                    "repository": Value(image, {"type": "string", "minLength": 1}, "Repository."),
                    "tag": Value(tag, TEXT, "Tag."),
                    "digest": Value("", DIGEST, "Digest; replaces the tag."),
                },
                "Image of the server.",
            ),
            "persistence": Group(
                {
                    "enabled": Value(True, BOOLEAN, "Keep streams in a volume. If false, they end with the pod."),
                    "storageClass": Value(
                        "", TEXT, "StorageClass; empty: that of the cluster, `-`: none. Not to be changed later."
                    ),
                    "size": Value(claim, QUANTITY, "Size of the volume. Not to be changed later."),
                },
                "The volume of the server.",
            ),
            "podSecurityContext": Value(
                base.at("StatefulSet", "nats", "spec.template.spec.securityContext"),
                ANY_OBJECT,
                "Security context of the pod.",
            ),
            "podAnnotations": Value({}, TEXTS, "Annotations of the pod."),
            "podLabels": Value({}, LABELS, "Labels of the pod."),
            **pod_values(base.at("StatefulSet", "nats", "spec.template.spec.containers.0.resources")),
        },
        "NATS.",
        rule={
            "allOf": [
                {
                    "if": {"properties": {"enabled": {"const": True}}},
                    "then": {
                        "properties": {
                            "url": {"const": ""},
                            "replicas": {"const": 1},
                            "tls": {"properties": {"existingSecret": {"minLength": 1}}},
                        }
                    },
                    "else": {"properties": {"url": {"minLength": 1}}},
                }
            ]
        },
    )


def nats_changes() -> Iterator[Change]:
    kind, name, values = "StatefulSet", "nats", "$.Values.nats"

    def passwords(variables: list[Document]) -> Node:
        for each in variables:
            if "valueFrom" in each:
                each["valueFrom"]["secretKeyRef"]["name"] = value_of(f"{values}.existingSecret")
        return variables

    def reclaimer(variables: list[Document]) -> Node:
        """Of k8s/colocation."""
        text = yaml.safe_load((ROOT / "k8s" / "colocation" / "kustomization.yaml").read_text())
        (patch,) = text["patches"]
        added = passwords([operation["value"] for operation in yaml.safe_load(patch["patch"])])
        return [*variables, *(When("$.Values.reclaimer.enabled", each) for each in added)]

    def volumes(old: list[Document]) -> Node:
        item_named(old, "tls")["secret"]["secretName"] = value_of(f"{values}.tls.existingSecret")
        return [*old, When(f"not {values}.persistence.enabled", {"name": "data", "emptyDir": {}})]

    pod = "spec/template/spec"
    checksum = '{{ print ($.Files.Get "files/nats.conf") (include "equipoise.permissions" $) | sha256sum }}'
    annotations = {"checksum/config": Text(checksum), "more": More(f"{values}.podAnnotations")}
    labels = More(f"merge (dict) {values}.podLabels $.Values.commonLabels")
    yield Change(kind, name, "spec/template/metadata/annotations", annotations)
    yield Change(kind, name, "spec/template/metadata/labels/more", labels)
    yield Change(kind, name, f"{pod}/containers/0/image", Text('{{ include "equipoise.natsImage" $ }}'))
    yield Change(kind, name, f"{pod}/containers/0/env", lambda variables: reclaimer(passwords(variables)))
    yield Change(kind, name, f"{pod}/volumes", volumes)
    yield from pod_changes(kind, name, values)
    claim = "spec/volumeClaimTemplates"
    storage = f"{values}.persistence.storageClass"
    class_name = Text(f'{{{{ ternary "" {storage} (eq {storage} "-") | toJson }}}}')
    yield Change(kind, name, f"{claim}/0/spec/storageClassName", When(storage, class_name))
    yield Change(kind, name, f"{claim}/0/spec/resources/requests/storage", value_of(f"{values}.persistence.size"))
    yield Change(kind, name, claim, lambda claims: When(f"{values}.persistence.enabled", claims))
