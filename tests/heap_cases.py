"""How `gc_pause` sets objects aside; `test_heap.py` runs this file in a process of its own, whose heap is small."""

import gc
import weakref

import pytest

from einmap import gc_pause
from einmap.gc_pause import FEW, GROWTH, RARELY, set_aside


@pytest.fixture(autouse=True)
def usual_collections(monkeypatch):
    """Those of the interpreter, with nothing set aside."""
    before, aside = gc.get_threshold(), gc.get_freeze_count()
    monkeypatch.setattr(gc_pause._UNCOLLECTED, "within", False)
    gc.unfreeze()
    gc.set_threshold(700, 10, 10)
    yield
    gc.set_threshold(*before)
    if aside:
        gc.freeze()


class Cycle:
    """An object that only a garbage collection can free."""

    itself: "Cycle"


def test_what_is_there_is_set_aside_and_taken_back():
    before = gc.get_freeze_count()
    with set_aside():
        assert gc.get_freeze_count() > FEW
        with set_aside():
            assert gc.get_freeze_count() > FEW
        assert gc.get_freeze_count() > FEW
    assert gc.get_freeze_count() <= before < FEW


def test_what_is_set_aside_is_not_counted_within(monkeypatch):
    counted = []
    count = gc.get_freeze_count
    monkeypatch.setattr(gc, "get_freeze_count", lambda: counted.append(count()) or counted[-1])
    for _ in range(2):
        with set_aside(), set_aside():
            pass
    assert len(counted) == 2
    assert max(counted) < FEW


def test_collections_are_rare_within_and_as_before_afterwards():
    before = gc.get_threshold()
    with pytest.raises(ZeroDivisionError), set_aside():
        with set_aside():
            assert gc.get_threshold() == RARELY
        assert gc.get_threshold() == RARELY
        raise ZeroDivisionError
    assert gc.get_threshold() == before
    assert gc.isenabled()


@pytest.mark.parametrize("given", [(0, 10, 10), (1_000_000, 10, 1_000)])
def test_collections_are_never_more_frequent_than_somebody_wants_them(given):
    before = gc.get_threshold()
    gc.set_threshold(*given)
    try:
        with set_aside():
            within = gc.get_threshold()
        assert gc.get_threshold() == given
    finally:
        gc.set_threshold(*before)
    assert within == ((0, 10, 10) if not given[0] else (1_000_000, 20, 1_000))


def test_what_somebody_else_has_set_aside_stays():
    cycle = Cycle()
    cycle.itself = cycle
    known = weakref.ref(cycle)
    gc.freeze()
    try:
        del cycle
        with set_aside():
            gc.collect()
            assert known() is not None
        gc.collect()
        assert known() is not None
    finally:
        gc.unfreeze()
    gc.collect()
    assert known() is None


def test_modules_that_are_set_aside_for_good_are_not_taken_back(monkeypatch):
    monkeypatch.setattr(gc_pause._UNCOLLECTED, "imported", False)
    before = gc.get_threshold()
    gc_pause.set_imported_aside()
    cycle = Cycle()
    cycle.itself = cycle
    known = weakref.ref(cycle)
    try:
        modules = gc.get_freeze_count()
        assert modules > FEW
        with set_aside():
            assert gc.get_threshold() == RARELY
        assert gc.get_threshold() == before
        assert gc.get_freeze_count() > 0.99 * modules
        del cycle
        gc.collect()
        assert known() is None
    finally:
        gc.unfreeze()


def test_nothing_is_done_where_collections_are_off():
    gc.disable()
    try:
        with set_aside():
            assert gc.get_freeze_count() < FEW
    finally:
        gc.enable()


def test_what_is_set_aside_again_and_again_does_not_keep_garbage():
    gc.collect()
    before = len(gc.get_objects())
    for _ in range(600):
        made = [Cycle() for _ in range(1_000)]
        for cycle in made:
            cycle.itself = cycle
        with set_aside():
            pass
    # 600,000 were made, each of which was there when all was set aside
    assert len(gc.get_objects()) < GROWTH * before + 300_000
