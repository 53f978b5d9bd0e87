"""Why an intent is not carried out, whatever its pod."""

import msgspec
import pytest
from binder.worlds import LEADER
from builders import NOW, an_intent

from equipoise.binder.decisions.staleness import check_age, check_epoch, check_readiness
from equipoise.contracts.configuration.settings import LoadSettings
from equipoise.contracts.kubernetes.objects.cluster import Lease, LeaseSpec
from equipoise.contracts.kubernetes.objects.metadata import ObjectMeta
from equipoise.contracts.messages.eviction import Outcome

LOAD = LoadSettings()


@pytest.mark.parametrize(
    ("fields", "outcome"),
    [
        ({}, None),
        ({"expires_at": NOW}, Outcome.EXPIRED),
        ({"expires_at": NOW + 0.1}, None),
        ({"sampled_at": NOW - 120}, None),
        ({"sampled_at": NOW - 120.1}, Outcome.REJECTED_STALE),
        ({"sampled_at": NOW + 5.1}, Outcome.REJECTED_STALE),
        ({"decided_at": NOW - 840}, None),
        ({"decided_at": NOW - 841}, Outcome.REJECTED_STALE),
        ({"expires_at": NOW + 900}, None),
        ({"expires_at": NOW + 3_153_600_000}, Outcome.REJECTED_STALE),
        ({"expires_at": NOW + 3_153_600_000, "decided_at": NOW + 3_153_599_999}, Outcome.REJECTED_STALE),
    ],
)
def test_expired_intents_and_samples_of_the_wrong_age_are_refused(
    fields: dict[str, float], outcome: Outcome | None
) -> None:
    intent = an_intent(**({"sampled_at": NOW - 5, "expires_at": NOW + 60} | fields))
    finish = check_age(intent, LOAD, 900, NOW)
    assert (finish and finish.outcome) == outcome


def test_a_fifth_of_the_nodes_may_be_not_ready() -> None:
    assert check_readiness(8, 10, LOAD) is None
    assert check_readiness(7, 10, LOAD)


def test_only_the_newest_holder_of_the_lease_is_accepted() -> None:
    intent = an_intent(epoch=LEADER)
    spec = LeaseSpec(holder_identity=LEADER.holder, lease_transitions=LEADER.transitions)
    lease = Lease(metadata=ObjectMeta(uid=LEADER.lease_uid), spec=spec)
    newer = msgspec.structs.replace(LEADER, transitions=2, holder="descheduler-2")
    assert check_epoch(intent, lease, None) is None
    assert check_epoch(intent, lease, LEADER) is None
    assert check_epoch(intent, None, None)
    assert check_epoch(intent, lease, newer)
    assert check_epoch(intent, lease, msgspec.structs.replace(newer, lease_uid="deleted")) is None
    followed = msgspec.structs.replace(spec, lease_transitions=2, holder_identity="descheduler-2")
    assert check_epoch(intent, msgspec.structs.replace(lease, spec=followed), None)
