"""Less work for Python's garbage collector while much is made that lives on."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

FEW = 5_000
"""The interpreter itself has set fewer objects aside than that."""


@contextmanager
def set_aside() -> Iterator[None]:
    """What is there already is not looked at by garbage collections within, which are slow where a compiler is loaded.

    Nothing is done where somebody has set objects aside already: they are theirs to take back.
    """
    if not gc.isenabled() or gc.get_freeze_count() > FEW:
        yield
        return
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
