"""Long scans of JAX are recurrences: values are JAX's, products those of all steps, gradients included."""

import jax
import jax.numpy as jnp
import pytest
from jax import lax
from tests.frontends.jax.test_from_jax import check, numbers

STEPS = 9


def cell(params, carry, row):
    """One step of an LSTM."""
    h, c = carry
    i, f, g, o = jnp.split(row @ params["w"] + h @ params["u"] + params["b"], 4, axis=-1)
    c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
    h = jax.nn.sigmoid(o) * jnp.tanh(c)
    return (h, c), h


def layer(params, x, h):
    (h, _), every = lax.scan(lambda carry, row: cell(params, carry, row), (h, jnp.zeros_like(h)), x)
    return every, h


PARAMS = {"w": numbers(3, 16), "u": numbers(4, 16, seed=1), "b": numbers(16, seed=2)}


def test_a_layer_is_a_recurrence_with_the_products_of_all_its_steps():
    result = check(layer, PARAMS, numbers(STEPS, 2, 3), numbers(2, 4))
    (recurrence,) = result.spec.workload.recurrences
    assert len(recurrence.states) == 2
    assert not any("dot_general_1" in name for name in recurrence.einsums)  # the product of all inputs comes before
    assert result.n_multiply_accumulates == STEPS * 2 * 16 * (3 + 4)


def test_gradients_go_through_a_recurrence_backwards():
    def gradient(params, x):
        return jax.grad(lambda p: layer(p, x, jnp.zeros((2, 4)))[0].sum())(params)

    result = check(gradient, PARAMS, numbers(STEPS, 2, 3), tolerance=1e-4)
    assert len(result.spec.workload.recurrences) == 2


def test_a_scan_backwards_gives_what_it_has_carried():
    def backwards(w, x):
        return lax.scan(lambda h, row: (jnp.tanh(row + h @ w), h * 2), jnp.zeros(4), x, reverse=True)

    assert len(check(backwards, numbers(4, 4), numbers(STEPS, 4)).spec.workload.recurrences) == 1


@pytest.mark.parametrize(("outer", "inner", "recurrences"), [(9, 8, 1), (8, 9, 8), (8, 2, 1), (2, 8, 2)])
def test_of_scans_in_one_another_the_longer_one_is_a_recurrence(outer, inner, recurrences):
    def nested(x, w):
        def step(h, rows):
            return lax.scan(lambda h, row: (jnp.tanh(h @ w) + row, None), h, rows)

        return lax.scan(step, jnp.zeros(3), x)[0]

    result = check(nested, numbers(outer, inner, 3), numbers(3, 3), tolerance=1e-4)
    assert len(result.spec.workload.recurrences) == recurrences
    assert result.n_multiply_accumulates == outer * inner * 9


@pytest.mark.parametrize(
    ("body", "steps"),
    [
        pytest.param(lambda h, row: (jnp.tanh(row + h), h), 7, id="few steps"),
        pytest.param(lambda h, row: (jnp.tanh(row + h), h), 0, id="no step"),
        pytest.param(lambda h, row: (h * 0.5, row * 2), 8, id="what is carried is only scaled"),
        pytest.param(lambda h, row: (jnp.ones_like(h), h + row), 8, id="what is carried is a number"),
    ],
)
def test_other_scans_have_the_values_of_jax_too(body, steps):
    check(lambda h, x: (lax.scan(body, h, x)[1], 2 * h), numbers(3), numbers(steps, 3))


def test_a_scan_that_counts_its_steps_has_the_values_of_jax():
    def counted(h, x):
        def step(carry, row):
            h, i = carry
            return (jnp.tanh(row + h) * (i + 1.0), i + 1.0), h

        return lax.scan(step, (h, jnp.float32(0)), x)[1]

    check(counted, numbers(3), numbers(STEPS, 3))
