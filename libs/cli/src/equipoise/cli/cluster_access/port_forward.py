"""A port of a pod for a command; what ends its connections is printed on stderr."""

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager

import click

from equipoise.cli.exit_codes import CommandFailed
from equipoise.runtime.kubernetes.client import Forbidden, KubeError
from equipoise.runtime.kubernetes.http.api_server import ApiServer
from equipoise.runtime.kubernetes.port_forward import port_forward


@asynccontextmanager
async def forwarded_port(
    api: ApiServer, namespace: str, pod: str, pod_port: int, *, what: str, otherwise: str
) -> AsyncIterator[int]:
    """The port on 127.0.0.1. `what`: the server behind the port, for messages; `otherwise`: another way to reach it.

    Raises CommandFailed if the first connection is not possible.
    """
    async with AsyncExitStack() as stack:
        try:
            opening = port_forward(api, namespace, pod, pod_port, _printed_once())
            forward = await stack.enter_async_context(opening)
        except KubeError as error:
            raise CommandFailed(_not_forwarded(error, namespace, pod, pod_port, what, otherwise)) from None
        yield forward.port


def _printed_once() -> Callable[[str], None]:
    """A client tries again and again: the same problem is printed only once in a row."""
    last = ""

    def print_problem(problem: str) -> None:
        nonlocal last
        if problem != last:
            click.echo(f"the connection through the API server has ended: {problem}", err=True)
        last = problem

    return print_problem


def _not_forwarded(error: KubeError, namespace: str, pod: str, pod_port: int, what: str, otherwise: str) -> str:
    if isinstance(error, Forbidden):
        return (
            f"you may not forward ports in namespace {namespace} ({error.message}): needed are the rights to get and "
            f"create pods/portforward, {otherwise}"
        )
    return (
        f"the port of {what} cannot be forwarded: {error}. Check that `kubectl -n {namespace} port-forward pod/{pod} "
        f"{pod_port}` works, {otherwise}"
    )
