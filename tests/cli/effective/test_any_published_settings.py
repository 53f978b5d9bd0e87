"""Settings of any form that a service publishes end no command: it shows them, or that they are not known."""

import json
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from equipoise.cli.effective.adopted import adopted_settings
from equipoise.cli.effective.running import running_configurations
from equipoise.cli.effective.text import strategies_line
from equipoise.cli.service_settings import SERVICE_SETTINGS, all_settings
from equipoise.cli.status.in_effect import effective_lines
from equipoise.cli.status.run import limits_of
from equipoise.contracts.bus.decoding import TolerantDecoder, plausible
from equipoise.contracts.configuration.redaction import redacted
from equipoise.contracts.messages.example import NOW
from equipoise.contracts.messages.health import EFFECTIVE_CONFIGURATION, EffectiveConfiguration
from equipoise.runtime.configuration.errors import ConfigurationError

DECODER = TolerantDecoder(EffectiveConfiguration)

SETTINGS: dict[str, Any] = {
    "thresholds": {"high": {"cpu": 65.0, "memory": 80.0}, "low": {"cpu": 45.0, "memory": 60.0}},
    "load": {"windows": [{"name": "5m", "length": "5m"}]},
    "descheduler": {"strategies": [{"name": "low_node_load"}], "interval": "30s"},
    "binder": {"evict": False, "limits": {"perNode": 2}},
    "collector": {"prometheus": {"url": "http://prometheus:9090", "bearerTokenFile": "token"}},
}

values = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**400), 10**400) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8) | st.sampled_from(["x" * 70_000, "a/" * 3_000, "5m", "1e308", "\x1b[2J"]),
    lambda part: st.lists(part, max_size=3) | st.dictionaries(st.text(max_size=8), part, max_size=3),
    max_leaves=6,
) | st.builds(lambda depth: json.loads("[" * depth + "]" * depth), st.sampled_from([15, 16, 17, 400]))  # fmt: skip


def places(document: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    keys = document if isinstance(document, dict) else range(len(document)) if isinstance(document, list) else ()
    return [path, *(place for key in keys for place in places(document[key], (*path, key)))]


def changed(document: Any, path: tuple[Any, ...], value: Any) -> Any:
    if not path:
        return value
    copy = dict(document) if isinstance(document, dict) else list(document)
    copy[path[0]] = changed(document[path[0]], path[1:], value)
    return copy


def received(settings: Any, service: str) -> EffectiveConfiguration | None:
    """None: it is skipped and named, like every message that cannot be read."""
    document = json.loads(msgspec.json.encode(EFFECTIVE_CONFIGURATION)) | {"service": service, "settings": settings}
    with suppress(msgspec.MsgspecError, ValueError, RecursionError):
        return plausible(DECODER.decode(json.dumps(document).encode()))
    return None


def test_settings_that_a_service_may_have_are_received() -> None:
    message = received(SETTINGS, "binder")

    assert message is not None
    assert message.settings == SETTINGS


@pytest.mark.parametrize("service", SERVICE_SETTINGS)
@given(path=st.sampled_from(places(SETTINGS)), value=values)
def test_settings_of_any_form_end_no_command(service: str, path: tuple[Any, ...], value: Any) -> None:
    message = received(changed(SETTINGS, path, value), service)
    if message is None:
        return
    messages = [message]
    list(effective_lines(messages, SETTINGS, "equipoise.yaml", NOW))
    redacted(message.settings)
    for each in running_configurations(messages, service, NOW):
        each.age_text(NOW)
        strategies_line(each)
        limits_of(each)
    with suppress(ConfigurationError):
        adopted_settings(all_settings({}), messages, NOW)


@pytest.mark.parametrize(
    "settings",
    [
        {"thresholds": {"high": {"cpu": 10**400}}},
        {"thresholds": {"high": {"cpu": -(10**30)}}},
        {"binder": json.loads("[" * 16 + "]" * 16)},
        {"binder": {"x": "x" * 70_000}},
        {"x" * 70_000: 1},
    ],
)
def test_settings_that_no_service_has_are_no_message(settings: Any) -> None:
    assert received(settings, "binder") is None
