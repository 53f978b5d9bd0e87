"""Requests to an API server whose name is not resolved."""

import socket
import ssl

import pytest
from aiohttp.abc import AbstractResolver, ResolveResult

from equipoise.runtime.kubernetes.client import KubeError
from equipoise.runtime.kubernetes.http.requests import Requests
from equipoise.runtime.kubernetes.http.transport import Transport
from equipoise.runtime.process.clock import SystemClock
from equipoise.runtime.process.failure_reason import NameNotResolved


class NoCredentials:
    tls = ssl.create_default_context()

    async def authorization(self) -> str:
        return ""

    async def reload(self) -> None:
        pass

    async def reload_tls(self, failed: ssl.SSLContext) -> bool:
        return False


class SilentDns(AbstractResolver):
    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        raise NameNotResolved(host, 10)

    async def close(self) -> None:
        pass


async def test_a_name_that_is_not_resolved_in_time_is_named() -> None:
    """A server that does not respond has another error: "no response in time"."""
    transport = Transport(url="http://api.test:6443", server_name=None, proxy=None, resolver=SilentDns())
    requests = Requests(transport=transport, credentials=NoCredentials(), user_agent="test", clock=SystemClock())
    reason = (
        r"^get pods: the API server at http://api\.test:6443 cannot be reached: the name api\.test was not resolved"
    )
    try:
        with pytest.raises(KubeError, match=reason) as raised:
            await requests.request("get pods", "GET", "/api/v1/pods", bytes)
        with pytest.raises(KubeError, match=reason):
            await requests.websocket("get pods", "/api/v1/pods", query={}, protocol="v4.channel.k8s.io")
    finally:
        await transport.close()

    assert raised.value.status == 0
