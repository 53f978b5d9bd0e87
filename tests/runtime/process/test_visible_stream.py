"""stdout and stderr as a program has them that prints what others wrote."""

import io

import click

from equipoise.runtime.process.visible_stream import VisibleStream, raw_stream


def test_nothing_that_is_written_controls_the_terminal() -> None:
    """The text is written by `print`, by click, and as bytes; line breaks and tabs are text."""
    to = io.StringIO()
    stream = VisibleStream(to)
    print("a\x1b[2J\tb", file=stream)
    click.echo("c\x9b", file=stream)
    click.echo("d\u202e".encode(), file=stream)

    assert to.getvalue() == "a\\x1b[2J\tb\nc\\x9b\nd\\u202e\n"


def test_colors_are_written_to_the_stream_itself() -> None:
    to = io.StringIO()

    assert raw_stream(VisibleStream(to)) is to
    assert raw_stream(to) is to
