"""Densities against masks that are drawn or listed one by one."""

import itertools
import math
from itertools import combinations, product

import numpy as np
import pytest

from einmap.sparse import known as known_zeros
from einmap.sparse.densities import Structured, Uniform, all_zero
from einmap.sparse.known import Known


def masks_of(density):
    """Every mask of a small density, all equally likely."""
    if isinstance(density, Uniform):
        for chosen in combinations(range(math.prod(density.shape)), density.nonzeros):
            mask = np.zeros(math.prod(density.shape), dtype=bool)
            mask[list(chosen)] = True
            yield mask.reshape(density.shape)
        return
    fibers = math.prod(density.shape) // density.m
    one = [np.isin(np.arange(density.m), chosen) for chosen in combinations(range(density.m), density.n)]
    others = [n for rank, n in enumerate(density.shape) if rank != density.rank]
    for blocks in product(one, repeat=fibers):
        yield np.moveaxis(np.array(blocks).reshape(*others, density.shape[density.rank]), -1, density.rank)


SMALL = [
    Uniform((2, 4), 3),
    Uniform((3, 2), 0),
    Uniform((2, 3), 6),
    Structured((2, 4), 1, 1, 2),
    Structured((4, 2), 0, 1, 4),
    Structured((2, 6), 1, 2, 3),
]


@pytest.mark.parametrize("whole", [2**20, 10**9, 10**12, 10**18])
@pytest.mark.parametrize("few", [65, 20_000])
@pytest.mark.parametrize("mean", [0.001, 1, 40])
def test_zeros_of_large_tensors_are_as_likely_as_one_drawn_after_the_other(whole, few, mean):
    many = max(few, round(mean * whole / few))
    one_by_one = math.exp(math.fsum(math.log1p(-many / (whole - i)) for i in range(few)))
    assert all_zero(whole, many, few) == pytest.approx(one_by_one, rel=1e-11)
    assert all_zero(whole, few, many) == all_zero(whole, many, few)


def test_all_of_a_large_tensor_but_some_have_no_zeros_alone():
    assert all_zero(10**12, 5 * 10**11, 5 * 10**11) == 0
    assert all_zero(10**12, 10**6, 10**12 - 10**6 - 3) == 0


def boxes(shape):
    ranges = [[(a, b) for a in range(n) for b in range(a + 1, n + 1)] for n in shape]
    return product(*ranges)


@pytest.mark.parametrize("density", SMALL, ids=str)
def test_boxes_have_as_many_nonzeros_as_all_masks_have_on_average(density):
    masks = np.array(list(masks_of(density)))
    for box in boxes(density.shape):
        inside = masks[:, *(slice(a, b) for a, b in box)]
        axes = tuple(range(1, inside.ndim))
        low, size = [np.asarray(a) for a, _ in box], [np.asarray(b - a) for a, b in box]
        assert density.expected(low, size) == pytest.approx(inside.sum(axis=axes).mean())
        assert density.nonempty(low, size) == pytest.approx(inside.any(axis=axes).mean())
        assert density.most([int(n) for n in size]) >= inside.sum(axis=axes).max()
        for ranks in ([0], [1], [0, 1]):
            rest = tuple(1 + r for r in range(2) if r not in ranks)
            parts = inside.any(axis=rest).reshape(len(masks), -1).sum(axis=1).mean()
            assert density.parts([a for a, _ in box], [b - a for a, b in box], ranks) == pytest.approx(parts)


@pytest.mark.parametrize("density", SMALL, ids=str)
def test_the_distribution_of_a_box_is_that_of_all_masks(density):
    masks = np.array(list(masks_of(density)))
    for size in product(*(range(1, n + 1) for n in density.shape)):
        inside = masks[:, *(slice(0, n) for n in size)].sum(axis=(1, 2))
        expected = np.bincount(inside) / len(masks)
        found = density.distribution(size)
        assert found[: len(expected)] == pytest.approx(expected)
        assert found.sum() == pytest.approx(1)


def test_lanes_with_disjoint_boxes_are_one_larger_box():
    density, masks = Uniform((2, 4), 2), np.array(list(masks_of(Uniform((2, 4), 2))))
    low, size = [np.asarray([0]), np.asarray([0, 2])], [np.asarray([1]), np.asarray([1, 1])]
    together = masks[:, 0, [0, 2]].any(axis=1).mean()
    assert density.nonempty(low, size, (0,)) == pytest.approx(together)
    known = Known(masks[0])
    assert known.nonempty(low, size, (0,)) == masks[0][0, [0, 2]].any()


def test_a_known_mask_is_counted_by_position():
    mask = np.random.default_rng(5).random((4, 5, 3)) < 0.3
    known = Known(mask)
    for box in boxes(mask.shape):
        inside = mask[tuple(slice(a, b) for a, b in box)]
        low, size = [np.asarray(a) for a, _ in box], [np.asarray(b - a) for a, b in box]
        assert known.expected(low, size) == inside.sum()
        assert known.nonempty(low, size) == inside.any()
        assert known.most([b - a for a, b in box]) >= inside.sum()
    assert known.most(mask.shape) == known.nonzeros == mask.sum()
    assert known.distribution((2, 5, 3)) @ np.arange(len(known.distribution((2, 5, 3)))) == mask.sum() / 2


