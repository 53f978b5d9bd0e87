"""Ledgers of other versions: of earlier ones as recorded, and of a later one as it may be."""

import json
from typing import Any

import msgspec
import pytest
from binder.campaigns import a_campaign
from binder.ledgers import a_ledger, an_entry
from binder.worlds import OWN, World
from builders import NOW
from contracts.documents import LATER_FIELD, LATER_VALUE, differences, recorded

from equipoise.binder.shell.ledger_store import NAME, pause, resume
from equipoise.binder.state.ledger import HourlyCount
from equipoise.binder.state.ledger_entry import PastEviction
from equipoise.binder.state.ledger_json import decode, encode
from equipoise.contracts.kubernetes.objects.cluster import ConfigMap
from equipoise.contracts.kubernetes.objects.metadata import ObjectMeta
from equipoise.contracts.messages.message import converted
from equipoise.runtime.kubernetes.client import CONFIG_MAPS

CLOSED = frozenset({"workload", "epoch", "expected"})
"""Objects of the ledger to which later versions add no fields: this version would lose them."""


def of_a_later_version(value: Any) -> Any:
    """With an unknown field in every object that may get one."""
    if isinstance(value, dict):
        kept = {name: each if name in CLOSED else of_a_later_version(each) for name, each in value.items()}
        return kept | {LATER_FIELD: LATER_VALUE}
    return [of_a_later_version(each) for each in value] if isinstance(value, list) else value


@pytest.mark.parametrize("version", recorded("ledger"))
def test_a_ledger_of_an_earlier_version_is_read_and_written(version: str) -> None:
    """All values of all fields: a field may be added, but not renamed, removed or given another type."""
    text = recorded("ledger")[version]()
    assert differences(json.loads(text), json.loads(encode(decode(text)))) == []


def test_an_earlier_version_without_a_format_version_is_read() -> None:
    document = msgspec.to_builtins(a_ledger(an_entry()))
    del document["formatVersion"]
    assert decode(json.dumps(document)) == a_ledger(an_entry())


async def test_all_that_a_later_version_has_added_survives_every_write(world: World) -> None:
    """A reservation, its settlement, a pause and a resume keep fields of the document, its hours and entries, and other
    keys, labels and annotations of the ConfigMap."""
    hours = (HourlyCount(begin=NOW - 7_200, evictions=2),)
    past = (converted(an_entry("web-8"), PastEviction, settled_at=NOW - 60),)
    ledger = a_ledger(an_entry("web-9"), hours=hours, past=past, campaign=a_campaign())
    document = of_a_later_version(json.loads(encode(ledger)))
    assert document["hours"][0][LATER_FIELD] == document["entries"][0][LATER_FIELD] == LATER_VALUE
    metadata = ObjectMeta(name=NAME, namespace=OWN, labels={"later": "label"}, annotations={"later": "note"})
    data = {"ledger": json.dumps(document), "later": "key"}
    world.kube.put(CONFIG_MAPS, ConfigMap(metadata=metadata, data=data))
    assert await world.outcome_of("web-1") == "evicted"
    await pause(world.kube, OWN, "")
    await resume(world.kube, OWN, world.clock)
    (config_map,) = world.kube.stored(CONFIG_MAPS)
    written = json.loads(config_map.data["ledger"])
    assert config_map.data["later"] == "key"
    assert (config_map.metadata.labels, config_map.metadata.annotations) == ({"later": "label"}, {"later": "note"})
    assert differences(document["entries"][0], written["entries"][0]) == []
    assert differences(document["hours"][0], written["hours"][0]) == []
    assert differences(document["past"][0], written["past"][0]) == []
    assert [each["pod"] for each in written["past"]] == ["web-8", "web-1"]
    assert differences(document["campaign"], written["campaign"] | {"used": 0}) == []
    assert written[LATER_FIELD] == LATER_VALUE
    assert [entry["pod"] for entry in written["entries"]] == ["web-9", "web-1"]
