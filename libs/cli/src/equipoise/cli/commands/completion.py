"""`equipoise completion`, and `kubectl_complete-equipoise`, which kubectl runs to complete `kubectl equipoise`."""

import sys

import click
from click.shell_completion import ShellComplete, get_completion_class

NO_FILES = 4
"""The directive that keeps kubectl from completing file names."""


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print a shell completion script.

    Load it into the current shell with: eval "$(equipoise completion bash)". For kubectl equipoise no script is needed:
    kubectl runs kubectl_complete-equipoise, which is installed beside it.
    """
    completion_class = get_completion_class(shell)
    assert completion_class is not None
    click.echo(completion_class(context.find_root().command, {}, "equipoise", "_EQUIPOISE_COMPLETE").source())


def complete_for_kubectl() -> None:
    """Print a line for each completion of the last argument, and then a directive for kubectl."""
    from equipoise.cli.main import PLUGIN, main
    from equipoise.runtime.process.visible_stream import make_output_visible

    make_output_visible()
    *arguments, incomplete = sys.argv[1:] or [""]
    for candidate in ShellComplete(main, {}, PLUGIN, "").get_completions(arguments, incomplete):
        click.echo(f"{candidate.value}\t{candidate.help}" if candidate.help else candidate.value)
    click.echo(f":{NO_FILES}")
