"""How a process logs: one line per event on stderr, as JSON for machines or in color for people."""

import io
import logging
import sys
from typing import Any, TextIO

import msgspec
import structlog
from structlog.typing import EventDict, ExcInfo, Processor, WrappedLogger

from equipoise.contracts.plain_text import safe_json, visible
from equipoise.runtime.configuration import Logging
from equipoise.runtime.process.visible_stream import raw_stream

_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


def configure_logging(settings: Logging, service: str, stream: TextIO | None = None) -> None:
    """Configures the logging of a process. Its program calls this once. Warnings of other libraries have the same
    format."""
    stream = raw_stream(stream or sys.stderr)
    console = settings.format == "console" or (settings.format == "auto" and stream.isatty())
    level = _LEVELS[settings.level]
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        _naming(service),
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
    ]
    rendering: list[Processor] = (
        [
            _visible_values,
            structlog.dev.ConsoleRenderer(
                colors=stream.isatty(),
                timestamp_key="time",
                # The default renders every frame's variables: secrets, and half a second in which nothing else runs.
                exception_formatter=_visible_traceback,
            ),
        ]
        if console
        else [structlog.processors.format_exc_info, structlog.processors.JSONRenderer(serializer=_json)]
    )
    structlog.configure(
        processors=[*shared, *rendering],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(stream),
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*shared, structlog.stdlib.add_logger_name],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *rendering],
        )
    )
    lowest = max(level, logging.WARNING)
    handler.setLevel(lowest)  # a library may set a level of its own, which overrides that of the root logger
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(lowest)


def _visible_values(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Escapes values for the console. A text of somebody else must not control the terminal or begin another line."""
    return {
        name: visible(value).replace("\n", "\\n") if isinstance(value, str) else value for name, value in event.items()
    }


def _visible_traceback(to: TextIO, error: ExcInfo) -> None:
    text = io.StringIO()
    structlog.dev.plain_traceback(text, error)
    to.write(visible(text.getvalue()))


def _naming(service: str) -> Processor:
    def name(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
        event["service"] = service
        return event

    return name


def _json(event: EventDict, **_options: Any) -> str:
    leading = {key: event[key] for key in ("time", "level", "event") if key in event}
    return safe_json(msgspec.json.encode({**leading, **event}, enc_hook=str).decode())
