"""Less work for Python's garbage collector while much is made that lives on."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

FEW = 5_000
"""The interpreter itself has set fewer objects aside than that."""
RARELY = (50_000, 20, 100)
"""Thresholds of collections within, at least: what is made lives on, so that looking at it again frees nothing."""


@contextmanager
def set_aside() -> Iterator[None]:
    """What is there already is not looked at by garbage collections within, which are slow where a compiler is loaded.

    What is made within is looked at rarely. Nothing is done where somebody has set objects aside already: they are
    theirs to take back.
    """
    if not gc.isenabled() or gc.get_freeze_count() > FEW:
        yield
        return
    usual = gc.get_threshold()
    gc.freeze()
    if usual[0]:
        gc.set_threshold(*map(max, usual, RARELY))
    try:
        yield
    finally:
        gc.set_threshold(*usual)
        gc.unfreeze()
