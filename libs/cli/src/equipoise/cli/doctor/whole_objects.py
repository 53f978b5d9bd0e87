"""Objects of the API server with every field of their spec, which the services do not need."""

from collections.abc import Mapping
from typing import Any

import msgspec

from equipoise.contracts.kubernetes.objects.metadata import WholeObject
from equipoise.runtime.kubernetes.client import Resource


def whole(resource: Resource[Any]) -> Resource[WholeObject]:
    """The same kind, with objects of this type."""
    return msgspec.structs.replace(resource, model=WholeObject)


def policy_differences(installed: WholeObject, expected: Mapping[str, Any]) -> list[str]:
    """The fields in which a MutatingAdmissionPolicy differs. The API server adds defaults to others."""
    fields = ("failurePolicy", "reinvocationPolicy", "paramKind", "matchConditions", "variables", "mutations")
    return [name for name in fields if installed.spec.get(name) != expected["spec"][name]]
