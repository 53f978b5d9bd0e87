"""The NATS server responds, has the streams as `equipoise setup` creates them, and the permissions of the user."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from equipoise.cli.doctor.environment import UPGRADE, Environment, Finding, State
from equipoise.contracts.bus.streams import UTILIZATION_MAX_AGE, Stream, with_max_ages
from equipoise.runtime.bus import BusError, NotPermitted
from equipoise.runtime.bus.inspection import Identity, StreamState, inspecting
from equipoise.runtime.bus.permissions import USERS, Permissions, permissions_of
from equipoise.runtime.configuration import Nats

SETUP_FIX = "run `equipoise setup` (in a cluster, recreate the Job equipoise-setup)"
PERMISSIONS_FIX = (
    f"give the server the permissions of this version: apply k8s/base/permissions.conf {UPGRADE}, and restart it"
)
ENCRYPTION_FIX = "use tls:// in nats.url, and nats.tls.caFile: `equipoise certificates --for nats` creates the files"
CERTIFICATE_FIX = (
    "renew it (`equipoise certificates --for nats --out FOLDER --force`, or cert-manager), replace the Secret, and let "
    "NATS read it: kubectl -n equipoise-system exec nats-0 -- kill -HUP 1"
)
MIN_CERTIFICATE_DAYS = 30
USER_FIX = "use the user tap: --user tap --password-file FILE"


async def streams(environment: Environment) -> list[Finding]:
    nats = environment.settings.shared.nats
    configured = environment.services_nats or nats
    if environment.nats_problem:
        return [*encryption_findings(configured), Finding("error", "NATS", environment.nats_problem)]
    return [*encryption_findings(configured), *await _server_findings(environment, nats)]


def encryption_findings(nats: Nats) -> list[Finding]:
    """A warning if the connection is not encrypted: others in the network can read the messages."""
    return [Finding("warning", nats.url, nats.unencrypted, ENCRYPTION_FIX)] if nats.unencrypted else []


def certificate_findings(subject: str, end: float | None, now: float) -> list[Finding]:
    """Whether the certificate of the server must be renewed soon. Once it has expired, no service can connect again."""
    if end is None:
        return []
    days, date = int((end - now) / 86_400), datetime.fromtimestamp(end, UTC).date()
    state: State = "ok" if days >= MIN_CERTIFICATE_DAYS else "warning"
    fix = "" if state == "ok" else CERTIFICATE_FIX
    return [Finding(state, subject, f"the certificate of the server is valid until {date} ({days} days)", fix)]


async def _server_findings(environment: Environment, nats: Nats) -> list[Finding]:
    subject, user = nats.shown_url, nats.user or ""
    expected = with_max_ages(intent=environment.settings.descheduler.intent_lifetime, utilization=UTILIZATION_MAX_AGE)
    try:
        async with inspecting(nats, environment.nats_user, environment.clock) as inspection:
            findings = [Finding("ok", subject, f"connected as {user or 'anonymous'}")]
            findings += certificate_findings(subject, inspection.certificate_end, environment.clock.now())
            try:
                findings += permission_findings(subject, await inspection.identity(), user)
            except BusError as error:
                message = f"the permissions of {user or 'this connection'} are unknown: {error}"
                findings.append(Finding("unknown", subject, message, USER_FIX))
            for stream in expected:
                try:
                    findings.append(stream_finding(stream, await inspection.stream(stream)))
                except BusError as error:
                    fix = USER_FIX if isinstance(error, NotPermitted) else "check that JetStream is enabled"
                    name = f"stream {stream.name}"
                    findings.append(Finding("unknown", name, str(error), fix))
            return findings
    except (BusError, OSError) as error:
        fix = "check the URL from this machine (--nats URL), --user, --password-file and --nats-ca"
        return [Finding("error", subject, str(error), fix)]


def permission_findings(subject: str, identity: Identity, user: str) -> list[Finding]:
    """The differences between the permissions that the server grants this user and those of permissions.conf."""
    if identity.permissions is None:
        message = "the server has no permissions: everyone who can connect may propose evictions"
        fix = "in a cluster use k8s/base/permissions.conf; on a development machine this may be intended"
        return [Finding("warning", subject, message, fix)]
    known_user = next((each for each in USERS if each == user), None)
    if known_user is None:
        return [Finding("unknown", subject, f"{user} is not a user of Equipoise", USER_FIX)]
    rights = identity.permissions
    missing, excess = permission_differences(
        permissions_of(known_user), {"publish": rights.publish.allow, "subscribe": rights.subscribe.allow}
    )
    findings = []
    if missing:
        findings.append(Finding("error", subject, f"{user} may not {', '.join(missing)}", PERMISSIONS_FIX))
    if excess:
        message = f"{user} has permissions that it does not need: {', '.join(excess)}"
        findings.append(Finding("warning", subject, message, PERMISSIONS_FIX))
    return findings or [Finding("ok", subject, f"{user} has exactly the permissions it needs")]


def permission_differences(
    expected: Permissions, actual: Mapping[str, Sequence[str] | None]
) -> tuple[list[str], list[str]]:
    """Missing and excess permissions, as `publish SUBJECT` and `subscribe SUBJECT`. None allows everything."""
    missing, excess = [], []
    for verb, patterns in (("publish", expected.publish), ("subscribe", expected.subscribe)):
        allowed = actual[verb]
        if allowed is None:
            excess.append(f"{verb} everything")
            continue
        missing += [f"{verb} {pattern}" for pattern in patterns if pattern not in allowed]
        excess += [f"{verb} {pattern}" for pattern in allowed if pattern not in patterns]
    return missing, excess


def stream_finding(expected: Stream, actual: StreamState | None) -> Finding:
    """How a stream on the server differs from the one that `equipoise setup` creates."""
    subject = f"stream {expected.name}"
    if actual is None:
        return Finding("error", subject, "does not exist", SETUP_FIX)
    wrong = [f"{name} is {value}, not {wanted}" for name, (value, wanted) in actual.differences.items()]
    if set(actual.subjects) != set(expected.subjects):
        wrong.insert(0, f"has {', '.join(actual.subjects) or 'no subject'}, not {', '.join(expected.subjects)}")
    if actual.max_age != (expected.max_age or 0.0):
        wrong.append(f"retains messages for {actual.max_age:g} s, not for {expected.max_age or 0.0:g} s")
    if expected.work_queue and actual.waiting is None:
        wrong.append("the consumer of the binders is missing")
    if actual.skipped:
        wrong.append(f"lost messages, so the consumer of the binders skips the next {actual.skipped}")
    if wrong:
        return Finding("error", subject, "; ".join(wrong), SETUP_FIX)
    if expected.work_queue and actual.waiting and not actual.workers:
        fix = "check that a binder is running and ready (/readyz)"
        return Finding("error", subject, f"{actual.waiting} intents are pending, and no binder receives them", fix)
    return Finding("ok", subject, f"has {', '.join(expected.subjects)}")
