"""Each function of map expressions is known wherever functions are spelt or computed."""

import math

import numpy as np
import pytest

from einmap.einsum.functions import FUNCTIONS, Code, apply
from einmap.einsum.gradients.derivatives import pulled_back
from einmap.einsum.numeric import _value
from einmap.einsum.operation import Apply, Number, Operand
from einmap.emit.printers import c_runtime, comments, print_python
from einmap.execute.kernel.kernels import _apply

SPELLINGS = {"C": c_runtime.FUNCTIONS, "Python": print_python.FUNCTIONS, "comments": comments._CALLS}


@pytest.mark.parametrize("spellings", SPELLINGS.values(), ids=SPELLINGS)
def test_every_printer_spells_every_function_that_is_not_infix(spellings):
    assert spellings.keys() == {name for name, entry in FUNCTIONS.items() if not entry.infix}


def test_codes_are_of_one_function_each():
    assert {entry.code for entry in FUNCTIONS.values()} == set(Code) - {Code.CONSTANT, Code.OPERAND}
    assert len({entry.code for entry in FUNCTIONS.values()}) == len(FUNCTIONS)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_kernel_computes_what_the_definition_does(name):
    entry = FUNCTIONS[name]
    for x, y, z in [(0.75, 1.5, 3.0), (2.25, 0.5, 1.0), (-0.5, 2.0, 0.0), (0.0, 0.0, 7.0), (-2.5, -2.5, 1.0)]:
        if name in ("divide", "power") and x == y <= 0:
            continue
        if name in ("log", "sqrt", "rsqrt") and x <= 0:
            continue
        arguments = (np.float64(x), np.float64(y), np.float64(z))[: entry.arity]
        assert _apply(int(entry.code), x, y, z) == pytest.approx(float(apply(name, *arguments)), rel=1e-12)


def test_the_error_function_is_that_of_math_to_the_last_places():
    x = np.concatenate([np.linspace(-7, 7, 2001), [0.46875, -0.46875, 4.0, 1e-300, -0.0, np.inf, -np.inf]])
    found = apply("erf", x)
    np.testing.assert_allclose(found, [math.erf(v) for v in x], rtol=1e-15, atol=0)
    assert np.isnan(apply("erf", np.array([np.nan]))[0])
    np.testing.assert_allclose(
        apply("gelu", x[:9]), [v * (1 + math.erf(v / math.sqrt(2))) / 2 for v in x[:9]], atol=1e-15
    )


@pytest.mark.parametrize(("x", "rounded"), [(0.5, 0), (1.5, 2), (-0.5, 0), (-2.5, -2), (2.4, 2)])
def test_halves_round_to_the_even_integer(x, rounded):
    assert apply("round", np.float64(x)) == _apply(int(Code.ROUND), x, 0.0, 0.0) == rounded


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_function_has_a_derivative_by_each_argument(name):
    entry = FUNCTIONS[name]
    assert len(entry.derivatives) == entry.arity
    names = "xyz"[: entry.arity]
    found = pulled_back(Apply(name, tuple(map(Operand, names))), Number(1.0))
    for values in [(0.75, 1.5, 3.0), (2.25, 0.5, 1.0), (1.25, 2.5, 0.25)]:
        at = dict(zip(names, map(np.float64, values), strict=False))
        for argument in names:
            high, low = (float(apply(name, *(at | {argument: at[argument] + step}).values())) for step in (1e-6, -1e-6))
            slope = _value(found.get(argument, Number(0.0)), at)
            assert slope == pytest.approx((high - low) / 2e-6, rel=1e-6, abs=1e-6), argument
