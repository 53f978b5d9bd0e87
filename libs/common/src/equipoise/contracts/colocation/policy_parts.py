"""What the admission policies of co-location have in common."""

from typing import Any

POLICY_VERSION = "equipoise.dev/policy-version"
"""Annotation with the version of the policies. A newer release has a higher number."""

VERSION = 1

NEW_PODS = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}

_ALL_CORES = """\
object.spec.containers.map(container, container.?resources.?requests[?'cpu'].hasValue()
? int(quantity(string(container.resources.requests['cpu'])).asApproximateFloat() * 1000.0 + 0.5) : 0).sum()"""

WHOLE_CORES = f"{_ALL_CORES} > 0\n&& {_ALL_CORES} % 1000 == 0"
"""The CEL condition that the containers of the pod together request whole cores, as in Koordinator."""


def metadata(name: str) -> dict[str, Any]:
    return {"name": name, "annotations": {POLICY_VERSION: str(VERSION)}}


def named(expressions: dict[str, str]) -> list[dict[str, str]]:
    return [{"name": name, "expression": text} for name, text in expressions.items()]
