"""Programs of PyTorch, recorded by `record.py`: values, products and parameters are PyTorch's."""

import json
from functools import cache
from math import prod
from pathlib import Path

import numpy as np
import pytest
from tests.frontends.torch.record import numbers, some

from einmap import from_torch
from einmap.errors import SpecError

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


PRODUCTS = {
    # 6 tokens, 2 layers: projections of 16 to 16 + 8 + 8, back, gated 24; 4 heads of 4: scores and sums; logits of 40
    "llama": 6 * (2 * (16 * 32 + 16 * 16 + 3 * 16 * 24) + 16 * 40) + 2 * 4 * 6 * 6 * 4 * 2,
    # two layers of 2 x 4 states over 6 rows, of 4 and 3 gates; 2 rows of one layer, 6 of two layers
    "recurrent": 6 * 2 * 4 * (4 + 3) * (5 + 4 + 8 + 4) + 2 * 4 * (5 + 4) + 6 * 16 * (5 + 4 + 4 + 4),
    # the same with four projections of 16, two layers of 24, and a pooled first position
    "bert": 6 * 2 * (4 * 16 * 16 + 2 * 16 * 24) + 2 * 4 * 6 * 6 * 4 * 2 + 16 * 16,
    # two of four experts for each token, a router
    "mixtral": 6 * (2 * (16 * 32 + 16 * 16 + 2 * 3 * 16 * 24 + 16 * 4) + 16 * 40) + 2 * 4 * 6 * 6 * 4 * 2,
}


@pytest.mark.parametrize("name", PRODUCTS)
@pytest.mark.parametrize("dialect", ["", "_core"])
def test_products_of_a_language_model_are_those_of_its_configuration(name, dialect):
    assert imported(f"{name}{dialect}").n_multiply_accumulates == PRODUCTS[name]


@pytest.mark.parametrize("name", ["llama", "bert", "mixtral", "whisper_core", "images"])
def test_parameters_of_a_program_are_inputs_each_with_all_its_values(name):
    weights = [t for t in imported(name).inputs.values() if t.weight and isinstance(t.source, str)]
    n = sum(prod(t.shape) for t in weights if t.source not in PROGRAMS[name]["given"])
    assert n == PROGRAMS[name]["parameters"]


def test_equal_layers_are_one_where_that_is_asked_for():
    one = from_torch(HERE / "llama.pt2", instances=True)
    assert one.n_multiply_accumulates == PRODUCTS["llama"]
    assert max(entry.get("n_instances", 1) for entry in one.workload["einsums"]) == 2


def test_sizes_that_a_program_leaves_open_are_asked_for_by_name():
    path = HERE / "open_sizes.pt2"
    with pytest.raises(SpecError, match=r"the size of dimension 1 of args_0 is open \(s50\)") as error:
        from_torch(path, batch=3)
    assert "-D s50=N" in str(error.value)
    same = from_torch(path, batch=3, dimensions={"args_0_1": 5})
    assert same.n_multiply_accumulates == imported("open_sizes").n_multiply_accumulates
    twice = from_torch(path, batch=6, dimensions={"s50": 5})
    assert twice.n_multiply_accumulates == 2 * same.n_multiply_accumulates
    with pytest.raises(SpecError, match="the program is for s33 from 0 to 64, found 65"):
        from_torch(path, dimensions={"s33": 65, "s50": 5})
    with pytest.raises(SpecError, match="the first dimension of args_0 is 2 in the program, not 3"):
        from_torch(HERE / "sums.pt2", batch=3)
