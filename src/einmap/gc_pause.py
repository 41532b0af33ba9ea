"""Less work for Python's garbage collector while much is made that lives on."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

FEW = 5_000
"""The interpreter itself has set fewer objects aside than that."""
RARELY = (200_000, 20, 100)
"""Thresholds of collections within, at least: what is made lives on, so that looking at it again frees nothing."""
YOUNG = 100
"""Collections of the youngest objects after which Python would look at all objects, were these never set aside."""
GROWTH = 1.25
"""Where there are so many times as many as after the last time."""


@dataclass
class _Uncollected:
    """Counts that Python forgets when objects are set aside.

    `young`: collections of the youngest; `blocks`: of memory after the last full collection; `within`: whether objects
    are set aside here already; `imported`: whether all that was imported is.
    """

    young: int = 0
    blocks: int = 0
    within: bool = False
    imported: bool = False

    def look(self) -> None:
        """Collect all garbage if Python would have done so."""
        _, first, second = gc.get_count()
        self.young += first + second * gc.get_threshold()[1]
        if self.young < YOUNG:
            return
        self.young = 0
        # to count objects takes a hundred times as long
        if sys.getallocatedblocks() > GROWTH * self.blocks:
            gc.collect()
            self.blocks = sys.getallocatedblocks()


_UNCOLLECTED = _Uncollected()


def set_imported_aside() -> None:
    """Keep garbage collections from all objects that there are, to the end of a process of einmap's own.

    Modules live on, and to go through them takes a fifth of a short command's time.
    """
    gc.freeze()
    _UNCOLLECTED.imported = True


@contextmanager
def importing() -> Iterator[None]:
    """Keep garbage collections from what is imported within too, in a process of einmap's own."""
    known = len(sys.modules)
    yield
    if _UNCOLLECTED.imported and len(sys.modules) > known:
        gc.freeze()


@contextmanager
def set_aside() -> Iterator[None]:
    """Keep garbage collections within from existing objects: they are slow where a compiler is loaded.

    Objects made within are looked at rarely, which is all where modules are set aside for good. Nothing is done where
    somebody has set objects aside already: they are theirs to take back.
    """
    # all that is set aside is gone through to be counted, so that nobody counts it within
    if not gc.isenabled() or _UNCOLLECTED.within or (not _UNCOLLECTED.imported and gc.get_freeze_count() > FEW):
        yield
        return
    usual = gc.get_threshold()
    _UNCOLLECTED.look()
    _UNCOLLECTED.within = True
    if not _UNCOLLECTED.imported:
        gc.freeze()
    if usual[0]:
        gc.set_threshold(*map(max, usual, RARELY))
    try:
        yield
    finally:
        gc.set_threshold(*usual)
        if not _UNCOLLECTED.imported:
            gc.unfreeze()
        _UNCOLLECTED.within = False
