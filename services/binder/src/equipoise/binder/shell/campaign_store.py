"""Starts, pauses, resumes and aborts a campaign in the ledger, for commands."""

import msgspec

from equipoise.binder.decisions.campaign import start_refusal
from equipoise.binder.shell.ledger_store import NotDone, change_ledger
from equipoise.binder.state.campaign import Campaign
from equipoise.binder.state.ledger import Ledger
from equipoise.binder.state.ledger_times import with_possible_times
from equipoise.runtime.kubernetes.client import Kube
from equipoise.runtime.process.clock import Clock

_replace = msgspec.structs.replace


async def start(kube: Kube, namespace: str, clock: Clock, campaign: Campaign, *, lasts: float) -> Campaign:
    """Writes the campaign, which begins now and expires after `lasts` seconds, at most MAX_DURATION.

    Raises KubeError, and NotDone while another campaign runs, evictions are paused, or the name was used.
    """

    def change(ledger: Ledger) -> Ledger:
        earliest, latest = kube.server_time_bounds(clock.now())
        ledger = with_possible_times(ledger, latest)
        if why := start_refusal(ledger, campaign.name, earliest):
            raise NotDone(f"NOT started: {why}")
        return _replace(ledger, campaign=_replace(campaign, started_at=earliest, expires_at=earliest + lasts))

    return _campaign(await change_ledger(kube, namespace, change, not_done="NOT started"))


async def set_paused(kube: Kube, namespace: str, clock: Clock, *, paused: bool) -> Campaign:
    """Pauses or resumes the campaign. Raises KubeError, and NotDone if none runs."""
    not_done = "NOT paused" if paused else "NOT resumed"

    def change(ledger: Ledger) -> Ledger:
        campaign = _running(ledger, kube.server_time_bounds(clock.now())[0], not_done)
        return _replace(ledger, campaign=_replace(campaign, paused=paused, finding="", detail="", found=0))

    return _campaign(await change_ledger(kube, namespace, change, not_done=not_done))


async def abort(kube: Kube, namespace: str, clock: Clock, why: str) -> Campaign:
    """Ends the campaign. Moves without a gap that have begun are carried on. Raises KubeError, and NotDone if none
    runs."""

    def change(ledger: Ledger) -> Ledger:
        earliest, latest = kube.server_time_bounds(clock.now())
        return _replace(ledger, campaign=_running(ledger, earliest, "NOT aborted").ending(why, latest))

    return _campaign(await change_ledger(kube, namespace, change, not_done="NOT aborted"))


def _running(ledger: Ledger, now: float, not_done: str) -> Campaign:
    campaign = ledger.campaign
    if campaign is None:
        raise NotDone(f"{not_done}: no campaign was started")
    if campaign.ended_at is not None:
        raise NotDone(f"{not_done}: campaign {campaign.name} has ended: {campaign.ended}")
    if now >= campaign.expires_at:
        raise NotDone(f"{not_done}: campaign {campaign.name} has expired")
    return campaign


def _campaign(ledger: Ledger) -> Campaign:
    assert ledger.campaign is not None, "it was just written"
    return ledger.campaign
