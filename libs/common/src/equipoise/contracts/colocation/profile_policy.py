"""The admission policies that apply profiles to new pods, and check pods of the bands. They need no webhook.

The policies of profiles never refuse a pod: one for which an expression fails is created as its user wrote it.
"""

from typing import Any

from equipoise.contracts.colocation.profile import OPT_OUT, PREFIX, PROFILE_LABEL
from equipoise.contracts.kubernetes.mutating_policy import API_GROUP, POLICY_KIND
from equipoise.contracts.load.pod_priority import KOORDINATOR_QOS, PRIORITY_BANDS, QOS, QOS_LABEL

QOS_POLICY = "equipoise-qos"
WARNING_POLICY = f"{PREFIX}-warning"

_NEW_PODS = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}

_CANDIDATES = {
    "not-opted-out": f"object.metadata.?annotations[?'{OPT_OUT}'].orValue('') != 'off'",
    "not-static-nor-daemon": """\
object.metadata.?annotations[?'kubernetes.io/config.mirror'].orValue('') == ''
&& !object.metadata.?ownerReferences.orValue([]).exists(owner, owner.kind in ['DaemonSet', 'Node'])""",
}
"""Conditions of pods that a profile may change. The binding selects namespaces: `namespaceObject` does not exist in the
conditions of a mutating policy."""

_RESOURCES = "params.data.?resources.orValue('keep')"

_CONDITIONS = {
    **_CANDIDATES,
    "no-resources-of-the-pod-as-a-whole": f"!has(object.spec.resources) || {_RESOURCES} == 'keep'",
    # The API server refuses huge pages without cpu or memory.
    "no-huge-pages": f"""\
{_RESOURCES} == 'keep' || !(object.spec.containers + object.spec.?initContainers.orValue([]))
.exists(container, container.?resources.?limits.orValue({{}}).exists(name, name.startsWith('hugepages-')))""",
    "known-band": f"{_RESOURCES} in ['keep', 'mid', 'batch']",
    "no-other-profile": (
        f"'{PREFIX}-' + object.metadata.?labels[?'{PROFILE_LABEL}'].orValue("
        f"params.metadata.name.substring({len(PREFIX) + 1})) == params.metadata.name"
    ),
    # Expressions have no random numbers, and a new pod has neither name nor UID: whole workloads are in or out, by the
    # last four hexadecimal digits of their UID.
    "percent": """\
int(params.data.?percent.orValue('100')) >= 100
|| object.metadata.?ownerReferences.orValue([]).exists(owner, owner.?controller.orValue(false)
  && [3, 2, 1, 0].map(place, '0123456789abcdef'.indexOf(owner.uid.charAt(size(owner.uid) - 1 - place))
  * [1, 16, 256, 4096][place]).sum() % 100 < int(params.data.?percent.orValue('100')))""",
}


def _pairs(field: str) -> str:
    return f"params.data.?{field}.orValue('').split('\\n').map(line, line.trim()).filter(line, line.indexOf('=') > 0)"


def _containers(field: str, listed: str) -> str:
    return f"""\
lists.range(size({listed})).map(place, {{
  'path': dyn('/spec/{field}/' + string(place)), 'resources': dyn({listed}[place].?resources.orValue({{}}))}})"""


_VARIABLES = {
    "resources": _RESOURCES,
    "priorityClass": "params.data.?priorityClassName.orValue('')",
    "gracePeriod": "params.data.?terminationGracePeriodSeconds.orValue('')",
    "labels": _pairs("labels"),
    "annotations": _pairs("annotations"),
    "containers": f"""\
variables.resources == 'keep' ? [] :
{_containers("containers", "object.spec.containers")}
+ {_containers("initContainers", "object.spec.?initContainers.orValue([])")}""",
    # Every `requests` and `limits` that has cpu or memory.
    "amounts": """\
variables.containers.map(container, ['requests', 'limits']
  .filter(kind, kind in container.resources && container.resources[kind].exists(name, name in ['cpu', 'memory']))
  .map(kind, {'path': dyn(string(container.path) + '/resources/' + kind), 'before': dyn(container.resources[kind])}))
  .flatten()""",
}


