"""Who may say and hear what, as nats-server reads it: made from the table of channels, never written by hand.

A user may say and hear its channels, follow the streams of what it hears, and nothing else. `python -m
equipoise.runtime.bus.permissions` prints the file with passwords that nats-server takes from its environment.
"""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Literal

import msgspec

from equipoise.contracts.bus.channels import CHANNELS, Channel
from equipoise.contracts.bus.streams import STREAMS, WORKERS, stream_of
from equipoise.contracts.bus.subjects import PREFIX, SERVICES, ServiceName, micro_name

User = Literal["setup", "collector", "annotator", "scorer", "descheduler", "binder", "tap"]
USERS: tuple[User, ...] = ("setup", *SERVICES, "tap")

OWN_RIGHTS = "$SYS.REQ.USER.INFO"
"""Asked of the server itself: who am I, and what may I do?"""

_VARIABLE = re.compile(r"\$[A-Z][A-Z0-9_]*")
_MICRO_VERBS = ("PING", "INFO", "STATS")


class Permissions(msgspec.Struct, frozen=True, kw_only=True):
    """Patterns of subjects that a user may publish and subscribe."""

    publish: tuple[str, ...]
    subscribe: tuple[str, ...]
    answers: bool = False
    """It may publish once to the reply subject of what it has heard."""


def permission_file(passwords: Mapping[User, str]) -> str:
    """The `authorization` of nats-server for all users.

    A password is plain, a bcrypt hash, or a variable of nats-server's environment (`$SCORER_PASSWORD`).
    Raises KeyError when one is missing.
    """
    users = "\n".join(_user(user, permissions_of(user), passwords[user]) for user in USERS)
    return (
        "# Made from equipoise.contracts.bus.subjects by equipoise.runtime.bus.permissions: do not edit.\n"
        "authorization {\n"
        '  default_permissions { publish: { deny: ">" }, subscribe: { deny: ">" } }\n'
        f"  users: [\n{users}\n  ]\n"
        "}\n"
    )


def permissions_of(user: User) -> Permissions:
    """The least that this user needs."""
    inbox = f"_INBOX.{user}.>"
    if user == "setup":
        return Permissions(publish=_unique(_creating()), subscribe=(inbox,))
    if user == "tap":
        asking = (f"$SRV.{verb}{rest}" for verb in _MICRO_VERBS for rest in ("", ".>"))
        questions = (channel.pattern for channel in CHANNELS if channel.open_to_users)
        publish = _unique([*asking, *_reading_back(), *_inspecting(), *questions])
        return Permissions(publish=publish, subscribe=(inbox, f"{PREFIX}.>"))
    said = [publish for channel in CHANNELS for publish in _saying(channel, user)]
    heard = [subscribe for channel in CHANNELS for subscribe in _hearing(channel, user)]
    answers = any(channel.responder == user for channel in CHANNELS)
    return Permissions(publish=_unique(said), subscribe=_unique([inbox, *heard]), answers=answers)


def _creating() -> Iterable[str]:
    """Make and change our streams and the consumer of the binders."""
    for stream in STREAMS:
        yield from (f"$JS.API.STREAM.{verb}.{stream.name}" for verb in ("CREATE", "UPDATE", "INFO"))
        if stream.work_queue:
            yield from (f"$JS.API.CONSUMER.CREATE.{stream.name}.{WORKERS}.{subject}" for subject in stream.subjects)


def _reading_back() -> Iterable[str]:
    """Read what some streams hold, for a report of the last days."""
    for stream in STREAMS:
        if stream.open_to_users:
            yield from (f"$JS.API.CONSUMER.CREATE.{stream.name}.*.{subject}" for subject in stream.subjects)
            yield f"$JS.API.CONSUMER.MSG.NEXT.{stream.name}.*"


def _inspecting() -> Iterable[str]:
    """See how the streams are made, and what the server lets oneself do."""
    yield OWN_RIGHTS
    for stream in STREAMS:
        yield f"$JS.API.STREAM.INFO.{stream.name}"
        if stream.work_queue:
            yield f"$JS.API.CONSUMER.INFO.{stream.name}.{WORKERS}"


def _saying(channel: Channel, service: ServiceName) -> Iterable[str]:
    """What a service must publish for its part in a channel, the requests to JetStream included."""
    if service in channel.publishers:
        yield _own(channel.pattern, service)
    stream = stream_of(channel.pattern)
    if service not in channel.subscribers or stream is None:
        return
    if stream.work_queue:
        yield f"$JS.API.CONSUMER.MSG.NEXT.{stream.name}.{WORKERS}"
        yield f"$JS.ACK.{stream.name}.{WORKERS}.>"
        yield f"$JS.API.STREAM.MSG.DELETE.{stream.name}"
    else:
        yield f"$JS.API.CONSUMER.CREATE.{stream.name}.*.{channel.pattern}"
        yield f"$JS.API.CONSUMER.MSG.NEXT.{stream.name}.*"


def _hearing(channel: Channel, service: ServiceName) -> Iterable[str]:
    stream = stream_of(channel.pattern)
    if service in channel.subscribers:
        if stream is not None and stream.work_queue:
            yield f"$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.{stream.name}.{WORKERS}"
        else:
            yield channel.pattern
    if service in channel.observers:
        yield channel.pattern
    if service == channel.responder:
        yield channel.pattern
        for verb in _MICRO_VERBS:
            yield from (f"$SRV.{verb}{rest}" for rest in ("", f".{micro_name(service)}", f".{micro_name(service)}.*"))


def _own(pattern: str, service: ServiceName) -> str:
    """Of the channel that all use, everyone has its own part."""
    return pattern.replace(".health.*", f".health.{service}")


def _unique(patterns: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(patterns))


def _user(user: User, permissions: Permissions, password: str) -> str:
    secret = password if _VARIABLE.fullmatch(password) else json.dumps(password)
    answers = '\n        allow_responses: { max: 1, expires: "10s" }' if permissions.answers else ""
    return (
        f"    {{ user: {user}, password: {secret}, permissions: {{\n"
        f"        publish: {{ allow: {_list(permissions.publish)} }}\n"
        f"        subscribe: {{ allow: {_list(permissions.subscribe)} }}{answers}\n"
        "    } }"
    )


def _list(patterns: tuple[str, ...]) -> str:
    return "[" + "".join(f'\n          "{pattern}"' for pattern in patterns) + "\n        ]"


def main() -> None:
    """Print the file, with a variable `EQUIPOISE_<USER>_PASSWORD` for each user."""
    print(permission_file({user: f"$EQUIPOISE_{user.upper()}_PASSWORD" for user in USERS}), end="")


if __name__ == "__main__":
    main()
