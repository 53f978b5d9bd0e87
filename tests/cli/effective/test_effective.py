"""What services run with, as commands show it: never a file, never the defaults."""

import io
from typing import Any

import msgspec
import pytest
from builders import NOW
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from equipoise.binder.decisions.status import LedgerStatus
from equipoise.binder.settings import BinderSettings
from equipoise.cli.effective.comparison import default_lines, differences, file_lines, several_lines, value_text
from equipoise.cli.effective.reading import is_of_its_service
from equipoise.cli.effective.running import not_known, running_configurations
from equipoise.cli.effective.settings import binder_settings, default_settings, known_settings
from equipoise.cli.effective.text import strategies_line
from equipoise.cli.explain.node_load import node_load
from equipoise.cli.hints.run import why_no_hints
from equipoise.cli.service_settings import SERVICE_SETTINGS
from equipoise.cli.status.in_effect import effective_lines, restriction
from equipoise.cli.views.rows import Changes, ClusterSummary, LimitsRow
from equipoise.cli.views.terminal.screen_text import show
from equipoise.contracts.messages.health import CONFIGURATION_LIFETIME, EffectiveConfiguration, Heartbeat
from equipoise.contracts.messages.values.resources import Resources
from equipoise.descheduler.decisions.strategies.level_day import LevelDay
from equipoise.descheduler.settings import DeschedulerSettings


def settings_of(service: str, **fields: Any) -> dict[str, Any]:
    """The defaults, as the service publishes them, with these fields of its section."""
    defaults = default_settings()
    shared = {name: section for name, section in defaults.items() if name not in SERVICE_SETTINGS}
    return {**shared, service: {**defaults[service], **fields}}


def published(id: str, *, at: float = NOW - 4, stopped: bool = False, **fields: Any) -> EffectiveConfiguration:
    service = id.partition("-")[0]
    return EffectiveConfiguration(
        service=service,
        id=id,
        version="1",
        hash="x",
        settings=settings_of(service, **fields),
        started_at=NOW - 100 + int(id.rpartition("-")[2]),
        at=at,
        stopped=stopped,
    )


def limits(**fields: Any) -> dict[str, Any]:
    return {**default_settings()["binder"]["limits"], **fields}


def test_replicas_with_the_same_configuration_are_one() -> None:
    """Also if their addresses differ: a replica on another machine listens elsewhere."""
    (found,) = running_configurations(
        [published("binder-1"), published("binder-2", health="127.0.0.1:9")], "binder", NOW
    )
    assert found.processes == ["binder-1", "binder-2"]
    assert f"{found.named}, {found.age_text(NOW)}" == "binder-1, binder-2, published 4 s ago"
    assert list(several_lines([found])) == []


def test_replicas_that_differ_are_both_shown() -> None:
    """The settings that differ are shown while a change is rolled out."""
    changed = limits(startupGracePeriod="0s")
    found = running_configurations([published("binder-1"), published("binder-2", limits=changed)], "binder", NOW)
    assert [each.processes for each in found] == [["binder-2"], ["binder-1"]], "the latest started first"
    assert list(several_lines(found)) == [
        "binders differ (a change that is being rolled out?): binder-2 and binder-1",
        "  binder.limits.startupGracePeriod: 0s in binder-2, 1h in binder-1",
    ]


def test_a_service_that_is_gone_is_shown_with_its_age() -> None:
    gone = published("binder-1", at=NOW - CONFIGURATION_LIFETIME - 600)
    (found,) = running_configurations([gone], "binder", NOW)
    assert not found.current
    assert found.age_text(NOW) == "published 11.2 min ago and not since: it may no longer run"
    both = running_configurations([gone, published("binder-2")], "binder", NOW)
    assert [each.processes for each in both] == [["binder-2"]], "only what runs is in effect"


def test_a_process_that_stopped_in_order_runs_with_nothing() -> None:
    assert running_configurations([published("binder-1", stopped=True)], "binder", NOW) == []
    assert running_configurations([published("scorer-1")], "binder", NOW) == []
    assert not_known("binder").startswith("not known: no binder has published its configuration")


def test_a_message_from_the_future_has_no_negative_age() -> None:
    (found,) = running_configurations([published("binder-1", at=NOW + 5)], "binder", NOW)
    assert found.age_text(NOW) == "published 0 s ago"


