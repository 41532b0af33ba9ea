"""A bit of a store is flipped: nothing that was changed is told as if it were a result, and it can be computed again."""

import random
import sqlite3
import warnings

import pytest

from einmap import SpecError, sweep
from einmap.sweep.store.checksums import told
from einmap.sweep.store.store import Store


def all_of(path, *, create=False):
    """What a store tells, and what it says is damaged."""
    store = Store.opened(path, create=create)
    try:
        kept = store.sweep()
        whole = {point.number: point for point in store.results(kept, whole=True)}
        brief = {point.number: (point.status, point.energy) for point in store.results(kept)}
        cases = {number: store.case(kept, number, 0) for number in whole if whole[number].outcomes}
        return (kept, whole, brief, cases, store.counts(kept)), store.damaged
    finally:
        store.close()


def flipped(content, seed):
    rng = random.Random(seed)
    changed = bytearray(content)
    changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def check_flips(small, tmp_path, seeds, again):
    """Read stores with one flipped bit; of those that can be opened every number `again` is run once more."""
    path = tmp_path / "s.sqlite"
    undisturbed = list(sweep(small, store=path, workers=0))
    content, (true, _) = path.read_bytes(), all_of(path)
    told_of, refused = 0, 0
    for seed in seeds:
        path.write_bytes(flipped(content, seed))
        try:
            found, damaged = all_of(path)
        except SpecError as problem:
            assert problem.at is not None
            assert problem.at.file == str(path)
            refused += 1
            continue
        told_of += bool(damaged)
        if not damaged:
            assert found == true, seed
        kept, whole, brief, cases, _ = found
        assert kept == true[0]
        for number, point in whole.items():  # a part may be left out, and what is there is true
            assert point.values == true[1][number].values
            for workload, outcome in point.outcomes.items():
                assert outcome == true[1][number].outcomes[workload]
                assert len(point.outcomes) < len(point.weights) or brief[number] == true[2][number]
                assert cases[number] == true[3][number]
        if seed % again == 0:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                assert list(sweep(small, store=path, workers=0)) == undisturbed
            assert all_of(path)[0][1:] == true[1:]
            assert not all_of(path)[1]
    return told_of, refused


def test_a_flipped_bit_is_told_or_changes_nothing(small, tmp_path):
    told_of, refused = check_flips(small, tmp_path, range(300), 10)
    assert told_of > 20
    assert refused > 20


@pytest.mark.slow
@pytest.mark.sweep
def test_many_flipped_bits_are_told_or_change_nothing(small, tmp_path):
    small["workloads"] = [{"name": "one"}, {"name": "two", "weight": 2}]
    check_flips(small, tmp_path, range(300, 3000), 10)


def test_a_damaged_row_is_named_and_computed_again(small, tmp_path, monkeypatch):
    path = tmp_path / "s.sqlite"
    undisturbed = list(sweep(small, store=path, workers=0))
    for change, name in (
        ("UPDATE outcomes SET energy = energy * 2 WHERE key = (SELECT key FROM cases WHERE number = 3)", "the results of point 3"),
        ("UPDATE documents SET mapping = '' WHERE key = (SELECT key FROM cases WHERE number = 3)", "the results of point 3"),
        ("UPDATE cases SET settings = '[]' WHERE number = 2", "the results of point 2"),
        ("UPDATE points SET better = 1 WHERE number = 4", "point 4"),
    ):  # fmt: skip
        with sqlite3.connect(path) as database:
            database.execute(change)
        database.close()
        (_, whole, *_), damaged = all_of(path)
        assert damaged == (name,)
        number = int(name[-1])
        assert number not in whole or not whole[number].outcomes
        assert [whole[n] for n in range(6) if n != number] == [undisturbed[n] for n in range(6) if n != number]
        with pytest.warns(UserWarning, match=name):
            again = sweep(small, store=path, workers=0)
        assert list(again) == undisturbed
        assert not all_of(path)[1]


def test_a_damaged_sweep_leaves_no_points_to_another(small, tmp_path):
    path = tmp_path / "s.sqlite"
    undisturbed = list(sweep(small, store=path, workers=0))
    with sqlite3.connect(path) as database:
        database.execute("UPDATE sweeps SET outline = '{}'")
    database.close()
    with pytest.raises(SpecError, match="the store has no sweep"):
        all_of(path)
    fewer = {**small, "axes": [{**small["axes"][0], "values": ["64 * 8"]}], "name": "fewer"}
    with pytest.warns(UserWarning, match="sweep number 1"):
        assert len(list(sweep(fewer, store=path, workers=0))) == 1
    assert list(all_of(path)[0][1]) == [0]
    assert list(sweep(small, store=path, workers=0)) == undisturbed


def test_a_store_of_another_format_is_refused_and_left_as_it_is(small, tmp_path):
    path = tmp_path / "s.sqlite"
    list(sweep(small, store=path, workers=0))
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA user_version = 3")
    database.close()
    before = path.read_bytes()
    with pytest.raises(SpecError, match="this store has format 3, this einmap reads 4"):
        sweep(small, store=path, workers=0)
    assert path.read_bytes() == before


def test_many_damaged_rows_are_counted():
    assert told([f"point {n}" for n in range(9)]).endswith("point 0, point 1, point 2, point 3 and 5 more")
    assert told(["point 1"]) == "the store is damaged, left out: point 1"
