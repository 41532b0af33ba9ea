"""Operators that ONNX Runtime has for language models: values are its own, and all products are counted.

Values: ONNX Runtime 1.32.0 (CPU, graph optimisations disabled) for the models of `language_cases`: three numbers of each
output, in `language_values.json`.
"""

import json
from pathlib import Path

import numpy as np
import pytest
from tests.frontends.onnx.language_cases import CASES, signature
from tests.onnx_models import model, saved

from einmap.frontends.onnx.read import from_onnx

EXPECTED = json.loads(Path(__file__).with_name("language_values.json").read_text())
PRODUCTS = {
    "a prompt": 2 * 4 * 3 * 3 * 16 * 2,
    "a token after five": 2 * 4 * 6 * 16 * 2,
    "a token, packed": 2 * 4 * 6 * 16 * 2,
    "three tokens after five": 4 * 3 * 8 * 16 * 2,
    "a cache": 2 * 4 * 3 * 8 * 16 * 2,
    "one weight": 2 * 3 * 8 * 192 + 2 * 4 * 3 * 3 * 16 * 2,
    "experts of a row": 2 * (2 * 8 * 12 + 8),
    "experts with room for two rows each": 4 * 2 * (2 * 8 * 12 + 8),
    "experts of 4 bits": 2 * (2 * 32 * 48 + 32),
}
"""Worked out by hand: of scores and mixed values, of weights, of the experts that are chosen and the sum of them."""


def imported(folder, case, **how):
    nodes, inputs, weights, outputs, known = case
    built = model(nodes, inputs, weights, outputs)
    given = {name: inputs[name].tolist() for name in known}
    return from_onnx(saved(folder, built), values=given, **how), {**inputs, **weights}


@pytest.mark.parametrize("case", CASES)
def test_values_are_those_of_onnx_runtime(tmp_path, case):
    result, values = imported(tmp_path, CASES[case])
    assert not result.barriers
    found = result.run(values)
    for name, expected in zip(CASES[case][3], EXPECTED[case], strict=True):
        np.testing.assert_allclose(signature(found[name]), expected, rtol=2e-5, atol=2e-5)
    if case in PRODUCTS:
        assert result.n_multiply_accumulates == PRODUCTS[case]
