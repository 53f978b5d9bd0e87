"""What a machine lacks for real nodes is one sentence."""

from equipoise.testbed.real_nodes.requirements import CONTROLLERS, IMAGES, PACKAGES, REAL_NODES, missing

ALL = list(CONTROLLERS)


def test_a_machine_with_everything_lacks_nothing() -> None:
    assert missing(REAL_NODES, linux=True, root=True, installed=lambda program: True, hierarchies=ALL) == ""


def test_all_that_is_missing_is_named_in_one_sentence() -> None:
    text = missing(
        REAL_NODES, linux=True, root=False, installed=lambda program: program not in ("ip", "buildah"), hierarchies=[]
    )

    assert text == (
        "real nodes need root (sudo), and these packages (apt-get install buildah iproute2), and cgroup v1 with the "
        f"controllers {', '.join(CONTROLLERS)} (boot with systemd.unified_cgroup_hierarchy=0)"
    )


def test_a_package_of_two_programs_is_named_once() -> None:
    text = missing(REAL_NODES, linux=True, root=True, installed=lambda program: False, hierarchies=ALL)

    assert text == f"real nodes need these packages (apt-get install {' '.join(sorted(set(PACKAGES.values())))})"


def test_elsewhere_than_on_linux_the_fake_nodes_are_named() -> None:
    assert "fake nodes" in missing(REAL_NODES, linux=False, root=False, installed=lambda program: False, hierarchies=[])


def test_images_need_no_cgroups_and_only_the_programs_that_build_them() -> None:
    def has(program: str) -> bool:
        return program in IMAGES.programs

    assert missing(IMAGES, linux=True, root=True, installed=has, hierarchies=[]) == ""
    assert missing(IMAGES, linux=True, root=False, installed=lambda program: False, hierarchies=[]) == (
        "images need root (sudo), and these packages (apt-get install buildah mmdebstrap util-linux)"
    )
    assert "on another machine" in missing(IMAGES, linux=False, root=True, installed=has, hierarchies=[])
