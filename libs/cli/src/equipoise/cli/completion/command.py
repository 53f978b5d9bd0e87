"""`equipoise completion`."""

import click


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print a shell completion script.

    Load it into the current shell with: eval "$(equipoise completion bash)". For kubectl equipoise no script is needed:
    kubectl runs kubectl_complete-equipoise, which is installed beside it.
    """
    from click.shell_completion import get_completion_class

    completion_class = get_completion_class(shell)
    assert completion_class is not None
    click.echo(completion_class(context.find_root().command, {}, "equipoise", "_EQUIPOISE_COMPLETE").source())
