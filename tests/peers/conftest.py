from collections.abc import Iterator

import pytest
from peers.cases import Case


@pytest.fixture(autouse=True)
def compared(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fails a test that takes a peer's case and compares none of its published values."""
    case = request.node.callspec.params.get("case") if hasattr(request.node, "callspec") else None
    if isinstance(case, Case):
        case.checked = False
    yield
    assert not isinstance(case, Case) or case.checked, f"{case} was taken and not compared"
