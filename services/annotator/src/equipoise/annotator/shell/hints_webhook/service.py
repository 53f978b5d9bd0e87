"""The webhook: follows the hints of all namespaces, and responds to the API server."""

import asyncio
import math

import structlog

from equipoise.annotator.settings import AnnotatorSettings
from equipoise.annotator.shell.hints_webhook.server import WebhookServer
from equipoise.contracts.hints.policy import NAME
from equipoise.runtime.kubernetes.client import HINTS
from equipoise.runtime.kubernetes.reflector import Reflector
from equipoise.runtime.process.lifecycle import Runtime

log = structlog.get_logger()


async def serve(runtime: Runtime[AnnotatorSettings]) -> None:
    """Run the webhook until canceled. It is ready once it has the hints; then its Service sends requests to it."""
    settings = runtime.own.hints.webhook
    # Only objects of this name, because users may create others, which would fill the memory.
    reflector = Reflector(runtime.kube, HINTS, clock=runtime.clock, field_selector=f"metadata.name={NAME}")
    runtime.health.include_problems(
        lambda: [f"the hints may be outdated: {reflector.problem}"] * bool(reflector.problem)
    )
    server = WebhookServer(
        hints=lambda namespace: reflector.objects.get((namespace, NAME)),
        settings=settings,
        clock=runtime.clock,
        metrics=runtime.metrics,
    )
    async with server.serve(settings.listen) as port, asyncio.TaskGroup() as tasks:
        log.info("listening", port=port)
        tasks.create_task(server.reload_certificates(runtime.health), name="certificates")
        tasks.create_task(reflector.run(), name="hints")
        await reflector.wait_synced(math.inf)
        runtime.health.warmed_up()
