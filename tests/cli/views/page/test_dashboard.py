"""`equipoise dashboard`: its HTTP server, without a browser."""

import asyncio
import hashlib
import json
import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession, ClientTimeout, TCPConnector
from builders import NOW, a_node_utilization, a_placed_pod, a_placement
from bus_worlds import eventually, free_port
from cli.buses import Bus
from cli.live_pages import ShownCluster, publish, shown_page
from cli.programs import invoke, run, started
from cli.views.test_live_state import a_decision, an_outcome

from equipoise.cli.exit_codes import TERMINATED
from equipoise.cli.views.page.dashboard import allowed_hosts, is_local
from equipoise.cli.views.page.page_server import CONTENT_SECURITY_POLICY, FILES, host_of
from equipoise.cli.views.page.viewers import MAX_KEPT, MAX_VIEWERS, MAX_VIEWERS_PER_ADDRESS, MAX_WAITING, Viewers
from equipoise.contracts.bus.subjects import PLAN_CONSOLIDATION
from equipoise.contracts.messages.consolidation import (
    CONSOLIDATION_REQUEST,
    CONSOLIDATION_RESPONSE,
    ConsolidationRequest,
    ConsolidationResponse,
)
from equipoise.runtime.bus import Endpoint, connect
from equipoise.runtime.process.clock import SystemClock

NODES = 12
PAGE = Path(__file__).parents[4] / "libs/cli/page"


class Page:
    """A page on a real port, and a client."""

    def __init__(self, url: str, cluster: ShownCluster, viewers: Viewers, http: ClientSession) -> None:
        self.url, self.cluster, self.viewers, self.http = url, cluster, viewers, http

    async def get(self, path: str, **headers: str) -> tuple[int, str, Any]:
        async with self.http.get(self.url + path, headers=headers) as response:
            return response.status, await response.text(), response.headers

    @asynccontextmanager
    async def watching(self, path: str = "events", **headers: str) -> AsyncIterator["Stream"]:
        async with self.http.get(self.url + path, headers=headers) as response:
            assert response.status == 200
            yield Stream(response)

    def change(self, number: int = 1) -> None:
        self.cluster.measure(NOW + number, level=1.0)
        publish(self.cluster, self.viewers)


class Stream:
    def __init__(self, response: Any) -> None:
        self._response = response

    async def next(self) -> tuple[str, str, Any]:
        """Kind, id and content of the next event; kind "comment" for a comment."""
        async with asyncio.timeout(60):
            block = b""
            while not block.endswith(b"\n\n"):
                line = await self._response.content.readline()
                assert line, "the stream has ended"
                block += line
        if block.startswith(b":"):
            return "comment", "", None
        fields = dict(line.split(": ", 1) for line in block.decode().strip().split("\n"))
        return fields["event"], fields["id"], json.loads(fields["data"])


@asynccontextmanager
async def a_page(cluster: ShownCluster | None = None, **settings: Any) -> AsyncIterator[Page]:
    cluster = cluster or ShownCluster(NODES, NOW)
    async with (
        shown_page(cluster, **settings) as (url, viewers),
        ClientSession(connector=TCPConnector(limit=0), timeout=ClientTimeout(total=60), read_bufsize=2**22) as http,
    ):
        yield Page(url, cluster, viewers, http)


@pytest.mark.parametrize("path", ["", "app.js", "app.css", "licenses.txt", "before?at=0", "healthz", "nowhere"])
async def test_every_response_forbids_foreign_content(path: str) -> None:
    """Also errors. Nothing is stored."""
    async with a_page() as page:
        _, _, headers = await page.get(path)

    assert CONTENT_SECURITY_POLICY == headers["Content-Security-Policy"]
    assert ("nosniff", "no-store", "no-referrer") == tuple(
        headers[name] for name in ("X-Content-Type-Options", "Cache-Control", "Referrer-Policy")
    )


