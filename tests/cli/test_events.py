"""What can be heard on the bus, as a page and as an AsyncAPI document: true, complete, and not fallen behind."""

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
from equipoise.contracts.bus.subjects import SERVICES, matches
from equipoise.contracts.messages.eviction import EvictionOutcome, Outcome

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "events.md"
DOCUMENT: dict[str, Any] = yaml.safe_load((ROOT / "docs" / "asyncapi.yaml").read_text())


@pytest.mark.parametrize(("arguments", "file"), [((), "events.md"), (("-o", "asyncapi"), "asyncapi.yaml")])
def test_what_stands_in_docs_is_what_the_code_says(arguments: tuple[str, ...], file: str) -> None:
    """Mend it with `equipoise events > docs/events.md` and `equipoise events -o asyncapi > docs/asyncapi.yaml`."""
    made = CliRunner().invoke(main, ["events", *arguments], catch_exceptions=False).stdout

    assert made == (ROOT / "docs" / file).read_text()


def test_the_document_is_a_valid_asyncapi_document() -> None:
    """By the official JSON Schema of AsyncAPI 3.0.0, and every reference in it leads somewhere."""
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


def test_a_document_with_a_fault_is_refused() -> None:
    """The schema that it is held to does find faults."""
    schema = json.loads((ROOT / "tests" / "data" / "asyncapi" / "3.0.0.json").read_text())
    wrong = json.loads(json.dumps(DOCUMENT))
    wrong["operations"]["collector.says.utilization.node"]["action"] = "shout"

    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(wrong, schema)


def test_the_operations_are_those_of_the_table() -> None:
    """Every service sends what it says and receives what it hears, and nothing else; addresses have their tokens."""
    told = {
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

    assert table == told
    assert {service for service, _, _ in told} == set(SERVICES)
    for channel in CHANNELS:
        assert matches(channel.pattern, re.sub(r"\{\w+\}", "x", address_of(channel)))
        assert len(channel.tokens) == len(re.findall(r"[*>]", channel.pattern))


def test_every_subject_has_an_example_and_a_place_on_the_page() -> None:
    """An example is on its subject, of its message, and reads back as itself."""
    text = PAGE.read_text()

    for channel in CHANNELS:
        subject, message = channel.example
        assert matches(channel.pattern, subject)
        assert type(message) is channel.message
        assert message == msgspec.json.decode(msgspec.json.encode(message), type=channel.message)
        assert f"## {name_of(channel)}\n" in text
        assert f"`{address_of(channel)}`" in text
        assert subject in text
        assert type(channel.response_example) is (channel.response or type(None))


def valid(kind: str, payload: bytes) -> None:
    schema = {"components": DOCUMENT["components"], "$ref": f"#/components/schemas/{kind}"}
    jsonschema.validate(json.loads(payload), schema, cls=jsonschema.Draft202012Validator)


def test_examples_are_as_the_schemas_say() -> None:
    """Each example, and each answer, by the schema of its message."""
    for channel in CHANNELS:
        valid(channel.message.__name__, msgspec.json.encode(channel.example[1]))
        if channel.response is not None:
            valid(channel.response.__name__, msgspec.json.encode(channel.response_example))


async def test_what_the_services_really_say_is_as_the_schemas_say() -> None:
    """Everything that five services say until a pod was moved."""
    loop = Loop()
    async with loop.running():
        await loop.until(lambda: bool(settled(loop, Outcome.EVICTED)), at_most=10 * INTERVAL)
        said = [(subject, payload) for subject, payload, _ in loop.bus._history]
    heard = set()
    for subject, payload in said:
        channel = next(channel for channel in CHANNELS if matches(channel.pattern, subject))
        heard.add(name_of(channel))
        valid(channel.message.__name__, payload)

    assert {"utilization.node", "placement.node", "eviction.intent", "eviction.outcome", "annotation"} <= heard


async def test_the_three_lines_of_python_work(tmp_path: Path) -> None:
    """The block on the page, against a real server, prints an outcome."""
    block = re.search(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert block is not None
    subject, outcome = next(channel.example for channel in CHANNELS if channel.message is EvictionOutcome)
    printed: asyncio.Queue[tuple[Any, ...]] = asyncio.Queue()
    async with nats_world(tmp_path) as world:
        lines = block[1].replace("nats://127.0.0.1:4222", world.settings.url).splitlines()
        body = "".join(f"    {line}\n" for line in lines)
        scope: dict[str, Any] = {"nats": nats, "print": lambda *words: printed.put_nowait(words)}
        exec(f"async def example():\n{body}", scope)
        listening = asyncio.create_task(scope["example"]())
        async with asyncio.timeout(PATIENCE):
            while printed.empty():
                await world.bus.publish(subject, outcome)
                await asyncio.sleep(0.02)
        listening.cancel()
        await asyncio.wait([listening])
        said_on, said_at, text = printed.get_nowait()

    assert 3 == len(lines)
    assert subject == said_on
    assert said_at.endswith("+00:00")
    assert "evicted" == json.loads(text)["outcome"]
