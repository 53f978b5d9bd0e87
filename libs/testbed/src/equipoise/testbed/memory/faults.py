"""What goes wrong at the API server in memory, as a test wants it."""

from typing import Literal

import msgspec

from equipoise.runtime.kubernetes.client import KubeError, error_for_status

Verb = Literal["discover", "get", "list", "watch", "create", "replace", "annotate", "evict"]


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """One request as it came in, before anything is done about it."""

    verb: Verb
    resource: str
    """Plural: "pods"."""

    namespace: str
    name: str


class _Fault(msgspec.Struct, kw_only=True):
    """What some of the next requests meet instead of an answer."""

    verb: Verb | None
    resource: str
    name: str
    error: KubeError
    committed: bool
    times: int | None

    def meets(self, call: Call) -> bool:
        return (
            self.times != 0
            and self.verb in (None, call.verb)
            and self.resource in ("", call.resource)
            and self.name in ("", call.name)
        )


class Faults:
    """Faults of an API server; the first that fits a request strikes."""

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
        """The next `times` matching requests fail with `status`; 0 = no answer. `resource` is a plural.

        With `committed` a write is carried out first and only its answer is lost.
        """
        error = error_for_status(status, reason, message, retry_after)
        self._faults.append(
            _Fault(verb=verb, resource=resource, name=name, error=error, committed=committed, times=times)
        )

    def refuse(self, verb: Verb | None = None, *, status: int = 403, resource: str = "", name: str = "") -> None:
        """Every matching request fails from now on, until `heal`. No verb and status 0: the server is away."""
        self.fail_next(verb, status=status, resource=resource, name=name, times=None)

    def heal(self) -> None:
        """No more faults."""
        self._faults.clear()

    def meet(self, call: Call) -> KubeError | None:
        """Raises what the request meets; returns the error that shall hide the answer of a write."""
        fault = next((fault for fault in self._faults if fault.meets(call)), None)
        if fault is None:
            return None
        if fault.times is not None:
            fault.times -= 1
        if not fault.committed:
            raise fault.error
        return fault.error
