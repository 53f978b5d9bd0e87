"""What a killed process left is recognized by its name."""

from equipoise.testbed.real_nodes.leftovers import PREFIX, has_ended, own_name


def test_what_a_running_process_owns_is_no_leftover() -> None:
    assert not has_ended(own_name())


def test_what_an_earlier_process_with_the_same_pid_owned_is_a_leftover() -> None:
    pid = own_name().removeprefix(f"{PREFIX}-").partition("-")[0]

    assert has_ended(f"{PREFIX}-{pid}-1")


def test_a_name_of_another_form_is_never_a_leftover() -> None:
    assert not any(has_ended(name) for name in (PREFIX, f"{PREFIX}-1", f"{PREFIX}-a-b", f"my-{PREFIX}-1-1"))
