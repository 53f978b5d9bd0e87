"""numpy is imported at its first use."""

import numpy

from equipoise.contracts.numeric import np


def test_an_attribute_is_looked_up_once() -> None:
    """It is used for every node and pod: the next access is that of an ordinary attribute."""
    assert np.full is numpy.full
    assert vars(np)["full"] is numpy.full
