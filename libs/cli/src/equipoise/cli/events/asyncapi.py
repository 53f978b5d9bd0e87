"""The bus as an AsyncAPI 3 document: its channels are subjects, its schemas are message classes."""

import inspect
import re
from collections.abc import Iterable
from importlib.metadata import version as distribution_version
from typing import Any

import msgspec
import yaml

from equipoise.contracts.bus.channels import CHANNELS, Channel
from equipoise.contracts.bus.streams import Stream, stream_of
from equipoise.contracts.bus.subjects import ALL_SERVICES, PREFIX
from equipoise.contracts.configuration.field_docs import field_docstrings

Document = dict[str, Any]

SCHEMAS = "#/components/schemas/"

MICRO_QUEUE = "q"
"""The queue group of NATS micro services."""

TITLE = "Equipoise"
DESCRIPTION = """\
The JSON messages of Equipoise's services on NATS. A plain subscription to `equipoise.>` receives all of them;
docs/events.md shows how, with an example of each message. Later versions only add fields: ignore unknown ones. Fields
that end in `_at` are Unix seconds; usage is cores and bytes; load is a share (0..1) of a node; an unknown value is null
or absent, never 0. Dots in names are written `_` in subjects."""


def asyncapi_yaml() -> str:
    """The text of docs/asyncapi.yaml."""
    document = asyncapi(distribution_version("equipoise-common"))
    return "# Made by `equipoise events -o asyncapi`; do not edit.\n" + yaml.safe_dump(
        document, sort_keys=False, allow_unicode=True, width=120
    )


def asyncapi(version: str) -> Document:
    """The document. `version`: the version of the program."""
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": TITLE,
            "version": version,
            "description": " ".join(DESCRIPTION.split()),
            "license": {"name": "Apache-2.0", "url": "https://www.apache.org/licenses/LICENSE-2.0.html"},
            "tags": [{"name": service} for service in ALL_SERVICES],
        },
        "defaultContentType": "application/json",
        "servers": {
            "nats": {
                "host": "{host}:4222",
                "protocol": "nats",
                "variables": {"host": {"default": "127.0.0.1", "description": "The host of `nats.url`."}},
            }
        },
        "channels": _channels(),
        "operations": dict(operation for channel in CHANNELS for operation in _operations(channel)),
        "components": {"messages": _messages(), "schemas": _schemas()},
    }


def name_of(channel: Channel[Any]) -> str:
    """The fixed part of the subject of a channel, for example `utilization.node`."""
    return channel.pattern.removeprefix(f"{PREFIX}.").rstrip(".*>")


def address_of(channel: Channel[Any]) -> str:
    """The subject of a channel with named parameters, for example `equipoise.utilization.node.{node}`."""
    tokens = iter(channel.tokens)
    return re.sub(r"[*>]", lambda _: "{" + next(tokens) + "}", channel.pattern)


def _channels() -> Document:
    channels: Document = {}
    for channel in CHANNELS:
        name = name_of(channel)
        kind = channel.message.__name__
        described: Document = {
            "address": address_of(channel),
            "description": summary_of(channel.message),
            "messages": {kind: {"$ref": f"#/components/messages/{kind}"}},
            "x-nats-subject": channel.pattern,
        }
        if channel.tokens:
            described["parameters"] = {token: {"description": _token(channel, token)} for token in channel.tokens}
        if (stream := stream_of(channel.pattern)) is not None:
            described["x-nats-stream"] = _stream(stream)
        channels[name] = described
        if channel.response is not None:
            response = channel.response.__name__
            channels[f"{name}.response"] = {
                "address": None,
                "description": summary_of(channel.response),
                "messages": {response: {"$ref": f"#/components/messages/{response}"}},
            }
    return channels


def _token(channel: Channel[Any], token: str) -> str:
    if channel.pattern.endswith(".>") and token == channel.tokens[-1]:
        return f"One or more tokens: the {token}."
    return f"The {token}, one token with its dots written as _."


def _stream(stream: Stream) -> Document:
    """How JetStream retains messages, with the default age."""
    policy = "work queue" if stream.work_queue else "last per subject" if stream.last_per_subject else "all"
    described: Document = {"name": stream.name, "storage": "file", "retention": policy}
    if stream.max_age is not None:
        described["maxAgeSeconds"] = stream.max_age
    if stream.max_bytes is not None:
        described["maxBytes"] = stream.max_bytes
    if stream.max_message_bytes is not None:
        described["maxMessageBytes"] = stream.max_message_bytes
    return described


def _operations(channel: Channel[Any]) -> Iterable[tuple[str, Document]]:
    """The operations of each service on this channel."""
    name = name_of(channel)
    for service in channel.publishers:
        yield f"{service}.publishes.{name}", _operation("send", name, service)
    for service in (*channel.subscribers, *channel.observers):
        yield f"{service}.subscribes.{name}", _operation("receive", name, service)
    if channel.responder is not None and channel.response is not None:
        responding = _operation("receive", name, channel.responder)
        responding["bindings"] = {"nats": {"queue": MICRO_QUEUE, "bindingVersion": "0.1.0"}}
        responding["reply"] = {
            "address": {"description": "The reply subject of the request.", "location": "$message.header#/reply-to"},
            "channel": {"$ref": f"#/channels/{name}.response"},
        }
        yield f"{channel.responder}.responds.{name}", responding


