"""The webhook of placement hints: its limits, and what it responds to whoever connects."""

import asyncio
import base64
import io
import json
import ssl
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from annotator.reviews import a_review
from bus_worlds import eventually, free_port
from deployment.base import ROOT
from deployment.kustomize import read_documents
from e2e.running_webhook import RunningWebhook, WebhookFiles, running_webhook

from equipoise.annotator.settings import HintsWebhookSettings
from equipoise.contracts.hints.hints_object import HintsObject
from equipoise.contracts.hints.policy import NAME
from equipoise.contracts.hints.webhook import PODS_PATH, PROBE_KEY, PROBE_PATH
from equipoise.contracts.kubernetes.quantity import parse_quantity
from equipoise.runtime.kubernetes.client import HINTS, Change, Resource
from equipoise.runtime.process.clock import SystemClock
from equipoise.testbed.memory.faults import Call
from equipoise.testbed.memory.kube import MemoryKube

NAMESPACE = "equipoise-system"


class World:
    """A webhook with hints in the namespace shop, and its client."""

    def __init__(self, folder: Path) -> None:
        self.kube = MemoryKube(SystemClock())
        self.files = WebhookFiles(folder, NAMESPACE)
        self.settings = self.files.settings(free_port(), concurrency=4, max_body_bytes=2**20)
        self.put_hints("StatefulSet.db")
        self.webhook: RunningWebhook

    def put_hints(self, *keys: str) -> None:
        document = {
            "metadata": {"name": NAME, "namespace": "shop"},
            "until": "2099-01-01T00:00:00Z",
            "hostnames": ["alpha"],
            "hints": {key: {"prefer": [{"weight": 1, "nodes": [0]}]} for key in keys},
        }
        self.kube.put_json(HINTS, json.dumps(document).encode())

    async def post(self, body: Any, path: str = PODS_PATH, **headers: str) -> tuple[int, Any]:
        """Status, and the decoded response or its text."""
        context = ssl.create_default_context(cafile=str(self.files.folder / "ca.crt"))
        context.check_hostname = False  # it is not reached by the name of its Service
        url = f"https://{self.settings.listen}{path}"
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        async with (
            aiohttp.ClientSession() as session,
            session.post(url, data=io.BytesIO(content), headers=headers, ssl=context) as response,
        ):
            text = await response.text()
        return response.status, json.loads(text) if response.status == 200 else text

    async def patch(self, body: Any, path: str = PODS_PATH) -> list[dict[str, Any]]:
        status, answer = await self.post(body, path)
        assert (200, True) == (status, answer["response"]["allowed"])
        assert body["request"]["uid"] == answer["response"]["uid"]
        patch: list[dict[str, Any]] = json.loads(base64.b64decode(answer["response"].get("patch", "W10=")))
        return patch


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    world = World(tmp_path / "files")
    async with running_webhook(world.kube, world.settings) as world.webhook:
        yield world


async def test_a_pod_gets_the_hint_that_was_written_last(world: World) -> None:
    body = a_review(owner="StatefulSet/cache")
    assert [] == await world.patch(body)
    world.put_hints("StatefulSet.cache")

    async with asyncio.timeout(60):
        while not (patch := await world.patch(body)):
            pass  # each time is a request

    assert "equipoise.dev~1hint" in patch[-1]["path"]
    assert world.webhook.count("hinted") == 1


async def test_hints_of_another_namespace_are_not_given(world: World) -> None:
    assert [] == await world.patch(a_review("other", owner="StatefulSet/db"))
    assert 1 == world.webhook.count("no_hints_in_namespace")


async def test_a_probe_gets_its_hint_without_any_hints(world: World) -> None:
    """It measures the webhook, whatever was written, and is not counted among the pods."""
    patch = await world.patch(a_review(), PROBE_PATH)

    assert f"{PROBE_KEY}@probe" == patch[-1]["value"]
    assert (1, 0) == (world.webhook.count("probe"), world.webhook.count("hinted"))


BROKEN = {
    "nothing": b"",
    "no JSON": b"\xff\xfe",
    "deeply nested": b'{"request":{"uid":"1","object":' + b"[" * 100_000,
    "no request": b"{}",
    "no pod": b'{"request":{"uid":"1","object":null}}',
    "labels that are numbers": b'{"request":{"uid":"1","object":{"metadata":{"labels":{"a":1}}}}}',
    "a time that is none": b'{"request":{"uid":"1","object":{"metadata":{"managedFields":[{"time":"soon"}]}}}}',
}


