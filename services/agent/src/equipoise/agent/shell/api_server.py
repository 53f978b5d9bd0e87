"""Requests to the API server with the pod's ServiceAccount, by http.client: a client library would take 80 MB."""

import http.client
import os
import socket
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, suppress
from io import BufferedIOBase
from typing import Any

import msgspec

from equipoise.contracts.kubernetes.objects.pod import Pod
from equipoise.contracts.unreadable.lenient_decoding import DECODE_ERRORS, read_envelope, read_item
from equipoise.contracts.unreadable.long_objects import HEAD, event_of_long_object, page_of_long_object

TIMEOUT = 10.0
"""Seconds for a request, and for the beginning of a response."""

WATCH_SECONDS = 300
"""The time after which the API server ends a watch."""

LONGEST = 12 * 2**20
"""The maximum size of a response or an event that is kept, in bytes: a pod has at most 9 MiB
(`contracts.unreadable.long_objects`)."""

PAGE = 50
"""The number of pods in a response. A node has some 110 pods: a page takes less memory than all of them."""


class RequestFailed(Exception):
    """The API server did not respond (`status` 0), or responded with an error."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class PageMeta(msgspec.Struct):
    """The version of the list to which a page belongs, and where the next page begins."""

    resource_version: str = msgspec.field(name="resourceVersion", default="")
    next_page: str = msgspec.field(name="continue", default="")


class _PodPage(msgspec.Struct):
    metadata: PageMeta
    items: list[msgspec.Raw] | None


class PodEvent(msgspec.Struct):
    """One line of a watch."""

    type: str
    object: msgspec.Raw


_page = msgspec.json.Decoder(_PodPage)
_event = msgspec.json.Decoder(PodEvent)


class AgentApi:
    """The API server of the cluster. Each request has its own connection, with the token of that moment."""

    def __init__(self, environment: Mapping[str, str], service_account: str, version: str) -> None:
        """Raises RequestFailed if this is no pod with a ServiceAccount."""
        try:
            self._host, self._port = environment["KUBERNETES_SERVICE_HOST"], environment["KUBERNETES_SERVICE_PORT"]
        except KeyError as error:
            raise RequestFailed(
                0, f"the environment variable {error} is missing: the agent runs as a pod only"
            ) from error
        self._folder = service_account
        self._agent = f"equipoise-agent/{version}"
        self._context: ssl.SSLContext | None = None
        self._authority = b""
        self._watch: socket.socket | None = None
        """The connection of the watch, while there is one."""

    def list_pods(self, node: str, read: Callable[[Pod], None]) -> str:
        """Reads the pods of a node one by one, and returns the version from which a watch continues.

        A pod that cannot be decoded completely has `metadata.unreadable`. Raises RequestFailed and DECODE_ERRORS.
        """
        size, next_page = PAGE, ""
        while True:
            body = self._page(node, size, next_page)
            if len(body) > LONGEST and size > 1:
                size //= 7  # 50, 7, 1
                continue
            metadata = read_pods(body if len(body) <= LONGEST else page_of_long_object(body), read)
            next_page = metadata.next_page
            if not next_page:
                return metadata.resource_version

    def _page(self, node: str, size: int, next_page: str) -> bytes:
        """The body of the response. Of a body longer than LONGEST, only LONGEST + 1 bytes are read. Raises
        RequestFailed."""
        path = f"/api/v1/pods?fieldSelector=spec.nodeName%3D{node}&limit={size}"
        with closing(self._connect()) as connection:
            response = self._send(connection, "GET", path + (f"&continue={next_page}" if next_page else ""))
            try:
                return response.read(LONGEST + 1)
            except (OSError, http.client.HTTPException) as error:
                raise RequestFailed(0, f"the response broke: {error or type(error).__name__}") from error

    def watch_pods(self, node: str, version: str) -> Iterator[PodEvent]:
        """Events until the API server ends the watch. Raises RequestFailed when the connection breaks."""
        path = (
            f"/api/v1/pods?fieldSelector=spec.nodeName%3D{node}&watch=true&allowWatchBookmarks=true"
            f"&resourceVersion={version}&timeoutSeconds={WATCH_SECONDS}"
        )
        with closing(self._connect()) as connection:
            response = self._send(connection, "GET", path)
            if connection.sock is not None:
                # The server sends nothing for minutes when no pod changes. The kernel detects a server that is gone.
                connection.sock.settimeout(WATCH_SECONDS + TIMEOUT)
            self._watch = connection.sock
            try:
                yield from read_events(response)
            except (OSError, http.client.HTTPException, *DECODE_ERRORS) as error:
                raise RequestFailed(0, f"the watch broke: {error or type(error).__name__}") from error

    def end_watch(self) -> None:
        """Ends the wait for the next event of the watch, which another thread may read."""
        if self._watch is not None:
            with suppress(OSError):
                # Not that of SSLSocket, which also removes what the other thread reads with.
                socket.socket.shutdown(self._watch, socket.SHUT_RDWR)

    def evict(self, namespace: str, name: str, uid: str) -> None:
        """Evicts the pod with this UID, never a later pod of the same name. Raises RequestFailed."""
        body: dict[str, Any] = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": namespace},
            "deleteOptions": {"preconditions": {"uid": uid}},
        }
        with closing(self._connect()) as connection:
            path = f"/api/v1/namespaces/{namespace}/pods/{name}/eviction"
            self._send(connection, "POST", path, msgspec.json.encode(body)).read()

    def _send(
        self, connection: http.client.HTTPSConnection, method: str, path: str, body: bytes | None = None
    ) -> http.client.HTTPResponse:
        headers = {
            "Authorization": f"Bearer {self._read('token').decode().strip()}",
            "Accept": "application/json",
            "User-Agent": self._agent,
        }
        if body is not None:
            headers["Content-Type"] = "application/json"
        try:
            connection.request(method, path, body, headers)
            response = connection.getresponse()
            if response.status >= 400:
                raise RequestFailed(response.status, _message(response.read(65_536)))
        except (OSError, http.client.HTTPException) as error:
            raise RequestFailed(0, f"{self._host}:{self._port}: {error or type(error).__name__}") from error
        return response

    def _connect(self) -> http.client.HTTPSConnection:
        authority = self._read("ca.crt")
        if self._context is None or authority != self._authority:
            try:
                self._context = ssl.create_default_context(cadata=authority.decode())
            except (ssl.SSLError, ValueError) as error:
                raise RequestFailed(0, f"{self._folder}/ca.crt: {error}") from error
            self._authority = authority
        connection = http.client.HTTPSConnection(self._host, int(self._port), timeout=TIMEOUT, context=self._context)
        try:
            connection.connect()
        except OSError as error:
            connection.close()
            raise RequestFailed(0, f"{self._host}:{self._port}: {error or type(error).__name__}") from error
        for option, seconds in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3)):
            connection.sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), seconds)
        connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        return connection

    def _read(self, name: str) -> bytes:
        """A file of the ServiceAccount. It is read for each request, because the kubelet renews it."""
        try:
            with open(os.path.join(self._folder, name), "rb") as file:
                return file.read()
        except OSError as error:
            raise RequestFailed(0, f"{error.filename}: {error.strerror}") from error


def read_pods(body: bytes, read: Callable[[Pod], None]) -> PageMeta:
    """Reads each pod of a page of a list. Raises DECODE_ERRORS."""
    page = read_envelope(_page, body)
    for item in page.items or ():
        read(read_item(item, Pod))
    return page.metadata


def read_events(response: BufferedIOBase) -> Iterator[PodEvent]:
    """Each line of a watch. Raises RequestFailed if the last line is incomplete, and DECODE_ERRORS.

    Of a line that is longer than LONGEST, the pod has only its names, and `metadata.unreadable`.
    """
    while line := response.readline(LONGEST):
        ended = line.endswith(b"\n")
        if not ended and len(line) == LONGEST:
            line = event_of_long_object(line)
            # The rest of the line is dropped, some bytes at a time.
            while not ended and (rest := response.readline(HEAD)):
                ended = rest.endswith(b"\n")
        if not ended:
            raise RequestFailed(0, "the watch broke within an event")
        yield read_envelope(_event, line)


class _Status(msgspec.Struct):
    message: str = ""


def _message(body: bytes) -> str:
    with suppress(*DECODE_ERRORS):
        return msgspec.json.decode(body, type=_Status).message
    return body[:200].decode(errors="replace")
