"""Programs of PyTorch, recorded by `record.py`: values, products and parameters are PyTorch's."""

import json
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from tests.frontends.torch.record import numbers, some

from einmap import from_torch

HERE = Path(__file__).parent
PROGRAMS = json.loads((HERE / "programs.json").read_text())
SIZES = {"open_sizes": {"args_0_0": 3, "args_0_1": 5}, "open_sizes_core": {"args_0_0": 3, "args_0_1": 5}}


@cache
def imported(name):
    return from_torch(HERE / f"{name}.pt2", dimensions=SIZES.get(name))


def values_of(name, result):
    """Values of the inputs and parameters of a program by name."""
    record = PROGRAMS[name]
    given = {key: np.array(value) for key, value in record["given"].items()}
    weights = {t.source: numbers(t.source, t.shape) for t in result.inputs.values() if isinstance(t.source, str)}
    inputs = {key: numbers(key, tuple(shape)) for key, shape in record["inputs"].items()}
    return {**{key: value.astype(np.float32) for key, value in {**weights, **inputs}.items()}, **given}


@pytest.mark.parametrize("name", PROGRAMS)
def test_values_of_a_program_are_those_of_pytorch(name):
    result = imported(name)
    assert result.barriers == ()
    found = result.run(values_of(name, result))
    expected = PROGRAMS[name]["outputs"]
    many = len(expected) > 1
    for place, wanted in enumerate(expected):
        got = found[f"out[{place}]" if many else "out"].reshape(-1)
        np.testing.assert_allclose(some(got), wanted, rtol=1e-5, atol=1e-5, err_msg=f"result {place}")
