"""Opens the connection to the API server. Only this file uses kubernetes-asyncio: for kubeconfigs and tokens."""

import os
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

from equipoise.runtime.configuration import Kubernetes
from equipoise.runtime.kubernetes.client import Kube, KubeError
from equipoise.runtime.process.clock import Clock


@asynccontextmanager
async def connect_kube(
    settings: Kubernetes,
    service: str,
    clock: Clock,
    *,
    environment: Mapping[str, str] = os.environ,
) -> AsyncIterator[Kube]:
    """The API server, as `equipoise-<service>`. No request is made yet.

    Raises KubeError when the credentials cannot be found or read.
    """
    from kubernetes_asyncio.client.configuration import Configuration

    from equipoise.runtime.kubernetes.http import ApiServer, Transport

    configuration = Configuration()
    credentials = _Credentials(configuration, _loader(settings, configuration, environment))
    await credentials.reload()
    transport = Transport(
        url=str(configuration.host),
        tls=_tls(configuration),
        server_name=configuration.tls_server_name,
        proxy=configuration.proxy,
    )
    try:
        yield ApiServer(
            transport=transport,
            credentials=credentials,
            agent=f"equipoise-{service}",
            version=version("equipoise-common"),
            clock=clock,
        )
    finally:
        await transport.close()


class _Credentials:
    """A token that kubernetes-asyncio reads again every minute."""

    def __init__(self, configuration: Any, load: Callable[[], Awaitable[None]]) -> None:
        self._configuration = configuration
        self._load = load

    async def authorization(self) -> str:
        try:
            token: str | None = await self._configuration.get_api_key_with_prefix("BearerToken")
        except Exception as error:
            raise _no_credentials(error) from error
        return (token or "").strip()

    async def reload(self) -> None:
        try:
            await self._load()
        except Exception as error:
            raise _no_credentials(error) from error


def _tls(configuration: Any) -> ssl.SSLContext:
    """The trusted CA, and the client certificate if there is one."""
    try:
        context = ssl.create_default_context(cafile=configuration.ssl_ca_cert)
        if configuration.cert_file:
            context.load_cert_chain(configuration.cert_file, keyfile=configuration.key_file)
    except OSError as error:
        raise _no_credentials(error) from error
    if not configuration.verify_ssl:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _no_credentials(error: Exception) -> KubeError:
    """Loaders raise any exception for an invalid file: the message contains its type."""
    return KubeError(0, "NoCredentials", f"{type(error).__name__}: {error} (settings: kubernetes.kubeconfig, context)")


def _loader(settings: Kubernetes, configuration: Any, environment: Mapping[str, str]) -> Callable[[], Awaitable[None]]:
    """Stores the server's address and the token in `configuration`."""
    from kubernetes_asyncio.config.incluster_config import InClusterConfigLoader
    from kubernetes_asyncio.config.kube_config import load_kube_config

    service_account = Path(settings.service_account)

    async def in_cluster() -> None:
        InClusterConfigLoader(
            token_filename=str(service_account / "token"),
            cert_filename=str(service_account / "ca.crt"),
            environ=dict(environment),
        ).load_and_set(configuration)

    async def from_file() -> None:
        await load_kube_config(
            config_file=settings.kubeconfig or None,
            context=settings.context or None,
            client_configuration=configuration,
            persist_config=False,
        )

    inside = "KUBERNETES_SERVICE_HOST" in environment and not settings.kubeconfig
    return in_cluster if inside else from_file
