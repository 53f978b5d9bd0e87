"""The fields that objects of every kind have, and the values that several kinds share."""

from collections.abc import Iterable
from datetime import datetime
from typing import Annotated, Any

import msgspec

Time = Annotated[datetime, msgspec.Meta(tz=True)]
"""The API server writes every time with its time zone, UTC."""

Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), lt=2**31)]
Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
"""The fields of the API are Int32 or Int64. JSON, and so a custom resource, may have larger integers."""


class ApiValue(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, gc=False):
    """A part of a Kubernetes object.

    Such values have no reference cycles and are excluded from garbage collection. In a large cluster it would take a
    second to visit them, during which nothing else runs.
    """


class OwnerReference(ApiValue, frozen=True, kw_only=True):
    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None


class ObjectMeta(ApiValue, frozen=True, kw_only=True):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: Int64 = 0
    creation_timestamp: Time | None = None
    deletion_timestamp: Time | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner_references: list[OwnerReference] = []
    unreadable: str = ""
    """Why a part of the object could not be decoded and is unknown. `contracts.unreadable` sets it, not the API."""

    requests_known: bool = False
    """The requests of a pod are known although `unreadable` is set (`contracts.unreadable.known_amounts`)."""

    @property
    def controller(self) -> OwnerReference | None:
        for owner in self.owner_references:  # called for every pod of a cluster: a generator takes twice as long
            if owner.controller:
                return owner
        return None


class Object(ApiValue, frozen=True, kw_only=True):
    """The common fields of every Kubernetes object."""

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()


class WholeObject(Object, frozen=True, kw_only=True):
    """An object of any kind with every field of its spec."""

    spec: dict[str, Any] = msgspec.field(default_factory=dict)


class Condition(ApiValue, frozen=True, kw_only=True):
    type: str
    status: str
    reason: str = ""
    last_transition_time: Time | None = None


class ExplainedCondition(Condition, frozen=True, kw_only=True):
    """A condition to write, with a message for people. To save memory, messages are not read: see `Condition`."""

    message: str = ""


def ready_condition(conditions: Iterable[Condition]) -> Condition | None:
    """The condition Ready of a node or a pod."""
    return next((condition for condition in conditions if condition.type == "Ready"), None)


def is_ready(conditions: Iterable[Condition]) -> bool:
    """Whether a node or a pod is Ready; False without the condition."""
    ready = ready_condition(conditions)
    return ready is not None and ready.status == "True"


class SelectorRequirement(ApiValue, frozen=True, kw_only=True):
    """A requirement on a label, or on a field of a node."""

    key: str
    operator: str
    values: list[str] = []


class LabelSelector(ApiValue, frozen=True, kw_only=True):
    match_labels: dict[str, str] = {}
    match_expressions: list[SelectorRequirement] = []


class ResourceRequirements(ApiValue, frozen=True, kw_only=True):
    requests: dict[str, str] = {}
    limits: dict[str, str] = {}


class ObjectReference(ApiValue, frozen=True, kw_only=True):
    api_version: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
