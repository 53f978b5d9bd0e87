"""Settings that differ between a file, the defaults and what services run with. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from equipoise.cli.effective.running import SHARED_FROM, RunningConfiguration, Settings, decisive
from equipoise.contracts.configuration.redaction import redacted

MAX_VALUE = 60
"""Characters of a value that are shown."""

MAX_LINES = 8
"""Settings that are shown."""


class DifferingSetting(msgspec.Struct, frozen=True, kw_only=True):
    """One setting with two values."""

    setting: str
    """Its path: `binder.limits.startupGracePeriod`."""

    one: Any
    other: Any


def differences(one: Settings, other: Settings) -> list[DifferingSetting]:
    """Settings that both have, with different values. A setting that one lacks is of another version or service."""
    return list(_differences(decisive(redacted(dict(one))), decisive(redacted(dict(other))), ""))


def _differences(one: Mapping[str, Any], other: Mapping[str, Any], path: str) -> Iterator[DifferingSetting]:
    for name in one:
        if name not in other:
            continue
        at, left, right = f"{path}{name}", one[name], other[name]
        if isinstance(left, Mapping) and isinstance(right, Mapping) and left.keys() & right.keys():
            yield from _differences(left, right, f"{at}.")
        elif left != right:
            yield DifferingSetting(setting=at, one=left, other=right)


def value_text(value: Any) -> str:
    """The value in YAML's flow style, shortened."""
    text = value if isinstance(value, str) and value else msgspec.json.encode(value).decode()
    text = "none" if value is None else text
    return text if len(text) <= MAX_VALUE else f"{text[: MAX_VALUE - 1]}…"


def file_lines(name: str, file: Settings, running: Sequence[RunningConfiguration]) -> Iterator[str]:
    """How a configuration file differs from what services run with; nothing if it does not."""
    for configuration in running:
        differing = differences(file, configuration.settings)
        if differing:
            yield f"{name} differs from what {configuration.named} {_runs(configuration)} with:"
            yield from shortened(
                [f"{each.setting}: {value_text(each.one)} in the file, {value_text(each.other)}" for each in differing]
            )


def default_lines(defaults: Settings, running: RunningConfiguration) -> list[str]:
    """The settings in effect that are not the defaults, `setting: value`."""
    return [f"{each.setting}: {value_text(each.other)}" for each in differences(defaults, running.settings)]


def several_lines(running: Sequence[RunningConfiguration]) -> Iterator[str]:
    """How processes of one service differ, as while a change is rolled out; nothing if they do not."""
    first = running[0] if running else None
    for other in running[1:]:
        assert first is not None
        yield f"{first.service}s differ (a change that is being rolled out?): {first.named} and {other.named}"
        yield from shortened([_between(each, first, other) for each in differences(first.settings, other.settings)])


def shared_lines(running: Iterable[RunningConfiguration]) -> Iterator[str]:
    """How services differ in the sections that they share; nothing if they do not.

    Each service is compared with the service of SHARED_FROM.
    """
    latest: dict[str, RunningConfiguration] = {}
    for configuration in running:
        if configuration.current:
            latest.setdefault(configuration.service, configuration)
    for section, source in SHARED_FROM.items():
        first = latest.get(source)
        for other in latest.values():
            if first is not None and other is not first and (differing := _in_section(section, first, other)):
                yield f"services differ in what they share: {first.named}, which is used, and {other.named}"
                yield from shortened([_between(each, first, other) for each in differing])


def _in_section(section: str, one: RunningConfiguration, other: RunningConfiguration) -> list[DifferingSetting]:
    if section not in one.settings or section not in other.settings:
        return []
    return differences({section: one.settings[section]}, {section: other.settings[section]})


def _between(differing: DifferingSetting, one: RunningConfiguration, other: RunningConfiguration) -> str:
    values = f"{value_text(differing.one)} in {one.named}, {value_text(differing.other)} in {other.named}"
    return f"{differing.setting}: {values}"


def shortened(lines: Sequence[str]) -> Iterator[str]:
    """The first MAX_LINES lines, indented, and how many more there are."""
    yield from (f"  {line}" for line in lines[:MAX_LINES])
    if len(lines) > MAX_LINES:
        yield f"  and {len(lines) - MAX_LINES} more"


def _runs(running: RunningConfiguration) -> str:
    one = len(running.processes) == 1
    return ("runs" if one else "run") if running.current else "ran"
