"""Engines by name. Their modules are imported when they are asked for: some need optional libraries."""

from __future__ import annotations

from einmap.distribute.backends.base import Engine
from einmap.errors import SpecError, did_you_mean

ENGINES = ("local",)
"""The engines that there are; the first one is the default."""


def engine_named(name: str, processes: int = 1) -> Engine:
    """The engine of that name. `processes`: how many it may spread the PEs over.

    Raises SpecError for an unknown name, and for what the engine cannot do.
    """
    if name not in ENGINES:
        raise SpecError(f"there is no engine {name!r}", hint=did_you_mean(name, ENGINES, listing="engines"))
    if processes != 1:
        raise SpecError(f"the engine 'local' is one process, not {processes}", hint="leave out --processes")
    from einmap.distribute.backends.local import LocalEngine

    return LocalEngine()
