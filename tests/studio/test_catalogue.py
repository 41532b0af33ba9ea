"""Bad and odd inputs in the studio: refused or survived, and moves of random mappings are those of a rewrite."""

import json
import random

import pytest
from tests.catalogue.cases import written
from tests.catalogue.rows import ROWS
from tests.random_specs.cases import valid_case

from einmap import evaluate, load
from einmap.errors import EinmapError
from einmap.mapping.nodes import format_address
from einmap.mapping.rewrite.text import rewritten
from einmap.studio.session import Session

DRAWN = random.Random(7).sample(ROWS, 12)
OTHERS = [case for case in ROWS if case not in DRAWN]


def ask(of, do, **fields):
    answer = of.handle(json.dumps({"do": do, **fields}))
    json.dumps(answer, allow_nan=False)
    return answer


def moved(of, rng):
    """Try a move of a random node: what it gives is what the rewrite gives, and an error changes nothing."""
    before = of.now
    placed = rng.choice(of.mapping.placed)
    options = ask(of, "moves", node=format_address(placed.address)).get("options")
    if not options:
        return 0
    option = rng.choice(options)
    answer = ask(of, "move", text=option["text"])
    if answer["kind"] == "error":
        assert of.now is before
        return 0
    assert option["why"] is None
    mapping = rewritten(before.mapping, before.spec.workload, option["text"])
    assert of.mapping == mapping
    if of.now.cost is not None:
        cost = evaluate(before.spec, mapping)
        assert [row["value"] for row in answer["numbers"]] == [cost.energy, cost.latency, cost.edp]
    ask(of, "undo")
    assert of.mapping == before.mapping
    ask(of, "redo")
    return 1


@pytest.mark.parametrize("case", [*DRAWN, *(pytest.param(case, marks=pytest.mark.slow) for case in OTHERS)], ids=str)
def test_an_input_of_the_catalogue_is_refused_or_worked_on(case, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    files = written(case, tmp_path)
    assert ask(Session(load("simple", "matmul", "simple_matmul")), "open", text=case.text[:900_000])["kind"] in (
        "state",
        "error",
    )
    try:
        of = Session(load(*files))
    except EinmapError:
        return
    for question in ("look", "details", "notes", "text"):
        ask(of, question)
    moved(of, random.Random(1))


@pytest.mark.parametrize("seed", [1, 2, *(pytest.param(s, marks=pytest.mark.slow) for s in range(3, 40))])
def test_random_moves_are_rewrites(seed):
    rng = random.Random(seed)
    of = Session(valid_case(rng)[0])
    assert sum(moved(of, rng) for _ in range(8)) > 0
