"""Models whose bytes are changed at random: an error of einmap or a cascade, soon, and never anything else."""

import random
import tracemalloc

import pytest
from tests.frontends.onnx.language_cases import CASES as LANGUAGE
from tests.frontends.onnx.test_values import CASES
from tests.onnx_models import model
from tests.work import work_below

from einmap.errors import EinmapError
from einmap.frontends.onnx.read import from_onnx

SECONDS, BYTES = 2.0, 64 * 2**20
"""Of one import, in processor time and in memory that Python knows of."""


def changed(rng, content):
    """Some bytes are others, left out or put in; or the end is missing."""
    content = bytearray(content)
    for _ in range(rng.choice((1, 1, 2, 4))):
        place, kind = rng.randrange(len(content) or 1), rng.random()
        if kind < 0.6 and content:
            content[place] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
        elif kind < 0.75:
            del content[place : place + rng.randrange(1, 9)]
        elif kind < 0.9:
            content[place:place] = bytes(
                rng.choice((0xFF, 0x7F, rng.randrange(256))) for _ in range(rng.randrange(1, 9))
            )
        else:
            del content[place:]
    return bytes(content)


def imported(path):
    """Whether a cascade came of it; else there was an error of einmap."""
    tracemalloc.start()
    try:
        with work_below(SECONDS):
            from_onnx(path)
    except EinmapError:
        return False
    finally:
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert most < BYTES
    return True


@pytest.mark.slow
@pytest.mark.hostile
@pytest.mark.parametrize("part", range(4))
def test_1000_changed_models_of_all_kinds_are_refused_or_read(tmp_path, part):
    rng = random.Random(part)
    found = []
    for _ in range(1000):
        path = tmp_path / "model.onnx"
        path.write_bytes(changed(rng, model(*CASES[rng.choice(list(CASES))]).SerializeToString()))
        found.append(imported(path))
    assert 20 < sum(found) < 980


NUMBERS = (-1, 0, 1, 2, 3, 7, 16, 2**31, 2**62)


def changed_message(rng, built):
    """An attribute, a size, an operand or a number of the model is another one."""
    graph = built.graph
    call = rng.choice(graph.node)
    kind = rng.randrange(5)
    if kind == 0 and call.attribute:
        attribute = rng.choice(call.attribute)
        attribute.i, attribute.f = rng.choice(NUMBERS), rng.choice((0.0, -1.0, 1e30, float("nan"), float("inf")))
        attribute.s = rng.choice((b"", b"silu", b"swiglu", b"circular", b"nothing"))
    elif kind == 1 and call.attribute:
        del call.attribute[rng.randrange(len(call.attribute))]
    elif kind == 2:
        tensor = rng.choice(graph.input).type.tensor_type.shape
        if tensor.dim:
            rng.choice(tensor.dim).dim_value = rng.choice(NUMBERS)
    elif kind == 3:
        call.input[rng.randrange(len(call.input))] = rng.choice((*call.input, ""))
    elif graph.initializer:
        tensor = rng.choice(graph.initializer)
        tensor.dims[rng.randrange(len(tensor.dims))] = rng.choice(NUMBERS)
        tensor.raw_data = b""
    return built


@pytest.mark.slow
@pytest.mark.hostile
@pytest.mark.parametrize("part", range(5))
def test_1000_changed_operators_of_language_models_are_refused_or_read(tmp_path, part):
    rng = random.Random(100 + part)
    found = []
    for _ in range(1000):
        path = tmp_path / "model.onnx"
        nodes, inputs, weights, outputs, _ = LANGUAGE[rng.choice(list(LANGUAGE))]
        built = model(nodes, inputs, weights, outputs)
        if rng.random() < 0.5:
            content = changed(rng, built.SerializeToString())
        else:
            for _ in range(rng.choice((1, 1, 2))):
                built = changed_message(rng, built)
            content = built.SerializeToString()
        path.write_bytes(content)
        found.append(imported(path))
    assert 20 < sum(found) < 980
