"""The section of each service in the configuration."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from equipoise.agent.settings import AgentSettings
from equipoise.annotator.settings import AnnotatorSettings
from equipoise.binder.settings import BinderSettings
from equipoise.collector.settings import CollectorSettings
from equipoise.contracts.configuration.section_names import SectionName
from equipoise.contracts.configuration.settings import Section
from equipoise.descheduler.settings import DeschedulerSettings
from equipoise.reclaimer.settings import ReclaimerSettings
from equipoise.runtime.configuration import Shared, read_document, read_sections
from equipoise.runtime.configuration.discovered import beneath
from equipoise.runtime.configuration.env_overrides import overridden
from equipoise.runtime.configuration.loading import all_sections, discovered_document
from equipoise.runtime.process.bounded_files import read_bounded_text
from equipoise.scorer.settings import ScorerSettings

SERVICE_SETTINGS: Mapping[SectionName, type[Section]] = {
    "collector": CollectorSettings,
    "annotator": AnnotatorSettings,
    "scorer": ScorerSettings,
    "descheduler": DeschedulerSettings,
    "binder": BinderSettings,
    "reclaimer": ReclaimerSettings,
    "agent": AgentSettings,
}


class AllSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The shared sections, and the section of every service."""

    shared: Shared = Shared()
    collector: CollectorSettings = CollectorSettings()
    annotator: AnnotatorSettings = AnnotatorSettings()
    scorer: ScorerSettings = ScorerSettings()
    descheduler: DeschedulerSettings = DeschedulerSettings()
    binder: BinderSettings = BinderSettings()
    reclaimer: ReclaimerSettings = ReclaimerSettings()
    agent: AgentSettings = AgentSettings()


def read_file(configuration: Path | None) -> dict[str, Any]:
    """The document of a configuration file; empty without one. Raises ConfigurationError."""
    return {} if configuration is None else read_document(read_bounded_text(configuration))


def read_installed(configuration: Path | None, environment: Mapping[str, str]) -> dict[str, Any]:
    """The document of a configuration file, as a pod reads it: with the variables that override it, and the source of
    metrics that the installation found.

    Raises ConfigurationError.
    """
    document = overridden(read_file(configuration), environment, all_sections(SERVICE_SETTINGS), ())
    return beneath(document, discovered_document(environment))


def all_settings(document: Mapping[str, Any], environment: Mapping[str, str] | None = None) -> AllSettings:
    """The settings of a configuration. Variables of `environment` override the document. Raises ConfigurationError."""
    shared, own = read_sections(document, SERVICE_SETTINGS, environment)
    return AllSettings(shared=shared, **own)  # type: ignore[arg-type]  # SERVICE_SETTINGS states the type of each section
