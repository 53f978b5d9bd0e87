"""The objects of k8s with the expressions of the plan: one template for each file.

The same few strings are replaced everywhere: the namespace, the label of the name, and the first part of some names.
"""

from collections.abc import Mapping
from copy import deepcopy
from fnmatch import fnmatchcase
from typing import Any

from charts.generator.changes import NAMESPACE, RELEASE_NAMESPACE, Change, value_of
from charts.generator.conditions import CONDITIONS
from charts.generator.manifests import Document, Manifests
from charts.generator.plan import plan
from charts.generator.template import Each, More, Node, Text, When

from equipoise.contracts.hints.webhook import SERVICE as WEBHOOK

RENAMED = {"Deployment", "DaemonSet", "ConfigMap", "Service", "Job", "PodDisruptionBudget", "NetworkPolicy"}
"""Kinds whose objects `fullnameOverride` renames, except for NATS."""


FIXED = ("Service", WEBHOOK)
"""Its certificate, and the admission policy that restricts the annotators, name it."""


NAMESPACED = ("equipoise-evict", "equipoise-binder-detach")
"""The ClusterRoles that are bound only in the namespaces of the value `namespaces`."""


def template_objects(manifests: Manifests) -> dict[str, list[Node]]:
    """The templates of the objects by file. Raises ValueError if an entry of the plan or a condition is not used."""
    objects = {file: [deepcopy(each) for each in documents] for file, documents in manifests.files.items()}
    for change in plan():
        matches = [
            each
            for documents in objects.values()
            for each in documents
            if (each["kind"], each["metadata"]["name"]) == (change.kind, change.name)
        ]
        if len(matches) != 1:
            raise ValueError(f"not one object {change.kind} {change.name} in k8s, but {len(matches)}")
        _apply(matches[0], change)
    unused = set(CONDITIONS)
    result: dict[str, list[Node]] = {}
    for file, documents in objects.items():
        result[file] = []
        for document in documents:
            kind, name = document["kind"], document["metadata"]["name"]
            if (kind, name) == ("Namespace", NAMESPACE):
                continue  # `helm install --create-namespace` creates it
            if kind == "ClusterRoleBinding" and name in NAMESPACED:
                result[file].append(_namespaced_binding(document, file, unused))
            node = _everywhere(document, kind)
            result[file].append(_conditional(node, file, kind, name, unused))
    if unused:
        raise ValueError(f"no object in k8s has these conditions: {sorted(unused)}")
    return result


def _conditional(node: Node, file: str, kind: str, name: str, unused: set[tuple[str, str, str, str]]) -> Node:
    conditions = []
    for entry in CONDITIONS:
        *patterns, condition = entry
        if all(map(fnmatchcase, (file, kind, name), patterns)):
            unused.discard(entry)
            conditions.append(f"({condition})" if " " in condition else condition)
    if not conditions:
        return node
    return When(conditions[0] if len(conditions) == 1 else " ".join(["and", *conditions]), node)


def _namespaced_binding(binding: Document, file: str, unused: set[tuple[str, str, str, str]]) -> Node:
    """A RoleBinding in each of the namespaces, in place of the ClusterRoleBinding."""
    metadata = binding["metadata"] | {"namespace": Text("{{ . | toJson }}")}
    node = _everywhere(binding | {"kind": "RoleBinding", "metadata": metadata}, "RoleBinding")
    return _conditional(Each("$.Values.namespaces", node), file, "RoleBinding", metadata["name"], unused)


def _apply(document: Document, change: Change) -> None:
    *path, last = change.path.split("/")
    place: Any = document
    for key in path:
        place = place[int(key) if isinstance(place, list) else key]
    if isinstance(place, list):
        place.append(change.value)
    elif callable(change.value):
        place[last] = change.value(place[last])
    else:
        place[last] = change.value


def _everywhere(document: Document, kind: str) -> Node:
    """The namespace, names and labels."""
    changed: Any = _replace(document, ())
    metadata = changed["metadata"]
    name = metadata["name"]
    if kind in RENAMED and name.startswith("equipoise") and (kind, name) != FIXED:
        metadata["name"] = _full_name(name)
    elif kind == "PriorityClass":
        metadata["name"] = value_of("$.Values.priorityClass.name")
    labels = {"app.kubernetes.io/name": _NAME, **metadata.pop("labels", {})}
    labels.pop("app.kubernetes.io/part-of", None)
    metadata["labels"] = {**labels, "more": More('include "equipoise.labels" $ | fromYaml')}
    if "template" in changed.get("spec", {}):
        template = changed["spec"]["template"]["metadata"]
        instance = Text("{{ $.Release.Name | toJson }}")
        template["labels"] = {**template["labels"], "app.kubernetes.io/instance": instance}
        template["labels"]["more"] = template["labels"].pop("more")
    return changed


_NAME = Text('{{ include "equipoise.name" $ }}')


def _full_name(name: str) -> Text:
    return Text('{{ include "equipoise.fullname" $ }}' + name.removeprefix("equipoise"))


def _replace(node: Node, path: tuple[str, ...]) -> Node:
    """With the namespace of the release, the label of the name, and the names of ConfigMaps. Raises ValueError."""
    match node:
        case Mapping():
            return {key: _replace(value, (*path, str(key))) for key, value in node.items()}
        case list():
            return [_replace(item, path) for item in node]
        case When(condition, value):
            return When(condition, _replace(value, path))
        case Each(items, value):
            return Each(items, _replace(value, path))
        case "equipoise" if path[-1] == "app.kubernetes.io/name":
            return _NAME
        case "equipoise" | "equipoise-scheduler" | "equipoise-agent" if path[-2:] == ("configMap", "name"):
            return _full_name(node)
        case str() if node == NAMESPACE:
            return RELEASE_NAMESPACE
        case str() if NAMESPACE in node:
            raise ValueError(f"{'/'.join(path)}: the plan has no entry for the namespace in {node!r}")
        case _:
            return node
