"""SCALE-Sim's files whose text is changed at random: specifications, or an error with its file, and soon."""

import random
import tracemalloc

import pytest
from tests.frontends.onnx.test_hostile import changed
from tests.frontends.scalesim.test_read import CONFIG, CONVOLUTIONS, PRODUCTS, spec_of
from tests.frontends.stream.test_hostile import with_other_value
from tests.work import work_below

from einmap.errors import EinmapError
from einmap.frontends.scalesim.read import read

SECONDS, BYTES = 2.0, 64 * 2**20


def was_read(folder, rng):
    """Whether changed files are read."""
    texts = {"run.cfg": CONFIG, "net.csv": rng.choice((PRODUCTS, CONVOLUTIONS))}
    name = rng.choice([*texts])
    for other, text in texts.items():
        content = text.encode()
        if other == name and rng.random() < 0.3:
            content = changed(rng, content)
        elif other == name:
            for _ in range(rng.choice((1, 1, 2))):
                content = with_other_value(rng, content.decode().replace(", ", " , ")).encode()
        (folder / other).write_bytes(content)
    tracemalloc.start()
    try:
        with work_below(SECONDS):
            spec_of(read([folder / other for other in texts], define={}, root=(), bits=None))
    except EinmapError as error:
        assert "run.cfg" in str(error) or "net.csv" in str(error)
        return False
    finally:
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert most < BYTES
    return True


def test_changed_files_are_read_or_refused_with_their_file(tmp_path):
    rng = random.Random(0)
    assert 2 < sum(was_read(tmp_path, rng) for _ in range(20)) < 19


@pytest.mark.slow
@pytest.mark.hostile
@pytest.mark.parametrize("part", range(1, 6))
def test_1000_changed_files_are_read_or_refused_with_their_file(tmp_path, part):
    rng = random.Random(part)
    assert 100 < sum(was_read(tmp_path, rng) for _ in range(1000)) < 950
