"""What a machine lacks for real nodes is one sentence."""

from collections.abc import Callable, Collection

from equipoise.testbed.real_nodes.requirements import (
    CONTROLLERS,
    IMAGES,
    REAL_NODES,
    VIRTUAL_MACHINE,
    MachineRequirements,
    missing,
)


def found(
    required: MachineRequirements,
    *,
    linux: bool = True,
    root: bool = True,
    installed: Callable[[str], bool] = lambda program: True,
    hierarchies: Collection[str] = CONTROLLERS,
    processor: str = "x86_64",
    exists: Callable[[str], bool] = lambda device: True,
) -> str:
    """What is missing on a machine that has everything else."""
    return missing(
        required,
        linux=linux,
        root=root,
        installed=installed,
        hierarchies=hierarchies,
        processor=processor,
        exists=exists,
    )


def nothing(name: str) -> bool:
    return False


def test_a_machine_with_everything_lacks_nothing() -> None:
    assert [found(required) for required in (REAL_NODES, VIRTUAL_MACHINE, IMAGES)] == ["", "", ""]


def test_all_that_is_missing_is_named_in_one_sentence() -> None:
    text = found(REAL_NODES, root=False, installed=lambda program: program not in ("ip", "buildah"), hierarchies=())

    assert text == (
        "real nodes need root (sudo), and these packages (apt-get install buildah iproute2), and cgroup v1 with the "
        f"controllers {', '.join(CONTROLLERS)} (boot with systemd.unified_cgroup_hierarchy=0)"
    )


def test_a_package_of_two_programs_is_named_once() -> None:
    assert found(REAL_NODES, installed=nothing) == (
        "real nodes need these packages (apt-get install buildah conntrack iproute2 mmdebstrap nftables openssl "
        "util-linux)"
    )


def test_elsewhere_than_on_linux_the_fake_nodes_are_named() -> None:
    assert "fake nodes" in found(REAL_NODES, linux=False, root=False, installed=nothing, hierarchies=())


def test_a_virtual_machine_needs_a_processor_a_device_and_two_packages_more() -> None:
    text = found(
        VIRTUAL_MACHINE,
        installed=lambda program: program in REAL_NODES.programs,
        processor="aarch64",
        exists=nothing,
    )

    assert text == (
        "real nodes with a virtual machine need these packages (apt-get install e2fsprogs qemu-system-x86), and a "
        "processor of the type x86_64, and the device /dev/net/tun (modprobe tun)"
    )
    assert found(REAL_NODES, processor="aarch64", exists=nothing) == ""


def test_images_need_no_cgroups_and_only_the_programs_that_build_them() -> None:
    assert found(IMAGES, installed=lambda program: program in IMAGES.programs, hierarchies=()) == ""
    assert found(IMAGES, root=False, installed=nothing, hierarchies=()) == (
        "images need root (sudo), and these packages (apt-get install buildah mmdebstrap util-linux)"
    )
    assert "on another machine" in found(IMAGES, linux=False)
