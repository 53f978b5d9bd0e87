"""Names that the shell completes: of pods and nodes from the kubeconfig, of policies and subjects from the program."""

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from equipoise.contracts.kubernetes.objects import Object

TIMEOUT = 10.0
"""Seconds. A cluster that does not respond has no names."""


def pods(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """NAMESPACE/NAME: of one namespace if it is complete, else of the first pods of the cluster."""
    from equipoise.runtime.kubernetes.client import PODS

    namespace, slash, _ = incomplete.partition("/")
    found = _read(context, PODS.plural, namespace if slash else "")
    names = (f"{each.metadata.namespace or namespace}/{each.metadata.name}" for each in found)
    return sorted(name for name in names if name.startswith(incomplete))


def nodes(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    found = _read(context, "nodes", "")
    return sorted(each.metadata.name for each in found if each.metadata.name.startswith(incomplete))


def policies(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    from equipoise.scorer.decisions.policies.table import SINGLE_POLICIES

    return sorted(name for name in ("stock", "greedy", *SINGLE_POLICIES) if name.startswith(incomplete))


def subjects(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    from equipoise.contracts.bus.channels import CHANNELS

    names = {".".join(channel.pattern.split(".")[1:3]).rstrip(".*>") for channel in CHANNELS}
    return sorted(name for name in names if name.startswith(incomplete))


def _read(context: click.Context, plural: str, namespace: str) -> "list[Object]":
    """The first page of objects; none if they cannot be read."""
    import asyncio
    from contextlib import aclosing

    from equipoise.cli.exit_codes import InvalidInput
    from equipoise.cli.options import ClusterOptions
    from equipoise.runtime.configuration import ConfigurationError
    from equipoise.runtime.kubernetes.client import NODES, PODS, KubeError, metadata_of
    from equipoise.runtime.kubernetes.connection import connect_kube
    from equipoise.runtime.process.clock import SystemClock

    given = context.params
    options = ClusterOptions(
        configuration=given.get("configuration"), kubeconfig=given.get("kubeconfig"), context=given.get("context")
    )
    resource = metadata_of(NODES if plural == NODES.plural else PODS)

    async def read() -> "list[Object]":
        async with asyncio.timeout(TIMEOUT), connect_kube(options.connection(), "complete", SystemClock()) as api:
            if namespace:
                return await api.list(resource, namespace)
            async with aclosing(api.pages(resource)) as pages:
                async for page in pages:
                    return list(page)
        return []

    try:
        return asyncio.run(read())
    except (KubeError, InvalidInput, ConfigurationError, TimeoutError, OSError):
        return []
