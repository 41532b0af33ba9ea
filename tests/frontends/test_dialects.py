"""Specifications go out and come in again, in either dialect, and cost the same."""

import json
import random
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.random_specs.cases import draw_case, draw_networks, draw_windows
from tests.random_specs.equal_costs import cost_or_refusal, is_same
from tests.random_specs.wording import reworded

from einmap import EinmapError, Spec, dump, dump_mapping, load, loads
from einmap.errors import ManyErrors
from einmap.frontends.yaml.spec import example_paths

GOLDEN = Path(__file__).parents[1] / "golden"
DIALECTS = ("older", "newer")
REFUSALS = (
    *("`skip_initial_output_write`", "`values_per_action`", "`actions_scale`", "`no_resend_to_below`"),
    *("a direction for each tensor", "!Network", "`throughput alone`"),
)
"""What the older dialect cannot express, of all that these specifications have."""


@cache
def golden():
    """All recorded specifications by name; the same text counts once."""
    found = {}
    for file in ("evaluate", "exact", "invalid"):
        for case in map(json.loads, (GOLDEN / f"{file}.jsonl").read_text().splitlines()):
            parts = (case.get(f"{part}_yaml") for part in ("arch", "workload", "mapping"))
            found.setdefault("\n".join(part for part in parts if part), case["id"])
    return {name: text for text, name in found.items()}


SAMPLE = random.Random(1).sample(sorted(golden()), 25)
REST = sorted(set(golden()) - set(SAMPLE))


def check_round_trips(spec, *, evaluated=True):
    """Everything that must hold for any specification; the dialects that it can be written in."""
    assert loads(dump(spec)) == spec
    assert Spec.from_dict(spec.to_dict()) == spec
    cost = cost_or_refusal(spec) if evaluated else None
    done = []
    for dialect in DIALECTS:
        try:
            text = dump(spec, dialect)
        except EinmapError as error:
            problems = error.problems if isinstance(error, ManyErrors) else [error]
            assert dialect == "older"
            assert [str(p) for p in problems if not any(word in p.message for word in REFUSALS)] == []
            assert [p for p in problems if p.at is None or "arch.nodes[" not in p.at.path] == []
            continue
        again = loads(text)
        assert dump(again, dialect) == text
        assert evaluated is False or is_same(cost_or_refusal(again), cost)
        done.append(dialect)
    if len(done) == 2:
        there = dump(loads(dump(spec, "newer")), "older")
        assert dump(loads(dump(loads(there), "newer")), "older") == there
    return done


@pytest.mark.parametrize("key", SAMPLE)
def test_a_recorded_specification_reads_back(key):
    assert "newer" in check_round_trips(loads(golden()[key]))


@pytest.mark.slow
@pytest.mark.parametrize("key", REST)
def test_every_other_recorded_specification_reads_back(key):
    assert "newer" in check_round_trips(loads(golden()[key]))


@pytest.mark.parametrize("name", sorted(example_paths()))
def test_every_example_reads_back_in_both_dialects(name):
    spec = load(name)
    if spec.raw.get("arch") is None:
        assert dump(spec, "older") == dump(spec, "newer") == dump(spec)
    else:
        assert check_round_trips(spec, evaluated=False) == ["older", "newer"]


@pytest.mark.parametrize("name", ["simple_matmul", "simple_two_matvecs_fused", "eyeriss_conv", "tpu_v4i_matmul"])
def test_every_example_mapping_reads_back(name):
    mapping = load(name).mapping
    assert loads(dump_mapping(mapping)).mapping == mapping


def test_examples_cost_the_same_in_both_dialects():
    whole = {"M": 512, "K": 512, "N": 512}
    assert check_round_trips(load("tpu_v4i", "matmul", "tpu_v4i_matmul", define=whole)) == ["older", "newer"]
    assert check_round_trips(load("simple", "matmul", "simple_matmul")) == ["older", "newer"]


@settings(max_examples=6, deadline=None)
@given(st.integers(0, 2**32))
def test_drawn_specifications_cost_the_same_in_both_dialects(seed):
    rng = random.Random(seed)
    assert "newer" in check_round_trips(Spec.from_dict(reworded(rng, draw_case(rng))))


@pytest.mark.parametrize("seed", range(10))
def test_networks_and_sliding_windows_read_back_and_cost_the_same(seed):
    rng = random.Random(seed)
    assert check_round_trips(Spec.from_dict(reworded(rng, draw_networks(rng)))) == ["newer"]
    assert "newer" in check_round_trips(Spec.from_dict(reworded(rng, draw_windows(rng))))


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**32))
def test_drawn_specifications_with_odd_texts_read_back(seed):
    rng = random.Random(seed)
    spec = Spec.from_dict(reworded(rng, draw_case(rng), has_odd_names=True))
    assert loads(dump(spec)) == spec
    assert Spec.from_dict(spec.to_dict()) == spec


def test_most_drawn_specifications_can_be_evaluated_and_many_written_in_both_dialects():
    evaluable, both = 0, 0
    for seed in range(20):
        rng = random.Random(seed)
        spec = Spec.from_dict(reworded(rng, draw_case(rng)))
        evaluable += not isinstance(cost_or_refusal(spec), str)
        both += is_expressible(spec)
    assert evaluable > 13
    assert both > 5


def is_expressible(spec):
    try:
        return bool(dump(spec, "older"))
    except EinmapError:
        return False
