"""The configuration: strict, explained, overridable."""

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from equipoise.contracts.bus.subjects import ServiceName
from equipoise.contracts.configuration.duration import Duration
from equipoise.contracts.configuration.settings import LoadSettings, Percent, Section
from equipoise.runtime.configuration import (
    ConfigurationError,
    Nats,
    Shared,
    Tls,
    compress,
    defaults_document,
    document_schema,
    load_configuration,
    read_document,
    read_sections,
    to_document,
    validate_document,
)
from equipoise.runtime.configuration.discovered import stored_reason

HEADER = "apiVersion: equipoise.dev/v1alpha1\nkind: EquipoiseConfiguration\n"


class Limit(Section, frozen=True, kw_only=True):
    """How much may move."""

    each: int | Literal["unlimited"] = 5
    """Pods at once."""

    pause: Duration = Duration(300)


class ScorerSection(Section, frozen=True, kw_only=True):
    """A section for tests."""

    health: str = "0.0.0.0:8083"
    """Its address."""

    evict: bool = False
    mark: Percent = 50
    limit: Limit = Limit()
    limits: tuple[Limit, ...] = (Limit(), Limit(each="unlimited"))
    pools: dict[str, Limit] = {}  # noqa: RUF012  msgspec copies it
    fallback: Limit | None = None


SECTIONS: Mapping[ServiceName, type[Section]] = {"scorer": ScorerSection}


def load(text: str, **environment: str) -> ScorerSection:
    sections: Mapping[ServiceName, type[ScorerSection]] = {"scorer": ScorerSection}
    return read_sections(read_document(HEADER + text), sections, environment)[1]["scorer"]


def fault(text: str, **environment: str) -> str:
    with pytest.raises(ConfigurationError) as caught:
        load(text, **environment)
    return str(caught.value)


def test_without_a_file_everything_has_its_default() -> None:
    """No file and no variables are a working configuration."""
    configuration = load_configuration(None, "scorer", ScorerSection, {})
    assert configuration.own == ScorerSection()
    assert configuration.shared == Shared()


def test_a_service_reads_its_own_and_the_shared_sections(tmp_path: Path) -> None:
    """Camel case on the wire, durations with units."""
    file = tmp_path / "equipoise.yaml"
    file.write_text(HEADER + "load: {podStartTimeout: 90s}\nscorer: {mark: 70, limit: {pause: 1h30m}}\n")
    configuration = load_configuration(file, "scorer", ScorerSection, {})
    assert configuration.shared.load.pod_start_timeout == 90
    assert configuration.own.mark == 70
    assert configuration.own.limit.pause == 5_400


def test_other_services_sections_are_not_looked_at() -> None:
    """A newer binder's settings do not stop an older scorer; a section with nothing below it is empty."""
    assert load("binder: {fromTheFuture: 1}\nscorer:\n") == ScorerSection()


