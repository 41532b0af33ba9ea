"""What tests of the mapper share: their clock."""

import pytest
from tests.mapper.clocks import count_looks


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    """Searches, limited or not, end where they end on an idle machine."""
    count_looks(monkeypatch)
