"""The whole recording: plan it, read its parts, write the trace."""

import asyncio

from rich.console import Console

from equipoise.lab.record.checkpoint import Checkpoint
from equipoise.lab.record.options import RecordOptions, Summary
from equipoise.lab.record.progress import shown
from equipoise.lab.record.prometheus import connect_prometheus
from equipoise.lab.record.reader import Reader
from equipoise.lab.record.survey import Survey
from equipoise.lab.record.writer import moment, write_trace
from equipoise.runtime.process.clock import Clock, SystemClock


async def record(options: RecordOptions, console: Console, clock: Clock | None = None) -> Summary:
    """Record a trace, or continue an interrupted recording. `console`: for progress, on stderr.

    Raises RecordError with the fix. Parts that were read are kept until the trace is complete.
    """
    clock = clock or SystemClock()
    checkpoint = Checkpoint(options.out)
    plan = checkpoint.plan(options)
    async with shown(console) as progress, connect_prometheus(options.prometheus, clock) as prometheus:
        if plan is None:
            plan = await Survey(options, prometheus, progress, clock).plan()
            checkpoint.start(plan)
        else:
            progress.note(f"continuing the recording from {moment(plan.starts_at)} in {options.out}")
        try:
            await Reader(options, plan, prometheus, progress, clock).read(checkpoint)
        except BaseException:
            parts = plan.parts()
            kept = sum(map(checkpoint.has, parts))
            progress.note(
                f"{kept} of {len(parts)} parts are kept in {checkpoint.folder}; run the same command to continue"
            )
            raise
        progress.doing("writing the trace")
        summary = await asyncio.to_thread(write_trace, options, plan, checkpoint, prometheus.queries)
    for line in (str(summary), *summary.notes):
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    return summary
