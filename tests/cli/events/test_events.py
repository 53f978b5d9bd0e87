"""`equipoise events`: the page and the AsyncAPI document."""

import asyncio
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import nats
import pytest
import yaml
from bus_worlds import PATIENCE, nats_world
from click.testing import CliRunner
from flow.loop import INTERVAL, Loop, settled

from equipoise.cli.events.asyncapi import address_of, name_of
from equipoise.cli.main import main
from equipoise.contracts.bus.channels import CHANNELS
from equipoise.contracts.bus.subjects import ALL_SERVICES, matches
from equipoise.contracts.messages.eviction import EvictionOutcome, Outcome

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "events.md"
DOCUMENT: dict[str, Any] = yaml.safe_load((ROOT / "docs" / "asyncapi.yaml").read_text())


@pytest.mark.parametrize(("arguments", "file"), [((), "events.md"), (("-o", "asyncapi"), "asyncapi.yaml")])
def test_the_files_in_docs_are_up_to_date(arguments: tuple[str, ...], file: str) -> None:
    """Update them with `equipoise events > docs/events.md` and `equipoise events -o asyncapi > docs/asyncapi.yaml`."""
    generated = CliRunner().invoke(main, ["events", *arguments], catch_exceptions=False).stdout

    assert generated == (ROOT / "docs" / file).read_text()


def test_the_document_is_a_valid_asyncapi_document() -> None:
    """By the official JSON Schema of AsyncAPI 3.0.0; every reference can be resolved."""
    schema = json.loads((ROOT / "tests" / "data" / "asyncapi" / "3.0.0.json").read_text())

    jsonschema.validate(DOCUMENT, schema)
    for reference in references(DOCUMENT):
        found: Any = DOCUMENT
        for step in reference.removeprefix("#/").split("/"):
            found = found[step]


def references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        for inner in value.values():
            yield from references(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from references(inner)


def test_an_invalid_document_is_rejected() -> None:
    """By the same JSON Schema."""
    schema = json.loads((ROOT / "tests" / "data" / "asyncapi" / "3.0.0.json").read_text())
    wrong = json.loads(json.dumps(DOCUMENT))
    wrong["operations"]["collector.publishes.utilization.node"]["action"] = "shout"

    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(wrong, schema)


def test_the_operations_are_those_of_the_channels() -> None:
    """Every service sends what it publishes and receives its subscriptions and requests, and nothing else."""
    documented = {
        (service, operation["action"], operation["channel"]["$ref"].removeprefix("#/channels/"))
        for name, operation in DOCUMENT["operations"].items()
        for service in [name.split(".")[0]]
    }
    table = {(service, "send", name_of(channel)) for channel in CHANNELS for service in channel.publishers}
    table |= {
        (service, "receive", name_of(channel))
        for channel in CHANNELS
        for service in (*channel.subscribers, *channel.observers, *filter(None, [channel.responder]))
    }

    assert table == documented
    assert {service for service, _, _ in documented} == set(ALL_SERVICES)
    for channel in CHANNELS:
        assert matches(channel.pattern, re.sub(r"\{\w+\}", "x", address_of(channel)))
        assert len(channel.tokens) == len(re.findall(r"[*>]", channel.pattern))


def test_every_channel_has_an_example_and_a_section_on_the_page() -> None:
    """The example has the channel's subject and message, and can be decoded."""
    text = PAGE.read_text()

    for channel in CHANNELS:
        subject, message = channel.example
        assert matches(channel.pattern, subject)
        assert message == msgspec.json.decode(msgspec.json.encode(message), type=channel.message)
        assert f"## {name_of(channel)}\n" in text
        assert f"`{address_of(channel)}`" in text
        assert subject in text


def validate(kind: str, payload: bytes) -> None:
    schema = {"components": DOCUMENT["components"], "$ref": f"#/components/schemas/{kind}"}
    jsonschema.validate(json.loads(payload), schema, cls=jsonschema.Draft202012Validator)


def test_examples_match_the_schemas() -> None:
    """Each message and each response."""
    for channel in CHANNELS:
        validate(channel.message.__name__, msgspec.json.encode(channel.example[1]))
        if channel.response is not None:
            validate(channel.response.__name__, msgspec.json.encode(channel.response_example))


async def test_published_messages_match_the_schemas() -> None:
    """All messages of the five services until a pod is evicted."""
    loop = Loop()
    async with loop.running():
        await loop.until(lambda: bool(settled(loop, Outcome.EVICTED)), limit=10 * INTERVAL)
        published = [(subject, payload) for subject, payload, _ in loop.bus._history]
    channels = set()
    for subject, payload in published:
        channel = next(channel for channel in CHANNELS if matches(channel.pattern, subject))
        channels.add(name_of(channel))
        validate(channel.message.__name__, payload)

    assert {"utilization.node", "placement.node", "eviction.intent", "eviction.outcome", "annotation"} <= channels


async def test_the_python_example_of_the_page_works(tmp_path: Path) -> None:
    """It prints an outcome from a real server."""
    block = re.search(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert block is not None
    subject, outcome = next(channel.example for channel in CHANNELS if channel.message is EvictionOutcome)
    printed: asyncio.Queue[tuple[Any, ...]] = asyncio.Queue()
    async with nats_world(tmp_path) as world:
        lines = block[1].replace("nats://127.0.0.1:4222", world.settings.url).splitlines()
        body = "".join(f"    {line}\n" for line in lines)
        scope: dict[str, Any] = {"nats": nats, "print": lambda *words: printed.put_nowait(words)}
        exec(f"async def example():\n{body}", scope)
        subscribed = asyncio.create_task(scope["example"]())
        async with asyncio.timeout(PATIENCE):
            while printed.empty():
                await world.bus.publish(subject, outcome)
                await asyncio.sleep(0.02)
        subscribed.cancel()
        await asyncio.wait([subscribed])
        printed_subject, time, text = printed.get_nowait()

    assert 3 == len(lines)
    assert subject == printed_subject
    assert time.endswith("+00:00")
    assert "evicted" == json.loads(text)["outcome"]