def test_the_page_names_no_foreign_address() -> None:
    """No script, style or font of another server. The namespace of SVG is no address."""
    for file, _ in FILES.values():
        if file != "licenses.txt":
            text = files("equipoise.cli.views.page").joinpath("static", file).read_text()
            assert {"http://www.w3.org"} >= set(re.findall(r"https?://[\w.-]+", text)), file


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8765", "127.0.0.1.evil.example", "[::2]:8765", ""])
async def test_another_host_is_misdirected(host: str) -> None:
    """A foreign name that resolves to this address (DNS rebinding) must not read the cluster."""
    async with a_page() as page:
        for path in ("", "events", "before?at=0", "explain/node?name=node-01"):
            status, text, _ = await page.get(path, Host=host)
            assert (421 if host else 400) <= status <= 421, text
            assert "node-" not in text


@pytest.mark.parametrize("path", ["healthz", "readyz"])
async def test_probes_may_use_any_host(path: str) -> None:
    """The kubelet addresses a pod by its IP, which nobody knows before."""
    async with a_page() as page:
        status, _, _ = await page.get(path, Host="10.1.2.3:8765")

    assert 200 == status


@pytest.mark.parametrize("host", ["localhost:8765", "127.0.0.1", "[::1]:8765", "LOCALHOST"])
async def test_the_names_of_this_machine_are_allowed(host: str) -> None:
    """With any port: a port-forward may have another one."""
    async with a_page() as page:
        status, _, _ = await page.get("before?at=0", Host=host)

    assert 200 == status


def test_hosts_are_read_without_their_port() -> None:
    """Further ones are those that the user allows, and the address that is listened on."""
    assert ["::1", "name", "10.0.0.1"] == [host_of(each) for each in ("[::1]:80", "NAME", "10.0.0.1:8765")]
    assert {"page.example", "10.0.0.1", "localhost"} <= allowed_hosts("10.0.0.1", ["Page.Example"])
    assert "" not in allowed_hosts("", [])
    assert [True, True, False, False] == [is_local(each) for each in ("127.0.0.2", "::1", "0.0.0.0", "")]


async def test_requests_of_other_sites_are_refused() -> None:
    """They could not read the response, but would cost the scorer an explanation each."""
    async with a_page() as page:
        foreign = await page.get("explain/node?name=node-01.example.com", **{"Sec-Fetch-Site": "cross-site"})
        own = await page.get("explain/node?name=node-01.example.com", **{"Sec-Fetch-Site": "same-origin"})

    assert (403, 200) == (foreign[0], own[0])


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
async def test_nothing_can_be_written(method: str) -> None:
    """There is no other method than GET and HEAD."""
    async with a_page() as page:
        for path in ("", "events", "before", "explain/node", "healthz"):
            async with page.http.request(method, page.url + path) as response:
                assert 405 == response.status


async def test_a_browser_gets_a_snapshot_and_then_what_changed() -> None:
    """A change has only the nodes whose load differs."""
    async with a_page() as page, page.watching() as stream:
        kind, first, snapshot = await stream.next()
        page.change()
        next_kind, second, change = await stream.next()

    assert ("snapshot", "run-0", "change", "run-1") == (kind, first, next_kind, second)
    assert NODES == len(snapshot["nodes"])
    assert {"moves", "points", "summary", "plan", "savings", "limits", "connection"} <= snapshot.keys()
    assert 0 < len(change["nodes"]) < NODES
    assert "plan" not in change


async def test_a_browser_that_connects_again_gets_what_it_missed() -> None:
    """By the header of EventSource, or the parameter of the page."""
    async with a_page() as page:
        for number in (1, 2, 3):
            page.change(number)
        async with page.watching(**{"Last-Event-ID": "run-1"}) as stream:
            missed = [await stream.next() for _ in range(2)]
        async with page.watching("events?last=run-3") as stream:
            page.change(4)
            following = await stream.next()

    assert [("change", "run-2"), ("change", "run-3")] == [each[:2] for each in missed]
    assert ("change", "run-4") == following[:2]


@pytest.mark.parametrize(
    "last", ["run-9", "another-1", "nonsense", "run--1", "run-", "-", "run-1" * 200, "run-" + "9" * 5_000]
)
async def test_an_unknown_event_id_gives_a_snapshot(last: str) -> None:
    """Of the future, of another run, or no id at all."""
    async with a_page() as page:
        page.change()
        async with page.watching(**{"Last-Event-ID": last}) as stream:
            kind, id, _ = await stream.next()

    assert ("snapshot", "run-1") == (kind, id)


