"""Objects of the API server with their whole spec. Services decode only the fields that they need."""

from collections.abc import Mapping
from typing import Any

import msgspec

from equipoise.contracts.kubernetes.objects.metadata import WholeObject
from equipoise.runtime.kubernetes.client import Resource


def whole(resource: Resource[Any]) -> Resource[WholeObject]:
    """The same resource, with objects that are decoded as WholeObject."""
    return msgspec.structs.replace(resource, model=WholeObject)


def policy_differences(installed: WholeObject, expected: Mapping[str, Any]) -> list[str]:
    """The fields in which an installed MutatingAdmissionPolicy differs from the expected one.

    Other fields are ignored, because the API server adds defaults to them.
    """
    fields = ("failurePolicy", "reinvocationPolicy", "paramKind", "matchConditions", "variables", "mutations")
    return [name for name in fields if installed.spec.get(name) != expected["spec"][name]]
