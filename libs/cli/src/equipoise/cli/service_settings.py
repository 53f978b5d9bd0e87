"""The section of each service in the configuration."""

from collections.abc import Mapping

from equipoise.annotator.settings import AnnotatorSettings
from equipoise.binder.settings import BinderSettings
from equipoise.collector.settings import CollectorSettings
from equipoise.contracts.bus.subjects import ServiceName
from equipoise.contracts.configuration.settings import Section
from equipoise.descheduler.settings import DeschedulerSettings
from equipoise.scorer.settings import ScorerSettings

SERVICE_SETTINGS: Mapping[ServiceName, type[Section]] = {
    "collector": CollectorSettings,
    "annotator": AnnotatorSettings,
    "scorer": ScorerSettings,
    "descheduler": DeschedulerSettings,
    "binder": BinderSettings,
}
