"""The MutatingAdmissionPolicy that makes new pods those of a band, and the policy that warns where it did not.

Both run in the API server, without a webhook. A profile is a ConfigMap (what to do), and bindings (to which pods). A
pod that a profile cannot change, or whose profile is invalid, is created as its user wrote it.
"""

from collections.abc import Mapping
from typing import Any

from equipoise.contracts.colocation.bands import OFFERED_BANDS
from equipoise.contracts.colocation.classes import (
    ALLOWED_BANDS,
    PREFIXES,
    PRIORITY_CLASS_BANDS,
    QOS_CLASSES,
    WHOLE_CORES,
)
from equipoise.contracts.colocation.profile import MAX_ANNOTATIONS, PROFILE, Profile, ProfileSelector
from equipoise.contracts.kubernetes.mutating_policy import API_GROUP, POLICY_KIND
from equipoise.contracts.load.pod_priority import PRIORITY_CLASS_LABEL, QOS, QOS_LABEL

NAME = "equipoise-colocation"
"""Of the policy; the bindings of a profile append its name."""

CHECK_NAME = "equipoise-colocation-check"
"""Of the policy that warns."""

GUARD_NAME = "equipoise-colocation-classes"
"""Of the policy that keeps the PriorityClasses of profiles."""

SWITCH = "equipoise.dev/colocation"
"""Annotation of a pod; with the value `off`, no profile changes it."""

POLICY_VERSION = "equipoise.dev/policy-version"
"""Annotation of the policies. A higher number is of a newer release."""

VERSION = 1

PERCENT = "equipoise.dev/colocation-percent"
PRIORITY_CLASS = "equipoise.dev/colocation-priority-class"
CONFIG_MAP = "equipoise.dev/colocation-config-map"
"""Annotations of a binding, which the policies that warn and guard read: they must also work without the ConfigMap."""

PART_OF = {"app.kubernetes.io/part-of": "equipoise-colocation"}
"""Label of the bindings of profiles."""

VALIDATING = "ValidatingAdmissionPolicy"

_PODS = [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}]


def one_of(values: tuple[str, ...]) -> str:
    """A list of texts as CEL."""
    return "[" + ", ".join(f"'{value}'" for value in values) + "]"


def table(qos: str, band: str) -> str:
    """CEL: whether a class and a band, both expressions, go together."""
    return "\n&& ".join(f"({qos} != '{name}' || {band} in {one_of(bands)})" for name, bands in ALLOWED_BANDS.items())


def whole_cores(spec: str) -> str:
    """CEL: the containers request whole cores together, and at least one."""
    milli = (
        f"{spec}.containers.map(c, c.?resources.?requests[?'cpu'].hasValue()\n"
        "? int(quantity(string(c.resources.requests['cpu'])).asApproximateFloat() * 1000.0 + 0.5) : 0).sum()"
    )
    return f"{milli} > 0\n&& {milli} % 1000 == 0"


def _lines(name: str, accessor: str = "params.data") -> str:
    return f"{accessor}.?{name}.orValue('').split('\\n').map(l, l.trim())"


_QOS = "params.data.?qosClass.orValue('')"
_BAND = "params.data.?band.orValue('')"
_CLASS = "params.data.?priorityClassName.orValue('')"
_RESOURCES = "params.data.?resources.orValue('')"
_KEY = "l.substring(0, l.indexOf('='))"
_VALUE = "l.substring(l.indexOf('=') + 1)"


def _percent(percent: str) -> str:
    """CEL has no randomness, and a pod has neither name nor uid yet: a workload's uid decides, by its last digits."""
    return f"""\
int({percent}) >= 100
|| object.metadata.?ownerReferences.orValue([]).exists(o, o.?controller.orValue(false)
   && [3, 2, 1, 0].map(i, '0123456789abcdef'.indexOf(o.uid.charAt(size(o.uid) - 1 - i)) * [1, 16, 256, 4096][i])
      .sum() % 100 < int({percent}))"""


# matchConditions have no variables.
_POD_CONDITIONS = {
    "not-opted-out": f"object.metadata.?annotations[?'{SWITCH}'].orValue('') != 'off'",
    "not-static-nor-daemon": """\
object.metadata.?annotations[?'kubernetes.io/config.mirror'].orValue('') == ''
&& !object.metadata.?ownerReferences.orValue([]).exists(o, o.kind in ['DaemonSet', 'Node'])""",
}

