"""`annotation.>`: what the annotator wrote on objects."""

from equipoise.contracts.messages.message import Message


class AnnotationWritten(Message, frozen=True, kw_only=True):
    """`annotation.node.<node>` and `annotation.workload.…`: what was written on an object."""

    object: str
    """`node/<name>`, or the workload as text."""

    annotations: dict[str, str]
    why: str
    written_at: float
