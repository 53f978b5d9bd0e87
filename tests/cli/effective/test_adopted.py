"""Of what services publish, a command takes no file, no credential, and no URL that nobody else confirms."""

from collections.abc import Iterator
from typing import Any

import pytest
from builders import NOW
from cli.effective.test_effective import published
from hypothesis import given
from hypothesis import strategies as st
from msgspec import inspect
from msgspec.structs import replace

from equipoise.cli.effective.adopted import adopted_settings, without_private
from equipoise.cli.effective.comparison import shared_lines
from equipoise.cli.effective.running import SHARED_FROM, running_configurations
from equipoise.cli.effective.settings import default_settings
from equipoise.cli.service_settings import SERVICE_SETTINGS, AllSettings
from equipoise.collector.settings import CollectorSettings, PrometheusSettings
from equipoise.contracts.bus.subjects import ALL_SERVICES
from equipoise.contracts.configuration.redaction import is_location, is_private, redacted
from equipoise.contracts.messages.health import EffectiveConfiguration
from equipoise.runtime.configuration import Kubernetes, Nats, Shared
from equipoise.runtime.configuration.loading import all_sections

HARMLESS = {
    "user", "context", "namespace", "include", "exclude",  # of the command itself, or names of namespaces
    "name", "window", "windows", "scoreWindow", "key", "values", "matchLabels", "timeZone", "from", "to", "max",
    "mean", "samples", "nodeLabels", "nodes", "pods", "matchers", "shard", "nodeSelector", "unmeasuredNodes",
    "workloads", "node", "cgroupParent", "currency", "instanceType", "labels", "statefulSets",
    "capacity", "metric", "nodeLabel", "pod",
    "health", "listen",  # addresses on which a service listens
}  # fmt: skip
"""Settings with free text that name no file, no credential and no server."""


