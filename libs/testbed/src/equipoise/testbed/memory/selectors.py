"""Which objects a field selector or a label selector matches."""

from collections.abc import Callable, Mapping

from equipoise.contracts.kubernetes.objects.metadata import Object
from equipoise.contracts.kubernetes.objects.pod import Pod
from equipoise.runtime.kubernetes.client import error_for_status

_FIELDS: Mapping[str, Callable[[Object], str]] = {
    "metadata.name": lambda value: value.metadata.name,
    "metadata.namespace": lambda value: value.metadata.namespace,
    "spec.nodeName": lambda value: value.spec.node_name if isinstance(value, Pod) else "",
}
"""Fields that a field selector may name."""


def matches_field(value: Object, selector: str) -> bool:
    """Whether an object matches a selector such as `spec.nodeName=a,metadata.name!=b`. Raises KubeError (400) for an
    unknown field."""
    for term in filter(None, selector.split(",")):
        field, expected, positive = _split(term)
        if field not in _FIELDS:
            raise error_for_status(400, "BadRequest", f"field label not supported: {field}")
        if (_FIELDS[field](value) == expected) is not positive:
            return False
    return True


def matches_label(labels: Mapping[str, str], selector: str) -> bool:
    """Whether labels match a selector such as `app=web,tier!=db,key,!other`."""
    for term in filter(None, selector.split(",")):
        if "=" in term:
            key, expected, positive = _split(term)
            holds = (labels.get(key) == expected) is positive
        else:
            holds = (term.lstrip("!") in labels) is not term.startswith("!")
        if not holds:
            return False
    return True


def _split(term: str) -> tuple[str, str, bool]:
    """The key and the value of `a=b`, `a==b` or `a!=b`, and whether they must be equal."""
    key, _, expected = term.partition("=")
    return key.removesuffix("!"), expected.removeprefix("="), not key.endswith("!")