async def test_a_browser_that_slept_for_an_hour_gets_a_snapshot() -> None:
    """Not the changes of an hour: only a few are kept."""
    async with a_page() as page:
        page.change()
        for number in range(3_600):
            page.viewers.publish(b'{"removed":["%d"]}' % number)
        async with page.watching(**{"Last-Event-ID": "run-1"}) as stream:
            kind, id, snapshot = await stream.next()

        assert ("snapshot", "run-3601", NODES) == (kind, id, len(snapshot["nodes"]))
        assert MAX_KEPT == len(page.viewers._kept)


async def test_an_idle_stream_gets_comments() -> None:
    """So that proxies do not close it."""
    async with a_page(comment_seconds=0.01) as page, page.watching() as stream:
        await stream.next()

        assert "comment" == (await stream.next())[0]


async def test_a_browser_that_does_not_read_is_dropped() -> None:
    """The others receive everything."""
    async with a_page(write_seconds=0.2) as page:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(page.url.split(":")[-1].strip("/")), limit=1)
        writer.write(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await eventually(lambda: len(page.viewers) == 1)
        async with page.watching() as stream:
            await stream.next()
            await eventually(lambda: len(page.viewers) == 2)
            sent = 0
            while len(page.viewers) == 2:
                sent += 1
                page.viewers.publish(b'{"removed":["%s"]}' % (b"x" * 2**20))
                assert "change" == (await stream.next())[0]
                assert sent < 200, "a browser that reads nothing is still served"
            page.change()
            assert "change" == (await stream.next())[0]
        writer.close()
        del reader


def test_a_viewer_with_too_many_waiting_changes_is_dropped() -> None:
    """It costs a bounded amount of memory."""
    viewers = Viewers("run", lambda: b"{}")
    viewer = viewers.open("", "127.0.0.1")
    assert viewer is not None

    for _ in range(MAX_WAITING):
        viewers.publish(b"{}")

    assert viewer.dropped


async def test_a_hundred_browsers_watch_at_once() -> None:
    """All see the same change. The snapshot is made once."""
    async with a_page() as page, AsyncExitStack() as stack:
        made = 0
        snapshot = page.viewers._snapshot

        def counted() -> bytes:
            nonlocal made
            made += 1
            return snapshot()

        page.viewers._snapshot = counted
        streams = [await stack.enter_async_context(page.watching()) for _ in range(100)]
        first = await asyncio.gather(*(stream.next() for stream in streams))
        page.change()
        changes = await asyncio.gather(*(stream.next() for stream in streams))

        assert ({"snapshot"}, {"run-1"}, 1) == ({each[0] for each in first}, {each[1] for each in changes}, made)


async def test_too_many_browsers_are_sent_away_for_a_while() -> None:
    """Memory is bounded."""
    async with a_page() as page:
        for number in range(MAX_VIEWERS):
            page.viewers.open("", f"10.0.0.{number}")
        status, _, headers = await page.get("events")

    assert (503, "30") == (status, headers["Retry-After"])


def test_the_browsers_of_one_address_leave_places_to_others() -> None:
    """An address gets 125 of 250 places."""
    viewers = Viewers("run", lambda: b"{}")
    opened = [viewers.open("", "10.0.0.1") for _ in range(MAX_VIEWERS)]

    assert sum(viewer is not None for viewer in opened) == MAX_VIEWERS_PER_ADDRESS
    assert viewers.open("", "10.0.0.2") is not None
    assert opened[0] is not None
    viewers.close(opened[0])
    assert viewers.open("", "10.0.0.1") is not None


async def test_the_loads_of_before_are_those_of_that_time() -> None:
    """The oldest known if there is nothing older."""
    async with a_page() as page:
        _, oldest, _ = await page.get("before?at=0")
        _, hour, _ = await page.get(f"before?at={NOW - 3600}")
        wrong, text, _ = await page.get("before?at=yesterday")

    assert NOW - 7_200 == json.loads(oldest)["at"]
    assert NOW - 3_900 < json.loads(hour)["at"] <= NOW - 3_600
    assert NODES == len(json.loads(hour)["loads"])
    assert (400, "at='yesterday' is no time: use Unix seconds\n") == (wrong, text)


async def test_a_click_shows_what_explain_prints() -> None:
    """With the pods and the load of a node, the pods of a workload."""
    async with a_page() as page:
        node, pod, workload = [
            json.loads((await page.get(f"explain/{kind}?name={name}"))[1])
            for kind, name in (
                ("node", "node-01.example.com"),
                ("pod", "shop/web-6c8d9f-0010"),
                ("workload", "Deployment/shop/web"),
            )
        ]

    assert "policy " in node["text"]
    assert (8, "node-01.example.com") == (len(node["pods"]), node["row"][0])
    assert "equipoise explain node node-01.example.com" == node["command"]
    assert "policy " in pod["text"]
    assert {f"node-{number:02d}.example.com" for number in range(NODES)} == {each["node"] for each in workload["pods"]}


@pytest.mark.parametrize(
    ("path", "status", "text"),
    [
        ("explain/pod?name=web", 400, "'web' is not a pod"),
        ("explain/secret?name=a/b", 400, "'secret' cannot be explained: node, pod, workload, eviction can"),
        ("explain/node?name=elsewhere", 200, "this node is not known"),
        ("explain/eviction?name=web", 400, "'web' is not a pod"),
        ("explain/workload?name=Deployment/shop/none", 200, "no pod of this workload is known"),
    ],
)
async def test_what_cannot_be_explained_says_why(path: str, status: int, text: str) -> None:
    """A name that is wrong is an error of the request, an object that is unknown is none."""
    async with a_page() as page:
        found = await page.get(path)

    assert status == found[0]
    assert text in found[1]


def test_the_built_page_is_that_of_the_sources() -> None:
    """`npm run build` in libs/cli/page writes it; this needs no Node."""
    sources = ["package.json", "build.mjs", *(f"src/{file.name}" for file in sorted((PAGE / "src").iterdir()))]
    digest = hashlib.sha256()
    for name in sources:
        digest.update(f"{name}\0".encode() + (PAGE / name).read_bytes() + b"\0")
    for file in ("app.js", "app.css"):
        built = files("equipoise.cli.views.page").joinpath("static", file).read_text()
        assert digest.hexdigest() in built[:400], f"{file} is older than its sources: cd libs/cli/page && npm run build"
    assert (PAGE / "src/index.html").read_text() == files("equipoise.cli.views.page").joinpath(
        "static", "index.html"
    ).read_text()


async def test_the_command_serves_what_is_on_the_bus(bus: Bus) -> None:
    """As the user tap, whose rights suffice. It handles SIGTERM: as the first process of a container it must."""
    now = SystemClock().now()
    port = free_port()
    async with connect(bus.settings("descheduler"), "descheduler") as descheduler:
        await descheduler.publish(
            "equipoise.decision.descheduler.low_node_load", a_decision(("node-z", "hot"), evaluated_at=now - 600)
        )
    async with connect(bus.settings("binder"), "binder") as binder:
        await binder.publish("equipoise.eviction.outcome.shop.web-1", an_outcome(decided_at=now - 60, settled_at=now))
    access = ("--nats", bus.url, "--user", "tap", "--password-file", bus.password_file("tap"))
    running = await started("dashboard", "--listen", f"127.0.0.1:{port}", *access, KUBECONFIG="/nowhere")
    address = (await running.prints(r"live page: (http://127\.0\.0\.1:\d+/)"))[1]
    async with ClientSession() as http, http.get(f"{address}events") as response:
        stream, seen = Stream(response), {}
        async with connect(bus.settings("collector"), "collector") as collector:
            while not {"node-z", "node-a"} <= seen.keys():
                await collector.publish(
                    "equipoise.utilization.node.node-a",
                    a_node_utilization(cpu=5.0, queried_at=now, sampled_at=now, epoch=int(now)),
                )
                await collector.publish("equipoise.placement.node.node-a", a_placement(pods=[a_placed_pod()]))
                _, _, changes = await stream.next()
                seen |= {row[0]: row for row in changes.get("nodes", [])} | {
                    move["id"]: move for move in changes.get("moves", [])
                }
    async with ClientSession() as http, http.get(f"{address}readyz") as response:
        assert 200 == response.status
    async with ClientSession() as http, http.get(f"{address}explain/eviction?name=shop/web-1") as response:
        explained = await response.json()
    running.process.terminate()

    assert TERMINATED == await running.ends()
    assert "evicted" in explained["text"]
    assert 0.5 == seen["node-a"][1]
    assert "evicted" == seen["intent-web-1"]["outcome"]


async def test_the_page_asks_the_descheduler_what_could_be_saved(bus: Bus, tmp_path: Path) -> None:
    """With the prices of a file."""
    prices, requests = tmp_path / "prices.yaml", list[ConsolidationRequest]()
    prices.write_text("{currency: EUR, nodes: [{instanceType: m7i.large, perHour: 0.12}]}")

    async def respond(request: ConsolidationRequest) -> ConsolidationResponse:
        requests.append(request)
        return CONSOLIDATION_RESPONSE

    access = ("--nats", bus.url, "--user", "tap", "--password-file", bus.password_file("tap"))
    arguments = ("--listen", f"127.0.0.1:{free_port()}", "--prices", str(prices))
    running = await started("dashboard", *arguments, *access, KUBECONFIG="/nowhere")
    endpoint = Endpoint(subject=PLAN_CONSOLIDATION, request_type=ConsolidationRequest, handler=respond)
    async with connect(bus.settings("descheduler"), "descheduler") as descheduler:
        await descheduler.serve("descheduler", [endpoint])
        address = (await running.prints(r"live page: (http://127\.0\.0\.1:\d+/)"))[1]
        savings: dict[str, Any] = {}
        async with ClientSession() as http, http.get(f"{address}events") as response:
            stream = Stream(response)
            while "emptiable" not in savings:
                _, _, changes = await stream.next()
                savings = changes.get("savings", {})
    running.process.terminate()
    await running.ends()

    assert CONSOLIDATION_REQUEST == requests[0]
    assert (1, "EUR", pytest.approx(87.6)) == (savings["emptiable"], savings["currency"], savings["saved"])


async def test_the_page_begins_with_the_last_message_of_each_node(bus: Bus) -> None:
    """That were published before its start: load, requests and pods are there without waiting for the collector."""
    now, port = SystemClock().now(), free_port()
    async with connect(bus.settings("collector"), "collector") as collector:
        for sequence, cpu in enumerate((2.0, 5.0)):
            await collector.publish(
                "equipoise.utilization.node.node-b",
                a_node_utilization("node-b", cpu=cpu, queried_at=now, sampled_at=now, sequence=sequence),
            )
        await collector.publish("equipoise.placement.node.node-b", a_placement("node-b", [a_placed_pod()]))
    access = ("--nats", bus.url, "--user", "tap", "--password-file", bus.password_file("tap"))
    running = await started("dashboard", "--listen", f"127.0.0.1:{port}", *access, KUBECONFIG="/nowhere")
    await running.prints("live page")
    row: list[object] = []
    async with ClientSession() as http, http.get(f"http://127.0.0.1:{port}/events") as response:
        stream = Stream(response)
        while not row:
            _, _, changes = await stream.next()
            row = next((row for row in changes.get("nodes", []) if row[0] == "node-b"), [])
    running.process.terminate()
    await running.ends()

    assert (0.5, 1) == (row[1], row[6])


async def test_without_a_bus_the_page_says_so() -> None:
    """It is served, and not ready."""
    port = free_port()
    running = await started("dashboard", "--listen", f"127.0.0.1:{port}", "--nats", "nats://127.0.0.1:1")
    await running.prints("live page")
    async with ClientSession() as http:
        async with http.get(f"http://127.0.0.1:{port}/readyz") as response:
            assert 503 == response.status
        async with http.get(f"http://127.0.0.1:{port}/events") as response:
            stream, connection = Stream(response), None
            while connection is None or "127.0.0.1:1" not in connection["problem"]:
                connection = (await stream.next())[2].get("connection") or connection
    running.process.terminate()
    await running.ends()


async def test_an_address_that_is_taken_is_an_error() -> None:
    """It names the option."""
    async with a_page() as page:
        address = page.url.removeprefix("http://").strip("/")
        code, output = await run("dashboard", "--listen", address, "--nats", "nats://127.0.0.1:1")

    assert 1 == code
    assert f"{address} cannot be listened on: " in output
    assert "--listen" in output


def test_an_address_that_is_none_is_invalid_input() -> None:
    """Exit code 2."""
    assert 2 == invoke("dashboard", "--listen", "here").exit_code
