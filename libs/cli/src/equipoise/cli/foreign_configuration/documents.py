"""Finds the configuration of a descheduler in a file, in which it may be alone, in a ConfigMap, or among manifests."""

from collections.abc import Iterator
from typing import Any, Literal

import msgspec

from equipoise.runtime.configuration import ConfigurationError
from equipoise.runtime.configuration.errors import show
from equipoise.runtime.configuration.yaml_text import UnreadableYaml, read_yaml, read_yaml_documents

SourceKind = Literal["DeschedulerConfiguration", "DeschedulerPolicy"]

API_VERSIONS: dict[SourceKind, tuple[str, ...]] = {
    "DeschedulerConfiguration": ("descheduler/v1alpha2",),
    "DeschedulerPolicy": ("descheduler/v1alpha1", "descheduler/v1alpha2"),
}
"""The API versions of each kind. The first kind is that of koord-descheduler, the second of sigs.k8s.io/descheduler."""

_EXPECTED = (
    "expected a DeschedulerConfiguration (koord-descheduler) or a DeschedulerPolicy (sigs.k8s.io/descheduler), by "
    "itself, in a ConfigMap, or as deschedulerPolicy in the values of a chart"
)


class SourceDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A configuration that can be translated."""

    kind: SourceKind
    api_version: str
    place: str
    """The place in the file; empty for the whole file."""

    content: dict[str, Any]
    """The document without kind and apiVersion."""


def find_document(text: str) -> SourceDocument:
    """The only configuration in the text. Raises ConfigurationError with what the text has instead."""
    try:
        documents = [document for document in read_yaml_documents(text) if document is not None]
    except UnreadableYaml as error:
        raise ConfigurationError(str(error)) from error
    alone = len(documents) == 1
    places = ["" if alone else f"document {number}" for number, _ in enumerate(documents, 1)]
    kinds: list[str] = []
    sources = [
        source for place, document in zip(places, documents, strict=True) for source in _within(document, place, kinds)
    ]
    if not sources:
        raise ConfigurationError(f"{_EXPECTED}; the file has {', '.join(dict.fromkeys(kinds)) or 'no document'}")
    if len(sources) > 1:
        listed = ", ".join(f"{each.kind} ({each.place or 'the file'})" for each in sources)
        raise ConfigurationError(
            f"the file has {len(sources)} configurations, one can be translated at a time: {listed}"
        )
    return sources[0]


def _within(document: Any, place: str, kinds: list[str]) -> Iterator[SourceDocument]:
    """The configurations of a document. Adds the kind of anything else to `kinds`."""
    if not isinstance(document, dict):
        kinds.append(f"{show(document)[:40]}, which is no object")
        return
    kind, version = document.get("kind"), document.get("apiVersion")
    source = next((each for each in API_VERSIONS if each == kind), None)
    if source is not None:
        yield _source(source, version, document, place)
    elif "kind" not in document and isinstance(policy := document.get("deschedulerPolicy"), dict):
        version = document.get("deschedulerPolicyAPIVersion", "descheduler/v1alpha2")
        yield _source("DeschedulerPolicy", version, policy, f"{place} deschedulerPolicy".strip())
    elif kind == "ConfigMap" and isinstance(document.get("data"), dict):
        yield from _of_config_map(document["data"], place, kinds)
    elif kind == "List" and isinstance(document.get("items"), list):
        for index, item in enumerate(document["items"]):
            yield from _within(item, f"{place} items[{index}]".strip(), kinds)
    else:
        kinds.append(f"kind {show(kind)}" if "kind" in document else "an object without kind")


def _of_config_map(data: dict[str, Any], place: str, kinds: list[str]) -> Iterator[SourceDocument]:
    for key, text in data.items():
        key_place = f"{place} ConfigMap, data[{show(key)}]".strip()
        if not isinstance(text, str):
            raise ConfigurationError(f"{key_place}: {show(text)} is not allowed: expected text")
        try:
            document = read_yaml(text)
        except UnreadableYaml as error:
            if any(kind in text for kind in API_VERSIONS):
                raise ConfigurationError(f"{key_place}: {error}") from error
            kinds.append(f"{key_place} (no YAML)")
            continue
        if isinstance(document, dict):
            yield from _within(document, key_place, kinds)
        else:
            kinds.append(f"{key_place} (no object)")


def _source(kind: SourceKind, version: Any, document: dict[str, Any], place: str) -> SourceDocument:
    if version not in API_VERSIONS[kind]:
        prefix = f"{place}: " if place else ""
        expected = " or ".join(API_VERSIONS[kind])
        raise ConfigurationError(f"{prefix}apiVersion: {show(version)} of a {kind} is not allowed: expected {expected}")
    content = {name: value for name, value in document.items() if name not in ("kind", "apiVersion", "metadata")}
    return SourceDocument(kind=kind, api_version=version, place=place, content=_without_nulls(content))


def _without_nulls(value: Any) -> Any:
    """The value without its null fields, which count as absent."""
    if isinstance(value, dict):
        return {name: _without_nulls(each) for name, each in value.items() if each is not None}
    return [_without_nulls(each) for each in value] if isinstance(value, list) else value
