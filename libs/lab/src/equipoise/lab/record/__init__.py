"""Records a trace in our own format from a live Prometheus and a live API server: `record`."""

from equipoise.lab.record.options import RecordError, RecordOptions, Summary
from equipoise.lab.record.recorder import record

__all__ = ["RecordError", "RecordOptions", "Summary", "record"]
