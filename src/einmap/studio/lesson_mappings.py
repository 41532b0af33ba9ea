"""Lessons on the blocks: mappings to begin with, numbers of other mappings, and checks of the one that is there."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from importlib import resources

from einmap.emit.emit import emit
from einmap.frontends.yaml.spec import load
from einmap.mapping.mapping import Mapping
from einmap.mapping.nodes import Compute, Node, PerEinsum, Storage, Temporal
from einmap.mapping.rewrite.text import rewritten
from einmap.model.evaluate import evaluate, workings_of
from einmap.model.explanation.cases import cases_of
from einmap.model.explanation.values import NodeCases
from einmap.report.text.formatting import percent
from einmap.search.census import Census, Tie, take_census
from einmap.search.experiment import Question
from einmap.spec.spec import Spec
from einmap.units import format_count, format_si

SIZE = 8
"""Extent of each rank of the product whose loops change places."""
BITS = 8
"""Bits of a value, each of which is an action."""
LANES = 4
"""Lanes among which the partitioned product is divided, and values of B that its buffer may hold."""
MOST = 49_000
"""Mappings of a mapspace that is looked at as a whole."""
NEAR = 1.1
"""A mapping is found where it takes this times the least energy at most."""

type Table = list[list[str]]


def nest(order: str) -> Spec:
    """A product, each loop one value at a time, and everything in the buffer directly above the compute."""
    spec = load("simple", "matmul", define={"M": SIZE, "K": SIZE, "N": SIZE, "BITS": BITS})
    loops = tuple(Temporal(PerEinsum(variable), PerEinsum(1)) for variable in order)
    tensors = ("A", "B", "Z")
    nodes: tuple[Node, ...] = (
        Storage(tensors, "MainMemory"),
        *loops,
        Storage(tensors, "GlobalBuffer"),
        Compute("Z", "MAC"),
    )
    return spec.with_mapping(Mapping(nodes))


def _case(spec: Spec, tensor: str, component: str = "GlobalBuffer") -> NodeCases:
    """The four cases of a tensor in a buffer."""
    (traffic,) = workings_of(spec).traffic.values()
    return next(node for node in cases_of(traffic) if (node.tensor, node.component) == (tensor, component))


def stationary_table() -> Table:
    """Values that each order of the loops moves, with the tensor held that can stay."""
    rows = [["loop order", "what stays", "values to and from main memory: A", "B", "Z", "energy"]]
    for order, stays in (("mnk", "Z"), ("mkn", "A"), ("nkm", "B"), ("kmn", "A")):
        spec = nest(order)
        assert spec.mapping is not None
        mapping = rewritten(spec.mapping, spec.workload, f"hoist {stays}@GlobalBuffer above {order[-1]}")
        cost = evaluate(spec, mapping)
        bits = cost.count_by("component", "tensor")
        values = [format_count(bits["MainMemory", tensor] / BITS) for tensor in "ABZ"]
        rows.append([" ".join(order), stays, *values, format_si(cost.energy, "J")])
    return rows


def is_fetched_once(spec: Spec) -> bool:
    """Whether each chunk of B comes into the buffer once."""
    return _case(spec, "B").fetches == 1


def weights_stay(spec: Spec) -> bool:
    """Whether B is fetched once, one value at a time."""
    case = _case(spec, "B")
    return case.fetches == 1 and case.held == case.visits


def cases_table() -> Table:
    """The four cases of each tensor in the buffer, as the lesson begins."""
    spec = in_blocks()
    rows = [["in GlobalBuffer", "each chunk fetched", "distinct chunks", "each value used", "values of a tile"]]
    for tensor in "ABZ":
        case = _case(spec, tensor)
        tile = "×".join(map(str, case.shape))
        rows.append([tensor, f"{case.fetches} x", format_count(case.chunks or 0), f"{case.reuse:.4g} x", tile])
    return rows


def in_blocks() -> Spec:
    """The shipped mapping of a product."""
    return load("simple", "matmul", "simple_matmul")


def elementwise() -> Spec:
    """A product of elements with every tensor in a buffer that may be left out."""
    spec = load("simple", "elementwise")
    spec = spec.set("arch.nodes.GlobalBuffer.tensors", {"keep": "Nothing", "may_keep": "All"})
    tensors = ("A", "B", "Z")
    loop = Temporal(PerEinsum("i"), PerEinsum(1))
    nodes = (Storage(tensors, "MainMemory"), Storage(tensors, "GlobalBuffer"), loop, Compute("Z", "MAC"))
    return spec.with_mapping(Mapping(nodes))


def _bypasses(spec: Spec) -> list[tuple[str, float]]:
    """Joules when each tensor alone goes past the buffer that still holds it."""
    mapping, found = spec.mapping, []
    assert mapping is not None
    for placed in mapping.placed:
        if isinstance(placed.node, Storage) and placed.node.component == "GlobalBuffer":
            for tensor in placed.node.tensors:
                past = rewritten(mapping, spec.workload, f"bypass {tensor}@nodes[{placed.address[0]}]")
                found.append((tensor, evaluate(spec, past).energy))
    return found


def bypass_table() -> Table:
    """Energy that is saved when each tensor alone goes past the buffer."""
    spec = elementwise()
    whole = evaluate(spec).energy
    rows = [["past the buffer", "energy", "saved"], ["nothing", format_si(whole, "J"), "-"]]
    return rows + [[t, format_si(e, "J"), percent(1 - e / whole)] for t, e in _bypasses(spec)]


def is_bypassed(spec: Spec) -> bool:
    """Whether less energy is taken than at the beginning, and no further tensor saves any."""
    energy = evaluate(spec).energy
    return energy < evaluate(elementwise()).energy and all(past >= energy for _, past in _bypasses(spec))


def vector() -> Spec:
    """A product of matrix and vector that is not partitioned, on several lanes."""
    spec = load("simple", "matrix_vector").set("arch.nodes.MAC.spatial", [{"name": "lanes", "fanout": LANES}])
    tensors = ("A", "B", "Z")
    loops = [Temporal(PerEinsum(variable), PerEinsum(1)) for variable in "mk"]
    nodes = (Storage(tensors, "MainMemory"), loops[0], Storage(tensors, "GlobalBuffer"), loops[1], Compute("Z", "MAC"))
    return spec.with_mapping(Mapping(nodes))


def _after(spec: Spec, steps: Sequence[str]) -> Spec:
    mapping = spec.mapping
    assert mapping is not None
    for step in steps:
        mapping = rewritten(mapping, spec.workload, step)
    return spec.with_mapping(mapping)


def partition_table() -> Table:
    """Traffic and latency by the tile of k."""
    moved = ["values to and from main memory: B", "Z"]
    rows = [["k in tiles of", *moved, "values of B in the buffer", "latency", "over the lanes"]]
    for tile in (1, 2, LANES):
        above = [f"split k {tile}"] if tile > 1 else []
        above += ["sink nodes[2] below k#1", "interchange nodes[1]", "hoist B@GlobalBuffer above m"]
        spec = _after(vector(), above)
        cost = evaluate(spec)
        bits = cost.count_by("component", "tensor")
        values = [format_count(bits["MainMemory", tensor] / BITS) for tensor in "BZ"]
        lanes = evaluate(_after(spec, ["spread k#2 MAC.lanes"])).latency if tile > 1 else cost.latency
        held = math.prod(_case(spec, "B").shape)
        rows.append([str(tile), *values, str(held), format_si(cost.latency, "s"), format_si(lanes, "s")])
    return rows


def is_partitioned(spec: Spec) -> bool:
    """Whether B is fetched once, a few values at a time, and every lane is busy."""
    case = _case(spec, "B")
    is_reused = case.fetches == 1 and math.prod(case.shape) <= LANES
    return is_reused and any(row.usage == 1 for row in evaluate(spec).spatial_usage)


def systolic() -> Spec:
    """A product on a systolic array, whose input activations move once."""
    with resources.as_file(resources.files("einmap.studio") / "systolic.yaml") as path:
        return load(path)


def systolic_table() -> Table:
    """Traffic of the two orders of the loops over tiles."""
    rows = [["outer loop", "values to and from DRAM: IA", "W", "OA", "energy"]]
    turned = ["sink IA@InputBuffer below n#1", "interchange nodes[1]", "hoist W@WeightBuffer above m#1"]
    for name, steps in (("m", []), ("n", turned)):
        cost = evaluate(_after(systolic(), steps))
        moved = cost.count_by("component", "tensor")
        values = [format_count(moved["DRAM", tensor] / BITS) for tensor in ("IA", "W", "OA")]
        rows.append([f"tiles of {name}", *values, format_si(cost.energy, "J")])
    return rows


def loops_with_moves(spec: Spec) -> str:
    """The loops of the mapping as it is, with `mvin` and `mvout`."""
    return emit(spec, "pseudo")


def weights_move_once(spec: Spec) -> bool:
    """Whether weights come from DRAM once, a strip of them at a time."""
    case = _case(spec, "W", "WeightBuffer")
    return case.fetches == 1 and _case(spec, "IA", "InputBuffer").fetches > 1


def worst() -> Spec:
    """A mapping that holds nothing for longer than one operation."""
    return nest("mnk")


@cache
def _census() -> Census:
    spec = worst()
    question = Question(spec, "Z", "energy", spec.model_options.semantics)
    return take_census(question, MOST, workers=1)


def spread_table() -> Table:
    """How many mappings there are, and what parts of them cost at most."""
    census, parts = _census(), (0.01, 0.1, 0.5, 1.0)
    space = census.problem.space
    rows = [["mappings", "valid", *(f"energy over the least: of {percent(part)} at most" for part in parts)]]
    ratios = [f"{value / census.optimum.value:.3g} x" for value in census.quantiles(parts)]
    rows.append([format_count(space.size), percent(census.valid.value), *ratios])
    return rows


def ties_table() -> Table:
    """Mappings that one number does not tell apart, and how far apart they are in energy."""
    rows = [["mappings that tie", "how many", "least energy", "most energy", "apart"]]
    census = _census()
    for name, tie in (
        ("at the least latency", census.fastest),
        ("at the least traffic of main memory", census.least_traffic),
    ):
        rows.append([name, *_tie(tie)])
    return rows


def _tie(tie: Tie | None) -> list[str]:
    assert tie is not None
    energies = [format_si(energy, "J") for energy in (tie.lowest_energy, tie.highest_energy)]
    return [format_count(tie.count), *energies, f"{tie.spread:.3g} x"]


def is_near_the_best(spec: Spec) -> bool:
    """Whether no mapping takes much less energy."""
    return spec.workload == worst().workload and evaluate(spec).energy <= NEAR * _census().optimum.value