def test_a_file_that_differs_is_named_with_its_settings() -> None:
    """The case of a file that was edited while its services did not read it."""
    file = {**default_settings(), "binder": {**default_settings()["binder"], "evict": True}}
    file["binder"]["limits"] = limits(maintenance={"only": [{"from": "22:00", "to": "05:00"}], "never": []})
    found = running_configurations([published("binder-1")], "binder", NOW)
    assert list(file_lines("my.yaml", file, found)) == [
        "my.yaml differs from what binder-1 runs with:",
        "  binder.evict: true in the file, false",
        '  binder.limits.maintenance.only: [{"from":"22:00","to":"05:00"}] in the file, []',
    ]
    assert list(file_lines("my.yaml", default_settings(), found)) == []


def test_settings_that_are_not_the_default_are_named() -> None:
    (found,) = running_configurations([published("binder-1", limits=limits(startupGracePeriod="0s"))], "binder", NOW)
    assert default_lines(default_settings(), found) == ["binder.limits.startupGracePeriod: 0s"]


def test_a_secret_of_a_file_is_not_shown_as_a_difference() -> None:
    """It is compared as it is published: without the secret."""
    one = {"collector": {"prometheus": {"url": "https://me:hunter2@prometheus"}}}
    other = {"collector": {"prometheus": {"url": "http://prometheus"}}}
    assert "hunter2" not in str(differences(one, other))
    assert differences(one, {"collector": {"prometheus": {"url": "https://me:swordfish@prometheus"}}}) == []


def test_settings_of_another_version_are_passed_over() -> None:
    """Settings that this version does not know, at any depth, and those that it lacks are not compared."""
    settings = settings_of("binder", evict=True, levers=["surge"])
    settings["binder"]["limits"] = limits(surges={"max": 1}, maintenance={"only": [], "never": [], "except": 3})
    del settings["binder"]["concurrency"]
    assert binder_settings(settings) == BinderSettings(evict=True)
    assert differences(default_settings(), settings)[0].setting == "binder.evict"


def test_settings_of_strategies_of_another_version_are_passed_over() -> None:
    """A union: the tag chooses the section."""
    settings = settings_of("descheduler", strategies=[{"name": "level_day", "threshold": 5, "later": 1}])
    found = known_settings(settings["descheduler"], DeschedulerSettings, "descheduler")
    assert found.strategies == (LevelDay(threshold=5),)


@given(st.sampled_from(sorted(SERVICE_SETTINGS)))
def test_what_a_service_publishes_reads_back_as_its_settings(service: str) -> None:
    kind = SERVICE_SETTINGS[service]  # type: ignore[index]
    assert known_settings(settings_of(service)[service], kind, service) == kind()


def test_strategies_and_thresholds_are_those_of_the_service() -> None:
    (found,) = running_configurations(
        [published("descheduler-1", strategies=[{"name": "bin_pack"}])], "descheduler", NOW
    )
    assert strategies_line(found) == (
        "strategies: bin_pack by descheduler-1; hot above cpu 65%, memory 80%; idle at or below cpu 45%, memory 60%"
    )


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "none"), ("10m", "10m"), ("", '""'), (0, "0"), (False, "false"), ("x" * 99, "x" * 59 + "…")],
)
def test_a_value_is_shown_as_it_is_written(value: Any, text: str) -> None:
    assert value_text(value) == text


def test_plan_and_live_views_show_what_services_run_with() -> None:
    """A line each, and how a file differs from them."""
    messages = [published("binder-1", limits=limits(startupGracePeriod="0s")), published("descheduler-1")]
    expected = [
        "moves: off (moves.level is not set; binder.evict is false: evictions are dry runs)",
        f"{strategies_line(running_configurations(messages, 'descheduler', NOW)[0])} (published 4 s ago)",
        "limits: of binder-1 (published 4 s ago)",
    ]
    assert list(effective_lines(messages, None, "", NOW)) == expected
    assert list(effective_lines(messages, default_settings(), "my.yaml", NOW)) == [
        *expected,
        "my.yaml differs from what binder-1 runs with:",
        "  binder.limits.startupGracePeriod: 1h in the file, 0s",
    ]
    assert list(effective_lines([], None, "", NOW)) == [
        "moves: off (moves.level is not set; no descheduler and no binder is known to run)",
        f"strategies: {not_known('descheduler')}",
        f"limits: {not_known('binder')}",
    ]