def texts(info: inspect.Type, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Paths of the settings with free text."""
    match info:
        case inspect.Metadata(type=inner):
            yield from texts(inner, path)
        case inspect.StructType(fields=fields):
            for each in fields:
                yield from texts(each.type, (*path, each.encode_name))
        case inspect.UnionType(types=members):
            for member in members:
                yield from texts(member, path)
        case inspect.VarTupleType(item_type=item) | inspect.ListType(item_type=item):
            yield from texts(item, path)
        case inspect.DictType(value_type=value):
            yield from texts(value, path)
        case inspect.StrType() | inspect.AnyType():
            yield path


TEXTS = sorted(
    {path for name, kind in all_sections(SERVICE_SETTINGS).items() for path in texts(inspect.type_info(kind), (name,))}
)


@pytest.mark.parametrize("path", TEXTS, ids=".".join)
def test_a_setting_with_free_text_is_private_or_a_url_or_known_to_be_harmless(path: tuple[str, ...]) -> None:
    """A new setting fails here until its name shows that it is a file, a credential or a URL, or it is listed above."""
    assert any(map(is_private, path)) or is_location(path[-1]) or path[-1] in HARMLESS


def test_files_credentials_and_urls_are_found() -> None:
    found = {".".join(path) for path in TEXTS if any(map(is_private, path)) or is_location(path[-1])}
    assert found == {
        "nats.url", "nats.passwordFile", "nats.tls.caFile", "nats.tls.certFile", "nats.tls.keyFile",
        "kubernetes.kubeconfig", "kubernetes.serviceAccount", "collector.prometheus.url",
        "collector.prometheus.bearerTokenFile", "collector.prometheus.basicAuthentication.username",
        "collector.prometheus.basicAuthentication.passwordFile", "collector.prometheus.caFile",
        "collector.prometheus.certFile", "collector.prometheus.keyFile", "collector.prometheus.headers",
        "collector.loadWatcher.url", "scorer.extender.tls.certificateFile", "scorer.extender.tls.keyFile",
        "scorer.extender.tls.clientCaFile", "agent.cgroupRoot",
        "annotator.hints.webhook.caFile", "annotator.hints.webhook.tls.certificateFile",
        "annotator.hints.webhook.tls.keyFile", "annotator.hints.webhook.tls.clientCaFile",
    }  # fmt: skip


FORGED = {
    "url": "http://thief:1",
    "bearerTokenFile": "/of/this/machine",
    "basicAuthentication": {"username": "thief", "passwordFile": "/of/this/machine"},
    "caFile": "/of/this/machine",
    "certFile": "/of/this/machine",
    "keyFile": "/of/this/machine",
    "headers": {"X": "of the thief"},
}


def forged(value: Any, name: str = "") -> Any:
    """With values of a thief in every file, credential and URL, also those that are not set."""
    if name == "prometheus":
        value = {**value, **FORGED, "bearerTokenFile": None}
    if isinstance(value, dict):
        return {key: forged(each, key) for key, each in value.items()}
    if name == "tls" and value is None:
        return dict.fromkeys(("certificateFile", "keyFile", "clientCaFile"), "/of/this/machine")
    if is_location(name):
        return "http://thief:1"
    return "/of/this/machine" if is_private(name) and not isinstance(value, bool) else value


@given(st.sampled_from(ALL_SERVICES), st.sampled_from(sorted(FORGED)))
def test_nothing_of_a_thief_is_in_the_settings_that_a_command_uses(service: str, field: str) -> None:
    """Whichever service publishes it, in its own section or in that of another one."""
    every: dict[str, Any] = {name: forged(section, name) for name, section in default_settings().items()}
    every["collector"]["prometheus"] |= {"bearerTokenFile": None, "basicAuthentication": None, field: FORGED[field]}
    found = adopted_settings(AllSettings(), [replace(published(f"{service}-1"), settings=every)], NOW)
    assert found.services == [service]
    assert "thief" not in str(found.settings)
    assert "/of/this/machine" not in str(found.settings)
    assert found.settings.collector.prometheus == PrometheusSettings()


def test_of_a_service_only_its_own_section_is_used() -> None:
    """And the shared sections from one service each, whatever others publish."""
    message = published("scorer-1")
    message.settings["binder"] = {**default_settings()["binder"], "evict": True}
    message.settings["descheduler"] = {**default_settings()["descheduler"], "intentLifetime": "7s"}
    for name in SHARED_FROM:
        message.settings[name] = {}
    message.settings["thresholds"] = {"high": {"cpu": 99, "memory": 99}}
    own = AllSettings()
    found = adopted_settings(own, [message], NOW).settings
    assert (found.binder, found.descheduler, found.shared) == (own.binder, own.descheduler, own.shared)


@pytest.mark.parametrize("section", SHARED_FROM)
def test_a_shared_section_is_that_of_the_service_by_which_it_is_known(section: str) -> None:
    value = {
        "load": {"memory": "anonymous"},
        "thresholds": {"high": {"cpu": 77, "memory": 80}},
        "namespaces": {"include": ["shop"]},
        "protection": {"localStorage": True},
        "moves": {"level": "withoutGap"},
        "surge": {"mode": "blocked"},
    }[section]
    own = AllSettings()
    for service in ALL_SERVICES:
        message = published(f"{service}-1")
        message.settings[section] = value
        found = adopted_settings(own, [message], NOW).settings.shared
        assert (found != own.shared) is (SHARED_FROM[section] == service)


def test_the_settings_that_run_replace_those_of_the_command() -> None:
    """Sections of services that do not run remain; so do the connections of the command."""
    own = AllSettings(shared=Shared(nats=Nats(url="nats://here:1"), kubernetes=Kubernetes(context="home")))
    found = adopted_settings(own, [published("collector-1", shards=3, scrapeInterval="7s")], NOW)
    assert found.services == ["collector"]
    assert (found.settings.collector.shards, found.settings.collector.scrape_interval) == (3, 7.0)
    assert (found.settings.shared.nats.url, found.settings.shared.kubernetes.context) == ("nats://here:1", "home")
    assert found.settings.binder == own.binder
    gone = adopted_settings(own, [published("collector-1", at=NOW - 999)], NOW)
    assert (gone.settings, gone.services) == (own, []), "it is gone"


def test_a_url_is_taken_if_it_is_confirmed_and_then_without_the_credentials_for_another_one() -> None:
    """Without a confirmation, it is named, and the URL and the credentials of the command remain."""
    mine = PrometheusSettings(url="http://mine:1", bearer_token_file="/mine", headers={"X": "mine"})
    own = AllSettings(collector=CollectorSettings(prometheus=mine))
    running = {**default_settings()["collector"]["prometheus"], "url": "http://theirs:1", "bearerTokenFile": "/theirs"}
    messages = [published("collector-1", prometheus=running)]
    refused = adopted_settings(own, messages, NOW)
    assert refused.settings.collector.prometheus == mine
    assert refused.refused_urls == {"collector.prometheus.url": "http://theirs:1"}
    assert refused.private == ["collector.prometheus.bearerTokenFile", "collector.prometheus.headers"][:1]
    installed = AllSettings(collector=CollectorSettings(prometheus=PrometheusSettings(url="http://theirs:1")))
    found = adopted_settings(own, messages, NOW, [AllSettings(), installed])
    assert found.settings.collector.prometheus == PrometheusSettings(url="http://theirs:1")
    assert found.refused_urls == {}


def test_a_message_that_cannot_be_read_hides_no_other_service() -> None:
    """It is named."""
    broken = [replace(published("scorer-1"), settings={"scorer": section}) for section in (5, {"listen": 5})]
    for each in broken:
        found = adopted_settings(AllSettings(), [each, published("binder-1", evict=True)], NOW)
        assert found.services == ["binder"]
        assert found.settings.binder.evict
        assert found.unreadable[0].startswith("scorer-1: scorer")
    assert adopted_settings(AllSettings(), [replace(published("scorer-1"), settings={})], NOW).services == []


def test_a_configuration_shows_nothing_of_another_service() -> None:
    """Neither as a difference from a file, nor as one between replicas."""
    plain, forging = published("scorer-1"), published("scorer-2")
    forging.settings["binder"] = {"evict": False}
    (found,) = running_configurations([plain, forging], "scorer", NOW)
    assert found.processes == ["scorer-1", "scorer-2"]
    assert "binder" not in found.settings


def test_differences_between_services_are_shown_once_and_only_of_what_they_share() -> None:
    other = published("scorer-1")
    other.settings["thresholds"] = {
        **other.settings["thresholds"],
        "high": {**other.settings["thresholds"]["high"], "cpu": 70},
    }
    messages = [published("descheduler-1"), other, published("binder-1")]
    every = [each for service in ALL_SERVICES for each in running_configurations(messages, service, NOW)]
    assert list(shared_lines(every)) == [
        "services differ in what they share: descheduler-1, which is used, and scorer-1",
        "  thresholds.high.cpu: 65 in descheduler-1, 70 in scorer-1",
    ]
    assert list(shared_lines(each for each in every if each.service != "scorer")) == []


def test_settings_that_are_nested_too_deeply_are_skipped() -> None:
    """They would exhaust the stack of whoever compares them."""
    nested: Any = 1
    for _ in range(400):
        nested = [{"a": nested}]
    assert replace(published("scorer-1"), settings={"scorer": nested}).implausible
    assert not any(published(f"{service}-1").implausible for service in ALL_SERVICES)
    assert isinstance(published("scorer-1"), EffectiveConfiguration)


def test_settings_without_private_ones_have_their_defaults() -> None:
    settings = PrometheusSettings(
        url="http://a:1", profile="kube-prometheus", bearer_token_file="/a", ca_file="/b", headers={"X": "1"}
    )
    assert without_private(settings) == PrometheusSettings(url="http://a:1", profile="kube-prometheus")


def test_no_published_configuration_names_a_file() -> None:
    for service in ALL_SERVICES:
        settings = {service: forged(default_settings()[service], service)}
        assert "/of/this/machine" not in str(redacted(settings))
