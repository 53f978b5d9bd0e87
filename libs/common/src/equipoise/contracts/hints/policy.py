"""The MutatingAdmissionPolicy that adds the hint of a workload to its new pods.

The API server runs it, without a webhook. If a pod does not match, or an expression fails, the pod is created as its
user wrote it.
"""

from collections.abc import Mapping
from typing import Any

from equipoise.contracts.hints.definition import GROUP, KIND, VERSION
from equipoise.contracts.kubernetes.mutating_policy import API_GROUP, POLICY_KIND, REQUIREMENT, room_for_annotations

NAME = "equipoise-hints"
"""The name of the policy, of its binding, and of the object with the hints in each namespace."""

SWITCH = "equipoise.dev/hints"
"""Label of a pod or a namespace. With the value `off`, the pod or all pods of the namespace get no hints."""

HINTED = "equipoise.dev/hint"
"""Annotation of a pod that got a hint: the key of its workload, `@`, and the version of the object with the hints."""

SWITCHED_ON: dict[str, Any] = {"matchExpressions": [{"key": SWITCH, "operator": "NotIn", "values": ["off"]}]}

NEW_PODS: dict[str, Any] = {
    "apiGroups": [""],
    "apiVersions": ["v1"],
    "operations": ["CREATE"],
    "resources": ["pods"],
}

POD_CONDITIONS = {
    "not-placed-yet": "!has(object.spec.nodeName) || object.spec.nodeName == ''",
    "not-gated": "!has(object.spec.schedulingGates) || object.spec.schedulingGates.size() == 0",
    "default-scheduler": "object.spec.schedulerName == 'default-scheduler'",
    "not-hinted-yet": f"!('{HINTED}' in object.metadata.?annotations.orValue({{}}))",
    "room-for-an-annotation": room_for_annotations("1024"),  # names of a workload and a version are shorter
    "has-a-controller": """\
object.metadata.?ownerReferences.orValue([]).exists(owner, owner.?controller.orValue(false)
&& !(owner.kind in ['DaemonSet', 'Node']))""",
}
"""Conditions of pods that may get a hint, as far as the pod alone decides: expressions by name."""

_MATCH_CONDITIONS = POD_CONDITIONS | {
    # Expressions have no current time. But the API server writes the time of the request into the managedFields of a
    # new pod before it calls policies. A client may send further entries with any time, so all entries must meet the
    # condition.
    "hints-are-fresh": """\
object.metadata.?managedFields.orValue([]).size() > 0
&& object.metadata.managedFields.all(entry, has(entry.time) && timestamp(entry.time) < timestamp(params.until))""",
}

_VARIABLES = {
    "owner": "object.metadata.ownerReferences.filter(owner, owner.?controller.orValue(false))[0]",
    "labels": "object.metadata.?labels.orValue({})",
    # The suffix of the name of a ReplicaSet with an owner. Otherwise a space, in which no name ends.
    "suffix": """\
'rollouts-pod-template-hash' in variables.labels ? '-' + variables.labels['rollouts-pod-template-hash']
: 'pod-template-hash' in variables.labels ? '-' + variables.labels['pod-template-hash']
: ' '""",
    # The name of a Job of a CronJob ends in its scheduled time in minutes since 1970, which has eight digits until
    # 2160.
    "key": """\
variables.owner.kind == 'ReplicaSet' && variables.owner.name.endsWith(variables.suffix)
? ('rollouts-pod-template-hash' in variables.labels ? 'Rollout.' : 'Deployment.')
+ variables.owner.name.substring(0, variables.owner.name.size() - variables.suffix.size())
: variables.owner.kind == 'Job' && variables.owner.name.matches('^.+-[0-9]{8}$')
? 'CronJob.' + variables.owner.name.substring(0, variables.owner.name.size() - 9)
: variables.owner.kind + '.' + variables.owner.name""",
    # The terms of the hint, each as text.
    "terms": """\
params.?workloads[?variables.key].hasValue()
? params.?distinctHints[?params.workloads[variables.key]].orValue('').split(' ').filter(term, term != '')
: []""",
    "nodes": "params.?nodes.orValue('').split(' ')",
    # The hint as earlier versions wrote it.
    "earlier": "params.?hints[?variables.key].orValue({})",
}

_NODE_AFFINITY = "spec.affinity.nodeAffinity"
_PREFERRED = f"{_NODE_AFFINITY}.preferredDuringSchedulingIgnoredDuringExecution"


