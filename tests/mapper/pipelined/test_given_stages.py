"""A given Pipeline is completed as brute force does it: of all trees that are like it the best."""

import math
import random
from dataclasses import replace

import pytest
from tests.amounts import few_and_many
from tests.mapper.given_matching import Matcher
from tests.mapper.pipelined.brute import Brute
from tests.mapper.pipelined.test_against_brute_force import VALUES, drawn, forked, softmax

import einmap
from einmap.errors import EinmapError, MappingError, NoMappingError, NotSupportedError
from einmap.mapping.nodes import PerEinsum, Pipeline, Spatial, Storage, Temporal
from einmap.mapping.template import AnyPlace, OpenCompute, PartialMapping, StageBegin
from einmap.numbers import divisors


def temporal(variable, shape):
    return Temporal(PerEinsum(variable), PerEinsum(shape))


def stage(rng, einsum, own, left):
    """What a stage is given. `own`: tensors that it does not hand on; `left`: tile shapes above it."""
    variable, tensor = rng.choice(list(left)), Storage((rng.choice(own),), "Buffer")
    loop = temporal(variable, rng.choice(divisors(left[variable])))
    lanes = Spatial(PerEinsum(variable), PerEinsum(1), "Array", "X")
    kinds = [
        [AnyPlace()],
        [tensor, AnyPlace()],
        [loop, AnyPlace()],
        [AnyPlace(), tensor, AnyPlace()],
        [AnyPlace(), lanes],
    ]
    return [*rng.choice(kinds), OpenCompute(einsum.name)]


def given_pipeline(rng, brute, loops):
    """A Pipeline below some loops, for each Einsum what it is given."""
    given = {}
    for i, einsum in enumerate(brute.einsums):
        own = sorted(einsum.tensors - {*brute.handed})
        left, nodes = dict(einsum.bounds), [Storage(tuple(own), "Main")]
        for named, n in loops:
            left[named[i]] //= n
            nodes.append(temporal(named[i], left[named[i]]))
        nodes.append(Storage(tuple(t for t in brute.handed if t in einsum.tensors), "Buffer"))
        nodes += [StageBegin("here", i, "Array", "X"), *stage(rng, einsum, own, left)]
        given[einsum.name] = PartialMapping(tuple(nodes))
    return given


def row(mapping, einsum, tensors):
    """The nodes of one Einsum, without splits and other tensors."""
    nodes = []
    for node in (placed.node for placed in mapping.path_of[einsum]):
        if isinstance(node, Storage):
            held = tuple(t for t in node.tensors if t in tensors)
            nodes += [replace(node, tensors=held)] if held else []
        elif isinstance(node, Temporal | Spatial):
            variable, shape = (PerEinsum(x.of(einsum)) for x in (node.rank_variable, node.tile_shape))
            nodes.append(replace(node, rank_variable=variable, tile_shape=shape))
        elif not isinstance(node, Pipeline):
            nodes.append(node)
    return nodes


def completed(seed):
    """Whether a random Pipeline can be completed, after the comparison of the best completions."""
    rng = random.Random(seed)
    case, keeps = drawn(rng, 2)
    brute = Brute(case, keeps)
    every = list(brute.loops())
    if not every:
        return False
    loops = rng.choice(every)
    given = given_pipeline(rng, brute, loops)
    levels = {leaf.name: i for i, leaf in enumerate(brute.spec.arch().path("MAC"))}

    def like(other, chains):
        if other != loops or any(chain.above for chain in chains):
            return False
        mapping = einmap.Spec.from_dict({**brute.roomy.to_dict(), "mapping": brute.tree(other, chains)}).mapping
        for einsum in brute.einsums:
            nodes = tuple(node for node in given[einsum.name].nodes if not isinstance(node, StageBegin))
            matcher = Matcher(nodes, dict(einsum.bounds), levels)
            if not any(True for _ in matcher.ways(row(mapping, einsum.name, einsum.tensors))):
                return False
        return True

    goal = rng.choice(("latency", "latency", "energy_delay_product", "energy"))
    best = brute.best(VALUES[goal], like)
    try:
        ours = einmap.map_workload(brute.spec, given=given, metrics=goal)
    except (MappingError, NoMappingError):
        assert math.isinf(best), seed
        return False
    assert ours.optimal
    assert math.isclose(VALUES[goal](ours.cost.energy, ours.cost.latency), best, rel_tol=1e-9), seed
    for einsum in brute.einsums:
        above = row(ours.mapping, einsum.name, einsum.tensors)[1 : len(loops) + 1]
        assert above == [node for node in given[einsum.name].nodes if isinstance(node, Temporal)][: len(loops)]
    assert isinstance(ours.mapping.nodes[-1], Pipeline)
    return True