def test_the_level_of_moves_is_that_of_the_services_and_states_what_holds_it_lower() -> None:
    """By the settings of each service; the level and `surge.mode` are those of the binder."""

    def shown(binder: EffectiveConfiguration, *others: EffectiveConfiguration) -> str:
        return next(effective_lines([binder, *others], None, "", NOW)).removeprefix("moves: ")

    def with_level(message: EffectiveConfiguration, level: Any) -> EffectiveConfiguration:
        return msgspec.structs.replace(message, settings={**message.settings, "moves": {"level": level}})

    evicting, descheduler, annotator = published("binder-1", evict=True), published("descheduler-1"), "annotator-1"
    assert shown(evicting, descheduler) == "hotNodes (moves.level is not set)"
    assert shown(evicting).startswith("off (moves.level is not set; no descheduler is known to run")
    at_level = with_level(evicting, "withoutGap")
    assert shown(at_level, descheduler) == "withoutGap (moves.level is withoutGap; no annotator is known to run)"
    assert shown(at_level, descheduler, published(annotator)) == "withoutGap (moves.level is withoutGap)"
    marking = published(annotator, deletionCosts="emptiestNodes")
    assert shown(published("binder-1"), descheduler, marking).startswith("scaleDowns (")
    leveling = with_level(published("descheduler-1"), "levelDay")
    assert shown(with_level(evicting, "levelDay"), leveling, marking) == "levelDay (moves.level is levelDay)"
    assert strategies_line(running_configurations([leveling], "descheduler", NOW)[0]).startswith(
        "strategies: low_node_load, level_day by"
    )
    assert shown(with_level(evicting, ["what", "ever"]), descheduler) == "hotNodes (moves.level is not set)"


def test_evictions_that_are_real_are_restricted_by_what_is_in_effect() -> None:
    """`plan` once stated "evictions: real" in a maintenance time: it is that of the binders, of each if they differ."""
    never = limits(maintenance={"only": [], "never": [{"from": "00:00", "to": "00:00"}]})
    one = running_configurations([published("binder-1", limits=never)], "binder", NOW)
    both = running_configurations([published("binder-1", limits=never), published("binder-2")], "binder", NOW)
    why = "no evictions at this time (Mon,Tue,Wed,Thu,Fri,Sat,Sun 00:00-00:00 UTC)"
    assert restriction(one, None, NOW) == why
    assert restriction(both, None, NOW) == f"{why} (binder-1)"
    assert restriction([], None, NOW) == restriction(both[:1], None, NOW) == ""
    paused = LedgerStatus(evictions="paused", why="release")
    assert restriction(one, paused, NOW) == "paused: release"
    halved = LedgerStatus(evictions="allowed", halved_until=NOW + 60)
    assert restriction([], halved, NOW) == "limits are halved until 2027-01-15 08:01:00 UTC"


def test_the_live_views_show_why_nothing_is_evicted_now() -> None:
    """Also if evictions are real: a maintenance time, beside the mode."""
    row = LimitsRow(evictions="allowed", why="no evictions at this time, until 09:30", configuration=["limits of b-1"])
    text = io.StringIO()
    show(
        Changes(summary=msgspec.structs.replace(a_summary(), evictions="real"), limits=row),
        Console(file=text, width=200),
    )
    assert "evictions: real (no evictions at this time, until 09:30)\nlimits of b-1\n" in text.getvalue()


def a_summary() -> ClusterSummary:
    none = Resources()
    return ClusterSummary(
        nodes=0,
        known=0,
        expected=0,
        hot=0,
        spread=none,
        mean=none,
        high=none,
        evictions="",
        measured_at=None,
        evaluated_at=None,
        services=[],
        unknown=[],
    )


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(["thresholds", "descheduler", "binder", "nats", "scorer"]), ANYTHING))
def test_settings_of_any_form_end_no_command(settings: dict[str, Any]) -> None:
    """A later version may publish anything; what cannot be read is not shown, and not taken for the defaults."""
    messages = [
        msgspec.structs.replace(published(id), settings=settings)
        for id in ("binder-1", "binder-2", "descheduler-1", "scorer-1", "annotator-1")
    ]
    assert list(effective_lines([*messages, published("binder-3")], default_settings(), "my.yaml", NOW))
    binders = running_configurations(messages, "binder", NOW)
    assert list(default_lines(default_settings(), binders[0])) is not None
    restriction(binders, None, NOW)
    assert why_no_hints(messages, NOW)
    node = node_load("node-a", None, None, (), running_configurations(messages, "descheduler", NOW), NOW)
    assert node.over == []


def test_a_message_on_the_subject_of_another_service_is_left_out() -> None:
    """The scorer may not publish what binders run with."""
    message = published("binder-1")
    assert is_of_its_service(message, "equipoise.configuration.binder.binder-1")
    assert not is_of_its_service(message, "equipoise.configuration.scorer.binder-1")
    assert not is_of_its_service(message, "equipoise.configuration.binder.binder-2")
    heartbeat = Heartbeat(service="binder", id="binder-1", version="1", ready=True, at=NOW)
    assert is_of_its_service(heartbeat, "equipoise.health.binder.binder-1")
    assert not is_of_its_service(heartbeat, "equipoise.health.scorer.binder-1")
