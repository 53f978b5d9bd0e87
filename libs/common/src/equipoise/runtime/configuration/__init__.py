"""The configuration: one YAML document, a section per service, read strictly and never in part."""

from equipoise.runtime.configuration.document import defaults_document, document_schema, validate_document
from equipoise.runtime.configuration.errors import ConfigurationError
from equipoise.runtime.configuration.loading import (
    API_VERSION,
    KIND,
    Configuration,
    compress,
    load_configuration,
    read_document,
    read_sections,
    to_document,
    without_header,
)
from equipoise.runtime.configuration.sections import Kubernetes, Logging, Nats, Shared, Tls

__all__ = [
    "API_VERSION",
    "KIND",
    "Configuration",
    "ConfigurationError",
    "Kubernetes",
    "Logging",
    "Nats",
    "Shared",
    "Tls",
    "compress",
    "defaults_document",
    "document_schema",
    "load_configuration",
    "read_document",
    "read_sections",
    "to_document",
    "validate_document",
    "without_header",
]
