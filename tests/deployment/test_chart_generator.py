"""What of the chart is generated, and that the committed files are what the generator writes."""

from copy import deepcopy

import pytest
from charts.generator.chart import HEADER, generated_files, stale_files
from charts.generator.configuration import OWNED, config_schema
from charts.generator.manifests import ROOT, Manifests
from charts.generator.objects import template_objects
from charts.generator.template import Each, More, Text, When, Yaml, render


def test_the_committed_chart_is_the_generated_one() -> None:
    """`make chart` writes it, after a change of k8s/base, of the configuration or of the generator."""
    files = generated_files()
    different = [path for path, text in files.items() if not path.exists() or path.read_text() != text]
    assert [str(path.relative_to(ROOT)) for path in [*different, *stale_files(files)]] == [], "run `make chart`"
    assert HEADER in (ROOT / "charts" / "equipoise" / "templates" / "binder.yaml").read_text()


def test_a_new_object_that_names_the_namespace_needs_an_entry_in_the_plan() -> None:
    """Otherwise it would refer to a namespace that is not the release's."""
    manifests = Manifests()
    manifests.files["base/network.yaml"][0]["spec"]["note"] = "in equipoise-system"
    with pytest.raises(ValueError, match="spec/note: the plan has no entry for the namespace"):
        template_objects(manifests)


@pytest.mark.parametrize(
    ("kind", "name", "message"),
    [
        ("Job", "equipoise-setup", "not one object Job equipoise-setup in k8s"),
        ("NetworkPolicy", "equipoise-nats", "no object in k8s has these conditions"),
    ],
)
def test_an_entry_of_the_plan_that_matches_nothing_is_an_error(kind: str, name: str, message: str) -> None:
    """A renamed object would silently lose its values."""
    manifests = Manifests()
    for document in manifests:
        if (document["kind"], document["metadata"]["name"]) == (kind, name):
            document["metadata"]["name"] = "renamed"
    with pytest.raises(ValueError, match=message):
        template_objects(manifests)


def test_a_renamed_item_of_a_list_is_an_error() -> None:
    """It would silently be there without its condition."""
    manifests = Manifests()
    ports = manifests.at("Deployment", "equipoise-scorer", "spec.template.spec.containers.0.ports")
    (port,) = (each for each in ports if each["name"] == "extender")
    port["name"] = "renamed"
    with pytest.raises(ValueError, match="not one item extender in a list of k8s, but 0"):
        template_objects(manifests)


def test_the_plan_does_not_change_the_manifests() -> None:
    manifests = Manifests()
    before = deepcopy(manifests.files)
    template_objects(manifests)
    assert manifests.files == before


def test_settings_that_values_determine_are_not_in_the_schema_of_config() -> None:
    """And those beside them are."""
    config, definitions = config_schema()
    assert not {path for path in OWNED if "." not in path} & set(config["properties"])
    binder = definitions["binder.settings.BinderSettings"]["properties"]
    assert "evict" not in binder
    assert "limits" in binder
    assert config["additionalProperties"] is False


def test_a_template_has_expressions_in_place_of_values() -> None:
    node = {
        "plain": "yes",
        "text": Text("{{ $.a }}"),
        "block": Yaml("toYaml $.b"),
        "maybe": When("$.c", {"deep": [1, "two"]}),
        "list": [{"name": "x", "more": More("$.d")}, When("$.e", "item"), Each("$.f", Text("{{ . }}")), More("$.g")],
    }
    assert render(node) == (
        "plain: 'yes'\n"
        "text: {{ $.a }}\n"
        "block: {{- toYaml $.b | nindent 2 }}\n"
        "{{- if $.c }}\n"
        "maybe:\n"
        "  deep:\n"
        "    - 1\n"
        "    - two\n"
        "{{- end }}\n"
        "list:\n"
        "  - name: x\n"
        "    {{- with $.d }}{{- toYaml . | nindent 4 }}{{- end }}\n"
        "  {{- if $.e }}\n"
        "  - item\n"
        "  {{- end }}\n"
        "  {{- range $.f }}\n"
        "  - {{ . }}\n"
        "  {{- end }}\n"
        "  {{- with $.g }}{{- toYaml . | nindent 2 }}{{- end }}\n"
    )


def test_a_value_that_looks_like_a_template_is_refused() -> None:
    """It would be evaluated when the chart is rendered."""
    with pytest.raises(ValueError, match="not a template"):
        render({"rule": "{{ $value }}"})
