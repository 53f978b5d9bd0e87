"""The admission policies that apply profiles to new pods, without a webhook.

The policies of profiles never refuse a pod. If an expression fails, the pod is created as its user wrote it.
"""

from typing import Any

from equipoise.contracts.colocation.policy_parts import NEW_PODS, WHOLE_CORES, metadata, named
from equipoise.contracts.colocation.profile import (
    MAX_ANNOTATIONS,
    OPT_OUT,
    PERCENT,
    PREFIX,
    PROFILE_LABEL,
    WARNING_POLICY,
)
from equipoise.contracts.kubernetes.mutating_policy import API_GROUP, POLICY_KIND, room_for_annotations
from equipoise.contracts.load.pod_priority import (
    KOORDINATOR_QOS,
    PRIORITY_CLASS_LABEL,
    PRIORITY_CLASSES,
    QOS,
)

_CANDIDATES = {
    "not-opted-out": f"object.metadata.?annotations[?'{OPT_OUT}'].orValue('') != 'off'",
    "not-static-nor-daemon": """\
object.metadata.?annotations[?'kubernetes.io/config.mirror'].orValue('') == ''
&& !object.metadata.?ownerReferences.orValue([]).exists(owner, owner.kind in ['DaemonSet', 'Node'])""",
}
"""Conditions of pods that a profile may change. The binding selects namespaces: `namespaceObject` does not exist in the
conditions of a mutating policy."""

_RESOURCES = "params.data.?resources.orValue('keep')"
_QOS = "params.data.?qosClass.orValue('')"
_CLASS = "params.data.?priorityClassName.orValue('')"
_BAND = f"{_CLASS}.replace('equipoise-', '').replace('koord-', '')"
_KEY, _VALUE = "line.substring(0, line.indexOf('='))", "line.substring(line.indexOf('=') + 1)"


def _lines(field: str) -> str:
    return f"params.data.?{field}.orValue('').split('\\n').map(line, line.trim())"


def _percent(percent: str) -> str:
    """An expression that selects a percentage of the workloads by the last four hexadecimal digits of their UID.
    Expressions have no random numbers, and a new pod has neither name nor UID."""
    return f"""\
int({percent}) >= 100
|| object.metadata.?ownerReferences.orValue([]).exists(owner, owner.?controller.orValue(false)
  && [3, 2, 1, 0].map(place, '0123456789abcdef'.indexOf(owner.uid.charAt(size(owner.uid) - 1 - place))
  * [1, 16, 256, 4096][place]).sum() % 100 < int({percent}))"""


_VALID = {
    "valid-class-and-band": f"""\
{_QOS} in {list(KOORDINATOR_QOS)} && {_BAND} in {list(PRIORITY_CLASSES.values())}
&& {_CLASS} in ['equipoise-' + {_BAND}, 'koord-' + {_BAND}]
&& ({_QOS} != 'BE' || {_BAND} != 'prod') && ({_QOS} != 'LSR' || {_BAND} == 'prod')""",
    "valid-resources": f"""\
{_RESOURCES} == 'keep'
|| {_RESOURCES} in ['mid', 'batch'] && {_RESOURCES} == {_BAND} && ({_RESOURCES} != 'batch' || {_QOS} == 'BE')""",
    "valid-numbers": """\
params.data.?percent.orValue('100').matches('^(100|[0-9]{1,2})$')
&& params.data.?terminationGracePeriodSeconds.orValue('0').matches('^[0-9]{1,9}$')""",
    "valid-labels": f"""\
{_lines("labels")}.all(line, line == '' || line.indexOf('=') > 0
  && !format.qualifiedName().validate({_KEY}).hasValue() && !format.labelValue().validate({_VALUE}).hasValue()
  && !({_KEY} in ['{PROFILE_LABEL}', '{QOS}'])
  && ({_KEY} != '{PRIORITY_CLASS_LABEL}' || {_VALUE} == 'koord-' + {_BAND}))""",
    "valid-annotations": f"""\
size(params.data.?annotations.orValue('')) <= {MAX_ANNOTATIONS}
&& {_lines("annotations")}.all(line, line == '' || line.indexOf('=') > 0
  && !format.qualifiedName().validate({_KEY}).hasValue())""",
}
"""Conditions of a valid ConfigMap. With other values, the API server or the policy of QoS classes would refuse the
pod."""

