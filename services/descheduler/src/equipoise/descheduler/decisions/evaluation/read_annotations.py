"""The annotations that an evaluation reads. Others are not kept, because each object may have 256 KiB of them."""

from typing import TypeVar

from msgspec import structs

from equipoise.contracts.eviction.deletion_cost import DELETION_COST
from equipoise.contracts.eviction.detached import DETACHED_HASH
from equipoise.contracts.eviction.gangs import GANG_KEYS
from equipoise.contracts.eviction.opt_out import DO_NOT_DISRUPT, EVICTION_COST, OPT_OUT, PROTECTING
from equipoise.contracts.eviction.protection import CONFIG_SOURCE, MIRROR
from equipoise.contracts.eviction.surge import SURGE_OPT_OUT
from equipoise.contracts.hints.policy import HINTED
from equipoise.contracts.kubernetes.objects.metadata import Object
from equipoise.scheduling.model.volumes import BETA_CLASS, BIND_COMPLETED, SELECTED_NODE

T = TypeVar("T", bound=Object)

READ = frozenset(
    {
        *(OPT_OUT, *PROTECTING, DO_NOT_DISRUPT, MIRROR, CONFIG_SOURCE, *GANG_KEYS),
        *(DELETION_COST, DETACHED_HASH, EVICTION_COST, HINTED, SURGE_OPT_OUT),
        *(BETA_CLASS, BIND_COMPLETED, SELECTED_NODE),
    }
)
LONGEST = 1_000
"""Characters of a value that are kept. A longer value then ends with `…`, so that it is no valid number, duration or
name, and protects the pod."""


def with_read_annotations(value: T) -> T:
    """The object without its other annotations."""
    annotations = value.metadata.annotations
    if not annotations:
        return value
    kept = {key: _cut(text) for key, text in annotations.items() if key in READ}
    return structs.replace(value, metadata=structs.replace(value.metadata, annotations=kept))


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"
