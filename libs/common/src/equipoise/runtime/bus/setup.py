"""Makes the streams that the services use: run once before them, again after every upgrade.

`python -m equipoise.runtime.bus.setup` reads the same configuration as the services (EQUIPOISE_CONFIG). Services have
no right to make streams, so that none of them can change what another one stands on.
"""

import argparse
import asyncio
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import structlog
from nats.js import api
from nats.js.errors import APIError

from equipoise.contracts.bus.streams import UTILIZATION_MAX_AGE, WORKERS, Stream, with_max_ages
from equipoise.contracts.configuration.duration import Duration
from equipoise.runtime.bus import BusError, BusUnavailable
from equipoise.runtime.bus.codec import ACK_WAIT, MAX_DELIVERIES
from equipoise.runtime.bus.connection import NatsConnection
from equipoise.runtime.bus.errors import BusErrors
from equipoise.runtime.configuration import ConfigurationError, Nats, Shared, read_document, read_sections
from equipoise.runtime.process.clock import Clock, SystemClock
from equipoise.runtime.process.logging import configure_logging

log = structlog.get_logger()

INTENT_LIFETIME = Duration(180)
"""The default of `descheduler.intentLifetime`."""

_RETRY_PERIOD = 3.0
"""Seconds between two attempts to reach JetStream."""

_DUPLICATE_WINDOW = 120.0
"""Seconds for which message ids are remembered; never longer than the messages."""

_NOT_READY = 503
"""JetStream's status while it has no leader yet; any other means that waiting does not help."""

_NAME_IN_USE = 10058
"""JetStream's code for a stream that is there already, but is not like this."""


async def setup_streams(
    settings: Nats,
    *,
    intent_max_age: float,
    utilization_max_age: float = UTILIZATION_MAX_AGE,
    replicas: int = 1,
    clock: Clock | None = None,
) -> None:
    """Create or update all streams and the binders' consumer; waits for NATS, and may be run again at any time.

    Lives are seconds; `replicas` is the number of NATS servers that keep each message. Raises BusError when a stream
    cannot become what it should, or when `settings.user` may not make streams.
    """
    clock = clock or SystemClock()
    link = NatsConnection(settings, settings.user or "setup", BusErrors(clock))
    try:
        await link.open()
        for stream in with_max_ages(intent=intent_max_age, utilization=utilization_max_age):
            await _until_there(link, clock, stream, replicas)
    finally:
        await link.close()


async def _until_there(link: NatsConnection, clock: Clock, stream: Stream, replicas: int) -> None:
    """JetStream may be up later than NATS: a cluster first chooses a leader."""
    while True:
        try:
            await _make(link, stream, replicas)
            log.info("stream is ready", stream=stream.name, subjects=stream.subjects, max_age=stream.max_age)
            return
        except BusUnavailable as error:
            if isinstance(error.__cause__, APIError) and error.__cause__.code != _NOT_READY:
                raise BusError(f"{stream.name}: {error.__cause__.description}") from error
            log.warning("waiting for JetStream", stream=stream.name, error=str(error))
            await clock.sleep(_RETRY_PERIOD)


async def _make(link: NatsConnection, stream: Stream, replicas: int) -> None:
    config = stream_config(stream, replicas)
    create = f"$JS.API.STREAM.CREATE.{stream.name}"
    try:
        await link.answered(create, link.streams.add_stream(config))
    except BusUnavailable as error:
        if not isinstance(error.__cause__, APIError) or error.__cause__.err_code != _NAME_IN_USE:
            raise
        await link.answered(f"$JS.API.STREAM.UPDATE.{stream.name}", link.streams.update_stream(config))
    if stream.work_queue:
        subject = f"$JS.API.CONSUMER.CREATE.{stream.name}.{WORKERS}.{stream.subjects[0]}"
        await link.answered(subject, link.streams.add_consumer(stream.name, _workers(stream)))


def stream_config(stream: Stream, replicas: int) -> api.StreamConfig:
    """A stream as JetStream is told of it."""
    return api.StreamConfig(
        name=stream.name,
        subjects=list(stream.subjects),
        storage=api.StorageType.FILE,
        retention=api.RetentionPolicy.WORK_QUEUE if stream.work_queue else api.RetentionPolicy.LIMITS,
        max_msgs_per_subject=1 if stream.work_queue or stream.last_per_subject else -1,
        discard=api.DiscardPolicy.NEW if stream.work_queue else api.DiscardPolicy.OLD,
        discard_new_per_subject=stream.work_queue,
        max_age=stream.max_age,
        max_bytes=stream.max_bytes,
        duplicate_window=min(_DUPLICATE_WINDOW, stream.max_age or _DUPLICATE_WINDOW),
        num_replicas=replicas,
    )


def _workers(stream: Stream) -> api.ConsumerConfig:
    """The consumer that all binders share. No `backoff`: it would override `ack_wait`."""
    return api.ConsumerConfig(
        name=WORKERS,
        durable_name=WORKERS,
        filter_subject=stream.subjects[0],
        ack_policy=api.AckPolicy.EXPLICIT,
        ack_wait=ACK_WAIT,
        max_deliver=MAX_DELIVERIES,
    )


def read_max_ages(text: str | None, environment: Mapping[str, str]) -> tuple[Shared, Duration]:
    """The shared sections of a configuration and the life of an intent. Raises ConfigurationError."""
    document: Mapping[str, Any] = {} if text is None else read_document(text)
    shared, _ = read_sections(document, {}, environment)
    written = environment.get("EQUIPOISE_DESCHEDULER__INTENT_LIFETIME")
    section = document.get("descheduler")
    if written is None and isinstance(section, Mapping):
        written = section.get("intentLifetime")
    try:
        return shared, INTENT_LIFETIME if written is None else Duration.parse(written)
    except ValueError as error:
        raise ConfigurationError(f"descheduler.intentLifetime: {error}") from None


def main() -> int:
    """Exit codes: 0 the streams are there, 1 they cannot be made, 2 the configuration cannot be used."""
    parser = argparse.ArgumentParser(prog="python -m equipoise.runtime.bus.setup", description=__doc__)
    parser.add_argument("--replicas", type=int, default=1, help="how many NATS servers keep each message (default 1)")
    replicas = parser.parse_args().replicas
    path = os.environ.get("EQUIPOISE_CONFIG")
    try:
        shared, intent_max_age = read_max_ages(Path(path).read_text(encoding="utf-8") if path else None, os.environ)
    except (ConfigurationError, OSError) as error:
        print(f"equipoise streams: {error}", file=sys.stderr)
        return 2
    configure_logging(shared.logging, "streams")
    try:
        asyncio.run(setup_streams(shared.nats, intent_max_age=intent_max_age, replicas=replicas))
    except BusError as error:
        print(f"equipoise streams: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
