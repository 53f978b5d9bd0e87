"""Requests to the extenders of the configuration: filter, prioritize and bind, as kube-scheduler makes them.

They block. So the scheduling loop makes them in a thread that runs one attempt to schedule a pod, and nothing else.
"""

import ssl
import tempfile
from base64 import b64decode
from collections.abc import Callable, Mapping, Sequence
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Annotated, Any, TypeVar
from urllib.parse import urlsplit

import msgspec
import structlog

from equipoise.contracts.numeric import np
from equipoise.runtime.kubernetes.client import NODES, PODS
from equipoise.runtime.kubernetes.http.responses import as_body
from equipoise.scheduling.model.arrays import Ints, Rows
from equipoise.scheduling.model.pod_info import PodInfo
from equipoise.scheduling.model.snapshot import ClusterSnapshot
from equipoise.scheduling.scheduler import Extender, ExtenderFailed, ExtenderFilter
from equipoise.scheduling.settings.document import InvalidConfiguration
from equipoise.scheduling.settings.extenders import HttpExtender, TlsSettings

T = TypeVar("T")

log = structlog.get_logger()

MAX_RESPONSE = 2**26
"""Maximum size of a response in bytes: 100,000 Node objects."""


class _Name(msgspec.Struct, frozen=True, kw_only=True):
    name: str


class _Node(msgspec.Struct, frozen=True, kw_only=True):
    metadata: _Name


class _NodeList(msgspec.Struct, frozen=True, kw_only=True):
    items: list[_Node] | None = None


class FilterResponse(msgspec.Struct, frozen=True, kw_only=True, rename="pascal"):
    """ExtenderFilterResult."""

    nodes: _NodeList | None = None
    node_names: list[str] | None = None
    failed_nodes: dict[str, str] | None = None
    failed_and_unresolvable_nodes: dict[str, str] | None = None
    error: str = ""


class HostScore(msgspec.Struct, frozen=True, kw_only=True, rename="pascal"):
    """An entry of HostPriorityList."""

    host: str
    score: Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31)]
    """0..10 in kube-scheduler, before it is multiplied by the weight of the extender."""


class BindingResponse(msgspec.Struct, frozen=True, kw_only=True, rename="pascal"):
    """ExtenderBindingResult."""

    error: str = ""


