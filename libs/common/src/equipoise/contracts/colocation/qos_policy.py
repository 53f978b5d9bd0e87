"""The admission policy that refuses pods whose QoS class, band and amounts contradict each other."""

from typing import Any

from equipoise.contracts.colocation.policy_parts import NEW_PODS, WHOLE_CORES, metadata, named
from equipoise.contracts.kubernetes.mutating_policy import API_GROUP
from equipoise.contracts.load.pod_priority import (
    KOORDINATOR_QOS,
    PRIORITY_BANDS,
    PRIORITY_CLASS_LABEL,
    PRIORITY_CLASSES,
    QOS,
    QOS_LABEL,
)

QOS_POLICY = "equipoise-qos"

_CLASSES = ", ".join(f"'{name}'" for name in KOORDINATOR_QOS)
_BAND_REQUESTS = "(name.startsWith('kubernetes.io/batch-') || name.startsWith('kubernetes.io/mid-'))"
_PRIORITY = "object.spec.?priority.orValue(0)"


def _labeled_qos(pod: str) -> str:
    """The first valid QoS class of two labels, that of Equipoise and that of Koordinator; '' if neither is valid."""
    labels = ", ".join(f"{pod}.metadata.?labels[?'{label}'].orValue('')" for label in (QOS, QOS_LABEL))
    return f"([{labels}].filter(name, name in [{_CLASSES}]) + [''])[0]"


_QOS_VARIABLES = {
    "qos": _labeled_qos("object"),
    # The label of Koordinator takes precedence over the priority.
    "band": f"{PRIORITY_CLASSES}[?object.metadata.?labels[?'{PRIORITY_CLASS_LABEL}'].orValue('')].orValue(\n"
    + "\n".join(f"{_PRIORITY} >= {low} && {_PRIORITY} <= {high} ? '{band}' :" for low, high, band in PRIORITY_BANDS)
    + " 'none')",
    "requests": """\
(object.spec.containers + object.spec.?initContainers.orValue([]))
.map(container, container.?resources.?requests.orValue({}))""",
}

_QOS_RULES = (
    (
        f"object.metadata.?labels[?'{QOS}'].orValue('') in ['', {_CLASSES}]",
        f"'{QOS} must be one of {', '.join(KOORDINATOR_QOS)}, and is ' + object.metadata.labels['{QOS}']",
    ),
    (
        "variables.qos != 'BE' || variables.band in ['mid', 'batch', 'free']",
        "'the QoS class BE needs a priority of the bands mid, batch or free, and has one of: ' + variables.band",
    ),
    (
        "variables.qos != 'LSR' || variables.band == 'prod'",
        "'the QoS class LSR needs a priority of the band prod, and has one of: ' + variables.band",
    ),
    (
        "variables.qos == 'BE'\n"
        "|| !variables.requests.exists(each, each.exists(name, name.startsWith('kubernetes.io/batch-')))",
        f"'kubernetes.io/batch-cpu and batch-memory need the label {QOS}=BE'",
    ),
    (
        f"variables.requests.all(each, !each.exists(name, {_BAND_REQUESTS}) || !('cpu' in each || 'memory' in each))",
        "'a container requests either cpu and memory, or amounts of a band'",
    ),
    (
        # The API server writes fractions with one of these suffixes. isInteger() is false for 7Ei in bytes.
        f"variables.requests.all(each, each.all(name, !{_BAND_REQUESTS} || !string(each[name]).matches('[num]$')))",
        "'amounts of a band are whole numbers: milli-cores and bytes'",
    ),
    (
        f"!(variables.qos in ['LSR', 'LSE'])\n|| {WHOLE_CORES}",
        "'the QoS classes LSR and LSE need whole cores'",
    ),
)
"""The rules for new pods. They do not apply to updates: a pod that is older than the policy must remain updatable, for
example to remove a finalizer."""

_IMMUTABLE = (
    f"oldObject == null || variables.qos == {_labeled_qos('oldObject')}",
    f"'the QoS class of a pod ({QOS}, {QOS_LABEL}) cannot be changed'",
)


def qos_policy() -> dict[str, Any]:
    """The manifest of the policy. It selects only pods with a QoS class or with amounts of a band."""
    labels = f"['{QOS}', '{QOS_LABEL}'].exists(label, label in"
    selected = f"""\
{labels} object.metadata.?labels.orValue({{}}))
|| (oldObject != null && {labels} oldObject.metadata.?labels.orValue({{}})))
|| object.spec.containers.exists(container,
  container.?resources.?requests.orValue({{}}).exists(name, {_BAND_REQUESTS}))"""
    return {
        "apiVersion": f"{API_GROUP}/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": metadata(QOS_POLICY),
        "spec": {
            "failurePolicy": "Ignore",
            "matchConstraints": {"resourceRules": [{**NEW_PODS, "operations": ["CREATE", "UPDATE"]}]},
            "matchConditions": [{"name": "uses-a-qos-class-or-a-band", "expression": selected}],
            "variables": named(_QOS_VARIABLES),
            "validations": [
                {"expression": rule, "messageExpression": message}
                for rule, message in (_IMMUTABLE, *((f"oldObject != null || ({new})", why) for new, why in _QOS_RULES))
            ],
        },
    }


def qos_binding() -> dict[str, Any]:
    """The manifest of the binding, for all namespaces."""
    return {
        "apiVersion": f"{API_GROUP}/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": QOS_POLICY},
        "spec": {"policyName": QOS_POLICY, "validationActions": ["Deny"]},
    }