def test_validation_is_strict_on_every_section() -> None:
    """What one service overlooks the check of a whole document does not."""
    binder: Mapping[ServiceName, type[Section]] = {"binder": Limit}
    with pytest.raises(ConfigurationError, match=r"binder\.fromTheFuture"):
        validate_document(HEADER + "binder: {fromTheFuture: 1}", {**SECTIONS, **binder})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("scorer: {helth: 1}", ["scorer.helth", "did you mean health", "evict"]),
        ("scorer: {evict: yes}", ["scorer.evict", '"yes"', "bool"]),
        ("scorer: {evict: 1}", ["scorer.evict", "1", "bool"]),
        ("scorer: {mark: 120}", ["scorer.mark", "120", "<= 100"]),
        ("scorer: {mark: 10%}", ["scorer.mark", '"10%"', "float"]),
        ("scorer: {mark: -1}", ["scorer.mark", "-1", ">= 0"]),
        ("scorer: {mark: .nan}", ["scorer.mark", ".nan"]),
        ("scorer: {mark: 1e400}", ["line 3", "1e400", "too large"]),
        ("scorer: {mark: '50'}", ["scorer.mark", '"50"', "float"]),
        ("scorer: {mark: 1:30}", ["scorer.mark", '"1:30"']),
        ("scorer: {mark: 0o17}", ["scorer.mark", '"0o17"']),
        ("scorer: {mark: null}", ["scorer.mark", "null"]),
        ("scorer: {mark: " + "9" * 5_000 + "}", ["line 3", "digits"]),
        ("scorer: {limit: {each: none}}", ["scorer.limit.each", '"none"', "unlimited"]),
        ("scorer: {limit: {pause: 300}}", ["scorer.limit.pause", "300 is not a duration", "5m"]),
        ("scorer: {limits: [{}, {paus: 1s}]}", ["scorer.limits[1].paus", "did you mean pause"]),
        ("scorer: {pools: {blue: {paus: 1s}}}", ["scorer.pools.blue.paus", "did you mean pause"]),
        ("scorer: {pools: {green: {}, blue: [1]}}", ["scorer.pools.blue", "[1]"]),
        ("thresholds: {resources: {a: {high: 80}, gpu: {high: .nan}}}", ["thresholds.resources.gpu.high", ".nan"]),
        ("scorer: {fallback: {each: x}}", ["scorer.fallback.each", '"x"']),
        ("scorer: [1]", ["scorer", "[1]", "object"]),
        ("scorer: {mark: " + "[" * 60 + "]" * 60 + "}", ["scorer.mark", "…"]),
        ("lod: {}", ["lod", "did you mean load"]),
        ("load: {base: requested}", ["load.base", '"requested"', "allocatable or capacity"]),
        ("load: {windows: []}", ["load", "at least one window"]),
        ("thresholds: {high: {cpu: 40}, low: {cpu: 50}}", ["thresholds", "low.cpu (50)"]),
        ("nats: {url: 'http://nats'}", ["nats", "nats://"]),
        ("nats: {url: 'nats://me:secret@nats'}", ["nats", "passwordFile"]),
        ("nats: {url: 'ws://nats', tls: {}}", ["nats", "never encrypted", "wss://"]),
        ("nats: {user: me}", ["nats", "passwordFile belong together"]),
        ("nats: {tls: {certFile: /c}}", ["nats.tls", "keyFile"]),
        ("load: {}\nload: {}", ["line 4", "'load' is given twice"]),
        ("scorer:\n  evict: true\n  evict: false", ["line 5", "'evict' is given twice"]),
        ("a: &x [1]\nb: *x", ["line 4", "aliases"]),
        ("scorer: !!python/object:os.system {}", ["line 3", "tag"]),
        ("\tscorer: {}", ["line 3", "\\t"]),
        ("1: 2", ["line 3", "1", "no text"]),
        ("? [a]\n: 1", ["line 3", "no text"]),
        ("scorer: [", ["line 3"]),
        ("scorer: " + "[" * 5_000, ["nested too deeply"]),
        ("---\nscorer: {}", ["another document"]),
        ("scorer: \x00", ["special characters"]),
    ],
)  # fmt: skip
def test_an_error_has_the_path_the_value_and_what_is_allowed(text: str, words: list[str]) -> None:
    """Each can be put right from its message alone."""
    message = fault(text)
    assert [word for word in words if word not in message] == []
    assert len(message) < 400


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "apiVersion"),
        ("just text", "apiVersion"),
        ("- a\n- b", "apiVersion"),
        ("kind: EquipoiseConfiguration", "apiVersion: is missing"),
        ("apiVersion: equipoise.dev/v2\nkind: EquipoiseConfiguration", "equipoise.dev/v2"),
        ("apiVersion: equipoise.dev/v1alpha1\nkind: ConfigMap", "ConfigMap"),
    ],
)
def test_another_kind_of_document_is_refused(text: str, words: str) -> None:
    """A file that is not ours is not taken for an empty configuration."""
    with pytest.raises(ConfigurationError) as caught:
        read_document(text)
    assert words in str(caught.value)


def test_all_invalid_sections_are_reported_together() -> None:
    """Who mends a file wants the whole list: a line each."""
    text = HEADER + "scorer: {helth: x}\nload: {compensation: maybe}\nunheardOf: {}"
    with pytest.raises(ConfigurationError) as caught:
        read_sections(read_document(text), SECTIONS)
    lines = str(caught.value).splitlines()
    assert sorted(line.split(":")[0].split(".")[0] for line in lines) == ["load", "scorer", "unheardOf"]


def test_words_that_older_yaml_turns_into_booleans_stay_words() -> None:
    """`off` is a compensation, not false."""
    shared, _ = read_sections(read_document(HEADER + "load: {compensation: off}"), SECTIONS)
    assert shared.load.compensation == "off"