_VALID = {
    "valid-class-and-band": f"""\
{_QOS} in {one_of(QOS_CLASSES)} && {_BAND} in {one_of(PRIORITY_CLASS_BANDS)}
&& {_CLASS} in {one_of(PREFIXES)}.map(p, p + '-' + {_BAND})
&& {table(_QOS, _BAND)}""",
    "valid-resources": f"""\
{_RESOURCES} == 'keep'
|| {_RESOURCES} == 'convert' && {_BAND} in {one_of(OFFERED_BANDS)} && ({_BAND} != 'batch' || {_QOS} == 'BE')""",
    "valid-numbers": """\
params.data.?percent.orValue('100').matches('^[0-9]{1,3}$') && int(params.data.?percent.orValue('100')) <= 100
&& params.data.?terminationGracePeriodSeconds.orValue('0').matches('^[0-9]{1,9}$')""",
    # A pod with an invalid label would be refused.
    "valid-labels": f"""\
{_lines("labels")}.all(l, l == '' || l.indexOf('=') > 0
&& !format.qualifiedName().validate({_KEY}).hasValue() && !format.labelValue().validate({_VALUE}).hasValue()
&& !({_KEY} in ['{PROFILE}', '{QOS}'])
&& ({_KEY} != '{QOS_LABEL}' || {_VALUE} == {_QOS})
&& ({_KEY} != '{PRIORITY_CLASS_LABEL}' || {_VALUE} == 'koord-' + {_BAND}))""",
    "valid-annotations": f"""\
size(params.data.?annotations.orValue('')) <= {MAX_ANNOTATIONS}
&& {_lines("annotations")}.all(l, l == '' || l.indexOf('=') > 0
&& !format.qualifiedName().validate({_KEY}).hasValue())""",
}

# Without these the API server, or the QoS policy, would refuse the changed pod.
_CHANGEABLE = {
    "no-resources-of-the-pod-as-a-whole": f"!has(object.spec.resources) || {_RESOURCES} == 'keep'",
    "no-huge-pages": f"""\
{_RESOURCES} == 'keep' || !(object.spec.containers + object.spec.?initContainers.orValue([]))
  .exists(c, c.?resources.?limits.orValue({{}}).exists(k, k.startsWith('hugepages-')))""",
    "no-amounts-of-another-band": f"""\
!(object.spec.containers + object.spec.?initContainers.orValue([])).exists(c, c.?resources.?requests.orValue({{}})
  .exists(k, k.startsWith('kubernetes.io/batch-') && {_QOS} != 'BE'
    || k.matches('^kubernetes.io/(batch|mid)-') && {_RESOURCES} == 'convert'
       && !k.startsWith('kubernetes.io/' + {_BAND} + '-')))""",
    "no-other-band-in-a-label": f"""\
object.metadata.?labels[?'{PRIORITY_CLASS_LABEL}'].orValue('koord-' + {_BAND}) == 'koord-' + {_BAND}""",
    "whole-cores": f"""\
!({_QOS} in {one_of(WHOLE_CORES)})
|| {whole_cores("object.spec")}""",
    "no-other-profile-has-it": f"""\
object.metadata.?labels[?'{PROFILE}'].orValue(params.metadata.name) == params.metadata.name""",
}

_VARIABLES = {
    "p": "params.data",
    "tier": "variables.p.resources == 'convert' ? variables.p.band : 'keep'",
    "class": "variables.p.priorityClassName",
    "grace": "variables.p.?terminationGracePeriodSeconds.orValue('')",
    "labels": f"{_lines('labels', 'variables.p')}.filter(l, l.indexOf('=') > 0)",
    "annotations": f"{_lines('annotations', 'variables.p')}.filter(l, l.indexOf('=') > 0)",
    "containers": """\
variables.tier == 'keep' ? [] :
lists.range(size(object.spec.containers)).map(i, {
  'path': dyn('/spec/containers/' + string(i)),
  'resources': dyn(object.spec.containers[i].?resources.orValue({}))})
+ lists.range(size(object.spec.?initContainers.orValue([]))).map(i, {
  'path': dyn('/spec/initContainers/' + string(i)),
  'resources': dyn(object.spec.initContainers[i].?resources.orValue({}))})""",
    # Every requests or limits that has cpu or memory.
    "lists": """\
variables.containers.map(b, ['requests', 'limits']
  .filter(l, l in b.resources && b.resources[l].exists(k, k in ['cpu', 'memory']))
  .map(l, {'path': dyn(string(b.path) + '/resources/' + l), 'was': dyn(b.resources[l])})).flatten()""",
}

