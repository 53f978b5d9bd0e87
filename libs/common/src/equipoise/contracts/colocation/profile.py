"""A colocation profile: which new pods become pods of a band, and how. It is stored as a ConfigMap."""

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from equipoise.contracts.colocation.bands import OFFERED_BANDS
from equipoise.contracts.colocation.classes import ALLOWED_BANDS, QosClass, allowed, priority_class_names
from equipoise.contracts.configuration.settings import Section
from equipoise.contracts.load.pod_priority import (
    PRIORITY_CLASS_LABEL,
    PRIORITY_CLASSES,
    QOS,
    QOS_LABEL,
    PriorityClass,
)

PROFILE = "equipoise.dev/colocation-profile"
"""Label of a pod that a profile changed: the name of the profile's ConfigMap."""

CONFIG_MAP_PREFIX = "colocation-"

MAX_ANNOTATIONS = 65_536
"""Characters; all annotations of a pod may have 262,144 bytes."""

MAX_GRACE = 999_999_999

Name = Annotated[
    str,
    Meta(
        pattern=r"^[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?\Z",
        description="a name of at most 40 lower-case letters, digits and -",
    ),
]
Operator = Literal["In", "NotIn", "Exists", "DoesNotExist"]


class ProfileRequirement(Section, frozen=True, kw_only=True):
    """One of a selector's matchExpressions."""

    key: str
    operator: Operator
    values: list[str] = msgspec.field(default_factory=list)


class ProfileSelector(Section, frozen=True, kw_only=True):
    """A label selector, as everywhere in Kubernetes."""

    match_labels: dict[str, str] = msgspec.field(default_factory=dict)
    match_expressions: list[ProfileRequirement] = msgspec.field(default_factory=list)


class Profile(Section, frozen=True, kw_only=True):
    """As written by an operator."""

    name: Name
    qos_class: QosClass
    band: PriorityClass
    priority_class_name: str | None = None
    """equipoise-BAND, unless the pods should get Koordinator's koord-BAND."""

    percent: Annotated[int, Meta(ge=0, le=100)] = 100
    """Share of the workloads. Pods without a controller are changed at 100 only."""

    resources: Literal["convert", "keep"] | None = None
    """convert: cpu and memory become amounts of the band. Defaults to convert for mid and batch, else to keep."""

    labels: dict[str, str] = msgspec.field(default_factory=dict)
    annotations: dict[str, str] = msgspec.field(default_factory=dict)
    termination_grace_period_seconds: Annotated[int, Meta(ge=0, le=MAX_GRACE)] | None = None
    namespaces: list[str] = msgspec.field(default_factory=list)
    namespace_selector: ProfileSelector | None = None
    object_selector: ProfileSelector | None = None

    @property
    def priority_class(self) -> str:
        """Its name."""
        return priority_class_names(self.band)[0] if self.priority_class_name is None else self.priority_class_name

    @property
    def converts(self) -> bool:
        """Whether cpu and memory become amounts of the band."""
        return self.band in OFFERED_BANDS if self.resources is None else self.resources == "convert"

    @property
    def config_map_name(self) -> str:
        return CONFIG_MAP_PREFIX + self.name


def config_map(profile: Profile, namespace: str) -> dict[str, Any]:
    """The manifest: what the policy does to pods."""
    data = {
        "qosClass": profile.qos_class,
        "band": profile.band,
        "priorityClassName": profile.priority_class,
        "percent": str(profile.percent),
        "resources": "convert" if profile.converts else "keep",
    }
    if profile.termination_grace_period_seconds is not None:
        data["terminationGracePeriodSeconds"] = str(profile.termination_grace_period_seconds)
    for name, values in (("labels", profile.labels), ("annotations", profile.annotations)):
        if values:
            data[name] = "".join(f"{key}={value}\n" for key, value in values.items())
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": profile.config_map_name, "namespace": namespace},
        "data": data,
    }


def stored_document(name: str, data: Mapping[str, str]) -> dict[str, Any]:
    """The document of the profile in a ConfigMap of this name; values that cannot be read stay as they are."""
    required = dict.fromkeys(("priorityClassName", "resources"), "")
    document: dict[str, Any] = {"name": name.removeprefix(CONFIG_MAP_PREFIX), **required, **data}
    for number in ("percent", "terminationGracePeriodSeconds"):
        if number in document and _DIGITS.fullmatch(document[number]):
            document[number] = int(document[number])
    for lines in ("labels", "annotations"):
        if lines in document:
            pairs = [line.strip().partition("=") for line in document[lines].splitlines() if line.strip()]
            document[lines] = {key: value for key, _, value in pairs}
    return document


