"""Creates the streams of the services: `equipoise setup` runs it before their first start and after every upgrade.

Services have no permission to create streams, so that none of them can change a stream of another.
"""

import structlog
from nats.js import api
from nats.js.errors import APIError

from equipoise.contracts.bus.streams import WORKERS, Stream, with_max_ages
from equipoise.runtime.bus import BusError, BusUnavailable
from equipoise.runtime.bus.codec import ACK_WAIT, MAX_DELIVERIES
from equipoise.runtime.bus.errors import BusErrors
from equipoise.runtime.bus.nats.connection import NatsConnection
from equipoise.runtime.bus.nats.work_queue import skipped
from equipoise.runtime.configuration import Nats
from equipoise.runtime.process.clock import Clock, SystemClock

log = structlog.get_logger()

_RETRY_PERIOD = 3.0
"""Seconds between two attempts to reach JetStream."""

_DUPLICATE_WINDOW = 120.0
"""Seconds for which message ids are stored; never longer than the messages."""

_CONSUMER_LIFETIME = 60.0
"""Seconds without a request after which a consumer of a stream that services read is deleted, even a durable one.

Each service may create consumers, and a stream has at most 1,000 of them. Otherwise somebody with one password could
create so many that no service can read the stream, even after the password is changed.
"""

_NOT_READY = 503
"""JetStream's status while it has no leader yet. With any other status, waiting does not help."""

_NAME_IN_USE = 10058
"""JetStream's code for a stream that exists with another configuration."""

_TOO_FEW_SERVERS = (10005, 10074)
"""JetStream's codes for more replicas than running servers, and for replicas on a server without a cluster."""

_OFFLINE = (10194, 10195)
"""JetStream's codes for a stream and a consumer whose files nats-server cannot read."""


async def setup_streams(settings: Nats, *, intent_max_age: float) -> None:
    """Creates or updates all streams and the consumer of the binders. Waits for NATS. May be run again at any time.

    `intent_max_age`: seconds. Raises BusError when a stream cannot be created or changed, or when `settings.user` has
    no permission for it.
    """
    clock = SystemClock()
    link = NatsConnection(settings, settings.user or "setup", BusErrors(clock))
    try:
        await link.open()
        for stream in with_max_ages(intent=intent_max_age):
            await _create_when_ready(link, clock, stream, settings.replicas)
    finally:
        await link.close()


async def _create_when_ready(link: NatsConnection, clock: Clock, stream: Stream, replicas: int) -> None:
    """Creates a stream as soon as JetStream is ready, which may be later than NATS: a cluster first elects a leader."""
    while True:
        try:
            await _create(link, stream, replicas)
            log.info("stream is ready", stream=stream.name, subjects=stream.subjects, max_age=stream.max_age)
            return
        except BusUnavailable as error:
            if isinstance(error.__cause__, APIError) and error.__cause__.code != _NOT_READY:
                why = f"{stream.name}: {error.__cause__.description}"
                if error.__cause__.err_code in _TOO_FEW_SERVERS:
                    why += f" (nats.replicas is {replicas}: as many servers of one NATS cluster must run)"
                if error.__cause__.err_code in _OFFLINE:
                    why += " (its files are damaged: delete the stream with `nats stream rm`, and run setup again)"
                raise BusError(why) from error
            log.warning("waiting for JetStream", stream=stream.name, error=str(error))
            await clock.sleep(_RETRY_PERIOD)


async def _create(link: NatsConnection, stream: Stream, replicas: int) -> None:
    config = stream_config(stream, replicas)
    try:
        await link.wait_for(f"$JS.API.STREAM.CREATE.{stream.name}", link.streams.add_stream(config))
    except BusUnavailable as error:
        if not isinstance(error.__cause__, APIError) or error.__cause__.err_code != _NAME_IN_USE:
            raise
        await link.wait_for(f"$JS.API.STREAM.UPDATE.{stream.name}", link.streams.update_stream(config))
    if stream.work_queue:
        [pattern] = stream.subjects
        # No `backoff`: it would override `ack_wait`.
        workers = api.ConsumerConfig(
            name=WORKERS,
            durable_name=WORKERS,
            filter_subject=pattern,
            ack_policy=api.AckPolicy.EXPLICIT,
            ack_wait=ACK_WAIT,
            max_deliver=MAX_DELIVERIES,
        )
        subject = f"$JS.API.CONSUMER.CREATE.{stream.name}.{WORKERS}.{pattern}"
        await link.wait_for(subject, link.streams.add_consumer(stream.name, workers))
        if await skipped(link, stream):
            log.warning("the stream lost messages: its consumer is created again", stream=stream.name)
            delete = link.streams.delete_consumer(stream.name, WORKERS)
            await link.wait_for(f"$JS.API.CONSUMER.DELETE.{stream.name}.{WORKERS}", delete)
            await link.wait_for(subject, link.streams.add_consumer(stream.name, workers))


def stream_config(stream: Stream, replicas: int = 1) -> api.StreamConfig:
    """The configuration of a stream for JetStream. `replicas` also applies to its durable consumers."""
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
        max_msg_size=stream.max_message_bytes,
        allow_direct=stream.open_to_users,
        allow_msg_ttl=stream.ages_differ,
        duplicate_window=min(_DUPLICATE_WINDOW, stream.max_age or _DUPLICATE_WINDOW),
        num_replicas=replicas,
        # The consumer of the work queue is created once, and must not be deleted before the binders start.
        consumer_limits=None if stream.work_queue else api.StreamConsumerLimits(inactive_threshold=_CONSUMER_LIFETIME),
    )