_PATCHES = (
    "(has(object.metadata.labels) ? [] : [JSONPatch{op: 'add', path: '/metadata/labels', value: {}}])",
    "(has(object.metadata.annotations) ? [] : [JSONPatch{op: 'add', path: '/metadata/annotations', value: {}}])",
    f"""\
[JSONPatch{{op: 'add', path: '/metadata/labels/' + jsonpatch.escapeKey('{PROFILE}'), value: params.metadata.name}},
   JSONPatch{{op: 'add', path: '/metadata/labels/' + jsonpatch.escapeKey('{QOS}'), value: variables.p.qosClass}}]""",
    *(
        f"""\
variables.{field}.map(l,
  JSONPatch{{op: 'add', path: '/metadata/{field}/' + jsonpatch.escapeKey({_KEY}), value: {_VALUE}}})"""
        for field in ("labels", "annotations")
    ),
    """\
(variables.grace == '' ? [] :
   [JSONPatch{op: 'add', path: '/spec/terminationGracePeriodSeconds', value: int(variables.grace)}])""",
    # What Priority computed is given back once: Priority runs again afterwards, and the policy then finds its class.
    """\
(object.spec.?priorityClassName.orValue('') == variables.class ? [] :
   [JSONPatch{op: 'add', path: '/spec/priorityClassName', value: variables.class}]
   + (has(object.spec.priority) ? [JSONPatch{op: 'remove', path: '/spec/priority'}] : [])
   + (has(object.spec.preemptionPolicy) ? [JSONPatch{op: 'remove', path: '/spec/preemptionPolicy'}] : []))""",
    # cpu in milli-cores, memory in bytes, both rounded up. asInteger() fails on 1500m, and on 1.5Gi.
    """\
variables.lists.map(l,
  (['cpu', 'memory'].filter(k, k in l.was && !(('kubernetes.io/' + variables.tier + '-' + k) in l.was)).map(k,
     JSONPatch{op: 'add', path: string(l.path) + '/kubernetes.io~1' + variables.tier + '-' + k,
       value: k == 'memory' && quantity(string(l.was[k])).isInteger() ? string(quantity(string(l.was[k])).asInteger())
         : string(int(quantity(string(l.was[k])).asApproximateFloat() * (k == 'cpu' ? 1000.0 : 1.0) + 0.999999))}))
  + (['cpu', 'memory'].filter(k, k in l.was).map(k, JSONPatch{op: 'remove', path: string(l.path) + '/' + k})))
.flatten()""",
)


def policy(version: str) -> dict[str, Any]:
    """The manifest for the API servers that serve this version (of `mutating_policy.API_VERSIONS`)."""
    conditions = _POD_CONDITIONS | _VALID | _CHANGEABLE | {"percent": _percent("params.data.?percent.orValue('100')")}
    return {
        "apiVersion": f"{API_GROUP}/{version}",
        "kind": POLICY_KIND,
        "metadata": metadata(NAME),
        "spec": {
            # With an error here, a pod is created as it is: Fail would stop every pod of the profile's namespaces.
            "failurePolicy": "Ignore",
            # LimitRanger adds its defaults again after the policy.
            "reinvocationPolicy": "IfNeeded",
            "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
            "matchConstraints": {"resourceRules": _PODS},
            "matchConditions": named(conditions),
            "variables": named(_VARIABLES),
            # One, so that a pod is changed as a whole or not at all.
            "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": "\n+ ".join(_PATCHES)}}],
        },
    }


def check_policy(version: str) -> dict[str, Any]:
    """The manifest of the policy that warns. Its parameter is the binding: it must work without the ConfigMap."""
    percent = f"params.metadata.annotations['{PERCENT}']"
    return {
        "apiVersion": f"{API_GROUP}/v1",
        "kind": VALIDATING,
        "metadata": metadata(CHECK_NAME),
        "spec": {
            "failurePolicy": "Ignore",
            "paramKind": {"apiVersion": f"{API_GROUP}/{version}", "kind": f"{POLICY_KIND}Binding"},
            "matchConstraints": {"resourceRules": _PODS},
            "matchConditions": named(_POD_CONDITIONS | {"percent": _percent(percent)}),
            "validations": [
                {
                    "expression": f"'{PROFILE}' in object.metadata.?labels.orValue({{}})",
                    "messageExpression": f"""\
'profile ' + params.metadata.name + ' did not change this pod: ConfigMap '
+ params.metadata.annotations['{CONFIG_MAP}'] + ' is missing or invalid, the policy {NAME} is missing, '
+ 'or the pod has huge pages, pod-level resources, or a class or amounts of another band. Run: equipoise doctor'""",
                }
            ],
        },
    }


