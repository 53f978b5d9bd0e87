"""A DNS server for the Services of a cluster: what CoreDNS's plugin `kubernetes` answers for A queries.

`python -m equipoise.testbed.real_nodes.dns KUBECONFIG ADDRESS`
"""

import asyncio
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any, cast

import aiohttp

from equipoise.testbed.api import Api, ApiError
from equipoise.testbed.processes.configuration import Document

PORT = 53
DOMAIN = "svc.cluster.local"
SECONDS_TO_LIVE = 5
REFRESH_SECONDS = 1.0

TYPE_A = 1
RESPONSE = 0x8580
"""Flags: an authoritative response, recursion desired and available."""

NO_SUCH_NAME = 3

Names = Mapping[str, Sequence[str]]


def names_of(services: Sequence[Document], slices: Sequence[Document]) -> Names:
    """The addresses of each name. A headless Service has those of its ready endpoints, also by their host names."""
    addresses: dict[str, list[str]] = {}
    headless = set()
    for service in services:
        name = f"{service['metadata']['name']}.{service['metadata']['namespace']}.{DOMAIN}"
        cluster_ip = service["spec"].get("clusterIP", "")
        if cluster_ip in ("", "None"):
            headless.add(name)
        addresses[name] = [] if name in headless else [cluster_ip]
    for endpoint_slice in slices:
        service_name = endpoint_slice["metadata"].get("labels", {}).get("kubernetes.io/service-name")
        name = f"{service_name}.{endpoint_slice['metadata']['namespace']}.{DOMAIN}"
        if name not in headless:
            continue
        for endpoint in endpoint_slice.get("endpoints") or []:
            if endpoint.get("conditions", {}).get("ready") is not False:
                addresses[name] += endpoint["addresses"]
                if hostname := endpoint.get("hostname"):
                    addresses[f"{hostname}.{name}"] = endpoint["addresses"]
    return addresses


def answer(query: bytes, names: Names) -> bytes:
    """The response to a query with one question (RFC 1035). Raises ValueError for any other query."""
    position, labels = 12, []  # the question follows a header of 12 bytes
    while position < len(query) and query[position]:
        length = query[position]
        labels.append(query[position + 1 : position + 1 + length].decode("ascii"))
        position += length + 1
    end = position + 5  # a zero ends the name; the type and the class have two bytes each
    if not labels or end > len(query):
        raise ValueError("the question is incomplete")
    kind = int.from_bytes(query[position + 1 : position + 3], "big")
    addresses = names.get(".".join(labels).lower())
    records = [
        b"\xc0\x0c"  # the name in the question
        + TYPE_A.to_bytes(2, "big")
        + b"\x00\x01"  # the class: Internet
        + SECONDS_TO_LIVE.to_bytes(4, "big")
        + b"\x00\x04"  # the length of an address
        + IPv4Address(address).packed
        for address in addresses or ()
        if kind == TYPE_A
    ]
    flags = RESPONSE | (NO_SUCH_NAME if addresses is None else 0)
    counts = (1, len(records), 0, 0)
    header = query[:2] + flags.to_bytes(2, "big") + b"".join(count.to_bytes(2, "big") for count in counts)
    return header + query[12:end] + b"".join(records)


class _Server(asyncio.DatagramProtocol):
    """The UDP server. It does not answer before the names are known, since clients ask again."""

    def __init__(self, names: Callable[[], Names | None]) -> None:
        self._names = names

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.DatagramTransport, transport)  # of a datagram endpoint

    def datagram_received(self, data: bytes, address: Any) -> None:
        if (names := self._names()) is None:
            return
        try:
            response = answer(data, names)
        except ValueError as error:
            print(f"no answer to {address}: {error}", flush=True)
        else:
            self._transport.sendto(response, address)


class _Services:
    """The names of a cluster, read every second."""

    def __init__(self) -> None:
        self.names: Names | None = None
        """None until they were read."""

    async def keep_reading(self, kubeconfig: Document) -> None:
        cluster, user = kubeconfig["clusters"][0]["cluster"], kubeconfig["users"][0]["user"]
        async with Api(cluster["server"], Path(cluster["certificate-authority"]), user["token"]) as api:
            while True:
                try:
                    services = await api.request("GET", "/api/v1/services?resourceVersion=0")
                    slices = await api.request("GET", "/apis/discovery.k8s.io/v1/endpointslices?resourceVersion=0")
                except (aiohttp.ClientError, ApiError, TimeoutError) as error:  # the last names are still served
                    print(f"the Services could not be read: {error}", flush=True)
                else:
                    self.names = names_of(services["items"], slices["items"])
                await asyncio.sleep(REFRESH_SECONDS)


async def _serve(kubeconfig: Document, address: str) -> None:
    services = _Services()
    await asyncio.get_running_loop().create_datagram_endpoint(
        lambda: _Server(lambda: services.names), local_addr=(address, PORT)
    )
    await services.keep_reading(kubeconfig)


if __name__ == "__main__":
    asyncio.run(_serve(json.loads(Path(sys.argv[1]).read_text()), sys.argv[2]))
