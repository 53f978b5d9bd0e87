"""How the client handles responses that a healthy API server does not send."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from pathlib import Path

import pytest
import yaml
from aiohttp import web
from aiohttp.test_utils import BaseTestServer, TestServer

from equipoise.contracts.kubernetes.objects.pod import Pod
from equipoise.runtime.configuration.sections import Kubernetes
from equipoise.runtime.kubernetes.client import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    PODS,
    ROLLOUTS,
    Change,
    Conflict,
    Expired,
    Kube,
    KubeError,
    NotFound,
    UnreadableObject,
    metadata_of,
)
from equipoise.runtime.kubernetes.connection import connect_kube
from equipoise.runtime.kubernetes.http.api_server import ApiServer
from equipoise.runtime.kubernetes.http.availability import FAILURE_SECONDS
from equipoise.runtime.process.clock import SystemClock
from equipoise.testbed.memory.clock import ManualClock

Reply = Callable[[web.Request], Awaitable[web.StreamResponse]]


def status(code: int, reason: str, message: str) -> dict[str, object]:
    return {"kind": "Status", "apiVersion": "v1", "code": code, "reason": reason, "message": message}


def pod(name: str, version: str) -> dict[str, object]:
    return {"metadata": {"name": name, "namespace": "shop", "uid": f"uid-{name}", "resourceVersion": version}}


class Server:
    """A server with the responses of a test, one after the other; the last one is repeated."""

    def __init__(self) -> None:
        self.requests: list[web.Request] = []
        self.replies: list[Reply] = []

    async def reply(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(request)
        await request.read()
        return await (self.replies.pop(0) if len(self.replies) > 1 else self.replies[0])(request)

    def responds(self, *replies: Reply) -> None:
        self.replies = list(replies)


def text(code: int, body: str, **headers: str) -> Reply:
    async def reply(request: web.Request) -> web.StreamResponse:
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        return web.Response(status=code, text=body, headers=names)

    return reply


def as_json(code: int, body: object) -> Reply:
    return text(code, json.dumps(body), Content_Type="application/json")


def lines(*frames: object, end: bytes = b"\n") -> Reply:
    """A watch: each frame a line; `end` closes the last one."""

    async def reply(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        body = b"\n".join(json.dumps(frame).encode() for frame in frames)
        await response.write(body + end)
        return response

    return reply


@pytest.fixture
async def server() -> AsyncIterator[tuple[Server, BaseTestServer]]:
    server = Server()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", server.reply)
    async with TestServer(app) as running:
        yield server, running


def write_kubeconfig(path: Path, url: str, token: str, **cluster: str) -> None:
    path.write_text(
        yaml.safe_dump(
            {
                "current-context": "here",
                "clusters": [{"name": "here", "cluster": {"server": url, **cluster}}],
                "users": [{"name": "me", "user": {"token": token}}],
                "contexts": [{"name": "here", "context": {"cluster": "here", "user": "me"}}],
            }
        )
    )


@pytest.fixture
def kubeconfig(server: tuple[Server, BaseTestServer], tmp_path: Path) -> Path:
    path = tmp_path / "kubeconfig"
    write_kubeconfig(path, str(server[1].make_url("")), "old")
    return path


@pytest.fixture
async def kube(kubeconfig: Path) -> AsyncIterator[Kube]:
    async with connect_kube(Kubernetes(kubeconfig=str(kubeconfig)), "binder", SystemClock()) as kube:
        yield kube


@pytest.fixture
def api(server: tuple[Server, BaseTestServer]) -> Server:
    return server[0]


async def received(kube: Kube, since: str = "1") -> list[Change[Pod]]:
    async with asyncio.timeout(60), aclosing(kube.watch(PODS, since=since)) as changes:
        return [change async for change in changes]


async def test_the_user_agent_names_the_service(kube: Kube, api: Server) -> None:
    """The server's logs and managedFields name the service."""
    api.responds(as_json(200, {}))

    await kube.annotate(PODS, "web-1", {"a": "1"}, namespace="shop")

    request = api.requests[0]
    assert request.headers["User-Agent"].startswith("equipoise-binder/")
    assert "application/merge-patch+json" == request.headers["Content-Type"]
    assert "Bearer old" == request.headers["Authorization"]
    assert "equipoise-binder" == request.query["fieldManager"]
    assert "as=PartialObjectMetadata" in request.headers["Accept"]  # the rest of the response is not read