def guard(version: str) -> list[dict[str, Any]]:
    """The manifests of the policy that keeps the PriorityClasses of profiles, and its binding.

    A pod whose class does not exist is refused: the class must not be deleted before the profile.
    """
    return [
        {
            "apiVersion": f"{API_GROUP}/v1",
            "kind": VALIDATING,
            "metadata": metadata(GUARD_NAME),
            "spec": {
                "failurePolicy": "Ignore",
                "paramKind": {"apiVersion": f"{API_GROUP}/{version}", "kind": f"{POLICY_KIND}Binding"},
                "matchConstraints": {
                    "resourceRules": [
                        {
                            "apiGroups": ["scheduling.k8s.io"],
                            "apiVersions": ["v1"],
                            "operations": ["DELETE"],
                            "resources": ["priorityclasses"],
                        }
                    ]
                },
                "validations": [
                    {
                        "expression": (
                            f"params.metadata.?annotations[?'{PRIORITY_CLASS}'].orValue('') != oldObject.metadata.name"
                        ),
                        "messageExpression": (
                            "'new pods would be refused: delete the MutatingAdmissionPolicyBinding ' + "
                            "params.metadata.name + ', which gives them this class, first'"
                        ),
                    }
                ],
            },
        },
        {
            "apiVersion": f"{API_GROUP}/v1",
            "kind": f"{VALIDATING}Binding",
            "metadata": {"name": GUARD_NAME},
            "spec": {
                "policyName": GUARD_NAME,
                "validationActions": ["Deny"],
                "paramRef": {"selector": {"matchLabels": PART_OF}, "parameterNotFoundAction": "Allow"},
            },
        },
    ]


def bindings(profile: Profile, namespace: str, version: str) -> list[dict[str, Any]]:
    """The manifests of a profile's bindings: to the policy, and to the one that warns.

    `namespace`: of the ConfigMap.
    """
    name = f"{NAME}-{profile.name}"
    selection = _selection(profile, namespace)
    return [
        {
            "apiVersion": f"{API_GROUP}/{version}",
            "kind": f"{POLICY_KIND}Binding",
            "metadata": {
                "name": name,
                "labels": dict(PART_OF),
                "annotations": {
                    PERCENT: str(profile.percent),
                    PRIORITY_CLASS: profile.priority_class,
                    CONFIG_MAP: f"{namespace}/{profile.config_map_name}",
                },
            },
            "spec": {
                "policyName": NAME,
                "paramRef": {
                    "name": profile.config_map_name,
                    "namespace": namespace,
                    "parameterNotFoundAction": "Allow",
                },
                "matchResources": selection,
            },
        },
        {
            "apiVersion": f"{API_GROUP}/v1",
            "kind": f"{VALIDATING}Binding",
            "metadata": {"name": name},
            "spec": {
                "policyName": CHECK_NAME,
                "validationActions": ["Warn"],
                "paramRef": {"name": name, "parameterNotFoundAction": "Allow"},
                "matchResources": selection,
            },
        },
    ]


def _selection(profile: Profile, namespace: str) -> dict[str, Any]:
    """Never the system's namespace nor Equipoise's."""
    name = "kubernetes.io/metadata.name"
    namespaces = _selector(profile.namespace_selector)
    namespaces["matchExpressions"].append({"key": name, "operator": "NotIn", "values": ["kube-system", namespace]})
    if profile.namespaces:
        namespaces["matchExpressions"].append({"key": name, "operator": "In", "values": list(profile.namespaces)})
    found: dict[str, Any] = {"namespaceSelector": namespaces}
    if profile.object_selector is not None:
        found["objectSelector"] = _selector(profile.object_selector)
    return found


def _selector(selector: ProfileSelector | None) -> dict[str, Any]:
    if selector is None:
        return {"matchExpressions": []}
    expressions = [
        {"key": each.key, "operator": each.operator} | ({"values": list(each.values)} if each.values else {})
        for each in selector.match_expressions
    ]
    labels = {"matchLabels": dict(selector.match_labels)} if selector.match_labels else {}
    return {**labels, "matchExpressions": expressions}


def metadata(name: str) -> dict[str, Any]:
    return {"name": name, "annotations": {POLICY_VERSION: str(VERSION)}}


def named(expressions: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"name": name, "expression": text} for name, text in expressions.items()]