@few_and_many("seeds, least", ((2,), 1), (range(20, 50), 20), part="fusion")
def test_a_given_pipeline_is_completed_as_brute_force_does_it(seeds, least):
    assert sum(map(completed, seeds)) >= least


HELD = "  - !Storage {component: Buffer, tensors: [T1]}"
STAGES = [
    "    - !Nested {nodes: [!Any {}, !Compute {einsum: T1}]}",
    "    - !Nested {nodes: [!Any {}, !Compute {einsum: Z, component: Second}]}",
]


def written(tmp_path, above=(HELD,), stages=STAGES):
    """A file with a Pipeline that is given in part."""
    main = "  - !Storage {component: Main, tensors: [A, B, D, Z]}"
    loop = "  - !Temporal {rank_variable: m, tile_shape: 2}"
    lines = ["given:", "  nodes:", main, loop, *above, "  - !Pipeline", "    nodes:", *stages]
    path = tmp_path / "given.yaml"
    path.write_text("\n".join(lines))
    return path


def test_a_given_pipeline_of_a_file_is_completed(tmp_path):
    found = einmap.map_workload(forked(), given=written(tmp_path), metrics="latency")
    # 128 operations on each Compute, in the 4 tiles that are given; of one row each there would be 32
    assert found.cost.latency == 128 + 128 / 4
    assert found.optimal
    assert found.reason.startswith("every mapping like the given one, in which no other tensor stays inside")
    (row,) = found.cost.pipelines
    assert (row.tiles, [stage.einsums for stage in row.stages]) == (4, [("T1",), ("Z",)])


def test_a_mapping_with_a_pipeline_is_like_itself():
    best = einmap.map_workload(forked(), metrics="latency", max_pipeline_stages=2)
    again = einmap.map_workload(forked(), given=best.mapping, metrics="latency")
    assert again.cost.latency == best.cost.latency == 132
    assert einmap.evaluate(forked(), again.mapping) == again.cost


def test_einsums_that_take_turns_in_a_stage_are_like_themselves():
    # of the exponentials nothing lies in main memory
    options = {"metrics": "latency", "share_inputs": False}
    best = einmap.map_workload(softmax(), max_pipeline_stages=3, max_einsums_per_stage=2, **options)
    again = einmap.map_workload(softmax(), given=best.mapping, **options)
    assert again.cost.latency == best.cost.latency == 134
    assert [stage.einsums for stage in again.cost.pipelines[0].stages] == [("S",), ("E", "D"), ("Z",)]


def test_a_pipeline_in_a_cascade_leaves_the_others_by_themselves_or_in_pipelines_of_their_own(tmp_path):
    case = forked().to_dict()
    case["workload"]["einsums"] += ["U[m, p] = G[m, k] * H[k, p]", "V[m, p] = J[m, k] * L[k, p]"]
    spec, given = einmap.Spec.from_dict(case), written(tmp_path)
    alone = einmap.map_workload(spec, given=given, metrics="latency")
    assert alone.cost.latency == 160 + 128 + 128
    both = einmap.map_workload(spec, given=given, metrics="latency", max_pipeline_stages=2)
    # U and V need nothing of each other
    assert both.cost.latency == 160 + 128
    assert "every cascade of Pipelines of at most 2 stages, of Einsums without a given mapping" in both.reason


@pytest.mark.parametrize(
    ("change", "text", "line"),
    [
        pytest.param({"above": ()}, "'T1' is handed on, and is not held between the loops", 5, id="not held"),
        pytest.param(
            {"above": (HELD.replace("T1", "T1, B"),)}, "'B' is held right above the Pipeline", 6, id="not handed on"
        ),
        pytest.param({"stages": STAGES[::-1]}, "in another order than the workload", 6, id="order"),
        pytest.param({"stages": STAGES[:1]}, "a Pipeline needs two stages or more, found 1", 6, id="one stage"),
    ],
)
def test_stages_that_are_not_searched_are_refused_with_their_place(tmp_path, change, text, line):
    with pytest.raises(EinmapError, match=text) as refused:
        einmap.map_workload(forked(), given=written(tmp_path, **change), metrics="latency")
    assert refused.value.at.line == line


def test_what_cannot_be_completed_is_told(tmp_path):
    case = forked().to_dict()
    case["arch"]["nodes"][1]["size"] = 8
    with pytest.raises(NoMappingError, match="no mapping has a Pipeline like the given one") as error:
        einmap.map_workload(einmap.Spec.from_dict(case), given=written(tmp_path), metrics="latency")
    assert error.value.at.line == 6


def test_what_pipelines_do_not_know_is_refused_beside_given_stages(tmp_path):
    case = forked().to_dict()
    case["arch"]["nodes"][1]["buffering"] = "single"
    with pytest.raises(NotSupportedError, match="takes turns"):
        einmap.map_workload(einmap.Spec.from_dict(case), given=written(tmp_path), metrics="latency")