class ExtenderClient:
    """The client of one extender. One request at a time, except for `bind`."""

    def __init__(self, settings: HttpExtender) -> None:
        """Raises OSError or ValueError for certificates that cannot be used."""
        self.settings = settings
        url = urlsplit(settings.url_prefix if "//" in settings.url_prefix else f"http://{settings.url_prefix}")
        if url.scheme not in ("http", "https") or not url.hostname:
            raise ValueError(f"{settings.url_prefix} is not an HTTP or HTTPS URL")
        if settings.tls is not None and settings.tls.server_name:
            raise ValueError("tlsConfig.serverName is not supported: use the name of the certificate in urlPrefix")
        self._path = url.path.rstrip("/")
        timeout = settings.http_timeout
        if url.scheme == "https":
            context = _tls(settings)
            self._connect: Callable[[], HTTPConnection] = lambda: HTTPSConnection(
                url.hostname or "", url.port, timeout=timeout, context=context
            )
        else:
            self._connect = lambda: HTTPConnection(url.hostname or "", url.port, timeout=timeout)
        self._connection: HTTPConnection | None = None
        self._managed = frozenset(resource.name for resource in settings.managed_resources)

    def is_interested(self, pod: PodInfo) -> bool:
        """Whether the extender handles the pod. With managed resources, it handles the pods that have one of them."""
        if not self._managed:
            return True
        containers = (*(pod.pod.spec.containers or ()), *pod.pod.spec.init_containers)
        return any(
            not self._managed.isdisjoint(amounts)
            for container in containers
            for amounts in (container.resources.requests, container.resources.limits)
        )

    def of_pod(self, pod: PodInfo, snapshot: ClusterSnapshot) -> Extender:
        """The extender for one attempt to schedule the pod."""
        settings = self.settings
        return Extender(
            filter=(lambda rows: self._filter(pod, snapshot, rows)) if settings.filter_verb else None,
            scores=(lambda rows: self._scores(pod, snapshot, rows)) if settings.prioritize_verb else None,
            weight=settings.weight,
        )

    def bind(self, pod: PodInfo, node: str) -> None:
        """Bind the pod. Raises ExtenderFailed, as in kube-scheduler even if the extender is ignorable."""
        body = {"PodName": pod.name, "PodNamespace": pod.namespace, "PodUID": pod.uid, "Node": node}
        connection = self._connect()
        try:
            response = _decode(self._post(connection, self.settings.bind_verb, body), BindingResponse)
        except _REQUEST_ERRORS as error:
            raise self._failed(self.settings.bind_verb, error) from error
        finally:
            connection.close()
        if response.error:
            raise ExtenderFailed(response.error)

    def _filter(self, pod: PodInfo, snapshot: ClusterSnapshot, rows: Rows) -> ExtenderFilter | None:
        try:
            return self._passed(
                snapshot, rows, self._call(self.settings.filter_verb, pod, snapshot, rows, FilterResponse)
            )
        except ExtenderFailed as error:
            if not self.settings.ignorable:
                raise
            log.warning("extender skipped", extender=self.settings.url_prefix, error=str(error))
            return None

    def _passed(self, snapshot: ClusterSnapshot, rows: Rows, response: FilterResponse) -> ExtenderFilter:
        if response.error:
            raise ExtenderFailed(response.error)
        by_name = dict(zip(snapshot.names(rows), rows.tolist(), strict=True))
        names: Sequence[str] = []
        if self.settings.node_cache_capable and response.node_names is not None:
            names = response.node_names
        elif response.nodes is not None:
            names = [node.metadata.name for node in response.nodes.items or ()]
        if unknown := [name for name in names if name not in by_name]:
            claim = f'extender "{self.settings.url_prefix}" claims a filtered node "{unknown[0]}"'
            raise ExtenderFailed(f"{claim} which is not found in the input node list")
        return ExtenderFilter(
            passed=np.array([by_name[name] for name in names], dtype=np.intp),
            failed=_by_row(by_name, response.failed_nodes),
            unresolvable=_by_row(by_name, response.failed_and_unresolvable_nodes),
        )

    def _scores(self, pod: PodInfo, snapshot: ClusterSnapshot, rows: Rows) -> Ints | None:
        """The score of each row. A node that is missing in the response gets 0."""
        try:
            response = self._call(self.settings.prioritize_verb, pod, snapshot, rows, list[HostScore])
        except ExtenderFailed as error:
            log.warning("extender scores skipped", extender=self.settings.url_prefix, error=str(error))
            return None
        scores = {entry.host: entry.score for entry in response}
        return np.array([scores.get(name, 0) for name in snapshot.names(rows)], dtype=np.int64)

    def _call(self, verb: str, pod: PodInfo, snapshot: ClusterSnapshot, rows: Rows, kind: type[T]) -> T:
        body: dict[str, Any] = {"Pod": as_body(PODS, pod.pod), "Nodes": None, "NodeNames": None}
        if self.settings.node_cache_capable:
            body["NodeNames"] = snapshot.names(rows)
        else:
            body["Nodes"] = {"items": [as_body(NODES, snapshot.node(row)) for row in rows.tolist()]}
        try:
            return _decode(self._repeatable(verb, body), kind)
        except _REQUEST_ERRORS as error:
            self.close()
            raise self._failed(verb, error) from error

    def _repeatable(self, verb: str, body: Mapping[str, Any]) -> bytes:
        """The response. If the server has closed the idle connection of earlier requests, a new one is opened."""
        if self._connection is not None:
            try:
                return self._post(self._connection, verb, body)
            except (ConnectionError, HTTPException):
                self.close()
        self._connection = self._connect()
        return self._post(self._connection, verb, body)

    def _post(self, connection: HTTPConnection, verb: str, body: Mapping[str, Any]) -> bytes:
        content = msgspec.json.encode(body)
        connection.request("POST", f"{self._path}/{verb}", content, {"Content-Type": "application/json"})
        response = connection.getresponse()
        received = response.read(MAX_RESPONSE + 1)
        if response.status != 200:
            raise HTTPException(f"code {response.status}")
        if len(received) > MAX_RESPONSE:
            raise HTTPException(f"its response has more than {MAX_RESPONSE} bytes")
        return received

    def close(self) -> None:
        """Close the connection. The next request opens another one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _failed(self, verb: str, error: Exception) -> ExtenderFailed:
        why = str(error) or type(error).__name__
        return ExtenderFailed(f"failed {verb} with extender at URL {self.settings.url_prefix}, {why}")


def extender_client(settings: HttpExtender) -> ExtenderClient:
    """The client of an extender. Raises InvalidConfiguration for an extender that cannot be used."""
    if settings.preempt_verb:
        raise InvalidConfiguration([f"extender {settings.url_prefix}: preemptVerb is not supported: remove it"])
    try:
        return ExtenderClient(settings)
    except (OSError, ValueError) as error:
        raise InvalidConfiguration([f"extender {settings.url_prefix}: {error}"]) from error


_REQUEST_ERRORS = (OSError, HTTPException, msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""No connection, no response in time, another status than 200, or no valid body."""


def _decode(body: bytes, kind: type[T]) -> T:
    return msgspec.json.decode(body, type=kind)


def _by_row(rows: Mapping[str, int], reasons: Mapping[str, str] | None) -> dict[int, str]:
    """The reasons by row, without nodes that were not in the request."""
    return {rows[name]: reason for name, reason in (reasons or {}).items() if name in rows}


def _tls(settings: HttpExtender) -> ssl.SSLContext:
    """The TLS settings; with `enableHTTPS` and no CA the certificate is not verified, as in kube-scheduler."""
    tls = settings.tls or TlsSettings()
    context = ssl.create_default_context(
        cafile=(tls.ca_file or None) if not tls.ca_data else None,
        cadata=b64decode(tls.ca_data).decode() if tls.ca_data else None,
    )
    without_ca = settings.enable_https and not tls.ca_data and not tls.ca_file
    if tls.insecure or without_ca:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if tls.cert_data or tls.cert_file:
        with tempfile.NamedTemporaryFile() as certificate, tempfile.NamedTemporaryFile() as key:
            for file, data in ((certificate, tls.cert_data), (key, tls.key_data)):
                file.write(b64decode(data))
                file.flush()
            context.load_cert_chain(
                certificate.name if tls.cert_data else tls.cert_file,
                key.name if tls.key_data else tls.key_file or None,
            )
    return context
