"""The recording as a whole: what is asked once, then part by part, then the trace."""

import asyncio

from rich.console import Console

from equipoise.lab.record.checkpoint import Checkpoint
from equipoise.lab.record.options import RecordOptions, Summary
from equipoise.lab.record.progress import shown
from equipoise.lab.record.prometheus import connect_prometheus
from equipoise.lab.record.reader import Reader
from equipoise.lab.record.survey import Look
from equipoise.lab.record.writer import moment, write_trace
from equipoise.runtime.process.clock import Clock, SystemClock


async def record(options: RecordOptions, console: Console, clock: Clock | None = None) -> Summary:
    """Record a trace, or go on with one that was cut off. `console`: where people look meanwhile, stderr.

    Raises RecordError that says what to do. However it ends, parts that were read are kept until the trace is whole.
    """
    clock = clock or SystemClock()
    unfinished = Checkpoint(options.out)
    beginning = unfinished.beginning(options)
    async with shown(console) as progress, connect_prometheus(options.prometheus, clock) as prometheus:
        if beginning is None:
            beginning = await Look(options, prometheus, progress, clock).beginning()
            unfinished.begin(beginning)
        else:
            progress.note(f"going on with the recording from {moment(beginning.starts_at)} in {options.out}")
        try:
            await Reader(options, beginning, prometheus, progress, clock).read(unfinished)
        except BaseException:
            parts = beginning.parts()
            kept = sum(map(unfinished.has, parts))
            progress.note(f"{kept} of {len(parts)} parts are kept in {unfinished.folder}; the same command goes on")
            raise
        progress.doing("writing the trace")
        summary = await asyncio.to_thread(write_trace, options, beginning, unfinished, prometheus.queries)
    for line in (str(summary), *summary.notes):
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    return summary
