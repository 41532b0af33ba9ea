"""Stream's files whose text is changed at random: specifications, or an error of einmap with its file, and soon."""

import random
import tracemalloc

import pytest
from tests.frontends.onnx.test_hostile import changed
from tests.frontends.stream.test_read import files, imported
from tests.work import work_below

from einmap.errors import EinmapError

__all__ = ["files"]
SECONDS, BYTES = 2.0, 64 * 2**20
NAMES = ("system.yaml", "mapping.yaml", "cores/core.yaml", "cores/off.yaml", "pool.yaml", "model.onnx")
VALUES = (
    "",
    "-1",
    "0",
    "3",
    "1e400",
    "99999999999999999999",
    "null",
    "[]",
    "{}",
    "[[0]]",
    "nan",
    "x",
    "../../etc/passwd",
)


def with_other_value(rng, text):
    """A number or word of the text is another one, or a line is missing or there twice."""
    lines = text.splitlines(keepends=True)
    place = rng.randrange(len(lines))
    kind = rng.randrange(4)
    if kind == 0:
        del lines[place]
    elif kind == 1:
        lines.insert(place, rng.choice(lines))
    else:
        words = lines[place].split(" ")
        words[rng.randrange(len(words))] = rng.choice(VALUES)
        lines[place] = " ".join(words).rstrip("\n") + "\n"
    return "".join(lines)


def was_read(folder, rng):
    """Whether changed files are read."""
    name = rng.choice(NAMES)
    path = folder / name
    before = path.read_bytes()
    if name.endswith(".onnx") or rng.random() < 0.3:
        path.write_bytes(changed(rng, before))
    else:
        text = before.decode()
        for _ in range(rng.choice((1, 1, 2))):
            text = with_other_value(rng, text)
        path.write_text(text)
    tracemalloc.start()
    try:
        with work_below(SECONDS):
            imported(folder, "system.yaml", "mapping.yaml", "model.onnx")
    except EinmapError as error:
        assert ".yaml" in str(error) or ".onnx" in str(error)
        return False
    finally:
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        path.write_bytes(before)
        assert most < BYTES
    return True


def test_changed_files_are_read_or_refused_with_their_file(files):
    rng = random.Random(0)
    assert 2 < sum(was_read(files, rng) for _ in range(25)) < 24


@pytest.mark.slow
@pytest.mark.hostile
@pytest.mark.parametrize("part", range(1, 6))
def test_1000_changed_files_are_read_or_refused_with_their_file(files, part):
    rng = random.Random(part)
    assert 100 < sum(was_read(files, rng) for _ in range(1000)) < 950
