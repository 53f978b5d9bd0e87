"""Names that are resolved late, or never."""

import asyncio
import socket

import pytest

from equipoise.runtime.async_tools.name_resolution import NameResolution
from equipoise.runtime.process.failure_reason import NameNotResolved, failure_reason


async def test_a_name_that_takes_too_long_is_named_and_requested_once() -> None:
    """Each request occupies a thread until the DNS responds. A later call gets the response."""
    requested: list[str] = []
    response: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def resolve(host: str, port: int) -> str:
        requested.append(f"{host}:{port}")
        return await response

    names = NameResolution(resolve, 0.001)
    for _ in range(3):
        with pytest.raises(NameNotResolved) as raised:
            await names.addresses("api.test", 6443)
    assert failure_reason(raised.value) == "the name api.test was not resolved within 0.001 s: the DNS does not respond"

    response.set_result("127.0.0.1")
    assert await names.addresses("api.test", 6443) == "127.0.0.1"
    assert requested == ["api.test:6443"]


async def test_an_error_of_the_dns_is_raised_and_the_name_requested_again() -> None:
    """The Service may be created later."""
    responses: list[OSError | str] = [socket.gaierror(socket.EAI_NONAME, "Name or service not known"), "127.0.0.1"]

    async def resolve(host: str, port: int) -> str:
        response = responses.pop(0)
        if isinstance(response, OSError):
            raise response
        return response

    names = NameResolution(resolve, 60.0)
    with pytest.raises(socket.gaierror):
        await names.addresses("api.test", 6443)
    assert await names.addresses("api.test", 6443) == "127.0.0.1"
