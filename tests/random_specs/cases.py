"""Random complete specifications of small cascades with LoopTrees that are mostly valid under `exact`.

`draw_case(rng)` gives one as plain dictionaries for `Spec.from_dict`, `valid_case(rng)` draws until `evaluate` takes
it, `cases()` is the Hypothesis strategy of the valid ones; `features(case)` names what a case exercises.

How a LoopTree is drawn: the Einsums are split into consecutive groups, recursively. Each group gets a section of the
tree: storage nodes of some levels of the hierarchy and loops between them, then the split. Loops above a split are
over *bundles*: one variable for each Einsum below, such that every intermediate that passes between these Einsums is
cut alike by its producer and its consumers.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

from hypothesis import assume
from hypothesis import strategies as st
from tests.random_specs.archs import draw_arch, draw_network
from tests.random_specs.trees import Trees
from tests.random_specs.workloads import WINDOWS, Builder, Case, chance, cut_space, draw_bits, draw_workload

from einmap import CapacityError, Cost, FanoutError, MappingError, Spec, evaluate
from einmap.errors import NotSupportedError, SpecError

REFUSALS = (MappingError, CapacityError, FanoutError, NotSupportedError)
"""What `evaluate` may say to a drawn case; anything else is a bug."""


def valid_case(rng: random.Random, draw: Callable[[random.Random], Case] | None = None) -> tuple[Spec, Cost]:
    """A specification drawn by `draw` that `evaluate` accepts, with its cost under `exact`."""
    while True:
        found = evaluated((draw or draw_case)(rng))
        if found is not None:
            return found


def valid_windows(rng: random.Random) -> tuple[Spec, Cost]:
    """One with sliding windows."""
    return valid_case(rng, draw_windows)


def valid_networks(rng: random.Random) -> tuple[Spec, Cost]:
    """One with networks."""
    return valid_case(rng, draw_networks)


def evaluated(case: Case) -> tuple[Spec, Cost] | None:
    """The specification and its cost; None when the mapping is refused."""
    spec = Spec.from_dict(case)
    try:
        return spec, evaluate(spec)
    except REFUSALS:
        return None


def drawn_cases() -> st.SearchStrategy[Case]:
    """Hypothesis strategy of drawn cases, some of which are refused."""
    return st.randoms(use_true_random=False).map(draw_case)


@st.composite
def cases(draw: st.DrawFn) -> tuple[Spec, Cost]:
    """Hypothesis strategy of valid specifications with their costs."""
    found = evaluated(draw(drawn_cases()))
    assume(found is not None)
    assert found is not None
    return found


def draw_windows(rng: random.Random) -> Case:
    """A specification whose tiles overlap, with `sliding_window` on all nodes or on some."""
    case = draw_case(rng, WINDOWS)
    everywhere = chance(rng, 0.6)
    if everywhere:
        case["model"] = {"sliding_window": True}
    for node in storage_nodes(case["mapping"]["nodes"]):
        if chance(rng, 0.2 if everywhere else 0.8):
            node["sliding_window"] = not everywhere
    return case


def draw_networks(rng: random.Random) -> Case:
    """A specification with one or two networks somewhere below the outermost memory."""
    case = draw_windows(rng) if chance(rng, 0.3) else draw_case(rng)
    nodes = case["arch"]["nodes"]
    for name in ("Noc0", "Noc1")[: rng.choice([1, 1, 2])]:
        nodes.insert(rng.randint(1, len(nodes) - 1), draw_network(rng, name))
    return case


def valid_spaces(rng: random.Random) -> tuple[Spec, Cost]:
    """One of which at least one Einsum has an iteration space that is not a box."""
    while True:
        spec, cost = valid_case(rng, draw_spaces)
        if any(einsum.cuts for einsum in spec.workload.einsums):
            return spec, cost


CUTS = (
    "{v} + {w} < {most}", "{v} >= {w}", "{v} <= {w}", "({v} + {w}) mod 2 = 0", "{v} mod 2 = 0 or {w} = 0",
    "not ({v} = 1 and {w} = 1)", "2*{v} - {w} < {most}",
)  # fmt: skip


def draw_spaces(rng: random.Random) -> Case:
    """A specification with constraints that cut points off the boxes of some Einsums."""
    case = draw_case(rng)
    by_name = Spec.from_dict({"workload": case["workload"]}).workload.by_name
    for einsum in case["workload"]["einsums"]:
        sizes = by_name[einsum["name"]].extents
        wide = [v for v, n in sizes.items() if n > 1]
        if len(wide) > 1 and chance(rng, 0.8):
            v, w = rng.sample(wide, 2)
            cut = rng.choice(CUTS).format(v=v, w=w, most=max(sizes[v], sizes[w]))
            einsum["iteration_space_shape"] = [cut]
            try:
                _ = Spec.from_dict({"workload": case["workload"]}).workload
            except SpecError:
                del einsum["iteration_space_shape"]  # a shared variable would have another size
    return case


def storage_nodes(nodes: list[Case]) -> Iterator[Case]:
    for node in nodes:
        if node["type"] == "Storage":
            yield node
        for branch in node.get("nodes", ()):
            yield from storage_nodes(branch["nodes"])


def draw_case(rng: random.Random, builders: list[tuple[Builder, float]] | None = None) -> Case:
    """One specification: workload, architecture, mapping. The same for the same state of `rng`."""
    einsums, sizes = draw_workload(rng, builders)
    bounds = cut_space(rng, einsums)
    tensors = tuple(dict.fromkeys(t for e in einsums for t in e.tensors))
    arch = draw_arch(rng, tensors)
    workload: Case = {
        "rank_sizes": sizes,
        "bits_per_value": draw_bits(rng, tensors),
        "einsums": [e.written(rng) for e in einsums],
    }
    if bounds:
        workload["iteration_space_shape"] = bounds
    if chance(rng, 0.08):
        workload["n_instances"] = 3
    return {"workload": workload, "arch": {"nodes": arch}, "mapping": {"nodes": Trees(rng, einsums, arch).nodes()}}
