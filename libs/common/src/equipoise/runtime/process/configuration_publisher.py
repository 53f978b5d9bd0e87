"""Publishes what this process runs with, so that commands can show what is in effect."""

import asyncio
from contextlib import suppress
from typing import Any

import structlog

from equipoise.contracts.bus.subjects import ServiceName
from equipoise.contracts.bus.subjects import configuration as configuration_subject
from equipoise.contracts.configuration.redaction import redacted
from equipoise.contracts.messages.health import CONFIGURATION_PERIOD, EffectiveConfiguration
from equipoise.runtime.bus import Bus, BusError
from equipoise.runtime.configuration import Configuration, to_document, without_header
from equipoise.runtime.process.clock import Clock
from equipoise.runtime.process.health import Health

CHECK_PERIOD = 2.0
"""Seconds between two checks whether anything has changed."""

RETRY_PERIOD = 10.0
"""Seconds from a failed attempt to the next one. All fail while the stream or the permission to publish is missing."""

_LAST_SECONDS = 2.0
"""Seconds that the last message may take, because the process is being stopped."""

log = structlog.get_logger()


class ConfigurationPublisher:
    """Publishes the configuration of this process. A process with another configuration has another identity."""

    def __init__(
        self,
        service: ServiceName,
        identity: str,
        version: str,
        configuration: Configuration[Any],
        health: Health,
        clock: Clock,
    ) -> None:
        self._service = service
        self._identity = identity
        self._version = version
        self._hash = configuration.hash
        document = without_header(to_document(configuration.shared, {service: configuration.own}))
        self._settings: dict[str, object] = redacted(document)
        self._health = health
        self._clock = clock
        self._started_at = clock.now()

    async def run(self, bus: Bus) -> None:
        """Publish until it is cancelled; the last message then states that this process has stopped."""
        try:
            published: EffectiveConfiguration | None = None
            while True:
                message, pause = self._message(), CHECK_PERIOD
                if published is None or _is_due(message, published):
                    if await self._publish(bus, message):
                        published = message
                    else:
                        pause = RETRY_PERIOD
                await self._clock.sleep(pause)
        except asyncio.CancelledError:
            with suppress(TimeoutError):
                async with asyncio.timeout(_LAST_SECONDS):
                    await self._publish(bus, self._message(stopped=True))
            raise

    def _message(self, *, stopped: bool = False) -> EffectiveConfiguration:
        return EffectiveConfiguration(
            service=self._service,
            id=self._identity,
            version=self._version,
            hash=self._hash,
            settings=self._settings,
            leading=self._health.leading,
            evictions=self._health.evictions,
            started_at=self._started_at,
            at=self._clock.now(),
            stopped=stopped,
        )

    async def _publish(self, bus: Bus, message: EffectiveConfiguration) -> bool:
        try:
            await bus.publish(configuration_subject(self._service, self._identity), message)
        except BusError as error:
            log.debug("configuration not published", error=str(error))  # the bus reports its own problems
            return False
        return True


def _is_due(message: EffectiveConfiguration, published: EffectiveConfiguration) -> bool:
    changed = (message.leading, message.evictions) != (published.leading, published.evictions)
    return changed or message.at - published.at >= CONFIGURATION_PERIOD
