"""What a machine lacks for real nodes is one sentence."""

from equipoise.testbed.real_nodes.requirements import CONTROLLERS, PACKAGES, missing

ALL = list(CONTROLLERS)


def test_a_machine_with_everything_lacks_nothing() -> None:
    assert missing(linux=True, root=True, installed=lambda program: True, hierarchies=ALL) == ""


def test_all_that_is_missing_is_named_in_one_sentence() -> None:
    text = missing(linux=True, root=False, installed=lambda program: program not in ("ip", "buildah"), hierarchies=[])

    assert text == (
        "real nodes need root (sudo), and these packages (apt-get install buildah iproute2), and cgroup v1 with the "
        f"controllers {', '.join(CONTROLLERS)} (boot with systemd.unified_cgroup_hierarchy=0)"
    )


def test_a_package_of_two_programs_is_named_once() -> None:
    text = missing(linux=True, root=True, installed=lambda program: False, hierarchies=ALL)

    assert text == f"real nodes need these packages (apt-get install {' '.join(sorted(set(PACKAGES.values())))})"


def test_elsewhere_than_on_linux_the_fake_nodes_are_named() -> None:
    assert "fake nodes" in missing(linux=False, root=False, installed=lambda program: False, hierarchies=[])