def test_a_setting_that_can_be_off_reads_false_as_off_and_others_do_not() -> None:
    """Helm reads values as YAML 1.1, in which `off` is false, and writes false into the configuration."""
    shared, _ = read_sections(read_document(HEADER + "load: {compensation: false}\nmoves: {level: false}"), SECTIONS)
    assert (shared.load.compensation, shared.moves.level) == ("off", "off")
    assert load("scorer: {evict: false}").evict is False
    with pytest.raises(ConfigurationError, match=r"load\.memory: false is not allowed: expected"):
        read_sections(read_document(HEADER + "load: {memory: false}"), SECTIONS)


def test_zero_stays_zero() -> None:
    """0 means that nothing may move; it is never read as absent."""
    assert load("scorer: {limit: {each: 0}}").limit.each == 0


def test_a_huge_file_is_refused_quickly(tmp_path: Path) -> None:
    """No more than a ConfigMap can hold is read."""
    file = tmp_path / "huge.yaml"
    file.write_text(HEADER + "scorer: {}\n" * 500_000)
    begun = time.process_time()
    with pytest.raises(ConfigurationError, match="bytes"):
        load_configuration(file, "scorer", ScorerSection, {})
    assert time.process_time() - begun < 1


@pytest.mark.parametrize("content", [None, b"\xff\xfe\x00"])
def test_a_file_that_cannot_be_read_is_a_plain_message(tmp_path: Path, content: bytes | None) -> None:
    """Absent, or no text: the file is named."""
    file = tmp_path / "equipoise.yaml"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ConfigurationError, match=r"equipoise\.yaml"):
        load_configuration(file, "scorer", ScorerSection, {})


@pytest.mark.parametrize(
    ("variable", "value", "expected"),
    [
        ("EQUIPOISE_SCORER__HEALTH", "127.0.0.1:1", {"health": "127.0.0.1:1"}),
        ("EQUIPOISE_SCORER__EVICT", "true", {"evict": True}),
        ("EQUIPOISE_SCORER__MARK", "70.5", {"mark": 70.5}),
        ("EQUIPOISE_SCORER__LIMIT__PAUSE", "90s", {"limit": Limit(pause=Duration(90))}),
        ("EQUIPOISE_SCORER__LIMIT__EACH", "unlimited", {"limit": Limit(each="unlimited")}),
        ("EQUIPOISE_SCORER__LIMIT__EACH", "3", {"limit": Limit(each=3)}),
        ("EQUIPOISE_SCORER__FALLBACK__EACH", "3", {"fallback": Limit(each=3)}),
    ],
)
def test_a_variable_overrides_a_scalar(variable: str, value: str, expected: dict[str, Any]) -> None:
    """At any depth, with precedence over the file, read as the setting's own type."""
    own = load("scorer: {mark: 1, evict: false}", **{variable: value})
    assert own == msgspec.structs.replace(ScorerSection(mark=1), **expected)


def test_a_level_matches_without_regard_to_underscores() -> None:
    """PASSWORD_FILE and PASSWORDFILE are passwordFile."""
    environment = {"EQUIPOISE_NATS__PASSWORD_FILE": "/p", "EQUIPOISE_NATS__USER": "123"}
    shared, _ = read_sections({}, SECTIONS, environment)
    assert (shared.nats.user, shared.nats.password_file) == ("123", "/p")
    assert read_sections({}, SECTIONS, {**environment, "EQUIPOISE_NATS__PASSWORDFILE": "/p"})[0] == shared


@pytest.mark.parametrize(
    ("variable", "value", "words"),
    [
        ("EQUIPOISE_SCORER__HELTH", "x", "did you mean health"),
        ("EQUIPOISE_SKORER__HEALTH", "x", "skorer"),
        ("EQUIPOISE_SCORER__EVICT", "yes", '"yes"'),
        ("EQUIPOISE_SCORER__MARK", "inf", "100"),
        ("EQUIPOISE_LOAD__FRESHNESS__REFRESH_FACTOR", "inf", "finite"),
        ("EQUIPOISE_SCORER__LIMIT__PAUSE", "90", "not a duration"),
        ("EQUIPOISE_SCORER__LIMIT", "x", "object"),
        ("EQUIPOISE_SCORER__LIMITS", "x", "array"),
        ("EQUIPOISE_SCORER__HEALTH__PORT", "1", "no such setting"),
        ("EQUIPOISE_SCORER", "x", ""),
    ],
)
def test_a_wrong_variable_is_named(variable: str, value: str, words: str) -> None:
    """A misspelt variable of a known section, or one that is no scalar, is an error; others are not ours."""
    if not words:
        assert load("", **{variable: value}) == ScorerSection()
    else:
        message = fault("", **{variable: value})
        assert variable in message
        assert words in message


