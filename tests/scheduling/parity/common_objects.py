"""What all random clusters have in common: namespaces, priorities, and the values that labels and requests take."""

from typing import Any

Document = dict[str, Any]

NAMESPACES = {"alpha": {"team": "a", "tier": "x"}, "beta": {"team": "b", "tier": "x"}, "gamma": {"team": "c"}}
"""Labels by name."""

CLASSES = {"low": 100, "middle": 1_000, "high": 10_000, "patient": 10_000}
"""Priorities of the PriorityClasses; pods of the class patient never preempt."""

APPS = ("web", "db", "cache")
ZONES = ("zone-a", "zone-b", "zone-c")
DISKS = ("ssd", "hdd")
GPU = "example.com/gpu"
IMAGES = {
    "registry.example/small:1": 30 * 2**20,
    "registry.example/large:1": 900 * 2**20,
    "registry.example/other:2": 400 * 2**20,
    "registry.example/plain:latest": 200 * 2**20,
}


def priority_classes() -> list[Document]:
    return [
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name},
            "value": value,
            "preemptionPolicy": "Never" if name == "patient" else "PreemptLowerPriority",
        }
        for name, value in CLASSES.items()
    ]


def namespaces() -> list[Document]:
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
        for name, labels in NAMESPACES.items()
    ]