async def test_a_refusal_is_a_conflict_only_where_it_may_be_a_test_that_failed(kube: Kube, api: Server) -> None:
    """The status is that of an invalid change; reading and patching without a test shows which."""
    api.responds(as_json(422, status(422, "Invalid", "the server rejected our request due to an error in our request")))

    with pytest.raises(Conflict):
        await kube.annotate(PODS, "web-1", {"a": "2"}, namespace="shop", expected={"a": "1"})
    with pytest.raises(KubeError) as error:
        await kube.annotate(PODS, "web-1", {"a": "2"}, namespace="shop")

    assert 422 == error.value.status
    kinds = ["application/json-patch+json", "application/merge-patch+json"]
    assert kinds == [request.headers["Content-Type"] for request in api.requests]


async def test_a_new_token_is_read_when_the_old_one_is_rejected(
    kube: Kube, api: Server, server: tuple[Server, BaseTestServer], kubeconfig: Path
) -> None:
    """401: the token is read again and the request repeated, once."""
    write_kubeconfig(kubeconfig, str(server[1].make_url("")), "new")
    api.responds(as_json(401, status(401, "Unauthorized", "Unauthorized")), as_json(200, pod("web-1", "1")))

    assert "web-1" == (await kube.get(PODS, "web-1", "shop")).metadata.name
    assert ["Bearer old", "Bearer new"] == [request.headers["Authorization"] for request in api.requests]

    api.requests.clear()
    api.responds(as_json(401, status(401, "Unauthorized", "Unauthorized")))
    with pytest.raises(KubeError, match="401"):
        await kube.get(PODS, "web-1", "shop")
    assert 2 == len(api.requests)


async def test_an_eviction_is_sent_within_its_time_or_not_at_all(
    kube: Kube, api: Server, server: tuple[Server, BaseTestServer], kubeconfig: Path
) -> None:
    """Neither late, for example after a slow connection, nor a second time after a 401."""
    api.responds(as_json(201, {}))
    assert 0 == (await kube.evict("shop", "web-1", uid="u", dry_run=False, within=0.0)).status
    assert api.requests == []
    assert 201 == (await kube.evict("shop", "web-1", uid="u", dry_run=False, within=60.0)).status

    async def slow(request: web.Request) -> web.StreamResponse:
        await asyncio.sleep(0.5)
        return web.json_response(status(401, "Unauthorized", "Unauthorized"), status=401)

    api.requests.clear()
    write_kubeconfig(kubeconfig, str(server[1].make_url("")), "new")
    api.responds(slow)
    assert 0 == (await kube.evict("shop", "web-1", uid="u", dry_run=False, within=0.4)).status
    assert 1 == len(api.requests)


async def test_a_response_of_flow_control_is_plain_text(kube: Kube, api: Server) -> None:
    """Its 429 is not one of a disruption budget, and has a time to retry."""
    api.responds(text(429, "Too many requests, please try again later.\n", Retry_After="7"))

    with pytest.raises(KubeError, match="get pods shop/web-1: Too many requests, please try again later") as error:
        await kube.get(PODS, "web-1", "shop")
    reply = await kube.evict("shop", "web-1", uid="u", dry_run=False)

    assert 7 == error.value.retry_after
    assert (429, False, 7) == (reply.status, reply.disruption_budget, reply.retry_after)


async def test_retry_after_is_limited_to_a_minute(kube: Kube, api: Server) -> None:
    """A proxy's page may request an hour."""
    api.responds(text(503, "Down for maintenance", Retry_After="3600"))

    with pytest.raises(KubeError, match="maintenance") as error:
        await kube.get(PODS, "web-1", "shop")

    assert 60 == error.value.retry_after


