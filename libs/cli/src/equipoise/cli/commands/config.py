"""`equipoise config`."""

import json
from typing import BinaryIO, TextIO

import click

from equipoise.cli.options import json_option


@click.group()
def config() -> None:
    """Show and validate the configuration."""


COMMON = (
    "thresholds.high",
    "thresholds.low",
    "namespaces",
    "protection.minReplicas",
    "protection.localStorage",
    "protection.persistentVolumes",
    "protection.statefulSets",
    "placement",
    "collector.source",
    "collector.prometheus.url",
    "collector.prometheus.profile",
    "collector.prometheus.matchers",
    "descheduler.consecutiveAbnormalities",
    "descheduler.strategies",
    "moves.level",
    "binder.evict",
    "binder.limits.maintenance",
    "binder.limits.evictionsPerWorkload",
    "binder.limits.evictionsPerCluster",
)
"""What most installations look at. docs/operate.md has the same list; all others are for experts."""


@config.command()
@click.option("--common", is_flag=True, help="Only those that most installations look at.")
def defaults(common: bool) -> None:
    """Print the settings with their default values, as YAML.

    Most installations change a few of those that --common prints. All others are for experts: a page of the
    documentation or `equipoise doctor` names them where they are needed.
    """
    from equipoise.cli.service_settings import SERVICE_SETTINGS
    from equipoise.runtime.configuration import defaults_document

    click.echo(defaults_document(SERVICE_SETTINGS, COMMON) if common else defaults_document(SERVICE_SETTINGS), nl=False)


@config.command()
def schema() -> None:
    """Print the JSON Schema of the configuration."""
    from equipoise.cli.service_settings import SERVICE_SETTINGS
    from equipoise.runtime.configuration import document_schema

    click.echo(json.dumps(document_schema(SERVICE_SETTINGS), indent=2))


@config.command()
@click.argument("file", type=click.File("r", encoding="utf-8"))
def validate(file: TextIO) -> None:
    """Validate a configuration file; - reads standard input.

    Unknown settings of any section are errors. The exit code is 2 if the file is invalid. Settings that let others read
    or request more than is usually intended are warnings.
    """
    from equipoise.cli.doctor.checks.extender import client_findings
    from equipoise.cli.doctor.checks.streams import encryption_findings
    from equipoise.cli.service_settings import SERVICE_SETTINGS, all_settings
    from equipoise.runtime.configuration import read_document, validate_document

    text = file.read()
    validate_document(text, SERVICE_SETTINGS)
    settings = all_settings(read_document(text))
    for finding in [*encryption_findings(settings.shared.nats), *client_findings(settings.scorer)]:
        click.echo(f"warning: {finding.subject}: {finding.message}\n         → {finding.fix}", err=True)
    click.echo("valid")


@config.command("from")
@click.argument("file", type=click.File("rb"))
@json_option
def from_other(file: BinaryIO, as_json: bool) -> None:
    """Translate the configuration of another descheduler; - reads standard input.

    Reads a DeschedulerConfiguration (koord-descheduler, v1alpha2) or a DeschedulerPolicy (sigs.k8s.io/descheduler,
    v1alpha1 and v1alpha2), by itself, in a ConfigMap, or among other manifests. Prints a configuration of Equipoise to
    stdout. Prints to stderr which settings were changed or not translated, and why. In the new configuration, evictions
    are dry runs.

    The exit code is 0 if nothing is lost, 3 if something was changed or not translated, and 2 if the file cannot be
    read, or has a setting that the other descheduler does not have. Nothing is then printed to stdout.
    """
    from equipoise.cli.foreign_configuration.run import run_translation

    run_translation(file, as_json=as_json)
