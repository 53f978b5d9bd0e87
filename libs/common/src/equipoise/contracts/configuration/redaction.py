"""A configuration without its secrets, so that it may be shown to everybody who may read messages."""

import re
from typing import Any

REDACTED = "(not shown)"

_SECRET = re.compile(
    r"password|passphrase|token|secret|credential|authentication|authorization|cookie|api_?-?key|bearer|headers$", re.I
)
"""Names of settings that contain secrets. `headers` is one of them: any header may authenticate."""

_FILE = re.compile(r"((^|[_-])(file|path|root|directory|folder)|File|Path|Root|Directory|Folder)s?$")
_CONNECTION = re.compile(r"kubeconfig$|^service_?account", re.I)
_LOCATION = re.compile(r"(ur[li]|endpoint)s?$", re.I)

_URL = re.compile(r"[a-z][a-z0-9+.-]*://", re.I)
_QUERY = re.compile(r"[?#].*", re.DOTALL)


def is_private(name: str) -> bool:
    """Whether a setting of this name is a secret, or names a file or directory of the machine of its process.

    Neither is published, and no command takes either from what is published.
    """
    return any(pattern.search(name) for pattern in (_SECRET, _FILE, _CONNECTION))


def is_location(name: str) -> bool:
    """Whether a setting of this name is a URL: commands send requests only to those that a person has chosen."""
    return bool(_LOCATION.search(name))


def redacted(value: Any, name: str = "") -> Any:
    """A copy of plain values (JSON) without private settings, and without user names, passwords and queries in URLs.

    `name`: the setting that has the value. A value that is left out is replaced by `REDACTED`, which shows that
    something is set.
    """
    return _without_values(value) if is_private(name) else _redacted(value, name)


def _redacted(value: Any, name: str) -> Any:
    if isinstance(value, dict):
        return {key: redacted(item, str(key)) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [redacted(item, name) for item in value]
    if isinstance(value, str) and "://" in value:
        return _url_redacted(value)
    return value


def _without_values(value: Any) -> Any:
    """Replaces every value at any depth, except booleans and values that are not set."""
    if isinstance(value, dict):
        return {key: _without_values(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_without_values(item) for item in value]
    return value if value in (None, "") or isinstance(value, bool) else REDACTED


def _url_redacted(text: str) -> str:
    scheme, separator, rest = text.partition("://")
    _, at, host = rest.rpartition("@")  # the last one: a password that is not encoded may contain any character
    if at:
        text = f"{scheme}{separator}{REDACTED}@{host}"
    return _QUERY.sub(f"?{REDACTED}", text) if _URL.match(text) else text
