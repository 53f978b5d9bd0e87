"""A small API server client for tests and demos: any request, server-side apply, and waiting for a condition.

Services use `equipoise.runtime.kubernetes.client`. Code that verifies them uses plain HTTP and JSON instead.
"""

import asyncio
import ssl
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import aiohttp

FIELD_MANAGER = "testbed"
CONCURRENCY = 16
POLL_SECONDS = 0.05
GET_REPEATS = 10


class ApiError(RuntimeError):
    """The API server returned an error: `status` is the HTTP code, `body` the Status object or text."""

    def __init__(self, method: str, path: str, status: int, body: Any) -> None:
        message = body.get("message", body) if isinstance(body, dict) else body
        super().__init__(f"{method} {path}: {status} {message}")
        self.status = status
        self.body = body


class Api:
    """One connection pool to the API server. Requests use the administrator's token unless they pass another one."""

    def __init__(self, url: str, ca_file: Path, token: str) -> None:
        self._url = url
        self._ca_file = ca_file
        self._token = token
        self._session: aiohttp.ClientSession | None = None
        self._resources: dict[tuple[str, str], tuple[str, bool]] = {}

    async def __aenter__(self) -> "Api":
        connector = aiohttp.TCPConnector(
            ssl=ssl.create_default_context(cafile=str(self._ca_file)), limit=2 * CONCURRENCY
        )
        self._session = aiohttp.ClientSession(
            connector=connector, timeout=aiohttp.ClientTimeout(total=30), read_bufsize=1 << 20
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._session is not None
        await self._session.close()

    async def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        token: str | None = None,
        content_type: str = "application/json",
    ) -> Any:
        """The decoded response; ApiError for 4xx and 5xx.

        A GET that the API server asks to repeat later is repeated, as kubectl does. Lists of a new kind are refused
        with 429 right after its CustomResourceDefinition was created.
        """
        assert self._session is not None, "enter the Api first: async with cluster.api() as api"
        headers = {"Authorization": f"Bearer {token or self._token}", "Content-Type": content_type}
        repeats_left = GET_REPEATS if method == "GET" else 0
        while True:
            async with self._session.request(method, self._url + path, json=body, headers=headers) as response:
                is_json = response.content_type.endswith("json")
                decoded = await (response.json(content_type=None) if is_json else response.text())
                delay = response.headers.get("Retry-After")
            if response.status < 400:
                return decoded
            if response.status != 429 or delay is None or not repeats_left:
                raise ApiError(method, path, response.status, decoded)
            repeats_left -= 1
            await asyncio.sleep(float(delay))

    async def patch(self, path: str, body: Any, *, kind: str = "merge-patch") -> Any:
        """The changed object. `kind`: `merge-patch`, or `strategic-merge-patch`."""
        return await self.request("PATCH", path, body, content_type=f"application/{kind}+json")

    async def apply(self, documents: Iterable[Mapping[str, Any]]) -> list[Any]:
        """Server-side apply, namespaces and CustomResourceDefinitions first; returns the objects in the order given."""
        flat = [
            item
            for document in documents
            if document
            for item in (document["items"] if document["kind"].endswith("List") else [document])
        ]
        slots = asyncio.Semaphore(CONCURRENCY)
        applied: dict[int, Any] = {}

        async def apply_one(index: int) -> None:
            async with slots:
                path = f"{await self.path(flat[index])}?fieldManager={FIELD_MANAGER}&force=true"
                applied[index] = await self.request(
                    "PATCH", path, flat[index], content_type="application/apply-patch+yaml"
                )

        first = [i for i, item in enumerate(flat) if item["kind"] in ("Namespace", "CustomResourceDefinition")]
        others = [i for i in range(len(flat)) if i not in set(first)]
        for indexes in (first, others):
            try:
                async with asyncio.TaskGroup() as group:
                    for index in indexes:
                        group.create_task(apply_one(index))
            except ExceptionGroup as failures:
                raise failures.exceptions[0] from None
        return [applied[index] for index in range(len(flat))]

    async def path(self, document: Mapping[str, Any]) -> str:
        """API path of an object: `/apis/apps/v1/namespaces/shop/deployments/web`."""
        version, kind, metadata = document["apiVersion"], document["kind"], document["metadata"]
        plural, namespaced = await self._resource(version, kind)
        root = f"/apis/{version}" if "/" in version else f"/api/{version}"
        scope = f"/namespaces/{metadata.get('namespace', 'default')}" if namespaced else ""
        return f"{root}{scope}/{plural}/{metadata['name']}"

    async def wait(self, path: str, condition: Callable[[Any], bool], *, timeout: float = 60.0, what: str = "") -> Any:
        """GET until the body meets the condition; a TimeoutError contains the last response."""
        last: Any = None
        try:
            async with asyncio.timeout(timeout):
                while True:
                    requested_at = time.monotonic()
                    try:
                        last = await self.request("GET", path)
                        if condition(last):
                            return last
                    except ApiError as error:
                        if error.status != 404:
                            raise
                        last = error
                    # Long lists are expensive for the server: poll them less often.
                    await asyncio.sleep(max(POLL_SECONDS, 3 * (time.monotonic() - requested_at)))
        except TimeoutError as error:
            raise TimeoutError(f"{what or path} was not met after {timeout:g} s; last: {str(last)[:400]}") from error

    async def _resource(self, version: str, kind: str) -> tuple[str, bool]:
        """The plural of a kind, and whether it is namespaced."""
        if (version, kind) not in self._resources:
            root = f"/apis/{version}" if "/" in version else f"/api/{version}"
            for resource in (await self.request("GET", root))["resources"]:
                if "/" not in resource["name"]:
                    self._resources[version, resource["kind"]] = (resource["name"], resource["namespaced"])
        try:
            return self._resources[version, kind]
        except KeyError:
            raise LookupError(f"the API server has no {kind} in {version}") from None
