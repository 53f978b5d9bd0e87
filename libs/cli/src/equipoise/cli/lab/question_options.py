"""The options of `equipoise lab compare` and `whatif` for questions that go beyond the comparison."""

from functools import wraps
from typing import Any

import click

from equipoise.cli.options import FiniteRange, Function

UPDATE_MODES = ("Off", "InPlaceOrRecreate")


def question_options(command: Function) -> Function:
    """Adds the options of the questions, whose values are passed as `questions`."""

    @click.option("--batch", is_flag=True, help="Show how much batch work would fit, and for how long.")
    @click.option(
        "--batch-pod",
        default="1,2Gi",
        show_default=True,
        metavar="CPU,MEMORY",
        help="What a batch pod requests.",
    )
    @click.option(
        "--batch-hours", type=click.IntRange(1, 24), default=6, show_default=True, help="How long a batch pod runs."
    )
    @click.option(
        "--batch-threshold",
        "batch_thresholds",
        multiple=True,
        type=click.IntRange(1, 100),
        default=(50, 65, 80, 90),
        help="Percent of a node that all pods together may use. May be repeated; the chart is of 65, or else of the "
        "first.  [default: 50, 65, 80, 90]",
    )
    @click.option(
        "--fewer-nodes", is_flag=True, help="Find how many nodes fewer would do. Replays the trace with several sizes."
    )
    @click.option(
        "--fewer-nodes-minutes",
        type=FiniteRange(min=0),
        default=30.0,
        show_default=True,
        help="After this time, no more sizes are replayed. Also for --requests.",
    )
    @click.option(
        "--consolidation",
        is_flag=True,
        help="Judge on each day, by the days before, which nodes could go, and count the hours above 80 % that follow.",
    )
    @click.option(
        "--requests",
        is_flag=True,
        help="Propose requests from the measured usage, and replay the last day with them. Writes manifests beside the "
        "report.",
    )
    @click.option(
        "--hpa-target",
        type=click.IntRange(1, 1_000),
        default=80,
        show_default=True,
        help="Percent of the CPU request that HorizontalPodAutoscalers aim at.",
    )
    @click.option(
        "--vpa-mode",
        type=click.Choice(UPDATE_MODES),
        default="Off",
        show_default=True,
        help="updateMode of the VerticalPodAutoscalers that are written.",
    )
    @click.option(
        "--hindsight",
        is_flag=True,
        help="Search the most even placement of the same pods, with all usage known: with few pods moved, and with all "
        "pods placed anew.",
    )
    @click.option(
        "--hindsight-steps",
        type=click.IntRange(1),
        default=2,
        show_default=True,
        help="Steps of each search, for each pod. More steps find more even placements.",
    )
    @click.option(
        "--hindsight-minutes",
        type=FiniteRange(min=0),
        default=30.0,
        show_default=True,
        help="After this time, the search ends with what it has.",
    )
    @wraps(command)
    def with_questions(
        *,
        batch: bool,
        batch_pod: str,
        batch_hours: int,
        batch_thresholds: tuple[int, ...],
        fewer_nodes: bool,
        fewer_nodes_minutes: float,
        consolidation: bool,
        requests: bool,
        hpa_target: int,
        vpa_mode: Any,
        hindsight: bool,
        hindsight_steps: int,
        hindsight_minutes: float,
        **values: Any,
    ) -> Any:
        from equipoise.cli.lab.answers import Questions, batch_request
        from equipoise.lab.hindsight.hindsight_answer import HindsightRequest

        request = batch_request(batch_pod, batch_hours, batch_thresholds) if batch else None
        questions = Questions(
            batch=request,
            fewer_nodes=fewer_nodes,
            minutes=fewer_nodes_minutes,
            requests=requests,
            consolidation=consolidation,
            scaling_target=hpa_target,
            update_mode=vpa_mode,
            hindsight=HindsightRequest(steps=hindsight_steps) if hindsight else None,
            hindsight_minutes=hindsight_minutes,
        )
        return command(questions=questions, **values)

    return with_questions
