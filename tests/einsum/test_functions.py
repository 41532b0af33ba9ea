"""Each function of map expressions is known wherever functions are spelt or computed."""

import numpy as np
import pytest

from einmap.einsum.functions import FUNCTIONS, Code, apply
from einmap.emit import c_runtime, comments, print_python
from einmap.execute.kernels import _apply

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
    for x, y in [(0.75, 1.5), (2.25, 0.5), (-0.5, 2.0)]:
        if name in ("log", "sqrt", "rsqrt") and x < 0:
            continue
        arguments = (np.float64(x), np.float64(y))[: entry.arity]
        assert _apply(int(entry.code), x, y) == pytest.approx(float(apply(name, *arguments)), rel=1e-12)
