"""The five services while an upgrade is rolled out: some of the messages are those of a later version."""

import json

import msgspec
import pytest
from builders import NOW
from contracts.documents import LATER_FIELD, LATER_VALUE, as_of_a_later_version
from flow.loop import APPS, HOT, IDLE, INTERVAL, Loop, LossyBus, annotations_of, settled

from equipoise.binder.shell.ledger_store import KEY, LedgerStore
from equipoise.contracts.bus.channels import CHANNELS
from equipoise.contracts.bus.subjects import PREFIX, matches
from equipoise.contracts.kubernetes.annotations import LOAD
from equipoise.contracts.messages.eviction import Outcome
from equipoise.runtime.bus import Receipt
from equipoise.runtime.bus.codec import SUBJECT, TYPE, Headers
from equipoise.runtime.kubernetes.client import CONFIG_MAPS
from equipoise.testbed.memory.clock import ManualClock

OTHER_SUBJECTS = (
    f"{PREFIX}.utilization.node.later",
    f"{PREFIX}.utilization.cycle.later",
    f"{PREFIX}.placement.node.later",
    f"{PREFIX}.eviction.intent.shop.later",
    f"{PREFIX}.eviction.outcome.shop.later",
    f"{PREFIX}.health.binder.later",
    f"{PREFIX}.later.node.a",
)
"""Of messages of unknown types. All but the last one have subscribers."""


class MixedBus(LossyBus):
    """Of every `share` messages one is as a later version would publish it. Messages of unknown types come between."""

    def __init__(self, clock: ManualClock, share: int) -> None:
        super().__init__(clock)
        self._share = share
        self._published = 0
        self.later = 0
        self.unknown = 0

    def _store(self, subject: str, payload: bytes, headers: Headers) -> Receipt:
        self._published += 1
        if self._published % 5 == 0:
            self._store_unknown(OTHER_SUBJECTS[self.unknown % len(OTHER_SUBJECTS)])
        if self._published % self._share == 0:
            payload = _later(subject, payload)
            self.later += 1
        return super()._store(subject, payload, headers)

    def _store_unknown(self, subject: str) -> None:
        self.unknown += 1
        headers = {SUBJECT: subject, TYPE: "dev.equipoise.AddedLater.v1"}
        if not (subject.startswith(f"{PREFIX}.eviction.intent") and self._holds(subject)):
            super()._store(subject, b'{"node":7,"epoch":"none"}', headers)

    def _holds(self, subject: str) -> bool:
        return any(stream.last(subject, self._clock.now()) for stream in self._streams if stream.stream.work_queue)


def _later(subject: str, payload: bytes) -> bytes:
    kind = next(channel.message for channel in CHANNELS if matches(channel.pattern, subject))
    return msgspec.json.encode(as_of_a_later_version(msgspec.json.decode(payload), kind))


@pytest.mark.parametrize("share", [1, 2], ids=["all", "half"])
async def test_the_loop_levels_while_messages_are_those_of_a_later_version(share: int) -> None:
    """All of them, or every other one: a pod is evicted, nodes are annotated, scores avoid the hot node."""
    loop = Loop()
    loop.bus = bus = MixedBus(loop.clock, share)
    async with loop.running():
        await loop.until(lambda: bool(settled(loop, Outcome.EVICTED)), limit=10 * INTERVAL)
        app = settled(loop, Outcome.EVICTED)[0].pod.split("-")[0]
        scores = await loop.explanation(next(name for name in APPS if name != app))
        problems = loop.problems()
        await loop.until(lambda: len(loop.evicted()) == 2, limit=1_800)

    assert bus.later > 100
    assert bus.unknown > 50
    assert bus.errors.total("other_type") > 50
    assert bus.errors.total("unreadable") == bus.errors.total("handler") == bus.errors.total("worker") == 0
    assert LOAD in annotations_of(loop)[f"node/{HOT}"]
    assert not scores.neutral
    assert {node.node for node in scores.nodes if node.extender_score == 10} <= set(IDLE)
    assert not any(problems.values())
    assert len(set(loop.evicted())) == 2


async def test_the_ledger_of_a_later_version_is_used_and_kept() -> None:
    """Another binder of a later version has written it, with an eviction that counts against the limits."""
    loop = Loop()
    async with loop.running():
        stored = await LedgerStore(loop.kube, "equipoise-system").read()
        document = json.loads(stored.config_map.data[KEY]) | {LATER_FIELD: LATER_VALUE}  # type: ignore[union-attr]
        (config_map,) = loop.kube.stored(CONFIG_MAPS)
        entry = {
            "intentId": "other", "podUid": "other", "namespace": "shop", "pod": "other", "node": HOT,
            "reservedAt": NOW, "expiresAt": NOW + 180, "settledAt": NOW, "outcome": "evicted", LATER_FIELD: LATER_VALUE,
        }  # fmt: skip
        text = json.dumps(document | {"entries": [entry]})
        loop.kube.put(CONFIG_MAPS, msgspec.structs.replace(config_map, data=config_map.data | {KEY: text}))
        await loop.until(lambda: bool(settled(loop, Outcome.EVICTED)), limit=1_800)
        (config_map,) = loop.kube.stored(CONFIG_MAPS)
        written = json.loads(config_map.data[KEY])

    assert loop.kube.evictions[0].at >= NOW + 600
    assert written[LATER_FIELD] == LATER_VALUE
    assert [each.get(LATER_FIELD) for each in written["entries"] if each["pod"] == "other"] in ([], [LATER_VALUE])
