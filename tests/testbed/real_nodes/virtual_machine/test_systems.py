"""The systems of a virtual machine."""

from equipoise.testbed.real_nodes.virtual_machine.disk import machine_tree
from equipoise.testbed.real_nodes.virtual_machine.systems import DEBIAN_KERNEL, DEFAULT_SYSTEM, SYSTEMS


def test_each_system_has_a_kernel_and_a_tree_of_its_own() -> None:
    trees = {name: machine_tree(system) for name, system in SYSTEMS.items()}

    assert DEFAULT_SYSTEM in SYSTEMS
    assert len({tree.key() for tree in trees.values()}) == len(SYSTEMS)
    for name, tree in trees.items():
        assert [package for package in tree.packages if package.startswith(DEBIAN_KERNEL)], name


def test_a_package_of_an_older_debian_has_its_suite_among_the_sources() -> None:
    for name, system in SYSTEMS.items():
        suites = {package.partition("/")[2] for package in system.packages} - {""}

        assert suites == set(system.older_suites), name
