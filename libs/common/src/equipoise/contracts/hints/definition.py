"""The CustomResourceDefinition of PlacementHints. Its limits ensure that hints never make a pod invalid.

The API server validates the pod that a policy has changed. With a weight of 101, or a term without values, it would
refuse every new pod of the workload, whatever the policy's `failurePolicy` is. So the schema excludes such hints.
"""

from typing import Any

from equipoise.contracts.messages.placement import MAX_HOSTNAMES

GROUP = "equipoise.dev"
VERSION = "v1alpha1"
KIND = "PlacementHints"
PLURAL = "placementhints"

MAX_TERMS = 10
"""The maximum number of preferred terms of one workload. Each costs kube-scheduler a lookup per node and pod."""

MAX_WORKLOADS = 5_000
MAX_TABLE = 5_000
"""The maximum number of nodes in the hints of one namespace."""

_MAX_TEXT = 65_536
"""The maximum number of characters of the names of all nodes: more than an object has."""

_MAX_HINT = 3_000
"""The maximum number of characters of a hint: terms of `MAX_HOSTNAMES` nodes."""

_LABEL = "[A-Za-z0-9]([-_.A-Za-z0-9]{0,61}[A-Za-z0-9])?"
LABEL_VALUE = f"^{_LABEL}$"

_WEIGHTED = "([1-9][0-9]?|100):[0-9]{1,4}(,[0-9]{1,4})*"
_HINT_TEXT = f"^({_WEIGHTED}( {_WEIGHTED}){{0,{MAX_TERMS - 1}}}( -{_WEIGHTED})?|-{_WEIGHTED})$"
"""Terms of preferred nodes, and then at most one of avoided nodes."""

_TERM: dict[str, Any] = {
    "type": "object",
    "required": ["weight", "nodes"],
    "properties": {
        "weight": {"type": "integer", "minimum": 1, "maximum": 100},
        "nodes": {
            "description": "Places in `hostnames`, from 0.",
            "type": "array",
            "minItems": 1,
            "maxItems": MAX_HOSTNAMES,
            "items": {"type": "integer", "minimum": 0, "maximum": MAX_TABLE - 1},
        },
    },
}

_HINT: dict[str, Any] = {
    "type": "object",
    "minProperties": 1,
    "properties": {
        "prefer": {"type": "array", "minItems": 1, "maxItems": MAX_TERMS, "items": _TERM},
        "avoid": _TERM,
    },
}

_SCHEMA: dict[str, Any] = {
    "description": "Where new pods of the workloads of a namespace should run. Written by Equipoise; edits are lost.",
    "type": "object",
    "required": ["until"],
    "properties": {
        "until": {
            "description": "When these hints expire: pods that are created later get none.",
            "type": "string",
            "format": "date-time",
        },
        "nodes": {
            "description": "Values of the label kubernetes.io/hostname, separated by spaces. The hints name nodes by "
            "their place here, from 0.",
            "type": "string",
            "maxLength": _MAX_TEXT,
            "pattern": f"^{_LABEL}( {_LABEL})*$",
        },
        "distinctHints": {
            "description": "Each different hint once: weights and the places of nodes. Nodes of a weight with a minus "
            "are avoided: all others get the weight.",
            "type": "array",
            "maxItems": MAX_WORKLOADS,
            "items": {"type": "string", "maxLength": _MAX_HINT, "pattern": _HINT_TEXT},
        },
        "workloads": {
            "description": "The place of the hint of each workload in `distinctHints`, from 0. By kind and name of the "
            "workload, for example Deployment.web.",
            "type": "object",
            # The map has one writer. If it were not atomic, managedFields would repeat every key.
            "x-kubernetes-map-type": "atomic",
            "maxProperties": MAX_WORKLOADS,
            "additionalProperties": {"type": "integer", "minimum": 0, "maximum": MAX_WORKLOADS - 1},
        },
        "hostnames": {
            "description": "Of earlier versions: the nodes of `hints`.",
            "type": "array",
            "maxItems": MAX_TABLE,
            "items": {"type": "string", "maxLength": 63, "pattern": LABEL_VALUE},
        },
        "hints": {
            "description": "Of earlier versions: hints by kind and name of the workload.",
            "type": "object",
            "x-kubernetes-map-type": "atomic",
            "maxProperties": MAX_WORKLOADS,
            "additionalProperties": _HINT,
        },
    },
}


def definition() -> dict[str, Any]:
    """The manifest of the CustomResourceDefinition."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{PLURAL}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"kind": KIND, "plural": PLURAL, "singular": PLURAL, "listKind": f"{KIND}List"},
            "versions": [
                {
                    "name": VERSION,
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": _SCHEMA},
                    "additionalPrinterColumns": [{"name": "Until", "type": "string", "jsonPath": ".until"}],
                }
            ],
        },
    }
