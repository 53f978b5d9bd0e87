"""Custom kinds of workloads as their own projects define them, as far as an API server acts upon the definition."""

from typing import Any

Manifest = dict[str, Any]


def clone_set_definition() -> Manifest:
    """OpenKruise's CloneSet."""
    return _definition("apps.kruise.io", "v1alpha1", "CloneSet", "clonesets")


def rollout_definition() -> Manifest:
    """Argo's Rollout."""
    return _definition("argoproj.io", "v1alpha1", "Rollout", "rollouts")


def custom_workload(version: str, kind: str, name: str, template: Manifest, *, namespace: str) -> Manifest:
    """One of a kind that looks like a Deployment; nobody here runs its pods."""
    return {
        "apiVersion": version,
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"replicas": 2, "selector": {"matchLabels": template["metadata"]["labels"]}, "template": template},
    }


def _definition(group: str, version: str, kind: str, plural: str) -> Manifest:
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"kind": kind, "listKind": f"{kind}List", "plural": plural, "singular": kind.lower()},
            "versions": [
                {
                    "name": version,
                    "served": True,
                    "storage": True,
                    "schema": {
                        "openAPIV3Schema": {"type": "object", "properties": {"spec": anything, "status": anything}}
                    },
                    "subresources": {
                        "status": {},
                        "scale": {
                            "specReplicasPath": ".spec.replicas",
                            "statusReplicasPath": ".status.replicas",
                            "labelSelectorPath": ".status.labelSelector",
                        },
                    },
                }
            ],
        },
    }
