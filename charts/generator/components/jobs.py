"""The Jobs before and after the pods are created: what pods wait for, and the streams and the ledger."""

from collections.abc import Iterator

from charts.generator.changes import Change, value_of
from charts.generator.components.hints import BY_WEBHOOK
from charts.generator.components.pods import pod_changes, pod_values, secrets_of_the_bus
from charts.generator.manifests import Manifests
from charts.generator.schemas import BOOLEAN, COUNT, Group, Value
from charts.generator.template import More, Text, When

HOOK = {"helm.sh/hook": "pre-install,pre-upgrade", "helm.sh/hook-delete-policy": "before-hook-creation,hook-succeeded"}
PREPARE = (
    ("ServiceAccount", "equipoise-prepare"),
    ("Role", "equipoise-prepare"),
    ("RoleBinding", "equipoise-prepare"),
    ("ClusterRole", "equipoise-prepare"),
    ("ClusterRoleBinding", "equipoise-prepare"),
    ("ValidatingAdmissionPolicy", "equipoise-prepare-fence"),
    ("ValidatingAdmissionPolicyBinding", "equipoise-prepare-fence"),
)
"""What the Job `equipoise-prepare` needs. Helm deletes it with the Job, when that has completed."""


def prepare_values(base: Manifests) -> Group:
    return Group(
        {
            "enabled": Value(
                True,
                BOOLEAN,
                "Create the Secrets that are missing and have their default name: passwords of NATS, certificates"
                " of NATS and of the extender. What exists is kept. If false, or with names of your own, the"
                " Secrets are yours. Its rights are deleted when it has completed.",
            ),
            **pod_values(base.at("Job", "equipoise-prepare", "spec.template.spec.containers.0.resources")),
        },
        "The Job that creates what the pods wait for, before an install or upgrade (a hook).",
    )


def prepare_changes() -> Iterator[Change]:
    """Before anything else is created: a pod that waits for a Secret looks for it less and less often."""
    kind, name, values = "Job", "equipoise-prepare", "$.Values.prepare"
    for each, its_name in PREPARE:
        # Argo CD deletes only hooks with `hook-failed` if the sync has failed.
        policy = {"helm.sh/hook-delete-policy": f"{HOOK['helm.sh/hook-delete-policy']},hook-failed"}
        yield Change(each, its_name, "metadata/annotations", {**HOOK, **policy, "helm.sh/hook-weight": "-1"})
    # Helm 4 prints its log when it has failed.
    yield Change(kind, name, "metadata/annotations", {**HOOK, "helm.sh/hook-output-log-policy": "hook-failed"})
    yield Change(kind, name, "spec/template/metadata/labels/more", More("$.Values.commonLabels"))
    container = "spec/template/spec/containers/0"
    yield Change(kind, name, f"{container}/image", Text('{{ include "equipoise.image" $ }}'))
    tls = ' (ne $.Values.nats.tls.existingSecret "equipoise-nats-tls")'
    extender = (
        ' (ne $.Values.extender.tls.existingSecret "equipoise-extender-tls")'
        ' (ne $.Values.extender.tls.clientSecret "equipoise-extender-client")'
    )
    yours = {
        "passwords": '(not $.Values.nats.enabled) (ne $.Values.nats.existingSecret "equipoise-nats")',
        "nats-certificate": f"$.Values.certManager.enabled (not $.Values.nats.enabled){tls}",
        "extender-certificates": f"$.Values.certManager.enabled (not $.Values.extender.enabled){extender}",
        "hints-webhook-certificate": f"$.Values.certManager.enabled (not ({BY_WEBHOOK}))"
        ' (ne $.Values.hints.webhook.tls.existingSecret "equipoise-hints-webhook-tls")',
    }
    # The ConfigMap of the services does not exist yet.
    mount = {"name": "configuration", "mountPath": "/etc/equipoise", "readOnly": True}
    file = Text('{{ include "equipoise.fullname" $ }}-prepare')
    yield Change(
        kind, name, f"{container}/env/-", {"name": "EQUIPOISE_CONFIG", "value": "/etc/equipoise/equipoise.yaml"}
    )
    yield Change(kind, name, f"{container}/volumeMounts/-", mount)
    yield Change(kind, name, "spec/template/spec/volumes/-", {"name": "configuration", "configMap": {"name": file}})
    volume = "and $.Values.nats.enabled $.Values.nats.persistence.enabled (not $.Values.nats.persistence.storageClass)"
    yield Change(kind, name, f"{container}/command/-", When(volume, "--volume"))
    for part, condition in yours.items():
        yield Change(kind, name, f"{container}/command/-", When(f"or {condition}", f"--without={part}"))
    yield from pod_changes(kind, name, values)


def setup_values(base: Manifests) -> Group:
    return Group(
        {
            "backoffLimit": Value(
                base.at("Job", "equipoise-setup", "spec.backoffLimit"), COUNT, "Attempts before the Job fails."
            ),
            "ttlSecondsAfterFinished": Value(
                base.at("Job", "equipoise-setup", "spec.ttlSecondsAfterFinished"),
                COUNT,
                "Seconds for which the finished Job remains.",
            ),
            **pod_values(base.at("Job", "equipoise-setup", "spec.template.spec.containers.0.resources")),
        },
        "The Job that creates the streams and the ledger, at every install and upgrade.",
    )


def setup_changes() -> Iterator[Change]:
    kind, name, values = "Job", "equipoise-setup", "$.Values.setup"
    yield Change(kind, name, "spec/backoffLimit", value_of(f"{values}.backoffLimit"))
    yield Change(kind, name, "spec/ttlSecondsAfterFinished", value_of(f"{values}.ttlSecondsAfterFinished"))
    annotations = {"checksum/config": Text('{{ include "equipoise.configuration" $ | sha256sum }}')}
    yield Change(kind, name, "spec/template/metadata/annotations", annotations)
    yield Change(kind, name, "spec/template/metadata/labels/more", More("$.Values.commonLabels"))
    yield Change(kind, name, "spec/template/spec/containers/0/image", Text('{{ include "equipoise.image" $ }}'))
    yield from pod_changes(kind, name, values)
    yield from secrets_of_the_bus(kind, name)
