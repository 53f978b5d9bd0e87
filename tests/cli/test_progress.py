"""The progress of a command: on a terminal, and in a pipe."""

import asyncio
import io

import pytest
from rich.console import Console

from equipoise.cli.progress import Activity, shown_activity


class FirstWrite(io.StringIO):
    """Signals the first write."""

    def __init__(self) -> None:
        super().__init__()
        self.written = asyncio.Event()

    def write(self, text: str) -> int:
        self.written.set()
        return super().write(text)


async def answered() -> int:
    return 1


async def failing() -> int:
    raise ValueError("no result")


async def test_the_queries_of_a_step_are_counted() -> None:
    """Failed ones too: they no longer take time."""
    texts: list[str] = []
    activity = Activity("connecting", texts.append)
    activity.begin("measuring")
    assert 1 == await activity.count(answered())
    with pytest.raises(ValueError, match="no result"):
        await activity.count(failing())
    activity.begin("planning")

    assert [
        "connecting", "measuring", "measuring: 0 of 1 queries", "measuring: 1 of 1 queries",
        "measuring: 1 of 2 queries", "measuring: 2 of 2 queries", "planning",
    ] == texts  # fmt: skip
    assert 2 == activity.answered_before


async def test_a_late_answer_does_not_count_for_the_next_step() -> None:
    activity, answer = Activity("measuring", lambda _: None), asyncio.Event()
    query = asyncio.create_task(activity.count(answer.wait()))
    await asyncio.sleep(0)
    activity.begin("planning")
    answer.set()
    await query

    assert "planning" == activity.text


async def test_a_pipe_gets_lines_and_a_terminal_one_line_that_changes() -> None:
    pipe, terminal = FirstWrite(), io.StringIO()
    async with shown_activity("connecting", Console(file=pipe), 0.01) as activity:
        activity.begin("measuring the last 5m")
        await asyncio.wait_for(pipe.written.wait(), 60)
    async with shown_activity("connecting", Console(file=terminal, force_terminal=True, width=80)) as activity:
        activity.begin("measuring the last 5m")

    assert pipe.getvalue().startswith("measuring the last 5m, after 0 s\n")
    assert "measuring the last 5m" in terminal.getvalue()


async def test_a_part_of_a_command_shows_no_second_line() -> None:
    """Two lines would overwrite one another."""
    outer, inner = io.StringIO(), io.StringIO()
    async with (
        shown_activity("checking", Console(file=outer, force_terminal=True)),
        shown_activity("waiting", Console(file=inner, force_terminal=True)),
    ):
        pass
    assert "checking" in outer.getvalue()
    assert "" == inner.getvalue()
    async with shown_activity("waiting", Console(file=inner, force_terminal=True)):
        pass
    assert "waiting" in inner.getvalue()
