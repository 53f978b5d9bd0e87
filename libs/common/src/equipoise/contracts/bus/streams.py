"""The streams of the bus: which messages JetStream keeps, how many and for how long."""

import msgspec

from equipoise.contracts.bus.subjects import PREFIX
from equipoise.contracts.messages.health import CONFIGURATION_KEPT

UTILIZATION_MAX_AGE: float = 1_800
"""Seconds for which the last utilization of a removed node and the last cycle of a removed shard are kept."""


class Stream(msgspec.Struct, frozen=True, kw_only=True):
    """How JetStream keeps the messages of some subjects. All streams are stored in files, so a restart loses
    nothing."""

    name: str
    subjects: tuple[str, ...]
    last_per_subject: bool = False
    work_queue: bool = False
    """Whether each message goes to one worker. Then a subject holds one message, and a second message is refused."""

    open_to_users: bool = False
    """Whether the user `tap` may read the messages."""

    max_age: float | None = None
    """The maximum age of messages in seconds; None for no maximum."""

    ages_differ: bool = False
    """Whether a message may have a shorter maximum age of its own (`Message.max_age`)."""

    max_bytes: int
    """The maximum size of all messages. A full work queue refuses new messages; every other stream removes the
    oldest."""

    max_message_bytes: int | None = None
    """The maximum size of a message with its headers; None for the maximum of the server."""


STREAMS: tuple[Stream, ...] = (
    Stream(
        name="EQUIPOISE_UTILIZATION",
        subjects=(f"{PREFIX}.utilization.>",),
        last_per_subject=True,
        open_to_users=True,
        max_age=UTILIZATION_MAX_AGE,
        max_bytes=512 * 2**20,
    ),
    Stream(
        name="EQUIPOISE_PLACEMENT",
        subjects=(f"{PREFIX}.placement.>",),
        last_per_subject=True,
        open_to_users=True,
        ages_differ=True,
        max_bytes=512 * 2**20,
    ),
    Stream(
        name="EQUIPOISE_RECLAIM",
        subjects=(f"{PREFIX}.reclaim.>",),
        last_per_subject=True,
        open_to_users=True,
        max_age=86_400,  # a reclaimer that starts reads the usage of the last day from these messages
        max_bytes=64 * 2**20,
    ),
    Stream(
        name="EQUIPOISE_INTENT",
        subjects=(f"{PREFIX}.eviction.intent.>",),
        work_queue=True,
        max_age=180,
        max_bytes=32 * 2**20,
        max_message_bytes=8 * 2**10,  # an intent has about one KiB
    ),
    Stream(
        name="EQUIPOISE_OUTCOME",
        subjects=(f"{PREFIX}.eviction.outcome.>",),
        open_to_users=True,
        max_age=86_400,
        max_bytes=256 * 2**20,
    ),
    Stream(
        name="EQUIPOISE_DECISION",
        subjects=(f"{PREFIX}.annotation.>", f"{PREFIX}.decision.>"),
        open_to_users=True,
        max_age=86_400,
        max_bytes=256 * 2**20,
    ),
    Stream(
        name="EQUIPOISE_ADVICE",
        subjects=(f"{PREFIX}.advice.>",),
        last_per_subject=True,
        open_to_users=True,
        max_age=8 * 86_400,  # the report covers a week, and is made on the eighth day
        max_bytes=256 * 2**20,
    ),
    Stream(
        name="EQUIPOISE_CONFIGURATION",
        subjects=(f"{PREFIX}.configuration.>",),
        last_per_subject=True,
        open_to_users=True,
        max_age=CONFIGURATION_KEPT,
        max_bytes=64 * 2**20,
    ),
)


WORKERS = "binder"
"""The durable consumer of the work queue that all binders share."""


def with_max_ages(*, intent: float, utilization: float = UTILIZATION_MAX_AGE) -> tuple[Stream, ...]:
    """The streams with the configured maximum ages (seconds) of intents and of utilization."""
    ages = {"EQUIPOISE_INTENT": intent, "EQUIPOISE_UTILIZATION": utilization}
    return tuple(msgspec.structs.replace(stream, max_age=ages.get(stream.name, stream.max_age)) for stream in STREAMS)


def foreign_subjects(queue: Stream) -> tuple[str, ...]:
    """Patterns of the messages that do not belong into a work queue.

    JetStream delivers messages to any reply subject. So messages of other streams may be stored in the queue, on their
    own subjects.
    """
    return tuple(pattern for stream in STREAMS if stream.name != queue.name for pattern in stream.subjects)


def stream_of(subject: str) -> Stream | None:
    """The stream that keeps the messages of this subject or pattern; None if no stream does."""
    return next(
        (stream for stream in STREAMS for pattern in stream.subjects if subject.startswith(pattern.removesuffix(">"))),
        None,
    )