def _operation(action: str, channel: str, service: str) -> Document:
    return {"action": action, "channel": {"$ref": f"#/channels/{channel}"}, "tags": [{"name": service}]}


def _kinds() -> list[type[msgspec.Struct]]:
    """Every message and response once, in the order of CHANNELS."""
    kinds = (kind for channel in CHANNELS for kind in (channel.message, channel.response) if kind is not None)
    return list(dict.fromkeys(kinds))


def _messages() -> Document:
    examples = {channel.message: channel.example[1] for channel in CHANNELS}
    examples |= {type(response): response for channel in CHANNELS if (response := channel.response_example) is not None}
    return {
        kind.__name__: {
            "name": kind.__name__,
            "summary": summary_of(kind),
            "contentType": "application/json",
            "headers": {"$ref": f"{SCHEMAS}Headers"},
            "payload": {"$ref": f"{SCHEMAS}{kind.__name__}"},
            "examples": [{"payload": msgspec.to_builtins(examples[kind])}],
        }
        for kind in _kinds()
    }


def _schemas() -> Document:
    _, components = msgspec.json.schema_components(_kinds(), ref_template=SCHEMAS + "{name}")
    classes = _structs(_kinds())
    for name, schema in components.items():
        if (kind := classes.get(name)) is not None:
            _explain(schema, kind)
    return {"Headers": _HEADERS, **dict(sorted(components.items()))}


def _structs(kinds: Iterable[type[msgspec.Struct]]) -> dict[str, type[msgspec.Struct]]:
    """These classes and the classes of their fields, by name."""
    structs: dict[str, type[msgspec.Struct]] = {}
    pending: list[msgspec.inspect.Type] = list(msgspec.inspect.multi_type_info(kinds))
    while pending:
        match pending.pop():
            case msgspec.inspect.StructType(cls=kind, fields=fields) if kind.__name__ not in structs:
                structs[kind.__name__] = kind
                pending += [field.type for field in fields]
            case msgspec.inspect.ListType(item_type=item):
                pending.append(item)
            case msgspec.inspect.DictType(value_type=value):
                pending.append(value)
            case msgspec.inspect.UnionType(types=members):
                pending += members
    return structs


def _explain(schema: Document, kind: type[msgspec.Struct]) -> None:
    """Add the docstrings of the fields. Keys beside a `$ref` are ignored, so the reference is wrapped."""
    schema.pop("title", None)
    texts: dict[str, str] = {}
    for parent in reversed(kind.__mro__):
        if parent.__module__ == kind.__module__:
            texts |= field_docstrings(parent)
    for name, field_schema in schema.get("properties", {}).items():
        if reference := field_schema.pop("$ref", None):
            field_schema["allOf"] = [{"$ref": reference}]
        if name in texts:
            field_schema["description"] = " ".join(texts[name].split())


def summary_of(kind: type[msgspec.Struct]) -> str:
    """The first paragraph of the docstring of a message, without the NATS subject at its beginning."""
    text = " ".join(inspect.cleandoc(kind.__doc__ or "").split("\n\n")[0].split())
    text = re.sub(r"^`[^`]*`(?: and `[^`]*`)?(?:, |: )", "", text)
    return text[:1].upper() + text[1:]


_HEADERS: Document = {
    "type": "object",
    "description": "CloudEvents in binary mode, W3C trace context, and the id that JetStream deduplicates by.",
    "required": [
        "Nats-Msg-Id",
        "ce-specversion",
        "ce-id",
        "ce-source",
        "ce-subject",
        "ce-type",
        "ce-time",
        "traceparent",
    ],
    "properties": {
        "Nats-Msg-Id": {"type": "string", "description": "The same as ce-id."},
        "Nats-TTL": {"type": "string", "description": "Only of the removal of a node: for how long it is kept."},
        "ce-specversion": {"const": "1.0"},
        "ce-id": {"type": "string"},
        "ce-source": {"type": "string", "description": "/equipoise/<service>"},
        "ce-subject": {
            "type": "string",
            "description": "The subject for which it was published. Services skip it on any other one.",
        },
        "ce-type": {"type": "string", "description": "dev.equipoise.<name of the message>.v1"},
        "ce-time": {"type": "string", "format": "date-time", "description": "Time of publication, UTC."},
        "ce-datacontenttype": {"const": "application/json"},
        "traceparent": {
            "type": "string",
            "pattern": "^00-[0-9a-f]{32}-[0-9a-f]{16}-01$",
            "description": "Passed on from a message to the message that it causes: from an intent to its outcome.",
        },
    },
}
