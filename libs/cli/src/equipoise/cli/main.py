"""The program `equipoise`, also `kubectl equipoise`: runs a command and exits with its exit code."""

from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import click

from equipoise.cli.exit_codes import CommandFailed, exit_codes
from equipoise.runtime.process.visible_stream import make_output_visible

TASKS: Mapping[str, tuple[str, ...]] = {
    "Find out what is uneven (they only read)": ("report", "nodes", "pods", "consolidate"),
    "Try it": ("demo", "up"),
    "Install and check": ("install", "doctor", "uninstall"),
    "Every day": ("status", "plan", "explain", "dashboard"),
    "Level the nodes once": ("rebalance",),
    "Stop evictions": ("pause", "resume"),
}
"""The commands that the help of the program describes, by their purpose."""

OTHERS = (
    "annotations",
    "certificates",
    "colocation",
    "completion",
    "config",
    "events",
    "hints",
    "lab",
    "prepare",
    "run",
    "scheduler",
    "setup",
    "tap",
    "testbed",
    "top",
    "version",
)
"""Commands for one part of Equipoise, for the services, and for developers. The help lists only their names."""

COMMANDS = tuple(sorted([*OTHERS, *(name for names in TASKS.values() for name in names)]))
"""The names of all commands. Each is a function in a module of its own: `pause` is the function `pause` of the module
`equipoise.cli.commands.pause`. `plan`, which has a folder, is the function `plan` of `equipoise.cli.plan.command`.

That module declares names, options and help, and imports the code of the command only when the command runs: help and
shell completion import every module of this table.
"""

EXTRAS: Mapping[str, tuple[str, str]] = {
    "certificates": ("certificates", "cryptography"),
    "demo": ("lab", "equipoise.lab"),
    "lab": ("lab", "equipoise.lab"),
    "nodes": ("services", "equipoise.scheduling"),
    "pods": ("services", "equipoise.scheduling"),
    "prepare": ("certificates", "cryptography"),
    "report": ("services", "equipoise.scheduling"),
    "run": ("services", "equipoise.scheduling"),
    "scheduler": ("scheduler", "equipoise.scheduler"),
    "testbed": ("local", "equipoise.testbed"),
    "top": ("top", "textual"),
    "up": ("local", "equipoise.testbed"),
}
"""Commands that require an extra of the distribution `equipoise`, with a module that the extra installs."""

FORMER: Mapping[str, tuple[str, str]] = {"reclaimed": ("colocation", "nodes")}
"""Former names, which still work and are not listed: each with the group and the command in it."""

PLUGIN = "kubectl-equipoise"
"""kubectl runs a program of this name for `kubectl equipoise`."""


class Program(click.Group):
    """All commands that are installed, each imported when it is needed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for name in COMMANDS if _is_installed(name)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in FORMER:
            group, name = FORMER[cmd_name]
            found = self.get_command(ctx, group)
            return found.get_command(ctx, name) if isinstance(found, click.Group) else None
        if cmd_name not in COMMANDS:
            return super().get_command(ctx, cmd_name)
        if not _is_installed(cmd_name):
            raise CommandFailed(
                f"`equipoise {cmd_name}` is not installed here: run pip install 'equipoise[{EXTRAS[cmd_name][0]}]'. "
                "The image contains only what runs in a cluster."
            )
        module = f"equipoise.cli.commands.{cmd_name}"
        if find_spec(module) is None:
            module = f"equipoise.cli.{cmd_name}.command"
        command: click.Command = getattr(import_module(module), cmd_name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands of each task with their first sentence, which is folded and not cut; then the names of the
        others."""
        installed = self.list_commands(ctx)
        width = max(map(len, COMMANDS))
        for task, names in TASKS.items():
            commands = ((name, self.get_command(ctx, name)) for name in names if name in installed)
            rows = [
                (name.ljust(width), command.get_short_help_str(limit=1_000))
                for name, command in commands
                if command is not None
            ]
            if rows:
                with formatter.section(task):
                    formatter.write_dl(rows)
        with formatter.section("Other commands (equipoise COMMAND --help)"):
            formatter.write_text(", ".join(name for name in OTHERS if name in installed))

    def make_context(self, info_name: str | None, *args: Any, **extra: Any) -> click.Context:
        return super().make_context("kubectl equipoise" if info_name == PLUGIN else info_name, *args, **extra)

    def main(self, *args: Any, **extra: Any) -> Any:
        make_output_visible()  # of the command and of its errors
        return super().main(*args, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        with exit_codes():
            return super().invoke(ctx)


def _is_installed(command: str) -> bool:
    return command not in EXTRAS or find_spec(EXTRAS[command][1]) is not None


@click.group(
    cls=Program,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 success, 1 failure, 2 invalid input, 3 moves (plan --exit-code), 130 interrupted.",
)
@click.version_option(package_name="equipoise", message="equipoise %(version)s", help="Print the version.")
def main() -> None:
    """Level the real load of a Kubernetes cluster."""
