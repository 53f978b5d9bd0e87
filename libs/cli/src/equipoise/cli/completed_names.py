"""Names that the shell completes: of pods and nodes from the kubeconfig, of policies and subjects from the program."""

from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from equipoise.contracts.kubernetes.objects.metadata import Object
    from equipoise.runtime.kubernetes.client import Resource

TIMEOUT = 10.0
"""Seconds. A cluster that does not respond has no names."""


def pods(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """NAMESPACE/NAME: of one namespace if it is complete, else of the first pods of the cluster."""
    from equipoise.runtime.kubernetes.client import PODS

    namespace, slash, _ = incomplete.partition("/")
    found = _read(context, PODS, namespace if slash else "")
    names = (f"{each.metadata.namespace or namespace}/{each.metadata.name}" for each in found)
    return sorted(name for name in names if name.startswith(incomplete))


def nodes(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    from equipoise.runtime.kubernetes.client import NODES

    found = _read(context, NODES, "")
    return sorted(each.metadata.name for each in found if each.metadata.name.startswith(incomplete))


def policies(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    from equipoise.scorer.decisions.policies.table import SINGLE_POLICIES

    return sorted(name for name in ("stock", "greedy", *SINGLE_POLICIES) if name.startswith(incomplete))


def subjects(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    from equipoise.contracts.bus.channels import CHANNELS

    names = {".".join(channel.pattern.split(".")[1:3]).rstrip(".*>") for channel in CHANNELS}
    return sorted(name for name in names if name.startswith(incomplete))


def _read(context: click.Context, resource: "Resource[Any]", namespace: str) -> "list[Object]":
    """The first page of objects; none if they cannot be read."""
    import asyncio
    from contextlib import aclosing

    from equipoise.cli.exit_codes import InvalidInput
    from equipoise.cli.options import ClusterOptions
    from equipoise.runtime.configuration import ConfigurationError
    from equipoise.runtime.kubernetes.client import KubeError, metadata_of
    from equipoise.runtime.kubernetes.connection import connect_kube
    from equipoise.runtime.process.clock import SystemClock

    given = context.params
    options = ClusterOptions(
        command="complete",
        configuration=given.get("configuration"),
        kubeconfig=given.get("kubeconfig"),
        context=given.get("context"),
    )
    only_metadata = metadata_of(resource)

    async def read() -> "list[Object]":
        async with asyncio.timeout(TIMEOUT), connect_kube(options.connection(), options.command, SystemClock()) as api:
            if namespace:
                return await api.list(only_metadata, namespace)
            async with aclosing(api.pages(only_metadata)) as pages:
                async for page in pages:
                    return list(page)
        return []

    try:
        return asyncio.run(read())
    except (KubeError, InvalidInput, ConfigurationError, TimeoutError, OSError):
        return []
