"""TFLite files whose bytes are changed at random, or that point to where they must not."""

import random
import tracemalloc

import numpy as np
import pytest
from tests.frontends.onnx.test_hostile import changed
from tests.frontends.tflite.test_values import NAMES, STORED
from tests.work import work_below

from einmap.errors import EinmapError
from einmap.frontends.tflite import flatbuffer
from einmap.frontends.tflite.model import read_file
from einmap.frontends.tflite.read import from_tflite

SECONDS, BYTES = 2.0, 64 * 2**20


def imported(path):
    tracemalloc.start()
    try:
        with work_below(SECONDS):
            from_tflite(path)
    except EinmapError as error:
        assert str(path) in str(error)
        return False
    finally:
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert most < BYTES
    return True


def read_or_refused(folder, seed, number):
    rng = random.Random(seed)
    found = []
    for _ in range(number):
        path = folder / "model.tflite"
        path.write_bytes(changed(rng, STORED[f"{rng.choice(NAMES)}/model"].tobytes()))
        found.append(imported(path))
    return sum(found)


def test_changed_models_are_read_or_refused_with_their_place(tmp_path):
    assert 5 < read_or_refused(tmp_path, 0, 50) < 49


@pytest.mark.slow
@pytest.mark.hostile
@pytest.mark.parametrize("part", range(5))
def test_1000_changed_models_are_read_or_refused_with_their_place(tmp_path, part):
    assert 20 < read_or_refused(tmp_path, part + 1, 1000) < 980


@pytest.mark.parametrize("content", [b"", b"\0" * 8, b"\xff" * 64, b"\x08\0\0\0TFL3", b"\x08\0\0\0TFL3" + b"\xff" * 40])
def test_what_is_not_a_model_is_told_with_the_byte(tmp_path, content):
    path = tmp_path / "model.tflite"
    path.write_bytes(content)
    with pytest.raises(EinmapError, match=r"model\.tflite"):
        from_tflite(path)


@pytest.mark.parametrize("name", ["lstm", "conv_same"])
def test_numbers_that_are_not_numbers_are_read_without_a_warning(tmp_path, name):
    path, content = tmp_path / "model.tflite", STORED[f"{name}/model"].tobytes()
    path.write_bytes(content)
    constants = [tensor.array for tensor in read_file(path).tensors if tensor.array is not None]
    for array in constants:
        if array.dtype == np.float32:
            loud = np.full(array.shape, 0x7FA00000, np.uint32).tobytes()
            content = content.replace(array.astype("<f4").tobytes(), loud)
    path.write_bytes(content)
    assert b"\0\0\xa0\x7f" in content
    from_tflite(path)


def test_parts_that_are_shared_very_often_are_not_read_without_end(tmp_path, monkeypatch):
    monkeypatch.setattr(flatbuffer, "MOST_READ", 500)
    path = tmp_path / "model.tflite"
    path.write_bytes(STORED["conv_same/model"].tobytes())
    with pytest.raises(EinmapError, match="more than 500 bytes are read"):
        from_tflite(path)