@pytest.mark.parametrize("body", BROKEN.values(), ids=BROKEN.keys())
async def test_what_cannot_be_read_is_an_error_that_states_why(world: World, body: bytes) -> None:
    """The API server then creates the pod as it is. The next one is served."""
    status, text = await world.post(body)

    assert 400 == status
    assert text.startswith("no AdmissionReview")
    assert 1 == world.webhook.count("unreadable")
    assert await world.patch(a_review(owner="StatefulSet/db"))


async def test_a_request_that_is_too_large_is_not_read(world: World) -> None:
    large = a_review(owner="StatefulSet/db", annotations={"a": "x" * 2**20})
    status, text = await world.post(large)

    assert (413, 1) == (status, world.webhook.count("too_large"))
    assert "1048576 bytes" in text
    assert await world.patch(a_review(owner="StatefulSet/db"))


async def test_a_request_that_does_not_arrive_makes_no_other_wait(world: World) -> None:
    """Takes seconds: its body has one second. More of them than `concurrency` are refused at once."""

    async def stalled() -> tuple[int, int]:
        context = ssl.create_default_context(cafile=str(world.files.folder / "ca.crt"))
        context.check_hostname = False
        host, _, port = world.settings.listen.partition(":")
        reader, writer = await asyncio.open_connection(host, int(port), ssl=context)
        writer.write(f"POST {PODS_PATH} HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{{".encode())
        await writer.drain()
        line = await reader.readline()
        writer.transport.abort()
        return int(line.split()[1]), len(line)

    waiting = [asyncio.create_task(stalled()) for _ in range(2 * world.settings.concurrency)]
    statuses = sorted([(await each)[0] for each in waiting])

    assert {408, 503} == {*statuses}
    assert world.settings.concurrency == statuses.count(408)
    assert await world.patch(a_review(owner="StatefulSet/db"))


async def test_only_reviews_are_served(world: World) -> None:
    assert 404 == (await world.post(a_review(), "/"))[0]


async def test_it_is_ready_when_it_knows_the_hints(tmp_path: Path) -> None:
    """Not before: the Service would lead the API server to a webhook that gives no hints."""
    world = World(tmp_path / "files")
    asked, answer = asyncio.Event(), asyncio.Event()

    async def hold(call: Call) -> None:
        if call.verb == "watch":
            asked.set()
            await answer.wait()

    world.kube.on_call = hold
    starting = running_webhook(world.kube, world.settings)
    entering = asyncio.create_task(starting.__aenter__())
    await asked.wait()
    status, _ = await world.post(a_review(owner="StatefulSet/db"))
    assert (200, False) == (status, entering.done())
    answer.set()

    assert (await entering).health.report().ready
    await starting.__aexit__(None, None, None)


async def test_only_the_hints_of_the_annotators_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Objects with other names, which users may create, take no memory."""
    world = World(tmp_path / "files")
    watch, selectors = world.kube.watch, []

    def watched(resource: Resource[HintsObject], **options: str) -> AsyncGenerator[Change[HintsObject], None]:
        selectors.append(options["field_selector"])
        return watch(resource, **options)

    monkeypatch.setattr(world.kube, "watch", watched)
    async with running_webhook(world.kube, world.settings):
        assert await world.patch(a_review(owner="StatefulSet/db"))

    assert [f"metadata.name={NAME}"] == selectors


def test_the_largest_requests_at_once_fit_into_the_memory() -> None:
    """Twice: one is kept as bytes, and what is read of it."""
    settings = HintsWebhookSettings()
    [program] = [each for each in read_documents(ROOT / "k8s/hints/webhook.yaml") if each["kind"] == "Deployment"]
    [container] = program["spec"]["template"]["spec"]["containers"]
    limit = parse_quantity(container["resources"]["limits"]["memory"])

    assert 2 * settings.concurrency * settings.max_body_bytes <= limit


async def test_hints_that_cannot_be_followed_are_a_problem(world: World) -> None:
    """Those that it knows are given until they expire."""
    world.kube.refuse("watch", status=403, resource=HINTS.plural)
    world.kube.end_watches()

    await eventually(lambda: any("the hints may be outdated" in each for each in world.webhook.health.problems))
    assert world.webhook.health.report().ready
    assert await world.patch(a_review(owner="StatefulSet/db"))
