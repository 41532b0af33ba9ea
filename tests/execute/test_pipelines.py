"""The simulator judges Pipelines: stages turn by turn on real data, on random mappings."""

import math
import random
from collections import Counter

import pytest
from tests.execute.agreement import differences, seconds_of
from tests.model.test_pipelines import CHAIN, THREE, TREE, spec
from tests.random_specs.cases import REFUSALS, draw_case, draw_networks
from tests.random_specs.nodes import changed, memories, spec_of
from tests.random_specs.simulated import a_pipeline, lines

import einmap
from einmap.arch.component import Network
from einmap.mapping.mapping import Mapping
from einmap.mapping.nodes import Pipeline, Spatial, Temporal


def drawn(rng, draw=draw_case):
    """A random cascade of which one split is a Pipeline, its stages on lanes of a fanout of their own."""
    case = draw(rng)
    if not a_pipeline(rng, case):
        return None
    try:
        found = spec_of(case)
        return found, einmap.evaluate(found)
    except (*REFUSALS, einmap.SpecError):
        return None


def is_even(found):
    """Whether every loop cuts what it meets into equal tiles."""
    for einsum in found.workload.einsums:
        left = dict(einsum.bounds)
        for placed in found.mapping.path_of[einsum.name]:
            if isinstance(placed.node, Temporal | Spatial):
                variable, shape = placed.node.rank_variable.of(einsum.name), placed.node.tile_shape.of(einsum.name)
                first = placed.node.initial_tile_shape.of(einsum.name) if isinstance(placed.node, Temporal) else None
                if left[variable] % shape or first not in (None, shape):
                    return False
                left[variable] = shape
    return True


def simulated_latency(found, execution):
    """Seconds of the whole tree, tile by tile as they went.

    None where the tiles of a stage are not equal, or some of what it does is not of a tile: a buffer further out that is
    written back later.
    """
    inside, total = set(), 0.0
    for placed in found.mapping.placed:
        if isinstance(placed.node, Pipeline):
            names = [[p[-1].node.einsum for p in Mapping(branch).paths] for branch in placed.node.branches]
            inside |= {name for of_stage in names for name in of_stage}
            seconds = _of_pipeline(found, execution, placed.address, names)
            if seconds is None:
                return None
            total += seconds
    for name in found.mapping.path_of:
        if name not in inside:
            total += _seconds(found, name, execution.per_instance)[0] * repeats(found, name)
    return total


def repeats(found, einsum):
    return found.workload.n_instances * found.workload.by_name[einsum].n_instances


def _of_pipeline(found, execution, address, names):
    runs, common, users = {}, Counter(), {}
    for (at, run, tile), actions in execution.turns.items():
        if at == address:
            runs.setdefault(run, {})[tile] = [[_seconds(found, name, actions) for name in stage] for stage in names]
    waits = depths(found, names)
    first = [[seconds for seconds, _ in stage] for stage in runs[0][0]]
    total = 0.0
    for tiles in runs.values():
        done = [0.0] * (max(waits) + 1)
        for tile in sorted(tiles):
            taken = [sum(seconds for seconds, _ in stage) for stage in tiles[tile]]
            if any(not math.isclose(a, sum(b), rel_tol=1e-9) for a, b in zip(taken, first, strict=True)):
                return None
            for depth in range(len(done)):
                longest = max(t for t, wait in zip(taken, waits, strict=True) if wait == depth)
                done[depth] = max(done[depth], done[depth - 1] if depth else 0.0) + longest
        total += done[-1]
    n_tiles = sum(map(len, runs.values()))
    for number, stage in enumerate(names):
        for place, name in enumerate(stage):
            whole, busy = _seconds(found, name, execution.per_instance)
            if not math.isclose(whole, runs[0][0][number][place][0] * n_tiles, rel_tol=1e-9):
                return None
            for component, seconds in busy.items():
                if component not in private(found, name):
                    common[component] += seconds
                    users.setdefault(component, set()).add(number)
    shared = [seconds for component, seconds in common.items() if len(users[component]) > 1]
    return max([total, *shared]) * repeats(found, names[0][0])


