"""Files of PyTorch that are damaged, or made to do harm: a result or an error with its place; nothing is executed."""

import copy
import io
import json
import pickle
import random
import time
import zipfile
from pathlib import Path

import pytest

from einmap import from_torch
from einmap.errors import EinmapError, SpecError
from einmap.frontends.torch.archive import MOST_BYTES

HERE = Path(__file__).parent
NAMES = ("attention", "states", "layout", "open_sizes_core", "images", "sums_core")
MUTATIONS = 8
SIZES = {"args_0_0": 3, "args_0_1": 5}


def graph_of(name):
    with zipfile.ZipFile(HERE / f"{name}.pt2") as archive:
        return json.loads(archive.read(f"{name}/models/model.json"))


def archive(members):
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as file:
        for name, data in members.items():
            file.writestr(name, data)
    return content.getvalue()


def places(data, found):
    """Every container in a tree with each of its keys."""
    for key, value in data.items() if isinstance(data, dict) else enumerate(data):
        found.append((data, key))
        if isinstance(value, dict | list):
            places(value, found)
    return found


def mutated(data, rng):
    """A copy with one to three places that are others: left out, of another kind, of another size, of another place."""
    data = copy.deepcopy(data)
    for _ in range(rng.randint(1, 3)):
        every = places(data, [])
        holder, key = rng.choice(every)
        other, from_ = rng.choice(every)
        choices = [None, -1, 0, 1, 2**40, 2**63, 1e308, "x", "", [], {}, True, "args_0", "Symbol('s0')", {"as_int": 7}]
        match rng.randint(0, 3):
            case 0:
                del holder[key]
            case 1:
                holder[key] = copy.deepcopy(other[from_])
            case _:
                holder[key] = rng.choice(choices)
    return data


def outcome(path, sizes):
    """What an import gives, which is a result or an error with a place; and how long it takes."""
    start = time.process_time()
    try:
        from_torch(path, dimensions=sizes)
    except EinmapError as error:
        assert str(path) in str(error) or "workload" in str(error), error
    return time.process_time() - start


def changed_graphs(name, n, path):
    """Import `n` changed graphs of a program."""
    data, rng = graph_of(name), random.Random(f"{name}{n}")
    for _ in range(n):
        path.write_text(json.dumps(mutated(data, rng)))
        assert outcome(path, SIZES if name.startswith("open") else {}) < 10


def changed_archives(name, n, path):
    """Import `n` archives of a program of which bytes are others, or the end is missing."""
    content, rng = (HERE / f"{name}.pt2").read_bytes(), random.Random(f"{name}{n}")
    for _ in range(n):
        changed = bytearray(content)
        for _ in range(rng.randint(1, 4)):
            changed[rng.randrange(len(changed))] = rng.randrange(256)
        path.write_bytes(changed if rng.random() < 0.8 else changed[: rng.randrange(len(changed))])
        assert outcome(path, SIZES if name.startswith("open") else {}) < 10


@pytest.mark.parametrize("name", NAMES)
def test_a_changed_program_gives_a_result_or_an_error_with_its_place(name, tmp_path):
    changed_graphs(name, MUTATIONS, tmp_path / "changed.json")
    changed_archives(name, MUTATIONS, tmp_path / "changed.pt2")


@pytest.mark.slow
@pytest.mark.hostile
@pytest.mark.parametrize("name", NAMES)
def test_many_changed_programs_give_results_or_errors_with_their_places(name, tmp_path):
    changed_graphs(name, 700, tmp_path / "changed.json")
    changed_archives(name, 150, tmp_path / "changed.pt2")


def test_an_archive_that_unpacks_to_more_than_a_graph_is_refused(tmp_path):
    path = tmp_path / "bomb.pt2"
    path.write_bytes(archive({"m/models/model.json": b" " * (MOST_BYTES + 1)}))
    assert path.stat().st_size < MOST_BYTES / 500
    with pytest.raises(SpecError, match="the graph has more than 67,108,864 bytes"):
        from_torch(path)


def test_pickles_and_weights_of_an_archive_are_not_opened(tmp_path):
    class Loud:
        def __reduce__(self):
            return open, (str(tmp_path / "executed"), "w")

    name, path = "attention", tmp_path / "loud.pt2"
    loud = {"m/data/sample_inputs/model.pt": pickle.dumps(Loud()), "m/data/weights/weight_0": b"not a weight"}
    path.write_bytes(archive({"m/models/model.json": json.dumps(graph_of(name)), **loud}))
    assert from_torch(path).n_multiply_accumulates == from_torch(HERE / f"{name}.pt2").n_multiply_accumulates
    assert not (tmp_path / "executed").exists()


@pytest.mark.parametrize(
    ("members", "text"),
    [
        ({"m/data.pkl": b"..."}, "here are none, it has m/data.pkl"),
        ({"m/models/a.json": b"{}", "m/models/b.json": b"{}"}, "here are m/models/a.json, m/models/b.json"),
        ({"m/models/a.json": b"[]"}, "this is not a program of torch.export"),
        ({"m/models/a.json": b"[" * 100_000}, "this is not a program of torch.export"),
        ({"m/models/a.json": b'{"graph_module": 3}'}, "this is not a program of torch.export"),
    ],
)
def test_an_archive_without_a_graph_is_an_error_that_says_what_is_there(members, text, tmp_path):
    path = tmp_path / "model.pt2"
    path.write_bytes(archive(members))
    with pytest.raises(SpecError, match=text):
        from_torch(path)


@pytest.mark.parametrize("number", [99, "x", [1], None])
def test_a_type_of_numbers_that_is_not_known_is_named(number, tmp_path):
    data, path = graph_of("sums_core"), tmp_path / "model.json"
    next(iter(data["graph_module"]["graph"]["tensor_values"].values()))["dtype"] = number
    path.write_text(json.dumps(data))
    with pytest.raises(SpecError, match=r"the type of numbers .* is not known"):
        from_torch(path)
