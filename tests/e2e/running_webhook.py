"""The webhook of placement hints as a program of this process, as the API server reaches it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
from prometheus_client import CollectorRegistry

from equipoise.annotator.settings import AnnotatorSettings, HintsWebhookSettings, HintWriteSettings
from equipoise.annotator.shell.hints_webhook.service import serve
from equipoise.cli.certificates.issue import CertificatePair, new_ca, server_pair
from equipoise.contracts.configuration.server_tls import ServerTls
from equipoise.contracts.hints.webhook import SERVICE
from equipoise.runtime.configuration import Configuration, Shared
from equipoise.runtime.kubernetes.client import Kube
from equipoise.runtime.process.clock import Clock, SystemClock
from equipoise.runtime.process.health import Health
from equipoise.runtime.process.lifecycle import Runtime

Document = dict[str, Any]


def service(namespace: str) -> Document:
    """A Service that leads to this machine: there is no kube-proxy."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": SERVICE, "namespace": namespace},
        "spec": {"type": "ExternalName", "externalName": "localhost"},
    }


class WebhookFiles:
    """The Secret of the webhook, as it is mounted."""

    def __init__(self, folder: Path, namespace: str) -> None:
        self.folder = folder
        self._name = f"{SERVICE}.{namespace}.svc"
        folder.mkdir(parents=True, exist_ok=True)
        self.issue()

    def issue(self) -> CertificatePair:
        """A new CA, and a certificate of it."""
        now = SystemClock().now()
        ca = new_ca(now, "equipoise hints webhook CA")
        pair = server_pair(ca, [self._name], [], 1, now, SERVICE)
        for name, content in (
            ("tls.crt", pair.certificate_text),
            ("tls.key", pair.key_text),
            ("ca.crt", ca.certificate_text),
        ):
            new = self.folder / f".{name}"
            new.write_bytes(content)
            new.replace(self.folder / name)
        return ca

    @property
    def ca(self) -> bytes:
        return (self.folder / "ca.crt").read_bytes()

    def settings(self, port: int, **fields: Any) -> HintsWebhookSettings:
        """Settings with these files, and this port for both the program and the Service."""
        folder = self.folder
        tls = ServerTls(certificate_file=str(folder / "tls.crt"), key_file=str(folder / "tls.key"))
        return HintsWebhookSettings(
            listen=f"127.0.0.1:{port}", service_port=port, tls=tls, ca_file=str(folder / "ca.crt"), **fields
        )


class RunningWebhook(msgspec.Struct, frozen=True, kw_only=True):
    health: Health
    metrics: CollectorRegistry

    def count(self, result: str) -> float:
        name = "equipoise_hints_webhook_requests_total"
        return self.metrics.get_sample_value(name, {"result": result}) or 0.0


@asynccontextmanager
async def running_webhook(
    kube: Kube, settings: HintsWebhookSettings, clock: Clock | None = None
) -> AsyncIterator[RunningWebhook]:
    """When it is ready. Ends it at the end of the block."""
    metrics = CollectorRegistry()
    own = AnnotatorSettings(hints=HintWriteSettings(admission="webhook", webhook=settings))
    health = Health(configuration_hash="", metrics=metrics)
    runtime = Runtime(
        configuration=Configuration(shared=Shared(), own=own, hash=""), identity="webhook", api_server=kube,
        clock=clock or SystemClock(), health=health, metrics=metrics,
    )  # fmt: skip
    task = asyncio.create_task(serve(runtime))
    try:
        async with asyncio.timeout(60):
            while not health.report().ready:
                await asyncio.sleep(0.01)
                if task.done():
                    task.result()
        yield RunningWebhook(health=health, metrics=metrics)
    finally:
        task.cancel()
        await asyncio.wait([task])
