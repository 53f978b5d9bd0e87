"""A profile of co-location: which pods become pods of a band, and with what."""

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, cast, get_args

from msgspec import Meta, field

from equipoise.contracts.colocation.bands import OFFERED_BANDS
from equipoise.contracts.configuration.settings import Section
from equipoise.contracts.kubernetes.mutating_policy import API_GROUP, POLICY_KIND
from equipoise.contracts.load.pod_priority import PRIORITY_CLASS_LABEL, QOS

PREFIX = "equipoise-colocation"
"""The prefix of the names of the policies and of their bindings."""

PROFILE_LABEL = "equipoise.dev/colocation-profile"
"""Label of a pod that a profile changed: the name of the profile."""

WARNING_POLICY = f"{PREFIX}-warning"

PERCENT = "equipoise.dev/colocation-percent"
PRIORITY_CLASS = "equipoise.dev/colocation-priority-class"
"""Annotations of a profile's binding, for policies that must also work without the ConfigMap."""

OPT_OUT = "equipoise.dev/colocation"
"""Annotation of a pod; with the value `off` no profile changes it."""

QosClass = Literal["BE", "LS", "LSR", "LSE", "SYSTEM"]
ProfileBand = Literal["prod", "mid", "batch", "free"]

MAX_ANNOTATIONS = 65_536
"""Characters; all annotations of a pod may have 262,144 bytes."""

SYSTEM_NAMESPACES = ("kube-system", "kube-public", "kube-node-lease")
"""Namespaces whose pods are never changed."""

_BANDS_OF_QOS: dict[QosClass, tuple[ProfileBand, ...]] = {"BE": ("mid", "batch", "free"), "LSR": ("prod",)}
"""The bands that a QoS class may be combined with; other classes may be combined with every band. Source: Koordinator's
admission webhook."""

