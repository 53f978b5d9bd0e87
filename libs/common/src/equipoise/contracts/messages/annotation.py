"""`annotation.>`: what the annotator wrote."""

from equipoise.contracts.bounds import Time
from equipoise.contracts.messages.example import HOT_NODE, NOW
from equipoise.contracts.messages.message import Message


class AnnotationWritten(Message, frozen=True, kw_only=True):
    """`annotation.node.<node>` and `annotation.workload.…`: annotations that were written on an object."""

    object: str
    """`node/<name>`, or the workload as text."""

    annotations: dict[str, str]
    why: str
    written_at: Time


ANNOTATION_WRITTEN = AnnotationWritten(
    object=f"node/{HOT_NODE}",
    annotations={
        "equipoise.dev/load": '{"windows":{"5m":{"mean":{"cpu":0.91,"memory":0.5625}}},"sampledAt":1799999994}'
    },
    why="cpu changed by 7 points",
    written_at=NOW + 0.1,
)
