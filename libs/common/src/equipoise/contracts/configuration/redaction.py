"""A configuration without its secrets, so that it may be shown to everybody who may read messages."""

import re
from typing import Any

REDACTED = "(not shown)"

_SECRET_NAME = re.compile(r"password|passphrase|token|secret|credential|authorization|cookie|api_?-?key|bearer", re.I)
_FILE_NAME = re.compile(r"file$|path$|^service_?account", re.I)
"""Settings that name a file: its content is the secret, not its name."""

_HEADERS = re.compile(r"headers$", re.I)
"""Any header may be one that authenticates."""

_URL = re.compile(r"[a-z][a-z0-9+.-]*://", re.I)
_QUERY = re.compile(r"[?#].*", re.DOTALL)


def redacted(value: Any, name: str = "") -> Any:
    """A copy of plain values (JSON) without user names and passwords in URLs, queries of URLs, headers and secrets.

    `name`: the setting that has the value. What is left out is replaced by `REDACTED`, so that it shows that something
    is set.
    """
    secret = bool(_HEADERS.search(name) or (_SECRET_NAME.search(name) and not _FILE_NAME.search(name)))
    return _without_values(value) if secret else _redacted(value, name)


def _redacted(value: Any, name: str) -> Any:
    if isinstance(value, dict):
        return {key: redacted(each, str(key)) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [redacted(each, name) for each in value]
    if isinstance(value, str) and "://" in value:
        return _url_redacted(value)
    return value


def _without_values(value: Any) -> Any:
    """Whatever is set is replaced, at any depth; what is not set, and switches, remain."""
    if isinstance(value, dict):
        return {key: _without_values(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_without_values(each) for each in value]
    return value if value in (None, "") or isinstance(value, bool) else REDACTED


def _url_redacted(text: str) -> str:
    scheme, separator, rest = text.partition("://")
    _, at, host = rest.rpartition("@")  # the last one: a password that is not encoded may contain any character
    if at:
        text = f"{scheme}{separator}{REDACTED}@{host}"
    return _QUERY.sub(f"?{REDACTED}", text) if _URL.match(text) else text
