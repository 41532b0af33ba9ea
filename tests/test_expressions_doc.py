"""What docs/expressions.md says is so."""

import re
from pathlib import Path

import pytest

from einmap import load
from einmap.expressions.arithmetic import evaluate
from einmap.expressions.scope import Scope
from einmap.frontends.yaml.parsing.parse import parse_yaml
from einmap.spec.raw import to_python

PAGE = (Path(__file__).parent.parent / "docs" / "expressions.md").read_text()
VALUES = re.findall(r"^\| (`.*`) \| ([^|]*) \|$", PAGE.partition("## Names")[0], re.MULTILINE)
WORDS = {"true": True}
MATMUL = load("simple", "matmul", "simple_matmul")


@pytest.mark.parametrize(("expressions", "values"), VALUES)
def test_the_values_in_the_table(expressions, values):
    plain = re.sub(r" \(.*?\)", "", values.partition(":")[0]).split(", ")
    expected = [WORDS[value] if value in WORDS else int(value) for value in plain]
    assert [evaluate(text, Scope()) for text in re.findall(r"`([^`]*)`", expressions)] == expected


def test_text_in_lists_is_not_evaluated():
    spec = MATMUL.set("variables", {"b": 7, "inside": [1, "b"], "whole": "[1, b]"})
    assert spec.variables.lookup("inside") == [1, "b"]
    assert spec.variables.lookup("whole") == [1, 7]


def test_the_example_of_a_mixed_set():
    text = re.search(r"`keep: (~Above if .*?)`", PAGE)[1].replace("GLB", "MainMemory").replace("weight", "B")
    spec = MATMUL.set("variables", {"word": 8}).set("arch.nodes.GlobalBuffer.tensors", {"keep": text})
    keep = spec.arch().leaves["GlobalBuffer"].placement.keep
    assert keep.given({"MainMemory": frozenset("AB")}) == {"Z"}


def test_the_examples_of_comparisons():
    limits = to_python(parse_yaml(re.search(r"```yaml\n(.*?)```", PAGE, re.DOTALL)[1], "f.yaml"))
    dimension = {"name": "X", "fanout": 2, "loop_bounds": limits["loop_bounds"]}
    spec = MATMUL.set("arch.nodes.GlobalBuffer.spatial", [dimension])
    buffer = (
        spec.set("arch.nodes.GlobalBuffer.tensors", {"tile_shape": limits["tile_shape"]}).arch().find("GlobalBuffer")
    )
    assert buffer.spatial[0].loop_bounds[0].variables == {"n", "k"}
    assert buffer.placement.tile_shape[0].holds({"m": 16, "n": 16, "k": 512})
    assert not buffer.placement.tile_shape[0].holds({"m": 16, "n": 17, "k": 1})


def test_the_example_of_a_bound():
    bound = re.search(r"`(0 <= m .*?)`", PAGE)[1]
    spec = MATMUL.set("workload.rank_sizes.M", 8).set("workload.iteration_space_shape", {"m": bound})
    assert spec.workload.find("Z").extents["m"] == 7  # 0, 2, 4, 6