@pytest.mark.parametrize("most", [known_zeros.MOST_SUMMED, 0], ids=["small", "large"])
def test_parts_of_many_boxes_are_those_of_each_by_itself(most, monkeypatch):
    monkeypatch.setattr(known_zeros, "MOST_SUMMED", most)
    rng = np.random.default_rng(7)
    for case in range(13):
        shape = tuple(int(n) for n in rng.choice([1, 2, 3, 4, 6, 8], 3))
        mask = rng.random(shape) < rng.choice([0.1, 0.5])
        low, size = [], []
        for rank, n in enumerate(shape):
            axes = [1] * 3
            axes[rank if case % 4 else 0] = 5  # boxes along each rank by themselves, or all along one axis
            tile = int(rng.choice([d for d in range(1, n + 1) if n % d == 0]))
            begin, length = rng.integers(0, n // tile, 5) * tile, np.full(5, tile)
            if case % 3 == 0:
                begin = rng.integers(0, n, 5)
                length = rng.integers(0, n - begin + 1)
            low.append(begin.reshape(axes))
            size.append(tile if (length == tile).all() else length.reshape(axes))
        for ranks in itertools.chain.from_iterable(combinations(range(3), k) for k in range(4)):
            rest = tuple(rank for rank in range(3) if rank not in ranks)
            found = Known(mask).parts(low, size, ranks)
            for at in np.ndindex(found.shape):
                box = [
                    (np.broadcast_to(a, found.shape)[at], np.broadcast_to(n, found.shape)[at])
                    for a, n in zip(low, size, strict=True)
                ]
                inside = mask[tuple(slice(a, a + n) for a, n in box)]
                assert found[at] == inside.any(axis=rest).sum(), (case, ranks, at)


@pytest.mark.parametrize("most", [known_zeros.MOST_SUMMED, 0], ids=["small", "large"])
def test_of_boxes_in_lanes_any_nonzero_counts(most, monkeypatch):
    monkeypatch.setattr(known_zeros, "MOST_SUMMED", most)
    rng = np.random.default_rng(8)
    for case in range(20):
        mask = rng.random((12, 8)) < 0.1
        rows, lanes = rng.integers(0, 3, 6) * 3, np.arange(3) * rng.integers(1, 3)
        low = [(rows[:, None] + lanes).reshape(6, 1, 3, 1), rng.integers(0, 6, (4, 2)).reshape(1, 4, 1, 2)]
        size = [1, np.full((1, 4, 1, 2), 2) if case % 2 else rng.integers(0, 3, (1, 4, 1, 2))]
        found = Known(mask).nonempty(low, size, (2, 3))
        assert found.shape == (6, 4, 1, 1)
        for i, k in np.ndindex(6, 4):
            boxes = [
                mask[a : a + 1, b : b + n]
                for a in low[0][i, 0, :, 0]
                for b, n in zip(low[1][0, k, 0], np.broadcast_to(size[1], (1, 4, 1, 2))[0, k, 0], strict=True)
            ]
            assert found[i, k, 0, 0] == any(box.any() for box in boxes), case


@pytest.mark.parametrize("most", [known_zeros.MOST_SUMMED, 0], ids=["small", "large"])
def test_tiles_laid_side_by_side_are_counted_together(most, monkeypatch):
    monkeypatch.setattr(known_zeros, "MOST_SUMMED", most)
    mask = np.random.default_rng(9).random((6, 5, 4)) < 0.2
    for size in [(2, 5, 1), (4, 2, 3), (6, 5, 4), (1, 1, 1)]:
        cuts = [[(a, min(a + n, whole)) for a in range(0, whole, n)] for n, whole in zip(size, mask.shape, strict=True)]
        for ranks in [(), (1,), (0, 2), (0, 1, 2)]:
            rest = tuple(rank for rank in range(3) if rank not in ranks)
            told = sum(mask[tuple(slice(*cut) for cut in box)].any(axis=rest).sum() for box in itertools.product(*cuts))
            assert Known(mask).laid(size, ranks) == told, (size, ranks)


@pytest.mark.parametrize("density", [Uniform((40, 50), 333), Structured((6, 8, 5), 1, 3, 4)], ids=str)
def test_drawn_masks_have_the_density(density):
    mask = density.draw(np.random.default_rng(1))
    assert mask.shape == density.shape
    assert mask.mean() == pytest.approx(density.part)
    if isinstance(density, Structured):
        assert (np.moveaxis(mask, density.rank, -1).reshape(-1, density.m).sum(axis=1) == density.n).all()


def test_chances_of_large_boxes_are_those_of_logarithms():
    density = Uniform((1000, 1000), 90_000)
    values = 70
    exact = math.prod((910_000 - i) / (10**6 - i) for i in range(values))
    box = [np.asarray(0), np.asarray(0)], [np.asarray(7), np.asarray(10)]
    assert 1 - density.nonempty(*box) == pytest.approx(exact, rel=1e-5)


def test_an_even_density_gives_every_box_its_part():
    from einmap.errors import NotSupportedError
    from einmap.sparse.densities import Even

    even = Even((8, 8), 0.3)
    low, size = [np.array([0, 3]), np.array([0, 5])], [np.array([1, 2]), np.array([2, 3])]
    assert even.expected(low, size) == pytest.approx([0.6, 1.8])
    assert even.nonempty(low, size) == pytest.approx([0.6, 1.0])
    assert even.distribution([2, 3]) == pytest.approx([0, 0.2, 0.8])
    assert even.most([2, 3]) == 2
    assert even.parts([0, 0], [4, 2], [0]) == pytest.approx(4 * 0.6)
    with pytest.raises(NotSupportedError, match="no mask is even"):
        even.draw(np.random.default_rng(0))
