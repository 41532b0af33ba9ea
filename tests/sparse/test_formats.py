"""Formats against tiles that are written out."""

import itertools

import numpy as np
import pytest

from einmap.sparse.densities import Uniform
from einmap.sparse.formats import NAMED, coordinate_bits, format_of, named_format
from einmap.sparse.known import Known

from .encoded import encoded


def random_format(rng, shape):
    order = list(rng.permutation(len(shape)))
    kinds = []
    while order:
        group = tuple(int(order.pop()) for _ in range(rng.integers(1, len(order) + 1)))
        kinds.append(
            (str(rng.choice(["U", "CP", "B", "RLE", "UOP"] if order else ["U", "CP", "B", "RLE"])), group, None, None)
        )
    return format_of(kinds, shape)


@pytest.mark.parametrize("seed", range(60))
def test_a_tile_takes_what_is_written_of_it(seed):
    rng = np.random.default_rng(seed)
    shape = tuple(int(n) for n in rng.integers(1, 5, size=rng.integers(1, 4)))
    mask = rng.random(shape) < rng.choice([0, 0.1, 0.5, 1])
    fmt = random_format(rng, shape)
    low = [int(rng.integers(0, n)) for n in shape]
    size = [int(rng.integers(1, n - a + 1)) for a, n in zip(low, shape, strict=True)]
    tile = mask[tuple(slice(a, a + n) for a, n in zip(low, size, strict=True))]
    stored = fmt.stored(size, lambda ranks: Known(mask).parts(low, size, ranks))
    assert (stored.values, stored.metadata) == encoded(fmt, tile)
    most = fmt.most(size, int(tile.sum()))
    assert most.values >= stored.values
    assert most.metadata >= stored.metadata
    if fmt.levels[-1].kind != "U":
        assert stored.values == tile.sum()


@pytest.mark.parametrize("seed", range(20))
def test_many_tiles_take_what_each_of_them_takes(seed):
    rng = np.random.default_rng(seed)
    mask = rng.random((5, 3, 4)) < 0.4
    fmt = random_format(rng, mask.shape) if seed else named_format("csr", mask.shape)
    cuts = [([0, 3], [3, 2]), ([0, 2], [2, 1]), ([0, 1, 3], [1, 2, 1])]
    low, size = (np.ix_(*(np.array(cut[k]) for cut in cuts)) for k in (0, 1))
    stored = fmt.stored(size, lambda ranks: Known(mask).parts(low, size, ranks))
    values, metadata = (np.broadcast_to(found, (2, 2, 3)) for found in (stored.values, stored.metadata))
    for at in np.ndindex(2, 2, 3):
        a, n = ([cut[k][i] for cut, i in zip(cuts, at, strict=True)] for k in (0, 1))
        alone = fmt.stored(n, lambda ranks, a=a, n=n: Known(mask).parts(a, n, ranks))
        assert (values[at], metadata[at]) == (alone.values, alone.metadata)


@pytest.mark.parametrize("name", ["bitmask", "coo", "csr", "csc", "csf", "rle", "uncompressed"])
def test_uniform_tiles_take_what_all_masks_take_on_average(name):
    shape, nonzeros = (3, 3), 2
    written = []
    for chosen in itertools.combinations(range(9), nonzeros):
        mask = np.zeros(9, dtype=bool)
        mask[list(chosen)] = True
        written.append(encoded(named_format(name, shape), mask.reshape(shape)[:2, :3]))
    stored = named_format(name, shape).stored(
        (2, 3), lambda ranks: Uniform(shape, nonzeros).parts((0, 0), (2, 3), ranks)
    )
    assert (stored.values, stored.metadata) == pytest.approx(np.mean(written, axis=0))
    assert name in NAMED


def test_examples_by_hand():
    # 4 x 8 values, 3 of them nonzero, in 2 rows: coordinates of 2 + 3 bits
    mask = np.zeros((4, 8), dtype=bool)
    mask[0, [1, 7]] = mask[2, 0] = True
    stored = {
        name: named_format(name, mask.shape).stored(
            mask.shape, lambda ranks: Known(mask).parts((0, 0), mask.shape, ranks)
        )
        for name in NAMED
        if name != "ellpack"
    }
    assert {name: (s.values, s.metadata) for name, s in stored.items()} == {
        "uncompressed": (32, 0),
        "bitmask": (3, 32),
        "rle": (3, 15),
        "coo": (3, 15),
        "csr": (3, 5 * 6 + 3 * 3),  # offsets up to 32
        "csc": (3, 9 * 6 + 3 * 2),
        "csf": (3, 2 * 2 + 3 * 3),
    }


def test_bits_of_coordinates():
    assert [coordinate_bits(n) for n in (1, 2, 3, 4, 5, 128 * 128)] == [0, 1, 2, 2, 3, 14]
