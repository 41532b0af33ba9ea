"""Lessons: a short text, a mapping to begin with, a task, and a check. Numbers in them are computed, not typed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from einmap.errors import MappingError, SpecError, did_you_mean
from einmap.frontends.yaml.spec import load
from einmap.mapping.mapping import Mapping
from einmap.mapping.nodes import Compute, Node, PerEinsum, Storage, Temporal
from einmap.mapping.rewrite.text import rewritten
from einmap.model.evaluate import evaluate, workings_of
from einmap.model.explanation.cases import cases_of
from einmap.model.explanation.values import NodeCases
from einmap.report.text.formatting import percent
from einmap.spec.spec import Spec
from einmap.units import format_count, format_si

SIZE = 8
"""Extent of each rank of the product whose loops change places."""
BITS = 8
"""Bits of its values, each of which is an action."""

type Table = list[list[str]]


@dataclass(frozen=True)
class Lesson:
    """`begin`: the specification with its mapping; `table`: numbers, the first row their names; `passed`: the check."""

    title: str
    text: str
    task: str
    begin: Callable[[], Spec]
    table: Callable[[Spec], Table]
    passed: Callable[[Spec], bool]


def lesson_named(name: str) -> Lesson:
    """The lesson of that name. Raises SpecError."""
    if name not in LESSONS:
        raise SpecError(f"there is no lesson {name!r}", hint=did_you_mean(name, LESSONS, listing="lessons"))
    return LESSONS[name]


def shown(name: str, spec: Spec) -> dict[str, Any]:
    """A lesson as plain data for the page; `spec` has the mapping as it is."""
    lesson = lesson_named(name)
    told = {"name": name, "title": lesson.title, "text": lesson.text, "task": lesson.task}
    return {**told, "passed": _has_passed(lesson, spec), "table": _table(name)}


@cache
def _table(name: str) -> Table:
    lesson = LESSONS[name]
    return lesson.table(lesson.begin())


def _has_passed(lesson: Lesson, spec: Spec) -> bool:
    """Whether the check holds; not for a mapping that does not fit, or has other tensors."""
    try:
        return lesson.passed(spec)
    except (MappingError, StopIteration):
        return False


def _nest(order: str) -> Spec:
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


def _case(spec: Spec, tensor: str) -> NodeCases:
    """The four cases of a tensor in the buffer."""
    traffic = workings_of(spec).traffic["Z"]
    return next(node for node in cases_of(traffic) if (node.tensor, node.component) == (tensor, "GlobalBuffer"))


def _stationary_table(_: Spec) -> Table:
    rows = [["loop order", "what stays", "values to and from main memory: A", "B", "Z", "energy"]]
    for order, stays in (("mnk", "Z"), ("mkn", "A"), ("nkm", "B"), ("kmn", "A")):
        spec = _nest(order)
        assert spec.mapping is not None
        mapping = rewritten(spec.mapping, spec.workload, f"hoist {stays}@GlobalBuffer above {order[-1]}")
        cost = evaluate(spec, mapping)
        bits = cost.count_by("component", "tensor")
        values = [format_count(bits["MainMemory", tensor] / BITS) for tensor in "ABZ"]
        rows.append([" ".join(order), stays, *values, format_si(cost.energy, "J")])
    return rows


def _weights_stay(spec: Spec) -> bool:
    case = _case(spec, "B")
    return case.fetches == 1 and case.held == case.visits


def _cases_table(spec: Spec) -> Table:
    rows = [["in GlobalBuffer", "each chunk fetched", "distinct chunks", "each value used", "values of a tile"]]
    for tensor in "ABZ":
        case = _case(spec, tensor)
        tile = "×".join(map(str, case.shape))
        rows.append([tensor, f"{case.fetches} x", format_count(case.chunks or 0), f"{case.reuse:.4g} x", tile])
    return rows


def _blocks() -> Spec:
    return load("simple", "matmul", "simple_matmul")


def _elementwise() -> Spec:
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


def _bypass_table(spec: Spec) -> Table:
    whole = evaluate(spec).energy
    rows = [["past the buffer", "energy", "saved"], ["nothing", format_si(whole, "J"), "-"]]
    return rows + [[t, format_si(e, "J"), percent(1 - e / whole)] for t, e in _bypasses(spec)]


def _is_bypassed(spec: Spec) -> bool:
    energy = evaluate(spec).energy
    return energy < evaluate(_elementwise()).energy and all(past >= energy for _, past in _bypasses(spec))


LESSONS: dict[str, Lesson] = {
    "stationary": Lesson(
        "What stays: stationarity",
        "Z[m, n] = A[m, k] * B[k, n] with one loop for each rank. Held directly above the compute, a value comes "
        "from main memory again and again. A tensor above the innermost loop, which does not index it, stays "
        "while that loop runs: it is stationary. The order of the loops decides which one can be.",
        "Let the weights B stay, one value at a time, each fetched once: bring the loop over m to the bottom, and"
        " B above it.",
        lambda: _nest("mnk"),
        _stationary_table,
        _weights_stay,
    ),
    "four_cases": Lesson(
        "Four cases: above and below, in the tensor and not",
        "A loop above a storage node whose rank is not in the tensor fetches each chunk again; one whose rank is "
        "in it makes other chunks. Below the node, a rank that is not in the tensor uses each value again, and "
        "one that is in it makes the tile larger.",
        "The loop over m stands above B in GlobalBuffer, and m is not in B: each chunk is fetched again. Move B "
        "so that each is fetched once.",
        _blocks,
        _cases_table,
        lambda spec: _case(spec, "B").fetches == 1,
    ),
    "bypass": Lesson(
        "Past a memory: bypassing",
        "Z[i] = A[i] * B[i]: no value is used twice. A buffer that holds such a tensor writes it and reads it for"
        " nothing.",
        "Let tensors go past GlobalBuffer (choose the block, or press Delete) until no further one saves energy.",
        _elementwise,
        _bypass_table,
        _is_bypassed,
    ),
}  # fmt: skip
"""Lessons by name, in the order in which they are taken."""
