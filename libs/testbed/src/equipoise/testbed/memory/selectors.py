"""Label and field selectors as the API server reads them, as far as anything here asks for."""

from collections.abc import Callable, Mapping

from equipoise.contracts.kubernetes import objects
from equipoise.runtime.kubernetes.client import error_for_status

FIELDS: Mapping[str, Callable[[objects.Object], str]] = {
    "metadata.name": lambda value: value.metadata.name,
    "metadata.namespace": lambda value: value.metadata.namespace,
    "spec.nodeName": lambda value: value.spec.node_name if isinstance(value, objects.Pod) else "",
}


def matches_field(value: objects.Object, selector: str) -> bool:
    """`spec.nodeName=a,metadata.name!=b`; KubeError 400 for a field that this server does not know."""
    for term in filter(None, selector.split(",")):
        field, wanted, positive = _split(term)
        if field not in FIELDS:
            raise error_for_status(400, "BadRequest", f"field label not supported: {field}")
        if (FIELDS[field](value) == wanted) is not positive:
            return False
    return True


def matches_label(labels: Mapping[str, str], selector: str) -> bool:
    """`app=web,tier!=db,key,!other`."""
    for term in filter(None, selector.split(",")):
        if "=" in term:
            key, wanted, positive = _split(term)
            holds = (labels.get(key) == wanted) is positive
        else:
            holds = (term.lstrip("!") in labels) is not term.startswith("!")
        if not holds:
            return False
    return True


def _split(term: str) -> tuple[str, str, bool]:
    key, _, wanted = term.partition("=")
    return key.removesuffix("!"), wanted.removeprefix("="), not key.endswith("!")
