"""Opens the connection to the API server. kubernetes-asyncio reads its kubeconfigs and tokens."""

import asyncio
import math
import os
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from equipoise.runtime.configuration import Kubernetes
from equipoise.runtime.kubernetes.client import KubeError
from equipoise.runtime.kubernetes.credential_loaders import CredentialLoaders, import_credential_loaders
from equipoise.runtime.process.bounded_files import read_bounded
from equipoise.runtime.process.clock import Clock
from equipoise.runtime.process.failure_reason import failure_reason

if TYPE_CHECKING:
    from equipoise.runtime.kubernetes.http.api_server import ApiServer

TLS_RELOAD_PERIOD = 5.0
"""The minimum number of seconds between two reads of the certificates after failed connections."""


@asynccontextmanager
async def connect_kube(
    settings: Kubernetes,
    service: str,
    clock: Clock,
    *,
    environment: Mapping[str, str] = os.environ,
) -> AsyncIterator["ApiServer"]:
    """Yields the client of the API server, without sending a request. In its logs, the client is `equipoise-<service>`.

    Raises KubeError when the credentials cannot be found or read.
    """
    from equipoise.runtime.kubernetes.http.api_server import ApiServer
    from equipoise.runtime.kubernetes.http.requests import Requests
    from equipoise.runtime.kubernetes.http.transport import Transport

    agent = f"equipoise-{service}"
    loaders = import_credential_loaders()
    configuration = loaders.Configuration()
    credentials = _Credentials(loaders, configuration, settings, environment, clock)
    await credentials.reload()
    transport = Transport(
        url=str(configuration.host),
        server_name=configuration.tls_server_name,
        proxy=configuration.proxy,
    )
    try:
        yield ApiServer(
            Requests(
                transport=transport,
                credentials=credentials,
                user_agent=f"{agent}/{version('equipoise-common')}",
                clock=clock,
            ),
            agent=agent,
            as_service_account=credentials.as_service_account,
        )
    finally:
        await transport.close()


class _Credentials:
    """The certificates, and the token, which kubernetes-asyncio reads again every minute."""

    tls: ssl.SSLContext

    def __init__(
        self,
        loaders: CredentialLoaders,
        configuration: Any,
        settings: Kubernetes,
        environment: Mapping[str, str],
        clock: Clock,
    ) -> None:
        self._loaders = loaders
        self._configuration = configuration
        self._settings = settings
        self._environment = environment
        self._clock = clock
        self._certificates: tuple[bytes, ...] = ()
        """The contents of the files from which `tls` was created."""

        self._reloading = asyncio.Lock()
        self._reloaded_at = -math.inf
        self.as_service_account = "KUBERNETES_SERVICE_HOST" in environment and not settings.kubeconfig

    async def authorization(self) -> str:
        try:
            token: str | None = await self._configuration.get_api_key_with_prefix("BearerToken")
        except Exception as error:
            raise _no_credentials(error) from error
        return (token or "").strip()

    async def reload(self) -> None:
        """Reads the address of the server, the token and the certificates."""
        service_account = Path(self._settings.service_account)
        try:
            if self.as_service_account:
                self._loaders.InClusterConfigLoader(
                    token_filename=str(service_account / "token"),
                    cert_filename=str(service_account / "ca.crt"),
                    environ=dict(self._environment),
                ).load_and_set(self._configuration)
            else:
                for file in self._kubeconfigs():
                    read_bounded(file)  # the loader has no limit
                await self._loaders.load_kube_config(
                    config_file=self._settings.kubeconfig or None,
                    context=self._settings.context or None,
                    client_configuration=self._configuration,
                    persist_config=False,
                )
            self._load_tls()
        except Exception as error:
            raise _no_credentials(error) from error

    def _kubeconfigs(self) -> list[str]:
        """The existing files among those that the loader of kubernetes-asyncio reads."""
        names = self._settings.kubeconfig or self._environment.get("KUBECONFIG") or "~/.kube/config"
        files = [os.path.expanduser(name) for name in names.split(os.pathsep) if name]
        return [file for file in files if os.path.exists(file)]

    async def reload_tls(self, failed: ssl.SSLContext) -> bool:
        async with self._reloading:
            now = self._clock.monotonic()
            if self.tls is failed and now - self._reloaded_at >= TLS_RELOAD_PERIOD:
                self._reloaded_at = now
                await self.reload()
            return self.tls is not failed

    def _load_tls(self) -> None:
        """Creates a new context if a file has changed. The existing context would continue to trust a removed CA."""
        configuration = self._configuration
        names = (configuration.ssl_ca_cert, configuration.cert_file, configuration.key_file)
        # The files are read before the context is created. If one changes meanwhile, the next reload creates another
        # context.
        certificates = tuple(read_bounded(name) if name else b"" for name in names)
        if certificates != self._certificates:
            self.tls = _tls(configuration)
            self._certificates = certificates


def _tls(configuration: Any) -> ssl.SSLContext:
    """An SSL context with the trusted CA, and the client certificate if there is one."""
    context = ssl.create_default_context(cafile=configuration.ssl_ca_cert)
    if configuration.cert_file:
        context.load_cert_chain(configuration.cert_file, keyfile=configuration.key_file)
    if not configuration.verify_ssl:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _no_credentials(error: Exception) -> KubeError:
    """The error for credentials that cannot be loaded. The loaders raise any exception for an invalid file."""
    why = f"{error} is missing" if isinstance(error, KeyError) else failure_reason(error)
    problem = f"the credentials for the API server cannot be loaded: {why} (settings: kubernetes.kubeconfig, context)"
    return KubeError(0, "NoCredentials", problem)