@pytest.mark.parametrize("variable", ["EQUIPOISE_BINDER__EVICT", "EQUIPOISE_SCORER_PORT_80_TCP", "EQUIPOISE_CONFIG"])
def test_variables_of_others_are_left_alone(variable: str) -> None:
    """Another service's, and those that Kubernetes sets for a Service of our name."""
    assert load("", **{variable: "x"}) == ScorerSection()


def test_the_defaults_document_is_valid_and_explained() -> None:
    """What `config defaults` prints reads back as the defaults and carries the explanations."""
    text = defaults_document(SECTIONS)
    validate_document(text, SECTIONS)
    shared, own = read_sections(read_document(text), SECTIONS)
    assert (shared, own["scorer"]) == (Shared(), ScorerSection())
    assert "    # Pods at once.\n    each: 5\n" in text


def _schemas(node: Any) -> Iterator[dict[str, Any]]:
    if isinstance(node, dict):
        yield node
        node = list(node.values())
    if isinstance(node, list):
        for below in node:
            yield from _schemas(below)


def test_the_schema_matches_the_reader() -> None:
    """Unknown fields are refused, durations have a pattern, bounds, defaults and explanations are there."""
    schema = json.loads(json.dumps(document_schema(SECTIONS)))
    for part in _schemas(schema):
        if "$ref" in part:
            assert part["$ref"].removeprefix("#/$defs/") in schema["$defs"]
    section = next(value for name, value in schema["$defs"].items() if name.endswith("ScorerSection"))
    assert section["additionalProperties"] is False
    assert section["properties"]["mark"] == {"type": "number", "minimum": 0, "maximum": 100, "default": 50}
    assert section["properties"]["health"]["description"] == "Its address."
    limit = next(value for name, value in schema["$defs"].items() if name.endswith("Limit"))
    assert limit["properties"]["pause"]["default"] == "5m"
    assert limit["properties"]["pause"]["type"] == "string"


def test_a_document_made_from_settings_reads_back() -> None:
    """The demo writes its compressed settings for five processes."""
    shared, own = read_sections(read_document(HEADER + "thresholds: {high: {cpu: 70}}"), SECTIONS)
    text = yaml.safe_dump(to_document(shared, own))
    assert read_sections(read_document(text), SECTIONS) == (shared, own)


@given(st.floats(min_value=1, max_value=10_000))
def test_compression_divides_every_length_and_nothing_else(factor: float) -> None:
    """At any depth: fields, tuples, dicts; factors, shares and counts stay."""
    section = ScorerSection(pools={"blue": Limit(pause=Duration(60))}, fallback=Limit())
    compressed = compress(section, factor)
    assert compressed.limit.pause == pytest.approx(300 / factor)
    assert [limit.pause for limit in compressed.limits] == pytest.approx([300 / factor] * 2)
    assert compressed.pools["blue"].pause == pytest.approx(60 / factor)
    assert compressed.fallback is not None
    assert compressed.fallback.pause == pytest.approx(300 / factor)
    assert compressed.limits[1].each == "unlimited"
    assert (compressed.mark, compressed.health) == (section.mark, section.health)
    windows = compress(LoadSettings(), factor)
    assert windows.longest.length == pytest.approx(86_400 / factor)
    assert windows.freshness.refresh_factor == 3
    assert isinstance(windows.longest.length, Duration)


def test_compressed_settings_survive_a_file() -> None:
    """Fractions of milliseconds are not lost on the way to another process."""
    shared = compress(Shared(), 225)
    text = yaml.safe_dump(to_document(shared, {}))
    again, _ = read_sections(read_document(text), {})
    assert again.load.freshness.eviction == pytest.approx(120 / 225, abs=1e-8)


def test_the_hash_changes_with_what_is_read_and_only_then() -> None:
    """Replicas with the same hash do the same."""
    plain = load_configuration(None, "scorer", ScorerSection, {}).hash
    assert load_configuration(None, "scorer", ScorerSection, {"EQUIPOISE_BINDER__EVICT": "true"}).hash == plain
    assert load_configuration(None, "scorer", ScorerSection, {"EQUIPOISE_SCORER__EVICT": "true"}).hash != plain


@given(st.text(max_size=80))
def test_no_text_makes_the_reader_fail(text: str) -> None:
    """Any text is settings or a ConfigurationError, and nothing else."""
    with suppress(ConfigurationError):
        read_sections(read_document(HEADER + text), SECTIONS)


