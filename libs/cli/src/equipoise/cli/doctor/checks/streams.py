"""The bus: are the streams there and made as they should be, and may this user do what it must?"""

from collections.abc import Mapping, Sequence

from equipoise.cli.doctor.environment import Surroundings
from equipoise.cli.doctor.finding import Finding
from equipoise.contracts.bus.streams import UTILIZATION_MAX_AGE, Stream, with_max_ages
from equipoise.runtime.bus import BusError, NotPermitted
from equipoise.runtime.bus.inspection import Identity, StreamState, inspecting
from equipoise.runtime.bus.permissions import USERS, Permissions, permissions_of

SETUP = "run `equipoise setup` (in the cluster the Job equipoise-setup, made anew)"
PERMISSIONS = "give the server the permissions of this version (k8s/base/permissions.conf) and restart it"
AS_TAP = "ask as the user tap: --user tap --password-file FILE"


async def streams(around: Surroundings) -> list[Finding]:
    settings = around.configured.shared.nats
    where = settings.url
    wanted = with_max_ages(intent=around.configured.descheduler.intent_lifetime, utilization=UTILIZATION_MAX_AGE)
    try:
        async with inspecting(settings, around.bus_user, around.clock) as looking:
            findings = [Finding(state="ok", where=where, what=f"lets us in as {settings.user or 'anybody'}")]
            try:
                findings += judged_identity(where, await looking.identity(), settings.user or "")
            except BusError as error:
                findings.append(not_told(where, f"what {settings.user or 'we'} may do is not known: {error}"))
            for stream in wanted:
                try:
                    findings.append(judged_stream(stream, await looking.stream(stream)))
                except BusError as error:
                    findings.append(not_told(f"stream {stream.name}", str(error), allowed=not _forbidden(error)))
            return findings
    except (BusError, OSError) as error:
        to_do = "is NATS there, seen from here (--nats URL), and are --user and --password-file right?"
        return [Finding(state="error", where=where, what=str(error), to_do=to_do)]


def _forbidden(error: BusError) -> bool:
    return isinstance(error, NotPermitted)


def not_told(where: str, what: str, *, allowed: bool = False) -> Finding:
    return Finding(state="unknown", where=where, what=what, to_do="is JetStream switched on?" if allowed else AS_TAP)


def judged_identity(where: str, identity: Identity, user: str) -> list[Finding]:
    """What the server lets us do, against what our permission file says of this user."""
    if identity.permissions is None:
        return [
            Finding(
                state="warning",
                where=where,
                what="the server knows no permissions: whoever reaches it may propose evictions",
                to_do="in a cluster give it k8s/base/permissions.conf; on a machine of your own that may be meant",
            )
        ]
    known = next((each for each in USERS if each == user), None)
    if known is None:
        return [Finding(state="unknown", where=where, what=f"{user} is no user of ours", to_do=AS_TAP)]
    rights = identity.permissions
    missing, more = differences(
        permissions_of(known), {"publish": rights.publish.allow, "subscribe": rights.subscribe.allow}
    )
    findings = []
    if missing:
        what = f"{user} may not {', '.join(missing)}"
        findings.append(Finding(state="error", where=where, what=what, to_do=PERMISSIONS))
    if more:
        what = f"{user} may more than it needs: {', '.join(more)}"
        findings.append(Finding(state="warning", where=where, what=what, to_do=PERMISSIONS))
    return findings or [Finding(state="ok", where=where, what=f"{user} may do what it needs, and nothing else")]


def differences(should: Permissions, has: Mapping[str, Sequence[str] | None]) -> tuple[list[str], list[str]]:
    """`publish SUBJECT` and `subscribe SUBJECT`: what is missing, and what is too much. None allows everything."""
    missing, more = [], []
    for verb, wanted in (("publish", should.publish), ("subscribe", should.subscribe)):
        allowed = has[verb]
        if allowed is None:
            more.append(f"{verb} everything")
            continue
        missing += [f"{verb} {pattern}" for pattern in wanted if pattern not in allowed]
        more += [f"{verb} {pattern}" for pattern in allowed if pattern not in wanted]
    return missing, more


def judged_stream(wanted: Stream, seen: StreamState | None) -> Finding:
    """A stream as the server has it, against the one that setup makes."""
    where = f"stream {wanted.name}"
    if seen is None:
        return Finding(state="error", where=where, what="does not exist", to_do=SETUP)
    wrong = [f"{name} is {has}, not {should}" for name, (has, should) in seen.differences.items()]
    if set(seen.subjects) != set(wanted.subjects):
        wrong.insert(0, f"keeps {', '.join(seen.subjects) or 'nothing'}, not {', '.join(wanted.subjects)}")
    if seen.max_age != (wanted.max_age or 0.0):
        wrong.append(f"keeps for {seen.max_age:g} s, not for {wanted.max_age or 0.0:g} s")
    if wanted.work_queue and seen.waiting is None:
        wrong.append("the consumer of the binders is missing")
    if wrong:
        return Finding(state="error", where=where, what="; ".join(wrong), to_do=SETUP)
    if wanted.work_queue and seen.waiting and not seen.workers:
        return Finding(
            state="error",
            where=where,
            what=f"{seen.waiting} intents wait, and nobody takes them",
            to_do="is a binder running, and ready (its /readyz)?",
        )
    return Finding(state="ok", where=where, what=f"keeps {', '.join(wanted.subjects)}")
