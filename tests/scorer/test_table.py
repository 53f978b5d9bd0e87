"""One row of numbers for every node."""

import numpy as np

from equipoise.scorer.state.table import Table


def a_table() -> Table:
    """Two windows, one statistic; row 0 holds a node."""
    table = Table(windows=2, statistics=1)
    table.grow()
    table.load[0] = np.arange(8.0).reshape(2, 2, 2)
    table.base[0], table.since[0], table.until[0] = [4.0, 64.0], [10.0, 20.0], [30.0, 40.0]
    table.requested[0] = [1.0, 2.0]
    return table


def test_parts_of_the_asked_rows_come_with_the_nodes_last() -> None:
    """Each in its own shape, in the order of the question."""
    taken = a_table().take(np.array([1, 0]))

    assert taken["load"].shape == (2, 2, 2, 2)
    assert taken["load"][..., 1].tolist() == np.arange(8.0).reshape(2, 2, 2).tolist()
    assert taken["base"][:, 1].tolist() == [4.0, 64.0]
    assert taken["until"][:, 1].tolist() == [30.0, 40.0]


def test_a_node_that_was_never_heard_of_is_unknown_and_asks_for_nothing() -> None:
    """Row −1, in a table with rows and in one without."""
    for table in (a_table(), Table(windows=2, statistics=1)):
        taken = table.take(np.array([-1]))
        assert np.isnan(taken["load"]).all()
        assert np.isnan(taken["base"]).all()
        assert taken["since"].tolist() == [[np.inf], [np.inf]]
        assert taken["requested"].tolist() == [[0.0], [0.0]]


def test_what_is_taken_is_a_copy() -> None:
    """A question may change it."""
    table = a_table()
    table.take(np.array([0]))["load"][:] = 9.0

    assert table.load[0, 0, 0, 1] == 1.0


def test_rows_stay_when_the_table_grows() -> None:
    """And the new ones are empty."""
    table = a_table()
    added = table.grow()

    assert len(table) == 2 * len(added) == 128
    assert table.base[0].tolist() == [4.0, 64.0]
    assert np.isnan(table.base[added[0]]).all()


def test_a_cleared_row_is_as_new() -> None:
    """It will be another node's."""
    table = a_table()
    table.clear(0)

    assert np.isnan(table.load[0]).all()
    assert table.until[0].tolist() == [-np.inf, -np.inf]


def test_an_own_copy_changes_nothing_here() -> None:
    """For questions about a fleet as it would be."""
    table = a_table()
    table.own_copy().load[0] = 9.0

    assert table.load[0, 0, 0, 1] == 1.0