async def test_the_text_of_an_error_is_limited(kube: Kube, api: Server) -> None:
    """A webhook may refuse with a megabyte, and the text of an error becomes part of outcomes and of the ledger."""

    async def reply(_request: web.Request) -> web.StreamResponse:
        return web.json_response(status(403, "Forbidden", "denied: " + "x" * 2**20), status=403)

    api.responds(reply)
    with pytest.raises(KubeError, match="get pods shop/web-1: denied: xxx") as error:
        await kube.get(PODS, "web-1", "shop")
    result = await kube.evict("shop", "web-1", uid="u", dry_run=False)

    assert len(error.value.message) < 2_000
    assert len(result.message) < 2_000


async def test_a_budget_is_named_by_its_cause(kube: Kube, api: Server) -> None:
    """The message proper does not name it."""
    published = status(429, "TooManyRequests", "Cannot evict pod as it would violate the pod's disruption budget.")
    cause = {
        "reason": "DisruptionBudget",
        "message": "The disruption budget web needs 2 healthy pods and has 2 currently",
    }
    api.responds(as_json(429, published | {"details": {"causes": [cause]}}))

    reply = await kube.evict("shop", "web-1", uid="u", dry_run=False)

    assert (True, "web") == (reply.disruption_budget, reply.budget)
    assert "needs 2 healthy pods" in reply.message


async def test_a_rehearsal_is_marked_twice(kube: Kube, api: Server) -> None:
    """In the query, where an audit log shows it, and in the body, where no proxy drops it."""
    bodies = []

    async def reply(request: web.Request) -> web.StreamResponse:
        bodies.append(json.loads(await request.text()))
        return web.json_response(status(201, "", ""), status=201)

    api.responds(reply)
    await kube.evict("shop", "web-1", uid="u", dry_run=True)
    await kube.evict("shop", "web-1", uid="u", dry_run=False, grace_period=5)

    assert ["All", None] == [request.query.get("dryRun") for request in api.requests]
    assert [["All"], None] == [body["deleteOptions"].get("dryRun") for body in bodies]
    assert [None, 5] == [body["deleteOptions"].get("gracePeriodSeconds") for body in bodies]
    assert [{"uid": "u"}] * 2 == [body["deleteOptions"]["preconditions"] for body in bodies]
    assert {("policy/v1", "Eviction")} == {(body["apiVersion"], body["kind"]) for body in bodies}


async def test_no_server(kube: Kube, server: tuple[Server, BaseTestServer]) -> None:
    """A refused connection is a KubeError without a status; an eviction without a response is a value."""
    await server[1].close()

    with pytest.raises(
        KubeError, match=r"get pods shop/web-1: the API server at .* cannot be reached: connection"
    ) as error:
        await kube.get(PODS, "web-1", "shop")
    assert 0 == error.value.status
    assert 0 == (await kube.evict("shop", "web-1", uid="u", dry_run=False)).status


@pytest.mark.parametrize(
    "body", [b"", b"<html>login</html>", b'[{"metadata": {}}]', b'{"metadata":', b'"\xff"', b"[" * 100_000]
)
async def test_nonsense_is_an_error_not_an_object(kube: Kube, api: Server, body: bytes) -> None:
    """A proxy's page with status 200 is no pod."""

    async def reply(request: web.Request) -> web.StreamResponse:
        return web.Response(body=body)

    api.responds(reply)

    with pytest.raises(KubeError, match="the response cannot be decoded"):
        await kube.get(PODS, "web-1", "shop")


async def test_a_list_of_null_is_empty_and_no_list_is_an_error(kube: Kube, api: Server) -> None:
    """An API server may answer null if there are no objects; without items, a response is no list."""
    api.responds(as_json(200, {"metadata": {"resourceVersion": "5"}, "items": None}))
    assert await kube.list(PODS) == []

    api.responds(as_json(200, {"metadata": {"resourceVersion": "5"}}))
    with pytest.raises(KubeError, match="the response cannot be decoded"):
        await kube.list(PODS)