def private(found, einsum):
    path = [leaf.name for leaf in found.arch(einsum).path(found.mapping.path_of[einsum][-1].node.component)]
    return path[path.index("Stages") :] if "Stages" in path else path[path.index("Array") :]


def depths(found, names):
    """For how many stages, one after the other, each waits."""
    by_name, waits = found.workload.by_name, []
    for number, stage in enumerate(names):
        read = {t for name in stage for t in by_name[name].tensors}
        before = [
            waits[other] + 1 for other in range(number) if any(by_name[name].outputs & read for name in names[other])
        ]
        waits.append(max(before, default=0))
    return waits


def _seconds(found, einsum, actions):
    """Seconds of one Einsum and of each of its components for the actions of the busiest instances."""
    calls = {}
    for (name, component, _, action), counts in actions.items():
        if name == einsum:
            mine = calls.setdefault(component, {}).setdefault(action, Counter())
            for instance, n in counts.items():
                mine[instance] += n
    busy = {
        component: seconds_of(
            found.arch(einsum).components[component], {action: max(of.values()) for action, of in by_action.items()}
        )
        for component, by_action in calls.items()
    }
    return max(busy.values(), default=0.0), busy


@pytest.mark.parametrize(("tree", "einsums", "latency"), [(TREE, None, 72), (THREE, CHAIN, 6)])
def test_stages_run_turn_by_turn(tree, einsums, latency):
    found = spec(tree, *([einsums] if einsums else []), size=4096)
    cost, execution = einmap.evaluate(found), einmap.execute(found)
    assert differences(found, cost, execution) == []
    assert simulated_latency(found, execution) == cost.latency == latency


def test_random_pipelines_count_hold_and_last_as_the_model_says():
    assert all(n >= least for n, least in zip(compared(range(40)), (11, 6, 4, 2), strict=True))
    # lines of layouts, and networks that each stage has for itself
    assert compared(range(20, 40), plain_lines)[1] >= 1
    assert compared([45, 253], case=draw_networks)[1] == 2


@pytest.mark.slow
@pytest.mark.simulator
def test_more_random_pipelines():
    assert all(n >= 40 for n in compared(range(90, 2000)))
    assert compared(range(90, 1000), plain_lines)[1] >= 40
    assert compared(range(1500), case=draw_networks)[1] >= 8


def plain_lines(rng, tree):
    """Layouts, and nothing that waits within an Einsum: that is a matter of the Einsum alone, and judged elsewhere."""
    lines(rng, tree)
    for node in memories(tree):
        node.pop("banks", None)
        node.pop("buffering", None)


def compared(seeds, change=None, case=draw_case):
    """How many were run, had equal tiles throughout, equal tiles in time, and took less than one after the other."""
    ran, even, timed, shorter = 0, 0, 0, 0
    for seed in seeds:
        rng = random.Random(seed)
        known = drawn(rng, case)
        if known is None:
            continue
        found, cost = known
        try:
            if change is not None:
                found = changed(rng, found, change)
                cost = einmap.evaluate(found)
            execution = einmap.execute(found)
        except (*REFUSALS, einmap.SpecError):
            continue
        wrong = differences(found, cost, execution)
        if is_even(found):
            even += 1
            assert wrong == [], seed
        else:
            assert [d for d in wrong if d[0] != "usage" or d[2] < d[3]] == [], seed
        units = found.arch().components.values()
        plain = all(unit.total_latency is None and not isinstance(unit, Network) for unit in units)
        latency = simulated_latency(found, execution) if plain else None
        ran += 1
        shorter += cost.latency < math.fsum(cost.latency_by_einsum.values()) * (1 - 1e-9)
        if latency is not None:
            timed += 1
            assert math.isclose(latency, cost.latency, rel_tol=1e-9), seed
    return ran, even, timed, shorter
