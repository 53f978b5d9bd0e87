"""numpy, imported at its first use, and the types of its arrays.

Policies and strategies are sections of the configuration. The program `equipoise` reads them, but is installed without
numpy, which is half as large as everything else together (docs/decisions/0021).
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__all__ = ["Array", "Flags", "Indexes", "Rows", "Singles", "Texts", "np"]

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Array = npt.NDArray[np.float64]
    Flags = npt.NDArray[np.bool_]
    Indexes = npt.NDArray[np.int64]
    Rows = npt.NDArray[np.intp]
    Singles = npt.NDArray[np.float32]
    Texts = npt.NDArray[np.object_]
else:

    class _Numpy:
        """Has the attributes of numpy. An attribute is stored here at its first use, so that later uses are as fast as
        numpy."""

        def __getattr__(self, name: str) -> Any:
            value = getattr(import_module("numpy"), name)
            setattr(self, name, value)
            return value

    np = _Numpy()
    Array = Flags = Indexes = Rows = Singles = Texts = Any
