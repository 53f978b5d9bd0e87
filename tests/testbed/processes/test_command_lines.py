"""Flags of a caller in place of those of the testbed."""

from pathlib import Path

from equipoise.testbed.processes.command_lines import with_flags


def test_a_flag_replaces_the_one_of_the_same_name_and_no_other() -> None:
    line = [Path("/bin/program"), "--mode=RBAC", "--mode-of-others=a", "--v=2"]

    assert with_flags(line, ["--mode=Node,RBAC", "--new=1"]) == [
        Path("/bin/program"), "--mode-of-others=a", "--v=2", "--mode=Node,RBAC", "--new=1",
    ]  # fmt: skip


def test_without_flags_a_command_line_stays() -> None:
    assert with_flags(["program", "--a=1"], []) == ["program", "--a=1"]