_DIGITS = re.compile(r"[0-9]{1,9}")

_NAME = r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_PREFIX = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_KEY = re.compile(rf"({_PREFIX}/)?{_NAME}")
_VALUE = re.compile(rf"({_NAME})?")
_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_LONGEST_PREFIX = 253


def profile_faults(profile: Profile) -> Iterator[str]:
    """What the types of the fields do not exclude: the path, the value, and what is allowed."""
    if not allowed(profile.qos_class, profile.band):
        yield (
            f"band: {profile.band} is not allowed with qosClass {profile.qos_class}: "
            f"use {' or '.join(ALLOWED_BANDS[profile.qos_class])}"
        )
    names = priority_class_names(profile.band)
    if profile.priority_class not in names:
        fault = f"{profile.priority_class} is not allowed with band {profile.band}: use {' or '.join(names)}"
        yield f"priorityClassName: {fault}"
    if profile.converts:
        if profile.band not in OFFERED_BANDS:
            bands = " or ".join(OFFERED_BANDS)
            yield f"resources: convert needs the band {bands}, not {profile.band}: use keep"
        elif profile.band == "batch" and profile.qos_class != "BE":
            yield f"resources: convert to batch needs qosClass BE, not {profile.qos_class}: use keep, or another class"
    yield from _label_faults(profile)
    yield from _annotation_faults(profile.annotations)


def _label_faults(profile: Profile) -> Iterator[str]:
    for key, value in profile.labels.items():
        place = f"labels.{key}"
        if not is_key(key):
            yield f"{place}: is not the name of a label"
        elif not _VALUE.fullmatch(value):
            yield f"{place}: {value!r} is not the value of a label: at most 63 letters, digits, -, _ and ."
        elif key in (PROFILE, QOS):
            yield f"{place}: is set by the profile itself: remove it"
        elif key == QOS_LABEL and value != profile.qos_class:
            yield f"{place}: {value} is not allowed with qosClass {profile.qos_class}: use {profile.qos_class}"
        elif key == PRIORITY_CLASS_LABEL and PRIORITY_CLASSES.get(value) != profile.band:
            yield f"{place}: {value} is not allowed with band {profile.band}: use koord-{profile.band}"


def _annotation_faults(annotations: Mapping[str, str]) -> Iterator[str]:
    for key, value in annotations.items():
        if not is_key(key):
            yield f"annotations.{key}: is not the name of an annotation"
        elif value != value.strip() or len(value.splitlines()) > 1:
            yield f"annotations.{key}: a value has one line, without spaces around it"
    if sum(len(key) + len(value) + 2 for key, value in annotations.items()) > MAX_ANNOTATIONS:
        yield f"annotations: are longer than {MAX_ANNOTATIONS} characters"


def is_key(text: str) -> bool:
    """Whether it is the name of a label or an annotation."""
    return bool(_KEY.fullmatch(text)) and len(text.rpartition("/")[0]) <= _LONGEST_PREFIX


def selection_faults(profile: Profile) -> Iterator[str]:
    """What is wrong with whom the profile is for."""
    if not profile.namespaces and profile.namespace_selector is None:
        yield "namespaces: is missing: list namespaces, or set namespaceSelector"
    for number, name in enumerate(profile.namespaces):
        if not _NAMESPACE.fullmatch(name):
            yield f"namespaces[{number}]: {name!r} is not the name of a namespace"
    for field, selector in (
        ("namespaceSelector", profile.namespace_selector),
        ("objectSelector", profile.object_selector),
    ):
        if selector is not None:
            yield from (f"{field}.{fault}" for fault in _selector_faults(selector))


def _selector_faults(selector: ProfileSelector) -> Iterator[str]:
    for key, value in selector.match_labels.items():
        if not is_key(key) or not _VALUE.fullmatch(value):
            yield f"matchLabels.{key}: is not a label and its value"
    for number, each in enumerate(selector.match_expressions):
        place = f"matchExpressions[{number}]"
        if not is_key(each.key):
            yield f"{place}.key: {each.key!r} is not the name of a label"
        if bool(each.values) != (each.operator in ("In", "NotIn")):
            yield f"{place}.values: In and NotIn need some, Exists and DoesNotExist none"
        for value in each.values:
            if not _VALUE.fullmatch(value):
                yield f"{place}.values: {value!r} is not the value of a label"
