"""The ValidatingAdmissionPolicy with Koordinator's rules for QoS classes: the class and the band of a pod go together.

It reads `equipoise.dev/qos` and Koordinator's labels. A pod with none of them, and without amounts of a band, is not
checked. Pods that exist are not checked either, except that their labels do not change: an update of a pod that was
created before the policy, as by the controller of its Job, must never fail.
"""

from typing import Any

from equipoise.contracts.colocation.classes import QOS_CLASSES, WHOLE_CORES
from equipoise.contracts.colocation.profile_policy import VALIDATING, metadata, named, one_of, table, whole_cores
from equipoise.contracts.kubernetes.mutating_policy import API_GROUP
from equipoise.contracts.load.pod_priority import (
    PRIORITY_BANDS,
    PRIORITY_CLASS_LABEL,
    PRIORITY_CLASSES,
    QOS,
    QOS_LABEL,
)

NAME = "equipoise-qos"

PRIORITY_LABEL = "koordinator.sh/priority"

_LABELS = one_of((QOS, QOS_LABEL, PRIORITY_CLASS_LABEL, PRIORITY_LABEL))


def _bands() -> str:
    named_bands = ", ".join(f"'{name}': '{band}'" for name, band in PRIORITY_CLASSES.items())
    by_priority = "".join(
        f"variables.priority >= {low} && variables.priority <= {high} ? '{band}'\n: "
        for low, high, band in PRIORITY_BANDS
    )
    return f"{{{named_bands}}}[?variables.labels[?'{PRIORITY_CLASS_LABEL}'].orValue('')].orValue(\n{by_priority}'none')"


_VARIABLES = {
    "labels": "object.metadata.?labels.orValue({})",
    # An unknown value of Koordinator's label counts as none, as there.
    "qos": f"""\
'{QOS}' in variables.labels ? variables.labels['{QOS}']
: variables.labels[?'{QOS_LABEL}'].orValue('') in {one_of(QOS_CLASSES)} ? variables.labels['{QOS_LABEL}'] : ''""",
    "priority": "object.spec.?priority.orValue(0)",
    "band": _bands(),
    "requests": """\
(object.spec.containers + object.spec.?initContainers.orValue([])).map(c, c.?resources.?requests.orValue({}))""",
}

_CREATED = "oldObject != null || "

_VALIDATIONS = (
    (
        f"""{_CREATED}variables.qos == '' || variables.qos in {one_of(QOS_CLASSES)}""",
        f"'label {QOS}: ' + variables.qos + ' is no QoS class: use {', '.join(QOS_CLASSES)}'",
    ),
    (
        f"{_CREATED}{table('variables.qos', 'variables.band')}".replace(_CREATED, f"{_CREATED}(", 1) + ")",
        "'QoS class ' + variables.qos + ' does not go with a priority of the band ' + variables.band",
    ),
    (
        f"""{_CREATED}variables.qos == 'BE'
|| !variables.requests.exists(r, r.exists(k, k.startsWith('kubernetes.io/batch-')))""",
        f"'kubernetes.io/batch-cpu and batch-memory need the label {QOS}: BE'",
    ),
    (
        # The API server writes fractions with one of these suffixes. isInteger() is false for 7Ei in bytes.
        f"""{_CREATED}variables.requests.all(r, r.all(k, !k.matches('^kubernetes.io/(batch|mid)-')
  || !string(r[k]).matches('[num]$')))""",
        "'amounts of batch and mid are whole numbers of milli-cores and bytes'",
    ),
    (
        f"{_CREATED}!(variables.qos in {one_of(WHOLE_CORES)})\n|| {whole_cores('object.spec')}",
        "'QoS class ' + variables.qos + ' needs requests of whole cores'",
    ),
    (
        f"""oldObject == null || {_LABELS}.all(l,
  oldObject.metadata.?labels[?l].orValue('') == variables.labels[?l].orValue(''))""",
        f"'the labels {QOS}, {QOS_LABEL}, {PRIORITY_CLASS_LABEL} and {PRIORITY_LABEL} of a pod cannot be changed'",
    ),
)


def qos_validation() -> list[dict[str, Any]]:
    """The manifests of the policy and of its binding."""
    return [
        {
            "apiVersion": f"{API_GROUP}/v1",
            "kind": VALIDATING,
            "metadata": metadata(NAME),
            "spec": {
                "failurePolicy": "Ignore",
                "matchConstraints": {
                    "resourceRules": [
                        {
                            "apiGroups": [""],
                            "apiVersions": ["v1"],
                            "operations": ["CREATE", "UPDATE"],
                            "resources": ["pods"],
                        }
                    ]
                },
                "matchConditions": named(
                    {
                        "of-a-class-or-a-band": f"""\
{_LABELS}.exists(l, l in object.metadata.?labels.orValue({{}})
  || oldObject != null && l in oldObject.metadata.?labels.orValue({{}}))
|| (object.spec.containers + object.spec.?initContainers.orValue([])).exists(c, c.?resources.?requests.orValue({{}})
  .exists(k, k.matches('^kubernetes.io/(batch|mid)-')))"""
                    }
                ),
                "variables": named(_VARIABLES),
                "validations": [
                    {"expression": expression, "messageExpression": message} for expression, message in _VALIDATIONS
                ],
            },
        },
        {
            "apiVersion": f"{API_GROUP}/v1",
            "kind": f"{VALIDATING}Binding",
            "metadata": {"name": NAME},
            "spec": {"policyName": NAME, "validationActions": ["Deny"]},
        },
    ]
