"""Injects faults into the in-memory API server."""

from typing import Literal

import msgspec

from equipoise.runtime.kubernetes.client import KubeError, error_for_status

Verb = Literal[
    "discover",
    "get",
    "list",
    "watch",
    "create",
    "replace",
    "annotate",
    "taint",
    "update_status",
    "bind",
    "delete",
    "evict",
]


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """One request, before it is processed."""

    verb: Verb
    resource: str
    """The plural name of the resource: "pods"."""

    namespace: str
    name: str


class _Fault(msgspec.Struct, kw_only=True):
    """An error that some of the next requests return."""

    verb: Verb | None
    resource: str
    name: str
    error: KubeError
    committed: bool
    times: int | None

    def matches(self, call: Call) -> bool:
        return (
            self.times != 0
            and self.verb in (None, call.verb)
            and self.resource in ("", call.resource)
            and self.name in ("", call.name)
        )


class Faults:
    """The faults of an API server. The first fault that matches a request applies."""

    def __init__(self) -> None:
        self._faults: list[_Fault] = []

    def fail_next(
        self,
        verb: Verb | None = None,
        *,
        status: int = 500,
        reason: str = "Injected",
        message: str = "by the test",
        resource: str = "",
        name: str = "",
        retry_after: float | None = None,
        committed: bool = False,
        times: int | None = 1,
    ) -> None:
        """Makes the next `times` matching requests fail with `status`; 0 for no response. `resource` is a plural name.

        With `committed`, a write is processed and only its response is replaced by the error.
        """
        error = error_for_status(status, reason, message, retry_after)
        self._faults.append(
            _Fault(verb=verb, resource=resource, name=name, error=error, committed=committed, times=times)
        )

    def refuse(self, verb: Verb | None = None, *, status: int = 403, resource: str = "", name: str = "") -> None:
        """Makes every matching request fail until `clear`. Without a verb and with status 0, the server does not
        respond."""
        self.fail_next(verb, status=status, resource=resource, name=name, times=None)

    def clear(self) -> None:
        """Remove all faults."""
        self._faults.clear()

    def apply(self, call: Call) -> KubeError | None:
        """Raises the error of the request; returns the error that replaces the response of a write."""
        fault = next((fault for fault in self._faults if fault.matches(call)), None)
        if fault is None:
            return None
        if fault.times is not None:
            fault.times -= 1
        if not fault.committed:
            raise fault.error
        return fault.error