@pytest.mark.parametrize(
    ("url", "tls", "readable"),
    [
        ("nats://nats:4222", None, ["nats://nats:4222"]),
        ("tls://a,nats://b,ws://c:8080,wss://d", None, ["nats://b", "ws://c:8080"]),
        ("nats://nats:4222", Tls(), []),
        ("nats://10.0.0.1", None, ["nats://10.0.0.1"]),
        ("nats://127.0.0.1:4222,nats://localhost,nats://[::1]:4222,ws://127.9.9.9", None, []),
        ("nats://localhost.example.com", None, ["nats://localhost.example.com"]),
    ],
)
def test_others_may_read_what_is_sent_without_tls(url: str, tls: Tls | None, readable: list[str]) -> None:
    """On the loopback interface there are no others."""
    assert list(Nats(url=url, tls=tls).readable_urls) == readable


@pytest.mark.parametrize(("text", "word"), [('"\\ud83d\\ude00"', "😀"), ('"\\ud800"', None), ('"a\\udfff"', None)])
def test_half_of_a_surrogate_pair_is_no_text(text: str, word: str | None) -> None:
    """A whole pair is one character, as in JSON."""
    document = f"{HEADER}scorer: {{name: {text}}}"
    if word is None:
        with pytest.raises(ConfigurationError, match=r"line 3, column 16: the text has half of a surrogate pair"):
            read_document(document)
    else:
        assert read_document(document) == {"scorer": {"name": word}}


class SourceSection(Section, frozen=True, kw_only=True):
    """As that of the collector."""

    source: str = "prometheus"
    prometheus: dict[str, str] = msgspec.field(default_factory=dict)


DISCOVERED = "collector: {source: prometheus, prometheus: {url: 'http://found', profile: kube-prometheus}}"


@pytest.mark.parametrize(
    ("own", "environment", "source", "prometheus"),
    [
        ("", {}, "prometheus", {"url": "http://found", "profile": "kube-prometheus"}),
        ("collector:", {}, "prometheus", {"url": "http://found", "profile": "kube-prometheus"}),
        (
            "collector: {prometheus: {profile: kubelet}}",
            {},
            "prometheus",
            {"url": "http://found", "profile": "kubelet"},
        ),
        (
            "collector: {prometheus: {bearerTokenFile: /token, caFile: /ca, headers: a, basicAuthentication: b}}",
            {},
            "prometheus",
            {"url": "http://found", "profile": "kube-prometheus"},
        ),
        (
            "collector: {prometheus: {url: 'http://own', bearerTokenFile: /token}}",
            {},
            "prometheus",
            {"url": "http://own", "bearerTokenFile": "/token"},
        ),
        ("collector: {source: metrics-server}", {}, "metrics-server", {}),
        ("", {"EQUIPOISE_COLLECTOR__SOURCE": "load-watcher"}, "load-watcher", {}),
    ],
)
def test_what_was_discovered_is_used_if_the_configuration_names_no_source(
    tmp_path: Path, own: str, environment: dict[str, str], source: str, prometheus: dict[str, str]
) -> None:
    """Never a mixture: the profile of one Prometheus with the URL of another. Credentials are sent only to the URL of
    the configuration."""
    file, discovered = tmp_path / "equipoise.yaml", tmp_path / "discovered.yaml"
    file.write_text(HEADER + own)
    discovered.write_text(HEADER + DISCOVERED)
    environment = {"EQUIPOISE_DISCOVERED": str(discovered)} | environment
    found = load_configuration(file, "collector", SourceSection, environment).own
    assert (found.source, found.prometheus) == (source, prometheus)


def test_a_discovered_source_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    """A missing file is none: nothing was discovered."""
    discovered = tmp_path / "discovered.yaml"
    environment = {"EQUIPOISE_DISCOVERED": str(discovered)}
    assert load_configuration(None, "collector", SourceSection, environment).own == SourceSection()
    discovered.write_text("collector")
    with pytest.raises(ConfigurationError, match=r"EQUIPOISE_DISCOVERED .*discovered.yaml.*: the document must be"):
        load_configuration(None, "collector", SourceSection, environment)


def test_the_reason_for_the_source_is_stored_beside_it(tmp_path: Path) -> None:
    """Without one, or with one that is no text, there is none."""
    environment = {"EQUIPOISE_DISCOVERED": str(tmp_path / "discovered.yaml")}
    assert (stored_reason({}), stored_reason(environment)) == ("", "")
    (tmp_path / "reason").write_bytes(b"\xff")
    assert stored_reason(environment) == ""
    (tmp_path / "reason").write_text("because")
    assert stored_reason(environment) == "because"
