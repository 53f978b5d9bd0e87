"""Publish and subscribe permissions of each user, for nats-server: made from the table of channels, not by hand.

A user may publish and subscribe to its channels, read the streams of what it subscribes to, and nothing else. `python
-m equipoise.runtime.bus.permissions` prints the file with passwords that nats-server takes from its environment.
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
"""Request to nats-server: the caller's own permissions."""

_VARIABLE = re.compile(r"\$[A-Z][A-Z0-9_]*")
_MICRO_VERBS = ("PING", "INFO", "STATS")


class Permissions(msgspec.Struct, frozen=True, kw_only=True):
    """Patterns of subjects that a user may publish and subscribe."""

    publish: tuple[str, ...]
    subscribe: tuple[str, ...]
    responds: bool = False
    """It may publish once to the reply subject of a request that it received."""


def permission_file(passwords: Mapping[User, str]) -> str:
    """The `authorization` of nats-server for all users.

    A password is plain, a bcrypt hash, or a variable of nats-server's environment (`$SCORER_PASSWORD`).
    Raises KeyError when one is missing.
    """
    users = "\n".join(_user(user, permissions_of(user), passwords[user]) for user in USERS)
    return (
        "# Made from equipoise.contracts.bus.channels and .streams by equipoise.runtime.bus.permissions: do not edit.\n"
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
        requests = (f"$SRV.{verb}{rest}" for verb in _MICRO_VERBS for rest in ("", ".>"))
        open_channels = (channel.pattern for channel in CHANNELS if channel.open_to_users)
        publish = _unique([*requests, *_reading_back(), *_inspecting(), *open_channels])
        return Permissions(publish=publish, subscribe=(inbox, f"{PREFIX}.>"))
    own_publish = [subject for channel in CHANNELS for subject in _publish_rights(channel, user)]
    own_subscribe = [subject for channel in CHANNELS for subject in _subscribe_rights(channel, user)]
    responds = any(channel.responder == user for channel in CHANNELS)
    return Permissions(publish=_unique(own_publish), subscribe=_unique([inbox, *own_subscribe]), responds=responds)


def _creating() -> Iterable[str]:
    """Create and change the streams and the consumer of the binders."""
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
    """Read the configuration of the streams, and the caller's own permissions."""
    yield OWN_RIGHTS
    for stream in STREAMS:
        yield f"$JS.API.STREAM.INFO.{stream.name}"
        if stream.work_queue:
            yield f"$JS.API.CONSUMER.INFO.{stream.name}.{WORKERS}"


def _publish_rights(channel: Channel, service: ServiceName) -> Iterable[str]:
    """What a service must publish for its part in a channel, the requests to JetStream included."""
    if service in channel.publishers:
        yield channel.pattern.replace(".health.*", f".health.{service}")  # only the health of the service itself
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


def _subscribe_rights(channel: Channel, service: ServiceName) -> Iterable[str]:
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


def _unique(patterns: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(patterns))


def _user(user: User, permissions: Permissions, password: str) -> str:
    secret = password if _VARIABLE.fullmatch(password) else json.dumps(password)
    responses = '\n        allow_responses: { max: 1, expires: "10s" }' if permissions.responds else ""
    return (
        f"    {{ user: {user}, password: {secret}, permissions: {{\n"
        f"        publish: {{ allow: {_list(permissions.publish)} }}\n"
        f"        subscribe: {{ allow: {_list(permissions.subscribe)} }}{responses}\n"
        "    } }"
    )


def _list(patterns: tuple[str, ...]) -> str:
    return "[" + "".join(f'\n          "{pattern}"' for pattern in patterns) + "\n        ]"


def main() -> None:
    """Print the file, with a variable `EQUIPOISE_<USER>_PASSWORD` for each user."""
    print(permission_file({user: f"$EQUIPOISE_{user.upper()}_PASSWORD" for user in USERS}), end="")


if __name__ == "__main__":
    main()
