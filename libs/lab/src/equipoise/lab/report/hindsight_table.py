"""The answer about hindsight as rows of text, for terminals and pages."""

from equipoise.lab.hindsight.hindsight_answer import EvenPlacement, HindsightAnswer
from equipoise.lab.report.rows import Rows


def hindsight_rows(answer: HindsightAnswer) -> Rows:
    """A row for each placement."""
    return Rows(
        title="How even the load could be, if all usage were known",
        heads=(
            "placement", "pods · moved", "moved %", "peak · spread", "median · spread", "p90 · spread", "peak · std",
            "hours · >80 %", "hours · >90 %", "unplaced",
        ),
        names=1,
        rows=tuple(_row(each, answer.pods) for each in answer.placements),
        ours=frozenset({len(answer.placements) - 1}),
    )  # fmt: skip


def _row(placement: EvenPlacement, pods: int) -> tuple[str, ...]:
    if placement.start == "scratch":
        name = "all pods placed anew"
    elif not placement.moved:
        name = "that of the trace"
    else:
        name = "that of the trace, pods moved" if placement.exchanges else "that of the trace, pods evicted"
    moved = placement.moved
    return (
        name,
        "" if moved is None else f"{moved:,}",
        "" if moved is None else f"{100 * moved / pods:.1f}",
        f"{placement.peak_spread:.1f}",
        f"{placement.median_spread:.1f}",
        f"{placement.p90_spread:.1f}",
        f"{placement.peak_std:.1f}",
        f"{placement.hours_above_80:,.0f}",
        f"{placement.hours_above_90:,.0f}",
        f"{placement.unplaced:,}",
    )


def hindsight_notes(answer: HindsightAnswer) -> tuple[str, ...]:
    """What a reader of the figures has to know."""
    notes = [
        "Hindsight: the best that a local search found. Pods may change places, which evictions cannot do. In the rows "
        "with evicted pods they may not: in some order, each pod has room on the node to which it moves."
    ]
    if answer.least_peak_spread or answer.least_median_spread:
        notes.append(
            f"Hindsight: no placement has a spread below {answer.least_peak_spread:.1f} in the peak hour and "
            f"{answer.least_median_spread:.1f} in the median, because of the largest pod."
        )
    if not answer.complete:
        notes.append("Hindsight: the time was not enough for the whole search (--hindsight-minutes).")
    return tuple(notes)
