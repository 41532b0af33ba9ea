"""A run step by step: counters end at the model's counts, and what is too large is refused before it runs."""

import json
import time
from collections import Counter

import pytest

from einmap import evaluate, load
from einmap.studio.session import Session

SMALL = {"M": 32, "K": 4, "N": 32}
BITS = 8
"""Bits of a value; an action is one bit."""
CASES = {
    "blocks": (("simple", "matmul", "simple_matmul"), SMALL),
    "fused": (("simple", "two_matvecs", "simple_two_matvecs_fused"), {"NI": 16, "NA": 16, "NB": 16}),
}


@pytest.mark.parametrize("case", CASES)
def test_counters_end_at_the_counts_of_the_model(case):
    files, define = CASES[case]
    spec = load(*files, define=define)
    run = Session(spec).handle('{"do": "play"}')
    counted = Counter()
    for frame in run["frames"]:
        for move in frame["moves"]:
            counted[move["memory"], move["tensor"], move["action"]] += move["count"]
    rows = {
        key: n for key, n in evaluate(spec).count_by("component", "tensor", "action").items() if n and key[0] != "MAC"
    }
    assert {key: count * BITS for key, count in counted.items()} == rows


def test_frames_are_in_the_order_of_time_and_tiles_are_those_of_the_loops():
    run = Session(load("simple", "matmul", "simple_matmul", define=SMALL)).handle('{"do": "play"}')
    steps = [frame["step"] for frame in run["frames"]]
    assert steps == sorted(set(steps))
    assert run["shapes"] == {"A": [32, 4], "B": [4, 32], "Z": [32, 32]}
    tiles = [
        tile["ranges"]
        for frame in run["frames"]
        for tile in frame["tiles"]
        if (tile["at"], tile["tensor"]) == ("nodes[4]", "B")
    ]
    assert json.loads(json.dumps(tiles)) == [[[0, 3], [0, 15]], [[0, 3], [16, 31]]] * 2


@pytest.mark.parametrize("move", [None, "sink Z@GlobalBuffer below n#2"])
def test_what_is_too_large_is_refused_at_once(move):
    of = Session(
        load("simple", "matmul", "simple_matmul", define={"M": 512, "K": 512, "N": 512} if move is None else {})
    )
    if move:
        assert of.handle(json.dumps({"do": "move", "text": move}))["kind"] == "state"
    begin = time.process_time()
    answer = of.handle('{"do": "play"}')
    assert answer["kind"] == "error"
    assert "too many to look at" in answer["message"]
    assert time.process_time() - begin < 1
