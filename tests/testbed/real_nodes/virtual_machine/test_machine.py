"""The files and the command line of a virtual machine."""

import tarfile
from pathlib import Path

from equipoise.testbed.real_nodes.virtual_machine.disk import MachineDisk
from equipoise.testbed.real_nodes.virtual_machine.machine import KERNEL_ARGUMENTS, LINE_LENGTH, VirtualMachine
from equipoise.testbed.real_nodes.virtual_machine.systems import CGROUP_V1, CGROUP_V2, MachineSystem


def machine(folder: Path, system: MachineSystem = CGROUP_V2) -> VirtualMachine:
    disk = MachineDisk(folder=folder / "cache", system=system)
    return VirtualMachine(number=3, folder=folder / "n3", disk=disk)


def text(archive: tarfile.TarFile, name: str) -> str:
    file = archive.extractfile(name)
    assert file is not None
    return file.read().decode()


def test_the_second_disk_has_the_files_of_the_node_its_address_and_the_routes_to_the_nodes_before(
    tmp_path: Path,
) -> None:
    written = machine(tmp_path)
    written.write_files({"/etc/hostname": "n3", "/etc/kubernetes/n3.key": "secret"}, others=2)
    disk = tmp_path / "n3" / "files.tar"
    with tarfile.open(disk) as archive:
        texts = {name: text(archive, name) for name in archive.getnames()}
        mode = archive.getmember("etc/kubernetes/n3.key").mode

    assert texts == {
        "etc/hostname": "n3",
        "etc/kubernetes/n3.key": "secret",
        "etc/kubernetes/node.env": "NAME=n3\nADDRESS=10.77.0.13\nHUB=10.77.0.1\n",
        "etc/kubernetes/routes": "10.78.1.0/24 10.77.0.11\n10.78.2.0/24 10.77.0.12\n",
    }
    assert mode == 0o600
    assert f"file={disk},if=virtio,format=raw,readonly=on" in written.command
    assert disk.stat().st_size % 512 == 0, "a disk has whole sectors"


def test_files_that_are_written_again_replace_those_before(tmp_path: Path) -> None:
    written = machine(tmp_path)
    written.write_files({"/etc/hostname": "first"}, others=0)
    written.write_files({"/etc/hostname": "second"}, others=0)
    with tarfile.open(tmp_path / "n3" / "files.tar") as archive:
        assert text(archive, "etc/hostname") == "second"


def test_the_disk_of_the_cache_is_only_the_source_of_the_disk_that_is_written(tmp_path: Path) -> None:
    written = machine(tmp_path)

    assert written.environment["SOURCE"] == str(tmp_path / "cache" / "disk")
    assert not any(written.environment["SOURCE"] in str(word) for word in written.command)
    assert any(written.environment["DISK"] in str(word) for word in written.command)


def test_the_last_line_of_the_console_shows_how_far_it_has_booted(tmp_path: Path) -> None:
    booting = machine(tmp_path)
    booting.folder.mkdir()
    assert booting.last_line == ""

    booting.console.write_bytes(
        b"[    1.5] Linux\r\n\x1b[0;32m  OK  \x1b[0m] Reached target " + 200 * b"x" + b"\r\n\r\n"
    )
    assert "Reached target" in booting.last_line
    assert len(booting.last_line) <= LINE_LENGTH + len("…")
    assert booting.last_line.isprintable()


def test_the_kernel_starts_with_the_arguments_of_all_systems_and_of_its_own(tmp_path: Path) -> None:
    for system in (CGROUP_V1, CGROUP_V2):
        command = machine(tmp_path, system).command
        arguments = str(command[command.index("-append") + 1]).split()

        assert arguments == [*KERNEL_ARGUMENTS, *system.kernel_arguments]
