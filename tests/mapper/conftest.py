"""What tests of the mapper share: hints are looked for however slow the machine is."""

import pytest

from einmap.mapper.compose import cascade_sizes
from einmap.mapper.infeasibility import diagnosis


@pytest.fixture(autouse=True)
def patience(monkeypatch):
    """The time for hints where a search has no limit, so long that no test depends on the clock."""
    monkeypatch.setattr(cascade_sizes, "LONGEST", 600.0)
    monkeypatch.setattr(diagnosis, "MOST_SECONDS", 600.0)
