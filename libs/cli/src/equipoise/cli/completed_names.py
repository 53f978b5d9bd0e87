"""Names that the shell completes. Pods and nodes are read from the cluster; the program knows policies and subjects."""

from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from equipoise.contracts.kubernetes.objects.metadata import Object
    from equipoise.runtime.kubernetes.client import Resource

TIMEOUT = 10.0
"""Seconds to wait for the cluster. If it does not respond, nothing is completed."""


def pods(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Pods as NAMESPACE/NAME. Before the namespace is complete, only the first page of pods of the cluster is read."""
    from equipoise.runtime.kubernetes.client import PODS

    namespace, slash, _ = incomplete.partition("/")
    objects = _read(context, PODS, namespace if slash else "")
    names = (f"{pod.metadata.namespace or namespace}/{pod.metadata.name}" for pod in objects)
    return sorted(name for name in names if name.startswith(incomplete))


def nodes(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    from equipoise.runtime.kubernetes.client import NODES

    objects = _read(context, NODES, "")
    return sorted(node.metadata.name for node in objects if node.metadata.name.startswith(incomplete))


def policies(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    from equipoise.scorer.decisions.policies.table import SINGLE_POLICIES

    return sorted(name for name in ("stock", "greedy", *SINGLE_POLICIES) if name.startswith(incomplete))


def subjects(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    from equipoise.contracts.bus.channels import CHANNELS

    names = {".".join(channel.pattern.split(".")[1:3]).rstrip(".*>") for channel in CHANNELS}
    return sorted(name for name in names if name.startswith(incomplete))


def checks_of_doctor(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    from equipoise.cli.doctor.checks import CHECKS

    return sorted(name for name in CHECKS if name.startswith(incomplete))


def _read(context: click.Context, resource: "Resource[Any]", namespace: str) -> "list[Object]":
    """The objects of the namespace, or else the first page of the cluster; empty if they cannot be read."""
    import asyncio
    from contextlib import aclosing

    from equipoise.cli.exit_codes import InvalidInput
    from equipoise.cli.options import ClusterOptions
    from equipoise.runtime.configuration import ConfigurationError
    from equipoise.runtime.kubernetes.client import KubeError, metadata_of
    from equipoise.runtime.kubernetes.connection import connect_kube
    from equipoise.runtime.process.clock import SystemClock

    parameters = context.params
    options = ClusterOptions(
        command="complete",
        configuration=parameters.get("configuration"),
        kubeconfig=parameters.get("kubeconfig"),
        context=parameters.get("context"),
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
