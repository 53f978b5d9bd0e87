"""Makes text that a tenant or another system wrote safe for logs and terminals."""

import re

_UNSAFE = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f"  # controls: ESC and U+009B begin a control sequence of the terminal
    "\xad\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f"
    "\ufeff\ufff9-\ufffb\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0001\U000e0020-\U000e007f"  # formats: they change the direction of text, or are not visible
    "\ud800-\udfff"  # halves of a character, which cannot be written as UTF-8
)
"""Control characters except line breaks and tabs, and formats (categories Cc, Cf, Cs, Zl, Zp of Unicode)."""

_CONTROL = re.compile(f"[{_UNSAFE}]")
_NOT_SHOWN = re.compile(rf"[^\S ]|[{_UNSAFE}]")


def plain_text(text: str, limit: int) -> str:
    """The text on one line, with at most `limit` characters and no control characters; a longer text ends with `…`."""
    cut = text if len(text) <= limit else text[: limit - 1] + "…"
    return cut if cut.isprintable() else _NOT_SHOWN.sub(" ", cut)  # isprintable() takes a tenth of the time


def visible(text: str) -> str:
    r"""The text with control characters, except line breaks and tabs, written as in a Python string: `\x1b`,
    `\u202e`."""
    if text.isprintable():
        return text
    return _CONTROL.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def safe_json(encoded: str) -> str:
    r"""JSON with the same meaning that contains no control character: `\u009b` in its strings.

    A JSON encoder escapes only the first 32 control characters. Line breaks between the parts of a document remain.
    """
    return _CONTROL.sub(_utf_16, encoded)


def _utf_16(match: re.Match[str]) -> str:
    units = match[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[start : start + 2].hex()}" for start in range(0, len(units), 2))