def _path(field: str) -> str:
    return "/" + field.replace(".", "/")


def _term(weight: str, operator: str, nodes: str) -> str:
    """The patch that adds a preferred term with these expressions."""
    return f"""\
JSONPatch{{op: 'add', path: '{_path(_PREFERRED)}/-',
  value: Object.{_PREFERRED}{{
    weight: {weight},
    preference: Object.{_PREFERRED}.preference{{
      matchExpressions: [Object.{_PREFERRED}.preference.matchExpressions{{
        key: 'kubernetes.io/hostname', operator: {operator}, values: {nodes}
      }}]
    }}
  }}
}}"""


_TERM = _term(
    "int(term.split(':')[0].replace('-', ''))",
    "term.startsWith('-') ? 'NotIn' : 'In'",
    "term.split(':')[1].split(',').map(node, variables.nodes[int(node)])",
)


def _earlier_term(operator: str) -> str:
    return _term("term.weight", f"'{operator}'", "term.nodes.map(node, params.hostnames[node])")


def _missing(field: str, value: str) -> str:
    """The patch that adds a parent field if it is missing."""
    first, *rest = field.split(".")
    existing = f"object.{first}" + "".join(f".?{name}" for name in rest)
    return f"({existing}.hasValue() ? []\n: [JSONPatch{{op: 'add', path: '{_path(field)}', value: {value}}}])"


_PATCHES = (
    _missing("spec.affinity", "Object.spec.affinity{}"),
    _missing(_NODE_AFFINITY, f"Object.{_NODE_AFFINITY}{{}}"),
    _missing(_PREFERRED, "[]"),  # terms that the user wrote remain, before those of the hint
    f"""\
(variables.earlier.size() > 0 ? variables.earlier.?prefer.orValue([]).map(term, {_earlier_term("In")})
+ (variables.earlier.?avoid.hasValue() ? [variables.earlier.avoid] : []).map(term, {_earlier_term("NotIn")})
: variables.terms.map(term, {_TERM}))""",
    _missing("metadata.annotations", "{}"),
    f"""\
[JSONPatch{{op: 'add', path: '/metadata/annotations/' + jsonpatch.escapeKey('{HINTED}'),
  value: variables.key + '@' + params.metadata.resourceVersion}}]""",
)


_NO_HINT = "variables.earlier.size() == 0 && variables.terms.size() == 0"


def named_expressions(expressions: Mapping[str, str]) -> list[dict[str, str]]:
    """Conditions or variables in the form of a manifest."""
    return [{"name": name, "expression": text} for name, text in expressions.items()]


def policy(version: str) -> dict[str, Any]:
    """The manifest of the policy. `version`: one of `mutating_policy.API_VERSIONS`, which the API server serves."""
    return {
        "apiVersion": f"{API_GROUP}/{version}",
        "kind": POLICY_KIND,
        "metadata": {"name": NAME},
        "spec": {
            "failurePolicy": "Ignore",
            "reinvocationPolicy": "Never",
            "paramKind": {"apiVersion": f"{GROUP}/{VERSION}", "kind": KIND},
            "matchConstraints": {
                "namespaceSelector": SWITCHED_ON,
                "objectSelector": SWITCHED_ON,
                "resourceRules": [NEW_PODS],
            },
            "matchConditions": named_expressions(_MATCH_CONDITIONS),
            "variables": named_expressions(_VARIABLES),
            "mutations": [
                {
                    "patchType": "JSONPatch",
                    "jsonPatch": {"expression": f"{_NO_HINT} ? [] :\n" + "\n+ ".join(_PATCHES)},
                }
            ],
        },
    }


def binding(version: str) -> dict[str, Any]:
    """The manifest of the binding. It names no namespace, so each pod gets the hints of its own namespace."""
    return {
        "apiVersion": f"{API_GROUP}/{version}",
        "kind": f"{POLICY_KIND}Binding",
        "metadata": {"name": NAME},
        "spec": {"policyName": NAME, "paramRef": {"name": NAME, "parameterNotFoundAction": "Allow"}},
    }


INSTALL = "apply k8s/hints (with Helm: set hints.enabled)"

UNSUPPORTED = (
    f"the API server has no {POLICY_KIND}, which needs {REQUIREMENT}. Use the webhook in its place: "
    "`annotator.hints.admission: webhook` and k8s/hints/webhook.yaml (with Helm: hints.admission)"
)
"""The message for users of a cluster in which no policy can add hints."""