_LABEL_KEY = re.compile(r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")


class Profile(Section, frozen=True, kw_only=True):
    """One profile. Fields that are absent change nothing of a pod."""

    name: Annotated[str, Meta(pattern="^[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?$")]
    """The name of its ConfigMap and its bindings."""

    namespace_selector: dict[str, Any] = field(default_factory=dict)
    """The namespaces whose new pods it changes: a label selector."""

    object_selector: dict[str, Any] = field(default_factory=dict)
    """The pods that it changes in these namespaces: a label selector; empty: all of them."""

    qos: QosClass = "BE"
    """Label `equipoise.dev/qos`."""

    band: ProfileBand = "batch"
    """Sets the PriorityClass `equipoise-<band>`."""

    convert_resources: bool = True
    """Whether cpu and memory of every container become amounts of the band, in the bands mid and batch."""

    percent: Annotated[int, Meta(ge=0, le=100)] = 100
    """The percentage of the workloads whose pods are changed. Workloads are selected by their UID, so all pods of a
    workload are changed, or none. Pods without an owner are changed only at 100."""

    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    termination_grace_period_seconds: Annotated[int, Meta(ge=0, le=999_999_999)] | None = None

    def __post_init__(self) -> None:
        if not self.namespace_selector.get("matchLabels") and not self.namespace_selector.get("matchExpressions"):
            raise ValueError("namespaceSelector must have matchLabels or matchExpressions: it selects the namespaces")
        for name, selector in (
            ("namespaceSelector", self.namespace_selector),
            ("objectSelector", self.object_selector),
        ):
            if unknown := set(selector) - {"matchLabels", "matchExpressions"}:
                raise ValueError(f"{name} has the unknown field {sorted(unknown)[0]}")
        if self.band not in (allowed := _BANDS_OF_QOS.get(self.qos, (self.band,))):
            raise ValueError(
                f"the QoS class {self.qos} goes with {' or '.join(allowed)}, not with the band {self.band}"
            )
        if self.resources == "batch" and self.qos != "BE":
            raise ValueError("amounts of the band batch need the QoS class BE, or convertResources: false")
        for key, value in self.labels.items():
            if not _LABEL_KEY.fullmatch(key) or not _LABEL_VALUE.fullmatch(value):
                raise ValueError(f"labels: {key}={value} is not a valid label")
            if key in (PROFILE_LABEL, QOS):
                raise ValueError(f"labels: {key} is set by the profile itself")
            if key == PRIORITY_CLASS_LABEL and value != f"koord-{self.band}":
                raise ValueError(f"labels: {key} must be koord-{self.band} in the band {self.band}")
        for key, value in self.annotations.items():
            if not _LABEL_KEY.fullmatch(key) or "\n" in value:
                raise ValueError(f"annotations: {key} is not a valid name, or its value has more than one line")

    @property
    def resources(self) -> Literal["keep", "mid", "batch"]:
        """The band whose amounts replace cpu and memory, or `keep`."""
        return next((band for band in OFFERED_BANDS if self.convert_resources and band == self.band), "keep")


def stored_profile_faults(data: Mapping[str, str]) -> Iterator[str]:
    """The faults in the data of a ConfigMap. If there is any, the policy changes no pod."""
    qos, priority_class = data.get("qosClass", ""), data.get("priorityClassName", "")
    prefix, _, band = priority_class.partition("-")
    if qos not in get_args(QosClass):
        yield f"qosClass: {qos!r} is not one of {', '.join(get_args(QosClass))}"
    if prefix not in ("equipoise", "koord") or band not in get_args(ProfileBand):
        yield f"priorityClassName: {priority_class!r} is not equipoise-BAND with {' or '.join(get_args(ProfileBand))}"
    elif band not in (allowed := _BANDS_OF_QOS.get(cast(QosClass, qos), (band,))):
        yield f"priorityClassName: {qos} goes with {' or '.join(allowed)}, not with the band {band}"
    resources = data.get("resources", "keep")
    if resources not in ("keep", *OFFERED_BANDS) or resources not in ("keep", band):
        yield f"resources: {resources!r} is not keep or, in the bands {' and '.join(OFFERED_BANDS)}, the band"
    elif resources == "batch" and qos != "BE":
        yield f"resources: batch needs qosClass BE, not {qos}"
    if not _PERCENT.fullmatch(percent := data.get("percent", "100")):
        yield f"percent: {percent!r} is not a whole number from 0 to 100"
    if not _SECONDS.fullmatch(seconds := data.get("terminationGracePeriodSeconds", "0")):
        yield f"terminationGracePeriodSeconds: {seconds!r} is not a whole number of seconds"
    for field_name, pattern in (("labels", _LABEL_VALUE), ("annotations", _ANY)):
        for line in filter(None, map(str.strip, data.get(field_name, "").split("\n"))):
            key, equals, value = line.partition("=")
            if not equals or not _LABEL_KEY.fullmatch(key) or not pattern.fullmatch(value):
                yield f"{field_name}: {line[:80]!r} is not a valid key=value"
            elif field_name == "labels" and key in (PROFILE_LABEL, QOS):
                yield f"labels: {key} is set by the profile itself"
            elif field_name == "labels" and key == PRIORITY_CLASS_LABEL and value != f"koord-{band}":
                yield f"labels: {key} must be koord-{band}"
    if len(data.get("annotations", "")) > MAX_ANNOTATIONS:
        yield f"annotations: are longer than {MAX_ANNOTATIONS} characters"


_PERCENT = re.compile(r"100|[0-9]{1,2}")
_SECONDS = re.compile(r"[0-9]{1,9}")
_ANY = re.compile(r".*", re.DOTALL)


def manifests(profile: Profile, version: str, namespace: str) -> list[dict[str, Any]]:
    """The ConfigMap of a profile, its binding, and its binding to the policy that warns about pods that the profile did
    not change.

    `version`: the API version of MutatingAdmissionPolicy. `namespace`: that of Equipoise, for the ConfigMap.
    """
    return [
        _config_map(profile, namespace),
        _binding(profile, version, namespace),
        _warning_binding(profile, namespace),
    ]


def _config_map(profile: Profile, namespace: str) -> dict[str, Any]:
    data = {
        "qosClass": profile.qos,
        "resources": profile.resources,
        "priorityClassName": f"equipoise-{profile.band}",
        "percent": str(profile.percent),
    }
    if profile.termination_grace_period_seconds is not None:
        data["terminationGracePeriodSeconds"] = str(profile.termination_grace_period_seconds)
    for name, values in (("labels", profile.labels), ("annotations", profile.annotations)):
        if values:
            data[name] = "".join(f"{key}={value}\n" for key, value in values.items())
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": f"{PREFIX}-{profile.name}",
            "namespace": namespace,
            "labels": {PROFILE_LABEL: profile.name},
        },
        "data": data,
    }


def _matched(profile: Profile, namespace: str) -> dict[str, Any]:
    own = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": [*SYSTEM_NAMESPACES, namespace]}
    expressions = [*profile.namespace_selector.get("matchExpressions", []), own]
    return {
        "namespaceSelector": {**profile.namespace_selector, "matchExpressions": expressions},
        "objectSelector": profile.object_selector,
    }


def _binding(profile: Profile, version: str, namespace: str) -> dict[str, Any]:
    reference = {"name": f"{PREFIX}-{profile.name}", "namespace": namespace, "parameterNotFoundAction": "Allow"}
    return {
        "apiVersion": f"{API_GROUP}/{version}",
        "kind": f"{POLICY_KIND}Binding",
        "metadata": {
            "name": f"{PREFIX}-{profile.name}",
            "labels": {PROFILE_LABEL: profile.name},
            "annotations": {PERCENT: str(profile.percent), PRIORITY_CLASS: f"equipoise-{profile.band}"},
        },
        "spec": {"policyName": PREFIX, "paramRef": reference, "matchResources": _matched(profile, namespace)},
    }


def _warning_binding(profile: Profile, namespace: str) -> dict[str, Any]:
    return {
        "apiVersion": f"{API_GROUP}/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": f"{PREFIX}-{profile.name}"},
        "spec": {
            "policyName": WARNING_POLICY,
            "validationActions": ["Warn"],
            "paramRef": {"name": f"{PREFIX}-{profile.name}", "parameterNotFoundAction": "Allow"},
            "matchResources": _matched(profile, namespace),
        },
    }
