"""Reads a kustomization as `kubectl kustomize` does, as far as this project uses it: tests must not need kubectl.

Resources, components, generated ConfigMaps (without the hash in their names), patches that delete an object, or replace
or append a value.
"""

from copy import deepcopy
from pathlib import Path
from typing import Any

import yaml

Document = dict[str, Any]

_SUPPORTED = {"apiVersion", "kind", "resources", "components", "configMapGenerator", "patches"}


def read_kustomization(folder: Path) -> list[Document]:
    """All objects of a folder, in order. Raises ValueError for an unsupported field."""
    return _read(folder, "Kustomization", [])


def _read(folder: Path, kind: str, documents: list[Document]) -> list[Document]:
    """These objects, with those of a folder and its changes."""
    text = yaml.safe_load((folder / "kustomization.yaml").read_text())
    if unknown := set(text) - _SUPPORTED:
        raise ValueError(f"{folder}: {', '.join(sorted(unknown))} is not supported")
    if text["kind"] != kind:
        raise ValueError(f"{folder}: this is a {text['kind']}, not a {kind}")
    documents = deepcopy(documents)
    for name in text.get("resources", ()):
        path = folder / name
        documents += read_kustomization(path) if path.is_dir() else read_documents(path)
    for name in text.get("components", ()):
        documents = _read(folder / name, "Component", documents)
    for entry in text.get("configMapGenerator", ()):
        generated = _config_map(folder, entry)
        if entry.get("behavior") == "merge":
            named(documents, "ConfigMap", entry["name"])["data"] |= generated["data"]
        else:
            documents.append(generated)
    for entry in text.get("patches", ()):
        patch = yaml.safe_load(entry["patch"])
        documents = (
            _replace_values(documents, entry["target"], patch) if "target" in entry else _delete(documents, patch)
        )
    return documents


def read_documents(path: Path) -> list[Document]:
    return [document for document in yaml.safe_load_all(path.read_text()) if document]


def _config_map(folder: Path, entry: Document) -> Document:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": entry["name"], "namespace": entry["namespace"]},
        "data": {name: (folder / name).read_text() for name in entry["files"]},
    }


def _delete(documents: list[Document], patch: Document) -> list[Document]:
    if patch.get("$patch") != "delete":
        raise ValueError(f"only patches that delete are supported: {patch}")
    remaining = [document for document in documents if identity(document) != identity(patch)]
    if len(remaining) == len(documents):
        raise ValueError(f"no object matches the patch: {patch}")
    return remaining


def _replace_values(documents: list[Document], target: Document, operations: list[Document]) -> list[Document]:
    """JSON Patch (RFC 6902), only `replace` and an `add` to the end of a list are supported."""
    changed = deepcopy(documents)
    for operation in operations:
        value: Any = named(changed, target["kind"], target["name"])
        keys = [key.replace("~1", "/") for key in operation["path"].strip("/").split("/")]
        *path, last = [int(key) if key.isdecimal() else key for key in keys]
        for key in path:
            value = value[key]
        match operation["op"], last:
            case "replace", _:
                value[last] = operation["value"]
            case "add", "-":
                value.append(operation["value"])
            case _:
                raise ValueError(f"this operation is not supported: {operation}")
    return changed


def identity(document: Document) -> tuple[str, str, str]:
    metadata = document["metadata"]
    return document["kind"], metadata.get("namespace", ""), metadata["name"]


def named(documents: list[Document], kind: str, name: str) -> Document:
    """The one object of this kind and name."""
    (found,) = (d for d in documents if d["kind"] == kind and d["metadata"]["name"] == name)
    return found
