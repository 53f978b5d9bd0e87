"""A profile of co-location: which pods become pods of a band, and with what."""

import re
from typing import Annotated, Any, Literal

from msgspec import Meta, field

from equipoise.contracts.colocation.bands import OFFERED_BANDS
from equipoise.contracts.configuration.settings import Section
from equipoise.contracts.kubernetes.mutating_policy import API_GROUP, POLICY_KIND

PREFIX = "equipoise-colocation"
"""Of the names of the policies and of their bindings."""

PROFILE_LABEL = "equipoise.dev/colocation-profile"
"""Label of a pod that a profile changed: the name of the profile."""

OPT_OUT = "equipoise.dev/colocation"
"""Annotation of a pod; with the value `off` no profile changes it."""

QosClass = Literal["BE", "LS", "LSR", "LSE", "SYSTEM"]
ProfileBand = Literal["prod", "mid", "batch", "free"]

SYSTEM_NAMESPACES = ("kube-system", "kube-public", "kube-node-lease")
"""Their pods are never changed."""

_BANDS_OF_QOS: dict[QosClass, tuple[ProfileBand, ...]] = {"BE": ("mid", "batch", "free"), "LSR": ("prod",)}
"""Of the classes that do not go with every band. Source: Koordinator's admission webhook."""

_LABEL_KEY = re.compile(r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")


class Profile(Section, frozen=True, kw_only=True):
    """One profile. Fields that are absent change nothing of a pod."""

    name: Annotated[str, Meta(pattern="^[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?$")]
    """Of its ConfigMap and its bindings."""

    namespace_selector: dict[str, Any] = field(default_factory=dict)
    """Of the namespaces whose new pods it changes: a label selector."""

    object_selector: dict[str, Any] = field(default_factory=dict)
    """Of these pods; empty: all of them."""

    qos: QosClass = "BE"
    """Label `equipoise.dev/qos`."""

    band: ProfileBand = "batch"
    """Sets the PriorityClass `equipoise-<band>`."""

    convert_resources: bool = True
    """In the bands mid and batch, cpu and memory of every container become amounts of the band."""

    percent: Annotated[int, Meta(ge=0, le=100)] = 100
    """Of the workloads, by a hash of their UID: all pods of a workload are changed, or none. Pods without an owner only
    with 100."""

    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    termination_grace_period_seconds: Annotated[int, Meta(ge=0)] | None = None

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
        for key, value in self.annotations.items():
            if not _LABEL_KEY.fullmatch(key) or "\n" in value:
                raise ValueError(f"annotations: {key} is not a valid name, or its value has more than one line")

    @property
    def resources(self) -> Literal["keep", "mid", "batch"]:
        """What cpu and memory become."""
        return next((band for band in OFFERED_BANDS if self.convert_resources and band == self.band), "keep")


def manifests(profile: Profile, version: str, namespace: str) -> list[dict[str, Any]]:
    """Its ConfigMap, its binding, and a binding of the policy that warns about pods that it did not change.

    `version`: of MutatingAdmissionPolicy. `namespace`: of Equipoise, for the ConfigMap. There is no warning with less
    than 100 percent, where most pods stay as they are.
    """
    found = [_config_map(profile, namespace), _binding(profile, version, namespace)]
    return [*found, _warning_binding(profile, namespace)] if profile.percent == 100 else found


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
        "metadata": {"name": f"{PREFIX}-{profile.name}"},
        "spec": {"policyName": PREFIX, "paramRef": reference, "matchResources": _matched(profile, namespace)},
    }


def _warning_binding(profile: Profile, namespace: str) -> dict[str, Any]:
    return {
        "apiVersion": f"{API_GROUP}/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": f"{PREFIX}-{profile.name}"},
        "spec": {
            "policyName": f"{PREFIX}-warning",
            "validationActions": ["Warn"],
            "matchResources": _matched(profile, namespace),
        },
    }
