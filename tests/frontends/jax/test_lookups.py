"""Caches, scattered values, groups of rows, choices and random numbers have the values of JAX."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from tests.frontends.jax.test_from_jax import check, numbers

import einmap
from einmap.errors import SpecError

IDS = np.array([3, 0, 3, -1], np.int32)


def drop_in_batches(x, i, u):
    return jax.vmap(lambda row, place, new: row.at[place].set(new, mode="drop"))(x, i, u)


def loss_of_labels(x, labels):
    scores = jax.nn.log_softmax(x, axis=-1)
    return -jnp.take_along_axis(scores, labels[:, None], axis=1).mean()


WRITES = {
    "a cache at a known place": (lambda c, u: lax.dynamic_update_slice(c, 2 * u, (1, 2)), numbers(5, 6), numbers(2, 3)),
    "a cache at a place that is computed": (
        lambda c, u, n: lax.dynamic_update_slice(c, 2 * u, (2 * n, 1)),
        numbers(5, 6), numbers(2, 3), np.int32(1),
    ),
    "two places that are computed": (
        lambda c, u, n: lax.dynamic_update_slice(c, u, (n, 2 * n)), numbers(5, 6), numbers(2, 3), np.int32(2),
    ),
    "a place behind the end": (
        lambda c, u, n: lax.dynamic_update_slice(c, u, (n, 0)) + lax.dynamic_update_slice(c, u, (9, 0)),
        numbers(5, 3), numbers(2, 3), np.int32(9),
    ),
    "one row at a place that is computed": (
        lambda c, u, n: lax.dynamic_update_slice(c, u, (n, 0)) * 2, numbers(5, 3), numbers(1, 3), np.int32(-2),
    ),
    "rows of each sequence at its own place": (
        jax.vmap(lambda c, u, n: lax.dynamic_update_slice(c, u, (n, 0))),
        numbers(3, 5, 2), numbers(3, 2, 2), np.array([0, 2, 4], np.int32),
    ),
    "a slice": (lambda x, u: x.at[1:3].set(u) + x.at[:, -1].set(0.5), numbers(4, 3), numbers(2, 3)),
    "a slice that is added to": (lambda x, u: x.at[1:3].add(u), numbers(4, 3), numbers(2, 3)),
    "all of it": (lambda x, u: x.at[:].set(2 * u) + x.at[:, :].add(u), numbers(4, 3), numbers(4, 3, seed=1)),
    "windows that are read": (
        lambda x, i: x[i, 1:4] * x[1:4, 2:][:, i - 1].sum() + x.at[i, 1:3].get(mode="clip").sum(),
        numbers(4, 6), np.array([1, 3], np.int32),
    ),
    "one number added where places meet": (lambda x, i: x.at[i].add(1.0), numbers(5, 2), IDS),
    "every second row": (lambda x, u: x.at[::2].set(u), numbers(4, 3), numbers(2, 3)),
    "rows at known places": (lambda x, u: x.at[np.array([2, 3, 4])].set(u), numbers(6, 2), numbers(3, 2)),
    "rows, the last one stays": (lambda x, i, u: x.at[i].set(u), numbers(5, 2), IDS, numbers(4, 2)),
    "columns": (lambda x, i, u: x.at[:, i].set(u), numbers(2, 5), IDS, numbers(2, 4)),
    "points": (lambda x, i, u: x.at[i, i].set(u), numbers(5, 5), IDS, numbers(4)),
    "one row": (lambda x, i, u: x.at[i].set(u), numbers(5, 2), np.int32(4), numbers(2)),
    "places outside are dropped": (
        lambda x, i, u: x.at[i].set(u, mode="drop") + x.at[i[0]].set(u[0], mode="drop") + x.at[i].add(u, mode="drop"),
        numbers(4, 2), np.array([7, 1, -9], np.int32), numbers(3, 2),
    ),
    "places in batches": (
        drop_in_batches, numbers(3, 5), np.array([[0, 4], [2, 2], [9, 1]], np.int32), numbers(3, 2),
    ),
    "windows that are added": (
        jax.vmap(lambda x, i, u: lax.scatter_add(
            x, i, u, lax.ScatterDimensionNumbers((0, 1), (), (0,)), mode="clip"
        )),
        numbers(2, 6, 3), np.array([[1], [5]], np.int32), numbers(2, 2, 3),
    ),
    "sums of segments": (
        lambda x, i: jax.ops.segment_sum(x, i, 4), numbers(5, 3), np.array([0, 2, 2, 3, 0], np.int32),
    ),
    "points that are added": (lambda x, i, u: x.at[i, :, i].add(u), numbers(5, 2, 5), IDS, numbers(4, 2)),
    "products, extremes and differences": (
        lambda x, i, u: (x.at[i].multiply(u), x.at[i].min(u), x.at[i].max(u), x.at[i].subtract(u)),
        numbers(5, 2), IDS, numbers(4, 2, seed=1),
    ),
    "products and extremes of a slice": (
        lambda x, u: (x.at[1:3].multiply(u), x.at[1:3].min(u), x.at[1:3].max(u), x.at[:, 1].subtract(u[0, 0])),
        numbers(4, 3), numbers(2, 3, seed=1),
    ),
    "products where updates meet once": (
        lambda x, i, u: (
            x.at[i].multiply(u[0]), x.at[np.array([3, 0])].multiply(u), x.at[:].multiply(2.0),
            x.at[jnp.stack([i, i - 2])].multiply(u, unique_indices=True),
        ),
        numbers(5, 2), np.int32(3), numbers(2, 2, seed=1),
    ),
    "products at points, some of them outside": (
        lambda x, i, u: (
            x.at[i, 0].multiply(u, mode="drop") * x.at[i, i].multiply(0.5, mode="clip"), x.at[i, 1].max(u, mode="drop"),
        ),
        numbers(4, 4), np.array([7, 1, -9, 1, 1], np.int32), numbers(5, seed=1),
    ),
    "windows that are multiplied": (
        jax.vmap(lambda x, i, u: tuple(
            write(x, i, u, lax.ScatterDimensionNumbers((0, 1), (), (0,)), mode="clip")
            for write in (lax.scatter_mul, lax.scatter_min, lax.scatter_max)
        )),
        numbers(2, 3, 2), np.array([[[0], [1]], [[2], [-1]]], np.int32), numbers(2, 2, 2, 2, seed=1),
    ),
    "infinite updates": (
        lambda x, i, u: (x.at[i].add(u), x.at[i[0]].multiply(u[0])), numbers(4), IDS[:2], np.array([np.inf, 1], np.float32),
    ),
    "extremes of segments": (
        lambda x, i: (jax.ops.segment_max(x, i, 3), jax.ops.segment_min(x, i, 4), jax.ops.segment_prod(x, i, 4)),
        numbers(5, 3), np.array([0, 2, 2, 1, 0], np.int32),
    ),
    "gradient of an embedding": (jax.grad(lambda t, i: (t[i] ** 2).sum()), numbers(5, 3), IDS),
    "gradient of a loss by labels": (jax.grad(loss_of_labels), numbers(4, 5), np.array([1, 4, 0, 2], np.int32)),
    "gradient of a slice at a place": (
        jax.grad(lambda x, n: (lax.dynamic_slice(x, (n, 0), (2, 3)) ** 2).sum()), numbers(5, 3), np.int32(2),
    ),
    "gradient of a write": (
        jax.grad(lambda x, u, n: (lax.dynamic_update_slice(x, u, (n, 0)) ** 2).sum(), argnums=(0, 1)),
        numbers(5, 3), numbers(2, 3), np.int32(2),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", WRITES)
def test_what_is_written_at_places(case):
    function, *arguments = WRITES[case]
    check(function, *arguments)


SIZES = np.array([2, 0, 3], np.int32)


def grouped(x, w, sizes):
    return lax.ragged_dot(x, w, sizes)


def ragged_gradients(x, w, sizes):
    return jax.grad(lambda x, w: (lax.ragged_dot(x, w, sizes) ** 2).sum(), argnums=(0, 1))(x, w)


def random_steps(x):
    keys = jax.random.split(jax.random.key(0), 9)
    x = jnp.where(jax.random.bernoulli(keys[8], 0.5, x.shape), 2 * x, 0)
    return lax.scan(lambda h, key: (jnp.tanh(h) + jax.random.uniform(key, h.shape), None), x, keys)[0]


CHOICES = {
    "places in a sorted row": (
        lambda a, x: jnp.searchsorted(a, 2 * x), np.arange(6, dtype=np.float32), numbers(4),
    ),
    "a triangle": (lambda x: x.at[jnp.triu_indices(3)].set(0.0), numbers(3, 3)),
    "sequences of their own lengths": (
        lambda q, k, n: jax.nn.dot_product_attention(q, k, 2 * k, key_value_seq_lengths=n),
        numbers(2, 3, 1, 2), numbers(2, 4, 1, 2), np.array([3, 4], np.int32),
    ),
    "groups of rows": (grouped, numbers(6, 2), numbers(3, 2, 4), SIZES),
    "known groups": (lambda x, w: lax.ragged_dot(x, w, jnp.array(SIZES)), numbers(6, 2), numbers(3, 2, 4)),
    "gradients of groups": (ragged_gradients, numbers(6, 2), numbers(3, 2, 4), SIZES),
    "the largest": (lambda x: lax.top_k(x, 2), np.array([[3, 1, 3, 2], [0, 0, -1, 5]], np.float32)),
    "the largest along the first axis": (lambda x: lax.top_k(2 * x, 3, axis=0), numbers(5, 2)),
    "gradient of the largest": (jax.grad(lambda x: (lax.top_k(x, 2)[0] ** 2).sum()), numbers(3, 4)),
    "order": (lambda x: (jnp.sort(x), jnp.argsort(x, axis=0)), np.array([[3, 1, 3], [0, 0, -1]], np.float32)),
    "what goes with an order": (lambda x, y: lax.sort((x, 2 * y), num_keys=1), numbers(2, 5), numbers(2, 5, seed=1)),
    "order by two keys": (
        lambda x, y: (*lax.sort((x, y, 2 * y), num_keys=2), jnp.lexsort((y, x), axis=1)),
        np.array([[3, 1, 3, 1], [0, 0, -1, 0]], np.float32), numbers(2, 4),
    ),
    "first of the largest": (lambda x: (jnp.argmax(x, 1), jnp.argmin(x, 0)), np.array([[3, 1, 3], [0, 0, -1]], np.float32)),
    "random numbers by keys": (random_steps, numbers(4)),
}  # fmt: skip


@pytest.mark.parametrize("case", CHOICES)
def test_groups_choices_and_random_numbers(case):
    function, *arguments = CHOICES[case]
    check(function, *arguments)


def test_a_function_applied_in_place_is_refused():
    with pytest.raises(SpecError, match=r"scatter of JAX .* applies a function to the values that stand there"):
        einmap.from_jax(lambda x, i: x.at[i].apply(jnp.sin), numbers(4, 3), np.int32(2))


def test_keys_that_are_arguments_are_refused_with_a_hint():
    with pytest.raises(SpecError, match=r"random_bits of JAX.*known only when the function runs") as error:
        einmap.from_jax(lambda key, x: jax.random.uniform(key, x.shape) * x, jax.random.key(0), numbers(3))
    assert "jax.random.key(0)" in str(error.value)


def decode(x, w, cache, place):
    """One step of attention: its row goes to a place of the cache, and all rows are read."""
    q, row = jnp.split(x @ w, 2, axis=-1)
    cache = lax.dynamic_update_slice(cache, row, (place, 0))
    return jax.nn.softmax(q @ cache.T) @ cache, cache


def decode_at_5(x, w, cache):
    return decode(x, w, cache, 5)


@pytest.mark.parametrize(("function", "place"), [(decode_at_5, ()), (decode, (np.int32(5),))])
def test_a_cache_is_read_whole_and_at_a_known_place_its_new_rows_alone_are_written(function, place):
    found = check(function, numbers(1, 4), numbers(4, 8), numbers(6, 4), *place)
    assert found.n_multiply_accumulates == 4 * 8 + 2 * 6 * 4
    written = {name: view.shape for name, view in found.outputs.items() if name.startswith("out[1]")}
    assert written == ({"out[1]": (6, 4)} if place else {"out[1][1]": (1, 4)})


def test_products_are_those_of_each_row_with_the_matrix_of_its_group_alone():
    found = einmap.from_jax(lax.ragged_dot, numbers(6, 2), numbers(3, 2, 4), SIZES)
    assert found.n_multiply_accumulates == 6 * 2 * 4
    assert not found.notes


def test_a_sum_at_places_says_that_it_has_more_points_than_updates():
    found = einmap.from_jax(jax.grad(lambda t, i: (t[i] ** 2).sum()), numbers(5, 3), IDS)
    (note,) = found.notes
    assert "a point for each update and each of 5 places" in str(note)
    assert found.n_multiply_accumulates == 0


MAPPED = {
    "a cache": (lambda c, u, n: lax.dynamic_update_slice(c, u, (n, 0)), numbers(5, 2), numbers(2, 2), np.int32(2)),
    "gradient of an embedding": (jax.grad(lambda t, i: (t[i] ** 2).sum()), numbers(5, 3), IDS),
    "rows replaced": (lambda x, i, u: x.at[i].set(u), numbers(5, 2), IDS, numbers(4, 2)),
    "groups": (lax.ragged_dot, numbers(6, 2), numbers(3, 2, 4), SIZES),
    "extremes": (lambda x, i, u: x.at[i].max(u), numbers(5, 2), IDS, numbers(4, 2)),
}


@pytest.mark.parametrize("case", MAPPED)
def test_they_are_mapped(tmp_path, case):
    function, *arguments = MAPPED[case]
    path = tmp_path / "workload.yaml"
    path.write_text(einmap.dump(einmap.from_jax(function, *arguments).spec))
    assert einmap.map_workload(einmap.load("simple", path), metrics="energy", fuse=False).optimal


@pytest.mark.parametrize(
    ("steps", "body", "reason"),
    [
        (4, lambda h, row: (jnp.tanh(h) + row, None), "its 4 steps are unrolled: it has fewer than 8"),
        (9, lambda h, row: (h * row[::-1].sum() * 0 + row, h), ""),
        (9, lambda h, row: (h, jnp.sin(h) + row), "its 9 steps are unrolled: nothing is carried from step to step"),
    ],
)
def test_a_scan_that_is_unrolled_says_why(steps, body, reason):
    found = einmap.from_jax(lambda h, x: lax.scan(body, h, x), numbers(3), numbers(steps, 3))
    said = [str(note) for note in found.notes]
    assert len(said) == bool(reason)
    assert all(reason in text for text in said)
