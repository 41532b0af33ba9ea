"""Room of freed tables is written over by later ones, and is free once a search ends."""

import einmap
from einmap.mapper.cost_bounds.cost_to_go.kept_room import KEPT_ROOM, MOST_KEPT, KeptRoom


def test_room_is_taken_again_where_it_is_large_enough_but_not_much_larger():
    kept = KeptRoom()
    small, large = kept.take(10), kept.take(1_000)
    kept.give(large)
    kept.give(small)
    assert kept.take(11) is not small and kept.take(11) is not large
    assert kept.take(8) is small
    assert kept.take(900) is large
    assert kept.take(900) is not large


def test_no_more_room_is_kept_than_may_be_and_the_largest_stays():
    kept, n = KeptRoom(), MOST_KEPT // 8
    small, large = kept.take(n // 2), kept.take(n // 2 + 1)
    kept.give(large)
    kept.give(small)
    assert kept.take(n // 2) is large
    assert kept.take(n // 2) is not small


def test_a_search_leaves_no_room_behind():
    einmap.map_workload(einmap.load("simple", "matmul"))
    assert KEPT_ROOM.take(10).base is None and not KEPT_ROOM.kept_bytes