def _add(path: str, value: str) -> str:
    return f"JSONPatch{{op: 'add', path: {path}, value: {value}}}"


def _missing(field: str) -> str:
    added = _add(f"'/metadata/{field}'", "{}")
    return f"(has(object.metadata.{field}) ? [] : [{added}])"


def _label(key: str, value: str) -> str:
    return _add(f"'/metadata/labels/' + jsonpatch.escapeKey('{key}')", value)


def _added(field: str) -> str:
    key, value = "line.substring(0, line.indexOf('='))", "line.substring(line.indexOf('=') + 1)"
    added = _add(f"'/metadata/{field}/' + jsonpatch.escapeKey({key})", value)
    return f"variables.{field}.map(line, {added})"


_AMOUNT = """\
name == 'memory' && quantity(string(amount.before[name])).isInteger()
? string(quantity(string(amount.before[name])).asInteger())
: string(int(quantity(string(amount.before[name])).asApproximateFloat() * (name == 'cpu' ? 1000.0 : 1.0) + 0.999999))"""
"""Milli-cores and bytes, rounded up. Fractions of a byte are no integer."""

_BAND_NAME = "'kubernetes.io/' + variables.resources + '-' + name"

_PROFILE_NAME = f"params.metadata.name.substring({len(PREFIX) + 1})"
_GRACE_PERIOD = _add("'/spec/terminationGracePeriodSeconds'", "int(variables.gracePeriod)")
_PRIORITY_CLASS = _add("'/spec/priorityClassName'", "variables.priorityClass")
_BAND_AMOUNT = _add(f"string(amount.path) + '/' + jsonpatch.escapeKey({_BAND_NAME})", _AMOUNT)

_PATCHES = (
    _missing("labels"),
    _missing("annotations"),
    f"[{_label(PROFILE_LABEL, _PROFILE_NAME)},\n {_label(QOS, 'params.data.qosClass')}]",
    _added("labels"),
    _added("annotations"),
    f"(variables.gracePeriod == '' ? [] : [{_GRACE_PERIOD}])",
    # The plugin Priority ran before this policy, and runs once more after it: what it computed must be gone, but only
    # once, or the pod would be stored without a priority.
    f"""\
(variables.priorityClass == '' || object.spec.?priorityClassName.orValue('') == variables.priorityClass ? [] :
  [{_PRIORITY_CLASS}]
  + (has(object.spec.priority) ? [JSONPatch{{op: 'remove', path: '/spec/priority'}}] : [])
  + (has(object.spec.preemptionPolicy) ? [JSONPatch{{op: 'remove', path: '/spec/preemptionPolicy'}}] : []))""",
    f"""\
variables.amounts.map(amount,
  (['cpu', 'memory'].filter(name, name in amount.before && !(({_BAND_NAME}) in amount.before)).map(name,
    {_BAND_AMOUNT}))
  + (['cpu', 'memory'].filter(name, name in amount.before).map(name,
    JSONPatch{{op: 'remove', path: string(amount.path) + '/' + name}}))).flatten()""",
)


def profile_policy(version: str) -> dict[str, Any]:
    """The manifest for API servers that serve this version of MutatingAdmissionPolicy."""
    return {
        "apiVersion": f"{API_GROUP}/{version}",
        "kind": POLICY_KIND,
        "metadata": {"name": PREFIX},
        "spec": {
            "failurePolicy": "Ignore",
            # LimitRanger adds its defaults again after the policy.
            "reinvocationPolicy": "IfNeeded",
            "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
            "matchConstraints": {"resourceRules": [_NEW_PODS]},
            "matchConditions": _named(_CONDITIONS),
            "variables": _named(_VARIABLES),
            # One mutation, so that a pod is changed as a whole or not at all.
            "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": "\n+ ".join(_PATCHES)}}],
        },
    }


def warning_policy() -> dict[str, Any]:
    """Warns about a pod that its profile should have changed, and did not: the ConfigMap may be missing or invalid."""
    return {
        "apiVersion": f"{API_GROUP}/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": WARNING_POLICY},
        "spec": {
            "failurePolicy": "Ignore",
            "matchConstraints": {"resourceRules": [_NEW_PODS]},
            "matchConditions": _named(_CANDIDATES),
            "validations": [
                {
                    "expression": f"'{PROFILE_LABEL}' in object.metadata.?labels.orValue({{}})",
                    "message": (
                        "the co-location profile of this namespace did not change this pod, which is scheduled as an "
                        "ordinary one: it has huge pages or resources of the pod as a whole, or the policy "
                        f"{PREFIX} or the ConfigMap of the profile is missing or invalid"
                    ),
                }
            ],
        },
    }