_CONDITIONS = {
    **_CANDIDATES,
    **_VALID,
    "room-for-annotations": room_for_annotations("size(bytes(params.data.?annotations.orValue('')))"),
    "no-resources-of-the-pod-as-a-whole": f"!has(object.spec.resources) || {_RESOURCES} == 'keep'",
    # The API server refuses huge pages without cpu or memory.
    "no-huge-pages": f"""\
{_RESOURCES} == 'keep' || !(object.spec.containers + object.spec.?initContainers.orValue([]))
.exists(container, container.?resources.?limits.orValue({{}}).exists(name, name.startsWith('hugepages-')))""",
    "no-amounts-of-another-band": f"""\
!(object.spec.containers + object.spec.?initContainers.orValue([])).exists(container,
  container.?resources.?requests.orValue({{}}).exists(name, name.startsWith('kubernetes.io/batch-') && {_QOS} != 'BE'
    || name.matches('^kubernetes.io/(batch|mid)-') && {_RESOURCES} != 'keep'
       && !name.startsWith('kubernetes.io/' + {_RESOURCES} + '-')))""",
    "no-other-band-in-a-label": f"""\
object.metadata.?labels[?'{PRIORITY_CLASS_LABEL}'].orValue('koord-' + {_BAND}) == 'koord-' + {_BAND}""",
    "whole-cores": f"!({_QOS} in ['LSR', 'LSE'])\n|| {WHOLE_CORES}",
    "no-other-profile": (
        f"'{PREFIX}-' + object.metadata.?labels[?'{PROFILE_LABEL}'].orValue("
        f"params.metadata.name.substring({len(PREFIX) + 1})) == params.metadata.name"
    ),
    "percent": _percent("params.data.?percent.orValue('100')"),
}


def _pairs(field: str) -> str:
    return f"{_lines(field)}.filter(line, line.indexOf('=') > 0)"


def _containers(field: str, listed: str) -> str:
    return f"""\
lists.range(size({listed})).map(place, {{
  'path': dyn('/spec/{field}/' + string(place)), 'resources': dyn({listed}[place].?resources.orValue({{}}))}})"""


_VARIABLES = {
    "resources": _RESOURCES,
    "priorityClass": _CLASS,
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
    added = _add(f"'/metadata/{field}/' + jsonpatch.escapeKey({_KEY})", _VALUE)
    return f"variables.{field}.map(line, {added})"


_AMOUNT = """\
name == 'memory' && quantity(string(amount.before[name])).isInteger()
? string(quantity(string(amount.before[name])).asInteger())
: string(int(quantity(string(amount.before[name])).asApproximateFloat() * (name == 'cpu' ? 1000.0 : 1.0) + 0.999999))"""
"""An expression for an amount of a band, in millicores or bytes, rounded up. isInteger() is false for a fraction of a
byte."""

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
    # The admission plugin Priority ran before this policy and runs again after it. The priority that it computed is
    # removed, so that it computes it again. It is removed only once, or the pod would be stored without a priority.
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
        "metadata": metadata(PREFIX),
        "spec": {
            "failurePolicy": "Ignore",
            # LimitRanger adds its defaults again after the policy.
            "reinvocationPolicy": "IfNeeded",
            "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
            "matchConstraints": {"resourceRules": [NEW_PODS]},
            "matchConditions": named(_CONDITIONS),
            "variables": named(_VARIABLES),
            # One mutation, so that a pod is changed as a whole or not at all.
            "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": "\n+ ".join(_PATCHES)}}],
        },
    }


def warning_policy(version: str) -> dict[str, Any]:
    """The manifest of a policy that warns about a pod that its profile should have changed, and did not.

    The parameter of the policy is the binding of the profile, because the ConfigMap may be missing or invalid.
    `version`: the API version of that binding.
    """
    return {
        "apiVersion": f"{API_GROUP}/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": metadata(WARNING_POLICY),
        "spec": {
            "failurePolicy": "Ignore",
            "paramKind": {"apiVersion": f"{API_GROUP}/{version}", "kind": f"{POLICY_KIND}Binding"},
            "matchConstraints": {"resourceRules": [NEW_PODS]},
            "matchConditions": named(_CANDIDATES | {"percent": _percent(f"params.metadata.annotations['{PERCENT}']")}),
            "validations": [
                {
                    "expression": f"'{PROFILE_LABEL}' in object.metadata.?labels.orValue({{}})",
                    "messageExpression": f"""\
'the co-location profile ' + params.metadata.labels['{PROFILE_LABEL}'] + ' did not change this pod, which is '
+ 'scheduled as an ordinary one: the ConfigMap ' + params.spec.paramRef.namespace + '/' + params.spec.paramRef.name
+ ' or the policy {PREFIX} is missing or invalid, or the pod has huge pages, resources of the pod as a whole, parts of '
+ 'cores, annotations without room for more, or labels or amounts of another band. `equipoise doctor` finds which'""",
                }
            ],
        },
    }
