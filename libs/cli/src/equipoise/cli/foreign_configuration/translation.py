"""A configuration under construction: its settings with their origins, and remarks about settings that are lost."""

import json
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from equipoise.contracts.configuration.duration import Duration
from equipoise.contracts.configuration.settings import Section

_LONGEST = 80

Result = Literal["not translated", "changed", "note"]
"""The result for a setting of the source. With `note`, nothing is lost."""


class Remark(msgspec.Struct, frozen=True, kw_only=True):
    """A setting of the source that the configuration does not have, has with another value, or has in another sense."""

    result: Result
    setting: str
    """The path of the setting in the source."""

    value: str
    """The value as JSON, in ASCII and shortened."""

    reason: str


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """A value of the configuration."""

    value: Any
    origin: str
    """The path in the source."""


class Translation:
    """The settings by path, the strategies and the remarks, both in the order of the source."""

    def __init__(self) -> None:
        self.settings: dict[str, Any] = {}
        """Nested by name; the leaves are `Setting`."""

        self.strategies: list[dict[str, Any]] = []
        """Strategies, nested like `settings`, except that their `name` is a plain string."""

        self.remarks: list[Remark] = []

    def set(self, path: str, value: Any, origin: str) -> None:
        """Set a value.

        `path`: names with dots. If a value is set twice, the first one is kept, with a remark if they differ.
        """
        section, name = self._place(path)
        known = section.setdefault(name, Setting(value=value, origin=origin.removeprefix(".")))
        if known.value != value:
            self.lost(origin, value, f"{known.origin} has set {path} to {shown(known.value)} already")

    def set_lowest(self, path: str, value: int, origin: str) -> None:
        """Set a value, or keep an earlier one that is lower, because the source applies all of them."""
        section, name = self._place(path)
        known = section.get(name)
        if known is None or value < known.value:
            section[name] = Setting(value=value, origin=origin.removeprefix("."))

    def _place(self, path: str) -> tuple[dict[str, Any], str]:
        """The section of a setting, which is created if it is missing, and the name of the setting in the section."""
        *sections, name = path.split(".")
        section = self.settings
        for section_name in sections:
            section = section.setdefault(section_name, {})
        return section, name

    def remark(self, result: Result, setting: str, value: Any, reason: str) -> None:
        """Add a remark about a setting of the source."""
        path = setting.removeprefix(".")  # paths of settings of the whole source begin with a dot
        self.remarks.append(Remark(result=result, setting=path, value=shown(value), reason=reason))

    def lost(self, setting: str, value: Any, reason: str) -> None:
        """Add a remark that the configuration has no such setting."""
        self.remark("not translated", setting, value, reason)

    def fields(
        self, section: Section, path: str, reasons: Mapping[str, str], result: Result = "not translated"
    ) -> None:
        """Add a remark for each field of a section that the source sets: not for False and empty values, but for 0.

        `reasons`: the reason of each remark by name of the field, in the order of the remarks.
        """
        names = {field.name: field.encode_name for field in msgspec.structs.fields(section)}
        for name, reason in reasons.items():
            value = getattr(section, name)
            if value or (isinstance(value, int | float) and value is not False):
                self.remark(result, f"{path}.{names[name]}", value, reason)

    def strategy(self, name: str) -> dict[str, Any] | None:
        """The strategy of this name; None if there is none yet."""
        return next((each for each in self.strategies if each["name"] == name), None)

    @property
    def document(self) -> dict[str, Any]:
        """The settings with their origins, the strategies included."""
        document = dict(self.settings)
        if self.strategies:
            document["descheduler"] = {**document.get("descheduler", {}), "strategies": self.strategies}
        return document

    @property
    def complete(self) -> bool:
        """Whether nothing is lost."""
        return all(remark.result == "note" for remark in self.remarks)


def shown(value: Any) -> str:
    """A value as JSON in ASCII, at most 80 characters."""
    value = number(value) if isinstance(value, float) and not isinstance(value, Duration) else value
    text = json.dumps(msgspec.to_builtins(value, enc_hook=str), ensure_ascii=True)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."


def member(path: str, name: str) -> str:
    """The path of a member whose name is free text of the author of the source."""
    return f"{path}.{name}" if name.isascii() and name.replace("_", "a").isalnum() else f"{path}[{shown(name)}]"


def number(value: float) -> int | float:
    """A whole number as int, for example 20.0 as 20."""
    return int(value) if float(value).is_integer() else value