_CLASSES = ", ".join(f"'{name}'" for name in KOORDINATOR_QOS)
_BAND_REQUESTS = "(name.startsWith('kubernetes.io/batch-') || name.startsWith('kubernetes.io/mid-'))"
_PRIORITY = "object.spec.?priority.orValue(0)"


def _labeled_qos(pod: str) -> str:
    """The known value of our label, else of Koordinator's, else ''."""
    labels = ", ".join(f"{pod}.metadata.?labels[?'{label}'].orValue('')" for label in (QOS, QOS_LABEL))
    return f"([{labels}].filter(name, name in [{_CLASSES}]) + [''])[0]"


_QOS_VARIABLES = {
    "qos": _labeled_qos("object"),
    "band": "\n".join(
        f"{_PRIORITY} >= {low} && {_PRIORITY} <= {high} ? '{band}' :" for low, high, band in PRIORITY_BANDS
    )
    + " 'none'",
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
        f"variables.requests.all(each, each.all(name, !{_BAND_REQUESTS} || quantity(string(each[name])).isInteger()))",
        "'amounts of a band are whole numbers: milli-cores and bytes'",
    ),
    (
        "!(variables.qos in ['LSR', 'LSE'])\n"
        "|| variables.requests.all(each, 'cpu' in each && quantity(string(each['cpu'])).isInteger())",
        "'the QoS classes LSR and LSE need whole cores'",
    ),
)
"""Of new pods: a pod from before the policy must still be updated, for example to remove a finalizer."""

_IMMUTABLE = (
    f"oldObject == null || variables.qos == {_labeled_qos('oldObject')}",
    f"'the QoS class of a pod ({QOS}, {QOS_LABEL}) cannot be changed'",
)


def qos_policy() -> dict[str, Any]:
    """Refuses pods whose QoS class, band and amounts contradict each other: only such as use one of these at all."""
    labels = f"['{QOS}', '{QOS_LABEL}'].exists(label, label in"
    selected = f"""\
{labels} object.metadata.?labels.orValue({{}}))
|| (oldObject != null && {labels} oldObject.metadata.?labels.orValue({{}})))
|| object.spec.containers.exists(container,
  container.?resources.?requests.orValue({{}}).exists(name, {_BAND_REQUESTS}))"""
    return {
        "apiVersion": f"{API_GROUP}/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": QOS_POLICY},
        "spec": {
            "failurePolicy": "Ignore",
            "matchConstraints": {"resourceRules": [{**_NEW_PODS, "operations": ["CREATE", "UPDATE"]}]},
            "matchConditions": [{"name": "uses-a-qos-class-or-a-band", "expression": selected}],
            "variables": _named(_QOS_VARIABLES),
            "validations": [
                {"expression": rule, "messageExpression": message}
                for rule, message in (_IMMUTABLE, *((f"oldObject != null || ({new})", why) for new, why in _QOS_RULES))
            ],
        },
    }


def qos_binding() -> dict[str, Any]:
    """The manifest; for all namespaces."""
    return {
        "apiVersion": f"{API_GROUP}/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": QOS_POLICY},
        "spec": {"policyName": QOS_POLICY, "validationActions": ["Deny"]},
    }


def priority_classes() -> list[dict[str, Any]]:
    """One for each band, with the values of Koordinator's. Only the band prod preempts."""
    values = {"prod": 9000, "mid": 7000, "batch": 5000, "free": 3000}
    return [
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": f"equipoise-{band}"},
            "value": value,
            "preemptionPolicy": "PreemptLowerPriority" if band == "prod" else "Never",
            "description": f"Pods of the band {band} of co-location.",
        }
        for band, value in values.items()
    ]


def _named(expressions: dict[str, str]) -> list[dict[str, str]]:
    return [{"name": name, "expression": text} for name, text in expressions.items()]
