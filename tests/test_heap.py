import gc

from einmap.heap import FEW, set_aside


def test_what_is_there_is_set_aside_and_taken_back():
    before = gc.get_freeze_count()
    with set_aside():
        assert gc.get_freeze_count() > FEW
        with set_aside():
            assert gc.get_freeze_count() > FEW
        assert gc.get_freeze_count() > FEW
    assert gc.get_freeze_count() <= before < FEW


def test_what_somebody_else_has_set_aside_stays():
    gc.freeze()
    try:
        count = gc.get_freeze_count()
        with set_aside():
            assert gc.get_freeze_count() == count
        assert gc.get_freeze_count() == count
    finally:
        gc.unfreeze()


def test_nothing_is_done_where_collections_are_off():
    gc.disable()
    try:
        with set_aside():
            assert gc.get_freeze_count() < FEW
    finally:
        gc.enable()