async def test_a_watch_reads_whole_lines_only(kube: Kube, api: Server) -> None:
    """What came before the break counts; half an event does not."""
    frames = [
        {"type": "ADDED", "object": pod("a", "2")},
        {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "3"}, "spec": {"containers": None}}},
        {"type": "DELETED", "object": pod("a", "4")},
    ]
    api.responds(lines(*frames))
    changes = await received(kube)
    assert [("added", "2"), ("bookmark", "3"), ("deleted", "4")] == [(c.kind, c.resource_version) for c in changes]

    api.responds(lines(*frames, end=b'\n{"type": "ADDED", "obj'))
    with pytest.raises(KubeError, match="within an event"):
        await received(kube)


async def test_a_resource_version_that_is_too_old(kube: Kube, api: Server) -> None:
    """The 410 of a watch comes as an event under status 200, or as the status."""
    expired = status(410, "Expired", "too old resource version: 1 (9)")
    for reply in (lines({"type": "ERROR", "object": expired}), as_json(410, expired)):
        api.responds(reply)
        with pytest.raises(Expired, match="too old resource version"):
            await received(kube)


@pytest.mark.parametrize("frame", [{"type": "NEW", "object": {}}, {"type": "ADDED", "object": {"metadata": 5}}, 7])
async def test_an_event_of_no_known_kind(kube: Kube, api: Server, frame: object) -> None:
    """It is an error: to pass over it could be to miss a deletion."""
    api.responds(lines(frame))

    with pytest.raises(KubeError, match="the response cannot be decoded"):
        await received(kube)


async def test_a_server_that_cannot_stream_lists(kube: Kube, api: Server) -> None:
    """The client requests pages instead, never everything at once, and does not try to stream again."""
    refusal = as_json(422, status(422, "Invalid", "sendInitialEvents is forbidden"))
    first = as_json(200, {"metadata": {"resourceVersion": "5", "continue": "more"}, "items": [pod("a", "1")]})
    second = as_json(200, {"metadata": {"resourceVersion": "5"}, "items": [pod("b", "2")]})
    modified = lines({"type": "MODIFIED", "object": pod("a", "6")})
    api.responds(refusal, first, second, modified, first, second, modified)

    for _ in range(2):
        changes = await received(kube, since="")
        assert ["added", "added", "bookmark", "modified"] == [change.kind for change in changes]
        assert [False, False, True, False] == [change.synced for change in changes]

    assert [None, "500", "500", None, "500", "500", None] == [request.query.get("limit") for request in api.requests]
    assert ["5", "5"] == [request.query["resourceVersion"] for request in (api.requests[3], api.requests[6])]


@pytest.mark.parametrize("name", ["..", ".", "../../secrets/a", "a/b", "%2e%2e", "a%2fb"])
async def test_no_name_leads_to_another_path(kube: Kube, api: Server, name: str) -> None:
    """The API server accepts any text as the name of an owner and as its group. No object has such a name."""
    with pytest.raises(NotFound):
        await kube.get(DEPLOYMENTS, name, "shop")
    with pytest.raises(NotFound):
        await kube.get(DEPLOYMENTS, "web", name)
    with pytest.raises(NotFound):
        await kube.find_scalable(name, "Deployment")

    assert api.requests == []


async def test_any_other_name_is_one_part_of_the_path(kube: Kube, api: Server) -> None:
    api.responds(as_json(200, pod("web", "1")))
    await kube.get(PODS, "web?dryRun=All#a b:\ud800", "shop")
    assert api.requests[0].raw_path == "/api/v1/namespaces/shop/pods/web%3FdryRun=All%23a%20b:%3F"


async def test_pages_follow_one_another(kube: Kube, api: Server) -> None:
    """Each continues where the previous one ended; for metadata only, no more is sent. An expired page is an error."""
    first = as_json(200, {"metadata": {"resourceVersion": "5", "continue": "more"}, "items": [pod("a", "1")]})
    second = as_json(200, {"metadata": {"resourceVersion": "5"}, "items": [pod("b", "2")]})
    expired = as_json(410, status(410, "Expired", "the provided continue parameter is too old"))
    api.responds(first, second, first, expired)

    pages = [[each.metadata.name for each in page] async for page in kube.pages(metadata_of(DEPLOYMENTS))]
    assert [["a"], ["b"]] == pages
    with pytest.raises(Expired):
        _ = [page async for page in kube.pages(DEPLOYMENTS)]

    assert [None, "more", None, "more"] == [request.query.get("continue") for request in api.requests]
    assert {"500"} == {request.query["limit"] for request in api.requests}
    lean = ["as=PartialObjectMetadataList" in request.headers["Accept"] for request in api.requests]
    assert [True, True, False, False] == lean


