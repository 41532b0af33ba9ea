"""Branches put together and apart, stages of Pipelines, first tiles: what is computed stays, and bad ones say why."""

import random

import pytest
from tests.mapping.loop_trees import tree
from tests.mapping.test_rewrite_values import cases, done, nodes_of, same_outputs

from einmap import MappingError, Spec, evaluate, execute, load
from einmap.mapping.nodes import Pipeline, Sequential
from einmap.mapping.pretty import pretty
from einmap.mapping.rewrite.stages import group, ungroup
from einmap.mapping.rewrite.text import rewritten

FILES = ("edge_vector", "attention_core", "edge_vector_attention_pipeline")
SMALL = {"N_TOKENS": 8, "D_HEAD": 8, "HEADS": 1}
SPLIT = "nodes[4].nodes[0].nodes[3]"
"""The Pipeline of the shipped mapping: products and softmax."""
CHAIN = Spec.from_dict(
    {
        "workload": {
            "rank_sizes": {"M": 8, "K": 8, "N": 8},
            "bits_per_value": {"All": 8},
            "einsums": ["T[M:m] = A[M:m,K:k]", "Y[P:p,N:n] = T[M:p] * D[N:n]"],
        }
    }
).workload
FUSED = """
[DRAM holds A, D, Y]
for {T: m, Y: p} by 2
  [GLB holds T]
  first:
    for m by 1
      for k by 1
        compute T on MAC
  then:
    for p by 1
      for n by 1
        compute Y on MAC
"""


def after(spec, *steps):
    mapping = spec.mapping
    for step in steps:
        mapping = rewritten(mapping, spec.workload, step)
    return mapping


@pytest.fixture(scope="module")
def piped():
    """The shipped mapping, its cost and its values."""
    spec = load(*FILES, define=SMALL)
    return spec, evaluate(spec), execute(spec).tensors


def test_a_pipeline_is_taken_apart_and_put_together_again(piped):
    spec, cost, _ = piped
    apart = after(spec, f"sequence {SPLIT}")
    assert type(apart.at((4, 0, 3))) is Sequential
    assert evaluate(spec, apart).latency > cost.latency
    again = rewritten(apart, spec.workload, f"pipeline {SPLIT} Array.columns")
    assert again == spec.mapping


@pytest.mark.parametrize(
    "steps",
    [
        [f"sequence {SPLIT}"],
        [f"group {SPLIT} 1 2"],
        [f"group {SPLIT} 0 1", f"ungroup {SPLIT}.nodes[0].nodes[0]"],
        [f"sequence {SPLIT}", f"group {SPLIT} 0 1", f"pipeline {SPLIT} Array.columns"],
    ],
)
def test_stages_are_cut_by_hand_and_values_stay(piped, steps):
    spec, _, values = piped
    mapping = after(spec, *steps)
    assert evaluate(spec, mapping).valid
    assert same_outputs(values, execute(spec, mapping=mapping).tensors), pretty(mapping)


def test_ungroup_undoes_group():
    undone = 0
    for seed, spec, _ in cases(40):
        for p in nodes_of(spec.mapping, Sequential):
            first = random.Random(seed).randrange(len(p.node.branches) - 1)
            changed = done(group, spec.mapping, p.address, (first, first + 1))
            if changed is not None:
                assert ungroup(changed, (*p.address, first, 0)) == spec.mapping
                undone += 1
    assert undone > 3


def test_a_first_tile_is_given_and_taken_away():
    with pytest.raises(MappingError, match="tiles of the intermediate 'T' overlap"):
        rewritten(tree(FUSED), CHAIN, "initial nodes[1] 4")
    held = tree(FUSED.replace("  [GLB holds T]\n", "").replace("for {", "[GLB holds T]\nfor {"))
    begun = rewritten(held, CHAIN, "initial nodes[2] 4")
    assert "for {T: m, Y: p} by 2 (first 4)" in pretty(begun)
    assert rewritten(begun, CHAIN, "initial nodes[2] none") == held
    assert rewritten(begun, CHAIN, "initial nodes[2] T:2,Y:2") == held


@pytest.mark.parametrize(
    ("text", "command", "words"),
    [
        (FUSED, "initial nodes[1] 16", ["first tile of 16", "up to 8"]),
        (FUSED, "initial nodes[1] 0", ["first tile of 0"]),
        (FUSED, "initial nodes[1] 2", ["no initial tile shape"]),
        (FUSED, "initial nodes[1] none", ["no initial tile shape"]),
        (FUSED, "initial nodes[1] T:4", ["no tile shape", "'Y'"]),
        (FUSED, "initial nodes[1] T:4,Y:2", ["as many iterations", "3 for 'T', 4 for 'Y'"]),
        (FUSED, "initial k 2", ["innermost loop over 'k'"]),
        (FUSED, "initial nodes[1] x", ["cannot be read", "initial LOOP SHAPE|none"]),
        (FUSED.replace("for {", "spatial-for {").replace("2\n", "2 on PE.X\n", 1), "initial nodes[1] 4", ["lanes", "serialise"]),
        (FUSED, "group nodes[3] 0 1", ["all branches"]),
        (FUSED, "group nodes[3] 0 2", ["neighbours"]),
        (FUSED, "group nodes[3] 0", ["cannot be read", "group SPLIT BRANCH BRANCH"]),
        (FUSED, "group nodes[0] 0 1", ["not a split"]),
        (FUSED, "ungroup nodes[3]", ["no branch of another one"]),
        (FUSED, "sequence", ["take turns already", "pipeline"]),
        (FUSED, "pipeline nodes[3] X", ["'X'", "Array.X"]),
        (FUSED, "pipeline nodes[3] A.X more", ["cannot be read"]),
    ],
)  # fmt: skip
def test_what_does_not_apply_is_refused_with_the_reason(text, command, words):
    with pytest.raises(MappingError) as caught:
        rewritten(tree(text), CHAIN, command)
    assert [word for word in words if word not in str(caught.value)] == []


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (f"pipeline {SPLIT}", ["a Pipeline already"]),
        (f"pipeline {SPLIT}.nodes[1].nodes[1]", ["inside a stage", "ungroup"]),
        (f"ungroup {SPLIT}", ["a Pipeline", "sequence"]),
        (f"ungroup {SPLIT}.nodes[1].nodes[1]", ["other nodes stand above", "sink"]),
        (f"merge {SPLIT}", ["Pipeline", "sequence"]),
    ],
)
def test_what_a_pipeline_does_not_take_is_refused_with_the_reason(piped, command, words):
    assert isinstance(piped[0].mapping.at((4, 0, 3)), Pipeline)
    with pytest.raises(MappingError) as caught:
        after(piped[0], command)
    assert [word for word in words if word not in str(caught.value)] == []
