"""The publish and subscribe permissions of each user, for nats-server, generated from the table of channels.

A user may publish and subscribe to its channels, read the streams of the channels to which it subscribes, and nothing
else. `python -m equipoise.runtime.bus.permissions` prints the file with passwords that nats-server takes from its
environment.
"""

import json
import re
import sys
from collections.abc import Iterable, Mapping
from typing import Any, Literal

import msgspec

from equipoise.contracts.bus.channels import CHANNELS, Channel
from equipoise.contracts.bus.streams import STREAMS, WORKERS, stream_of
from equipoise.contracts.bus.subjects import ALL_SERVICES, OPTIONAL_SERVICES, PREFIX, ServiceName, micro_name

User = Literal["setup", "collector", "annotator", "scorer", "descheduler", "binder", "reclaimer", "tap"]
USERS: tuple[User, ...] = ("setup", *ALL_SERVICES, "tap")
STANDARD_USERS = tuple(user for user in USERS if user not in OPTIONAL_SERVICES)
"""The users of every installation."""

OWN_RIGHTS = "$SYS.REQ.USER.INFO"
"""The subject of a request to nats-server for the permissions of the caller."""

_TAP_CONNECTIONS = 16
"""The maximum number of connections. For each, nats-server may hold 64 MiB of messages that its client does not
read."""

_VARIABLE = re.compile(r"\$[A-Z][A-Z0-9_]*")
_MICRO_VERBS = ("PING", "INFO", "STATS")

_JETSTREAM = "$JS.API."
TAP_PREFIX = "TAP."
"""Prefix of the requests to JetStream in the account of the tap. There, `$JS.API.` addresses the JetStream of that
account."""

_RESPONSES = "_R_.>"
"""The reply subjects of requests from another account, as nats-server maps them."""


class Permissions(msgspec.Struct, frozen=True, kw_only=True):
    """Patterns of subjects that a user may publish and subscribe."""

    publish: tuple[str, ...]
    subscribe: tuple[str, ...]


def permission_file(passwords: Mapping[User, str]) -> str:
    """The `accounts` of nats-server with all users.

    The tap has an account of its own. Between accounts, nats-server maps the reply subject of a request, so that no
    response to the tap can be published on a subject of the services.

    A password is plain, a bcrypt hash, or a variable of nats-server's environment (`$SCORER_PASSWORD`). An optional
    service without a password has no user. Raises KeyError if the password of another user is missing.
    """
    services = (user for user in USERS if user != "tap" and (user in STANDARD_USERS or user in passwords))
    users = "\n".join(_user(user, permissions_of(user), passwords[user]) for user in services)
    exports = "\n".join(
        f'      {{ service: "{subject}", accounts: [TAP]{", response_type: Stream" if several else ""} }}'
        for subject, several in _requests_of_tap()
    )
    imports = "\n".join(
        f'      {{ service: {{ account: EQUIPOISE, subject: "{subject}" }}{_to(subject)} }}'
        for subject, _ in _requests_of_tap()
    )
    return f"""\
# Made from equipoise.contracts.bus.channels and .streams by equipoise.runtime.bus.permissions: do not edit.
accounts {{
  EQUIPOISE: {{
    jetstream: enabled
    default_permissions {{ publish: {{ deny: ">" }}, subscribe: {{ deny: ">" }} }}
    users: [
{users}
    ]
    exports: [
      {{ stream: "{PREFIX}.>", accounts: [TAP] }}
{exports}
    ]
  }}
  # Between accounts nats-server maps the reply subject of a request: no response reaches a subject of EQUIPOISE.
  TAP: {{
    default_permissions {{ publish: {{ deny: ">" }}, subscribe: {{ deny: ">" }} }}
    limits: {{ max_connections: {_TAP_CONNECTIONS} }}
    mappings: {{ "{_JETSTREAM}>": "{_of_tap(_JETSTREAM)}>" }}
    users: [
{_user("tap", permissions_of("tap"), passwords["tap"])}
    ]
    imports: [
      {{ stream: {{ account: EQUIPOISE, subject: "{PREFIX}.>" }} }}
{imports}
    ]
  }}
}}
"""


def permissions_of(user: User) -> Permissions:
    """The smallest set of permissions with which this user works."""
    inbox = f"_INBOX.{user}.>"
    if user == "setup":
        return Permissions(publish=_unique(_setup_requests()), subscribe=(inbox,))
    if user == "tap":
        publish = _unique([OWN_RIGHTS, *(_of_tap(subject) for subject, _ in _requests_of_tap())])
        return Permissions(publish=publish, subscribe=(inbox, f"{PREFIX}.>"))
    own_publish = [subject for channel in CHANNELS for subject in _publish_rights(channel, user)]
    own_subscribe = [subject for channel in CHANNELS for subject in _subscribe_rights(channel, user)]
    return Permissions(publish=_unique(own_publish), subscribe=_unique([inbox, *own_subscribe]))


