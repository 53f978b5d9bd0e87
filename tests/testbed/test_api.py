"""The API client of tests and demos, with a server that refuses."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from equipoise.testbed.api import Api, ApiError

PROMISED = {"Retry-After": "0"}


async def statuses(
    method: str, responses: Sequence[tuple[int, dict[str, str]]], monkeypatch: pytest.MonkeyPatch
) -> int:
    """How many of these responses a request needed. Raises ApiError."""
    sent = iter(responses)
    count = 0

    async def respond(_: web.Request) -> web.Response:
        nonlocal count
        count += 1
        status, headers = next(sent)
        return web.json_response({}, status=status, headers=headers)

    application = web.Application()
    application.router.add_route("*", "/", respond)
    monkeypatch.setattr("ssl.create_default_context", lambda **_: True)
    async with TestServer(application) as server, Api(str(server.make_url("")), Path(), "") as api:
        await api.request(method, "/")
    return count


async def test_a_get_is_repeated_when_the_server_asks_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    assert await statuses("GET", [(429, PROMISED), (429, PROMISED), (200, {})], monkeypatch) == 3


@pytest.mark.parametrize(
    ("method", "responses"),
    [
        pytest.param("GET", [(429, {})], id="without a time"),
        pytest.param("GET", [(503, PROMISED)], id="another error"),
        pytest.param("POST", [(429, PROMISED)], id="an eviction"),
        pytest.param("GET", [(429, PROMISED)] * 11, id="too often"),
    ],
)
async def test_other_refusals_are_errors(
    method: str, responses: Sequence[tuple[int, dict[str, str]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ApiError):
        await statuses(method, responses, monkeypatch)
