"""Extenders of `equipoise scheduler`: requests as kube-scheduler makes them, to a real HTTP server."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web
from scheduler.live_schedulers import Live, live_scheduler
from scheduling.pods import a_pod
from structlog.testing import capture_logs

from equipoise.runtime.kubernetes.client import PODS
from equipoise.scheduler.shell.http_extender import extender_client
from equipoise.scheduling.settings.document import InvalidConfiguration
from equipoise.scheduling.settings.extenders import HttpExtender, ManagedResource, TlsSettings

Answer = Callable[[dict[str, Any]], Any]


class Server:
    """An extender. `answers` by verb: the body, or an exception for status 500."""

    def __init__(self) -> None:
        self.answers: dict[str, Answer] = {}
        self.requests: list[tuple[str, dict[str, Any]]] = []
        self.before: Callable[[], Awaitable[None]] | None = None
        self.url = ""
        self.connections = set[str]()

    async def handle(self, request: web.Request) -> web.Response:
        verb, body = request.match_info["verb"], json.loads(await request.read())
        self.requests.append((verb, body))
        assert request.transport is not None
        self.connections.add(str(request.transport.get_extra_info("peername")))
        if self.before is not None:
            await self.before()
        return web.json_response(self.answers[verb](body))

    def pods(self, verb: str) -> list[str]:
        """Names of the pods of the requests."""
        return [
            body["PodName"] if verb == "bind" else body["Pod"]["metadata"]["name"]
            for each, body in self.requests
            if each == verb
        ]


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    server = Server()
    application = web.Application()
    application.router.add_post("/extender/{verb}", server.handle)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    server.url = f"http://127.0.0.1:{runner.addresses[0][1]}/extender"
    yield server
    await runner.cleanup()


@asynccontextmanager
async def extended(server: Server, *, url: str = "", **fields: object) -> AsyncIterator[Live]:
    """With two nodes of four cores."""
    entry = {"urlPrefix": url or server.url, "nodeCacheCapable": True, **fields}
    text = json.dumps(
        {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "extenders": [entry],
        }
    )
    async with live_scheduler(configuration=text) as live:
        live.add_node("node-1", cpu="4")
        live.add_node("node-2", cpu="4")
        yield live


async def until(live: Live, condition: Callable[[], object]) -> None:
    """Requests are made in a thread, which the clock of the test does not know."""
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.005)
            await live.settle()


async def test_the_nodes_that_pass_and_their_scores_decide(server: Server) -> None:
    server.answers["filter"] = lambda body: {"NodeNames": ["node-2"], "FailedNodes": {"node-1": "no license"}}
    server.answers["prioritize"] = lambda body: [{"Host": "node-1", "Score": 10}]
    async with extended(server, filterVerb="filter", prioritizeVerb="prioritize", weight=5) as live:
        live.add_pod("web")
        await until(live, lambda: live.node_of("web"))
        assert "node-2" == live.node_of("web")
        assert ["filter"] == [verb for verb, _ in server.requests], "one node is left: nothing to score"

        server.answers["filter"] = lambda body: {"NodeNames": body["NodeNames"]}
        live.add_pod("api")
        await until(live, lambda: live.node_of("api"))
        assert "node-1" == live.node_of("api")
    (_, body), *_ = server.requests
    assert {"node-1", "node-2"} == set(body["NodeNames"])
    assert body["Nodes"] is None
    assert "1" == body["Pod"]["spec"]["containers"][0]["resources"]["requests"]["cpu"]
    assert ("v1", "Pod") == (body["Pod"]["apiVersion"], body["Pod"]["kind"])
    assert 1 == len(server.connections), "it is used again"


async def test_whole_nodes_for_an_extender_that_does_not_know_them(server: Server) -> None:
    server.answers["filter"] = lambda body: {"Nodes": {"items": body["Nodes"]["items"][:1]}}
    async with extended(server, nodeCacheCapable=False, filterVerb="filter") as live:
        live.add_pod("web")
        await until(live, lambda: live.node_of("web"))

    ((_, body),) = server.requests
    assert body["NodeNames"] is None
    assert live.node_of("web") == body["Nodes"]["items"][0]["metadata"]["name"]
    assert "4" == body["Nodes"]["items"][0]["status"]["allocatable"]["cpu"]


async def test_a_pod_that_an_extender_refuses_everywhere_is_unschedulable(server: Server) -> None:
    server.answers["filter"] = lambda body: {
        "NodeNames": [],
        "FailedNodes": {"node-1": "no license"},
        "FailedAndUnresolvableNodes": {"node-2": "no device"},
    }
    async with extended(server, filterVerb="filter") as live:
        live.add_pod("web")
        await until(live, lambda: live.reasons("web"))

        status, reason, message = live.condition("web")
        assert ("False", "Unschedulable") == (status, reason)
        assert message.startswith("0/2 nodes are available: 1 no device, 1 no license.")


def raising(body: dict[str, Any]) -> Any:
    raise RuntimeError("on purpose")


@pytest.mark.parametrize("answer", [raising, lambda body: {"Error": "on purpose"}, lambda body: 7])
async def test_a_failed_filter_fails_the_attempt_or_is_ignored(server: Server, answer: Answer) -> None:
    server.answers["filter"] = answer
    async with extended(server, filterVerb="filter") as live:
        live.add_pod("web")
        await until(live, lambda: live.reasons("web"))
        assert ("False", "SchedulerError") == live.condition("web")[:2]
        server.answers["filter"] = lambda body: {"NodeNames": body["NodeNames"]}
        await live.clock.advance(2)
        await until(live, lambda: live.node_of("web"))
    server.answers["filter"] = answer
    async with extended(server, filterVerb="filter", ignorable=True) as live:
        live.add_pod("web")
        await until(live, lambda: live.node_of("web"))


async def test_an_extender_that_cannot_be_reached_gives_no_scores(server: Server) -> None:
    with capture_logs() as logs:
        async with extended(server, url="http://127.0.0.1:1", prioritizeVerb="prioritize", weight=1) as live:
            live.add_pod("web")
            await until(live, lambda: live.node_of("web"))
    assert ["http://127.0.0.1:1"] == [each["extender"] for each in logs if each["event"] == "extender scores skipped"]


async def test_an_extender_binds_pods(server: Server) -> None:
    """In place of the scheduler. If it fails, the pod is tried again."""
    server.answers["bind"] = lambda body: {"Error": "no seat"}
    async with extended(server, bindVerb="bind") as live:
        live.add_pod("web", "4")
        await until(live, lambda: live.reasons("web"))
        assert ("False", "SchedulerError", "no seat") == live.condition("web")
        assert {} == live.scheduler.state.assumed

        server.answers["bind"] = lambda body: {}
        await live.clock.advance(2)
        await until(live, lambda: "Scheduled" in live.reasons("web"))
        assert [] == live.calls("bind")
        _, body = server.requests[-1]
        assert ("web", "default", "uid-web") == (body["PodName"], body["PodNamespace"], body["PodUID"])
        assert live.scheduler.state.assumed["uid-web"].pod.spec.node_name == body["Node"]


async def test_changes_during_a_request_count_afterwards(server: Server) -> None:
    """The node of the pod that is being decided about is removed, and the pod, too."""
    answered = asyncio.Event()
    server.before = answered.wait
    server.answers["filter"] = lambda body: {"NodeNames": body["NodeNames"]}
    async with extended(server, filterVerb="filter") as live:
        live.add_pod("web")
        live.add_pod("next")
        await until(live, lambda: server.requests)
        nodes = len(live.scheduler.state.cluster.snapshot.rows)
        live.kube.remove(PODS, "web", "default")
        live.add_node("node-3", cpu="4")
        await live.settle()
        assert nodes == len(live.scheduler.state.cluster.snapshot.rows)
        answered.set()
        await until(live, lambda: live.node_of("next"))

        assert 3 == len(live.scheduler.state.cluster.snapshot.rows)
        await until(live, lambda: not live.scheduler.state.in_flight)
        assert {} == live.scheduler.state.assumed
        assert [] == live.reasons("web")


async def test_a_pod_whose_decision_was_interrupted_is_tried_again(server: Server) -> None:
    """The Lease is lost during a request, and regained later by the same process."""
    answered = asyncio.Event()
    server.before = answered.wait
    server.answers["filter"] = lambda body: {"NodeNames": body["NodeNames"]}
    async with extended(server, filterVerb="filter") as live:
        live.add_pod("web")
        await until(live, lambda: server.requests)
        live.kube.refuse("replace", status=500, resource="leases")
        await live.clock.advance(11)
        answered.set()
        await until(live, lambda: not live.health.leading)
        assert not live.node_of("web")
        live.kube.clear_faults()
        await live.clock.advance(30)
        await until(live, lambda: live.node_of("web"))


async def test_the_end_waits_for_a_request(server: Server) -> None:
    answered = asyncio.Event()
    server.before = answered.wait
    server.answers["filter"] = lambda body: {"NodeNames": body["NodeNames"]}
    async with extended(server, filterVerb="filter") as live:
        live.add_pod("web")
        await until(live, lambda: server.requests)
        live.stop.set()
        await live.settle()
        assert not live.running.done()
        answered.set()
        await until(live, live.running.done)
        assert live.node_of("web")


async def test_pods_without_its_resources_are_not_sent(server: Server) -> None:
    settings = HttpExtender(url_prefix=server.url, managed_resources=(ManagedResource(name="example.com/device"),))
    client = extender_client(settings)

    assert not client.is_interested(a_pod(requests={"cpu": "1"}))
    assert client.is_interested(a_pod(requests={"example.com/device": "1"}))


def test_an_extender_that_cannot_be_used_is_named() -> None:
    for settings, why in (
        (HttpExtender(url_prefix="http://one", preempt_verb="preempt"), "http://one: preemptVerb"),
        (HttpExtender(url_prefix="ftp://one"), "not an HTTP or HTTPS URL"),
        (HttpExtender(url_prefix="https://one", tls=TlsSettings(ca_file="/missing")), "https://one: "),
        (HttpExtender(url_prefix="https://one", tls=TlsSettings(server_name="two")), "serverName is not supported"),
    ):
        with pytest.raises(InvalidConfiguration, match=why):
            extender_client(settings)