def _requests_of_tap() -> Iterable[tuple[str, bool]]:
    """The requests that the tap may send, as subjects of the services' account, and whether each has several responses.

    None of them changes anything. The tap may not create consumers, because a consumer delivers to any subject it
    names.
    """
    for channel in CHANNELS:
        if channel.open_to_users:
            yield channel.pattern, False
    for verb in _MICRO_VERBS:
        yield from ((f"$SRV.{verb}{rest}", True) for rest in ("", ".>"))
    for stream in STREAMS:
        yield f"{_JETSTREAM}STREAM.INFO.{stream.name}", False
        if stream.work_queue:
            yield f"{_JETSTREAM}CONSUMER.INFO.{stream.name}.{WORKERS}", False
        if stream.open_to_users:
            yield f"{_JETSTREAM}DIRECT.GET.{stream.name}", True


def _of_tap(subject: str) -> str:
    """The name that a subject of the services' account has in the account of the tap."""
    return TAP_PREFIX + subject if subject.startswith(_JETSTREAM) else subject


def _to(subject: str) -> str:
    return "" if (local := _of_tap(subject)) == subject else f', to: "{local}"'


def _setup_requests() -> Iterable[str]:
    """The requests that create and change the streams and the consumer of the binders."""
    for stream in STREAMS:
        yield from (f"$JS.API.STREAM.{verb}.{stream.name}" for verb in ("CREATE", "UPDATE", "INFO"))
        if stream.work_queue:
            yield from (f"$JS.API.CONSUMER.CREATE.{stream.name}.{WORKERS}.{subject}" for subject in stream.subjects)
            yield from (f"$JS.API.CONSUMER.{verb}.{stream.name}.{WORKERS}" for verb in ("INFO", "DELETE"))


def own_pattern(channel: Channel[Any], service: ServiceName) -> str:
    """The subjects that a service may publish in a channel. For health and configuration, only those of the service."""
    return (channel.of(service) if channel.tokens[:1] == ("service",) else channel).pattern


def _publish_rights(channel: Channel[Any], service: ServiceName) -> Iterable[str]:
    """The subjects that a service must publish to use a channel, including requests to JetStream."""
    if service in channel.publishers:
        yield own_pattern(channel, service)
    if service == channel.responder:
        yield _RESPONSES
    stream = stream_of(channel.pattern)
    if service in channel.publishers and stream is not None and stream.work_queue:
        yield f"$JS.API.STREAM.PURGE.{stream.name}"  # to remove what others stored there
    if service not in channel.subscribers or stream is None:
        return
    if stream.work_queue:
        yield f"$JS.API.CONSUMER.MSG.NEXT.{stream.name}.{WORKERS}"
        yield f"$JS.ACK.{stream.name}.{WORKERS}.>"
        yield f"$JS.API.STREAM.MSG.DELETE.{stream.name}"
        yield f"$JS.API.CONSUMER.INFO.{stream.name}.{WORKERS}"
        yield f"$JS.API.STREAM.INFO.{stream.name}"
    else:
        yield f"$JS.API.CONSUMER.CREATE.{stream.name}.*.{channel.pattern}"
        yield f"$JS.API.CONSUMER.MSG.NEXT.{stream.name}.*"


def _subscribe_rights(channel: Channel[Any], service: ServiceName) -> Iterable[str]:
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
    return (
        f"      {{ user: {user}, password: {secret}, permissions: {{\n"
        f"          publish: {{ allow: {_list(permissions.publish)} }}\n"
        f"          subscribe: {{ allow: {_list(permissions.subscribe)} }}\n"
        "      } }"
    )


def _list(patterns: tuple[str, ...]) -> str:
    return "[" + "".join(f'\n            "{pattern}"' for pattern in patterns) + "\n          ]"


def main() -> None:
    """Prints the file with permissions, with a variable `EQUIPOISE_<USER>_PASSWORD` for each user.

    Optional services are named as arguments: nats-server does not start if a variable is not set.
    """
    users = [user for user in USERS if user in (*STANDARD_USERS, *sys.argv[1:])]
    print(permission_file({user: f"$EQUIPOISE_{user.upper()}_PASSWORD" for user in users}), end="")


if __name__ == "__main__":
    main()