async def test_an_argo_rollout_is_read(kube: Kube, api: Server) -> None:
    """It writes its observed generation as a string."""
    api.responds(
        as_json(200, {"metadata": {"name": "web"}, "status": {"observedGeneration": "12", "readyReplicas": 3}})
    )

    rollout = await kube.get(ROLLOUTS, "web", "shop")

    assert (12, 3) == (rollout.status.observed_generation, rollout.status.ready_replicas)


async def test_a_certificate_that_cannot_be_read(tmp_path: Path) -> None:
    """An invalid certificate is reported like a missing token."""
    file = tmp_path / "kubeconfig"
    write_kubeconfig(file, "https://api.invalid", "old", **{"certificate-authority": str(file)})

    with pytest.raises(KubeError, match="the credentials for the API server cannot be loaded"):
        async with connect_kube(Kubernetes(kubeconfig=str(file)), "binder", SystemClock()):
            pass


async def test_no_netrc_takes_the_place_of_the_token(
    kubeconfig: Path, api: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor is one read for every request."""
    (tmp_path / ".netrc").write_text("default login eve password wrong\n")
    monkeypatch.setenv("NETRC", str(tmp_path / ".netrc"))
    api.responds(as_json(200, pod("web-1", "1")))

    async with connect_kube(Kubernetes(kubeconfig=str(kubeconfig)), "binder", SystemClock()) as kube:
        await kube.get(PODS, "web-1", "shop")

    assert "Bearer old" == api.requests[0].headers["Authorization"]


@pytest.mark.parametrize("spared", ["", "api.invalid"])
async def test_the_proxy_of_the_environment_is_used(
    spared: str, kubeconfig: Path, api: Server, server: tuple[Server, BaseTestServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As other programs do; but for the hosts that the environment spares it."""
    write_kubeconfig(kubeconfig, "http://api.invalid", "old")
    monkeypatch.setenv("http_proxy", str(server[1].make_url("")))
    monkeypatch.setenv("no_proxy", spared)
    api.responds(as_json(200, pod("web-1", "1")))

    async with connect_kube(Kubernetes(kubeconfig=str(kubeconfig)), "binder", SystemClock()) as kube:
        if spared:
            with pytest.raises(KubeError, match="cannot be reached: the name of the host cannot be resolved"):
                await kube.get(PODS, "web-1", "shop")
        else:
            await kube.get(PODS, "web-1", "shop")

    assert ([] if spared else ["api.invalid"]) == [request.host for request in api.requests]


async def test_no_credentials(tmp_path: Path) -> None:
    """The error contains what is missing, and the setting to change."""
    for settings in (Kubernetes(kubeconfig=str(tmp_path / "none")), Kubernetes(service_account=str(tmp_path))):
        connection = connect_kube(
            settings, "binder", SystemClock(),
            environment={"KUBERNETES_SERVICE_HOST": "h", "KUBERNETES_SERVICE_PORT": "1"},
        )  # fmt: skip
        with pytest.raises(KubeError, match=r"kubernetes\.kubeconfig"):
            async with connection:
                pass


async def test_a_context_is_chosen(kubeconfig: Path) -> None:
    """One that does not exist is an error, not the current one."""
    settings = Kubernetes(kubeconfig=str(kubeconfig), context="there")

    with pytest.raises(KubeError, match="there"):
        async with connect_kube(settings, "binder", SystemClock()):
            pass


@pytest.mark.parametrize(("code", "down"), [(401, True), (500, True), (503, True), (404, False), (429, False)])
async def test_an_api_server_that_serves_nobody_is_a_problem(
    code: int, down: bool, kubeconfig: Path, api: Server
) -> None:
    """A missing object or flow control is a response."""
    api.responds(as_json(code, status(code, "Some", "x")))
    clock = ManualClock()
    async with connect_kube(Kubernetes(kubeconfig=str(kubeconfig)), "binder", clock) as kube:
        for _ in range(2):
            with pytest.raises(KubeError):
                await kube.get(PODS, "web-1", "shop")
            await clock.advance(FAILURE_SECONDS)
        assert (f"get pods shop/web-1: {code}" in kube.problem, bool(kube.problem)) == (down, down)


async def test_an_api_server_that_never_responds_is_a_problem(kubeconfig: Path, api: Server) -> None:
    """Also for callers that wait for less than the timeout of a request."""
    arrived, end = asyncio.Event(), asyncio.Event()

    async def never(request: web.Request) -> web.StreamResponse:
        arrived.set()
        await end.wait()
        return web.Response()

    api.responds(never)
    clock = ManualClock()
    async with connect_kube(Kubernetes(kubeconfig=str(kubeconfig)), "binder", clock) as kube:
        for _ in range(2):
            request = asyncio.create_task(kube.get(PODS, "web-1", "shop"))
            await arrived.wait()
            arrived.clear()
            request.cancel()
            await asyncio.wait([request])
            await clock.advance(FAILURE_SECONDS)
        end.set()
        assert "no response in time" in kube.problem


async def test_connections_are_given_back(kube: Kube, api: Server) -> None:
    """Watches that are left early and refused requests leave no connection open in use."""
    api.responds(lines({"type": "ADDED", "object": pod("a", "2")}, {"type": "ADDED", "object": pod("b", "3")}))
    for _ in range(150):
        async with aclosing(kube.watch(PODS, since="1")) as changes:
            await anext(changes)
    api.responds(as_json(404, status(404, "NotFound", "x")))
    for _ in range(150):
        with pytest.raises(KubeError):
            await kube.get(CONFIG_MAPS, "a", "shop")

    assert isinstance(kube, ApiServer)


def a_bad_pod(name: str, version: str) -> dict[str, object]:
    """A pod with a year that does not exist here."""
    return {**pod(name, version), "status": {"startTime": "0000-01-01T00:00:00Z"}}


async def test_an_object_that_cannot_be_decoded_hides_no_other_of_its_page(kube: Kube, api: Server) -> None:
    """Lists, pages and watches are the same; it is named until it is readable or gone."""
    api.responds(as_json(200, {"metadata": {}, "items": [pod("a", "1"), a_bad_pod("b", "2"), 5]}))
    listed = await kube.list(PODS)
    assert [each.metadata.name for each in listed] == ["a", "b", ""]
    reason = "status.startTime: Invalid RFC3339 encoded datetime"
    assert [each.metadata.unreadable for each in listed] == ["", reason, "expected an object, got int"]
    assert [name for _, name, _ in kube.unreadable] == ["shop/b", "an object without a name"]

    [page] = [page async for page in kube.pages(PODS)]
    assert [bool(each.metadata.unreadable) for each in page] == [False, True, True]

    api.responds(as_json(200, {"metadata": {}, "items": [pod("a", "1")]}))
    await kube.list(PODS)
    assert list(kube.unreadable) == []

    api.responds(lines({"type": "MODIFIED", "object": a_bad_pod("b", "8")}, {"type": "ADDED", "object": pod("c", "9")}))
    changes = await received(kube)
    assert [(each.kind, each.resource_version) for each in changes] == [("modified", "8"), ("added", "9")]
    assert [each.object.metadata.unreadable for each in changes if each.object] == [reason, ""]


async def test_an_object_that_cannot_be_decoded_is_not_returned_alone(kube: Kube, api: Server) -> None:
    """The server did respond; the object is named until it is read again."""
    api.responds(as_json(200, a_bad_pod("b", "2")))
    with pytest.raises(
        UnreadableObject, match=r"get pods shop/b: the object cannot be read: status\.startTime"
    ) as error:
        await kube.get(PODS, "b", "shop")
    assert error.value.status == 422
    assert [name for _, name, _ in kube.unreadable] == ["shop/b"]
    api.responds(as_json(200, pod("b", "3")))
    await kube.get(PODS, "b", "shop")
    assert list(kube.unreadable) == []
