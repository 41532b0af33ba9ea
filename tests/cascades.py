"""Random complete specifications of small cascades with LoopTrees that are mostly valid under `exact`.

`draw_case(rng)` gives one as plain dictionaries for `Spec.from_dict`, `valid_case(rng)` draws until `evaluate` takes
it, `cases()` is the Hypothesis strategy of the valid ones; `features(case)` names what a case exercises.

How a LoopTree is drawn: the Einsums are split into consecutive groups, recursively. Each group gets a section of the
tree: storage nodes of some levels of the hierarchy and loops between them, then the split. Loops above a split are
over *bundles*: one variable for each Einsum below, such that every intermediate that passes between these Einsums is
cut alike by its producer and its consumers.
"""

from __future__ import annotations

import math
import random
import re
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

from hypothesis import assume
from hypothesis import strategies as st

from einmap import CapacityError, Cost, FanoutError, MappingError, Spec, evaluate
from einmap.einsum.parse import parse_einsum
from einmap.einsum.projection import Affine
from einmap.errors import NotSupportedError

MAX_OPERATIONS = 3000
REFUSALS = (MappingError, CapacityError, FanoutError, NotSupportedError)
"""What `evaluate` may say to a drawn case; anything else is a bug."""

type Case = dict[str, Any]
type Projection = tuple[tuple[str, Affine], ...]


def valid_case(rng: random.Random) -> tuple[Spec, Cost]:
    """A drawn specification that `evaluate` accepts, with its cost under `exact`."""
    while True:
        found = evaluated(draw_case(rng))
        if found is not None:
            return found


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


def draw_case(rng: random.Random) -> Case:
    """One specification: workload, architecture, mapping. The same for the same state of `rng`."""
    einsums, sizes = draw_workload(rng)
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
    return {"workload": workload, "arch": {"nodes": arch}, "mapping": {"nodes": _Trees(rng, einsums, arch).nodes()}}


def chance(rng: random.Random, p: float) -> bool:
    return rng.random() < p


# workloads


@dataclass
class DrawnEinsum:
    """One Einsum: `accesses` by tensor, outputs last."""

    name: str
    accesses: dict[str, Projection]
    outputs: tuple[str, ...]
    operation: str
    reduction: str
    extents: dict[str, int]
    is_copy: bool = False
    n_instances: int = 1
    cut: frozenset[str] = frozenset()
    """Variables that do not reach all of their rank."""

    @property
    def tensors(self) -> tuple[str, ...]:
        return tuple(self.accesses)

    def rank_of(self, tensor: str, variable: str) -> tuple[str, Affine] | None:
        """The rank of a tensor that a variable indexes."""
        for rank, index in self.accesses[tensor]:
            if any(v == variable for v, _ in index.terms):
                return rank, index
        return None

    def renamed(self, names: dict[str, str]) -> DrawnEinsum:
        accesses = {
            t: tuple((rank, Affine(tuple((names[v], a) for v, a in i.terms), i.constant)) for rank, i in projection)
            for t, projection in self.accesses.items()
        }
        return replace(self, accesses=accesses, extents={names[v]: n for v, n in self.extents.items()})

    def written(self, rng: random.Random) -> Case:
        """As a dictionary, concise where that can say it."""
        found: Case = {"name": self.name}
        if len(self.outputs) == 1 and chance(rng, 0.7):
            shown = {t: f"{t}[{', '.join(f'{r}: {i}' for r, i in p)}]" for t, p in self.accesses.items()}
            right = re.sub(r"\b[A-Z]\w*\b", lambda m: shown[m[0]], self.operation)
            found["einsum"] = f"{shown[self.outputs[0]]} = {right}"
        else:
            found["operation"] = self.operation
            found["tensor_accesses"] = [
                {"name": t, "projection": {r: str(i) for r, i in p}} | ({"output": True} if t in self.outputs else {})
                for t, p in self.accesses.items()
            ]
        if self.reduction != "sum":
            found["reduction"] = self.reduction
        if self.is_copy:
            found["is_copy_operation"] = True
        if self.n_instances > 1:
            found["n_instances"] = self.n_instances
        return found


@dataclass
class _Text:
    """An Einsum to be parsed: `second` is another output with the same value."""

    text: str
    reduction: str = "sum"
    is_copy: bool = False
    second: str | None = None


type Written = tuple[list[_Text], dict[str, int]]
"""Einsums, and sizes of rank variables that are not drawn freely."""


def draw_workload(rng: random.Random) -> tuple[list[DrawnEinsum], dict[str, int]]:
    """Einsums and sizes of all ranks; at most MAX_OPERATIONS operations in all."""
    kinds, weights = zip(*KINDS, strict=True)
    build = rng.choices(kinds, weights)[0]
    shared_names = chance(rng, 0.6)
    largest = 6
    while True:
        texts, fixed = build(rng)
        einsums = [_parsed(t, fixed, rng, largest) for t in texts]
        if sum(math.prod(e.extents.values()) for e in einsums) <= MAX_OPERATIONS:
            break
        largest = max(2, largest - 1)
    if not shared_names:
        einsums = [
            e.renamed({v: f"{v}_{i}" if chance(rng, 0.6) else v for v in e.extents}) for i, e in enumerate(einsums)
        ]
    for e in einsums:
        e.n_instances = 2 if chance(rng, 0.04) else 1
    sizes: dict[str, int] = {}
    for e in einsums:
        for projection in e.accesses.values():
            for rank, index in projection:
                high = index.constant + sum(a * (e.extents[v] - 1) for v, a in index.terms if a > 0)
                sizes[rank] = max(high + 1, sizes.get(rank, 0))
    return einsums, sizes


def cut_space(rng: random.Random, einsums: list[DrawnEinsum]) -> dict[str, str]:
    """Now and then a bound that leaves out the first or the last value of a variable of the last Einsum."""
    if not chance(rng, 0.04):
        return {}
    last = einsums[-1]
    others = {v for e in einsums[:-1] for v in e.extents}
    own = [v for v, n in last.extents.items() if n > 1 and v not in others]
    if not own:
        return {}
    variable = rng.choice(own)
    n = last.extents[variable]
    last.extents[variable] = n - 1
    last.cut = frozenset({variable})
    return {variable: f"1 <= {variable} < {n}" if chance(rng, 0.6) else f"0 <= {variable} < {n - 1}"}


def _parsed(given: _Text, sizes: dict[str, int], rng: random.Random, largest: int) -> DrawnEinsum:
    parsed = parse_einsum(given.text)
    accesses = dict(parsed.inputs) | {parsed.output[0]: parsed.output[1]}
    outputs = [parsed.output[0]]
    if given.second is not None:
        name, projection = parse_einsum(f"{given.second} = A[a]").output
        accesses[name] = projection
        outputs.append(name)
    variables = dict.fromkeys(v for p in accesses.values() for _, i in p for v, _ in i.terms)
    for v in variables:
        sizes.setdefault(v, rng.choices(range(1, largest + 1), [1, 3, 3, 4, 3, 3][:largest])[0])
    return DrawnEinsum(
        outputs[0],
        accesses,
        tuple(outputs),
        re.sub(r"\[[^\]]*\]", "", given.text.split("=")[1]).strip(),
        given.reduction,
        {v: sizes[v] for v in variables},
        given.is_copy,
    )


def _small(rng: random.Random, *variables: str, largest: int = 3) -> dict[str, int]:
    return {v: rng.randint(1, largest) for v in variables}


def matmul(rng: random.Random) -> Written:
    operation = "*" if chance(rng, 0.8) else rng.choice(["+", "-", "/"])
    return [_Text(f"Z[m, n] = A[m, k] {operation} B[k, n]", rng.choice(["sum", "sum", "sum", "max", "min"]))], {}


def batched_matmul(rng: random.Random) -> Written:
    right = rng.choice(["B[b, k, n]", "B[k, n]", "B[n, k, b]"])
    return [_Text(f"Z[b, m, n] = A[b, m, k] * {right}")], _small(rng, "b")


def three_inputs(rng: random.Random) -> Written:
    return [_Text("Z[m, n] = A[m, j, k] * B[j, n] * C[k, n]")], _small(rng, "j", "k", "n")


def window(rng: random.Random, sizes: dict[str, int], p: str, r: str) -> str:
    """An index such as `2*p + 3*r`, sometimes backwards or shifted, never below 0."""
    sizes |= {p: rng.randint(1, 6), r: rng.randint(1, 3)}
    stride, dilation = rng.choice([1, 1, 1, 2, 2, 3]), rng.choice([1, 1, 1, 2, 3])
    if chance(rng, 0.1):
        return f"{stride}*{p} - {dilation}*{r} + {dilation * (sizes[r] - 1)}"
    shift = f" + {rng.randint(1, 2)}" if chance(rng, 0.06) else ""
    return f"{stride}*{p} + {dilation}*{r}{shift}"


def convolution(rng: random.Random) -> Written:
    sizes = _small(rng, "c", "m", "b")
    index = window(rng, sizes, "p", "r")
    kinds = [
        f"O[m, p] = I[c, H: {index}] * F[m, c, r]",
        f"O[p] = I[H: {index}] * F[r]",
        f"O[m, p] = I[m, H: {index}] * F[m, r]",
        f"O[b, m, p] = I[b, H: {index}] * F[m, r]",
    ]
    if chance(rng, 0.3):
        other = window(rng, sizes, "q", "s")
        kinds = [f"O[m, p, q] = I[c, H: {index}, G: {other}] * F[m, c, r, s]"]
        sizes |= _small(rng, "p", "q") | _small(rng, "r", "s", "m", "c", largest=2)
        index = other
    return [_Text(rng.choice(kinds), rng.choice(["sum", "sum", "sum", "max"]))], sizes


def scatter(rng: random.Random) -> Written:
    sizes = _small(rng, "m")
    index = window(rng, sizes, "p", "r")
    return [_Text(rng.choice([f"Z[H: {index}] = A[p] * B[r]", f"Z[m, H: {index}] = A[m, p] * B[r, m]"]))], sizes


def elementwise(rng: random.Random) -> Written:
    kinds = ["exp(A[m, n])", "A[m, n] + B[m, n]", "A[m, n] / B[m]", "max(A[m, n], B[n, m])", "2 * A[n, m] - B[n]"]
    return [_Text(f"Z[m, n] = {rng.choice(kinds)}")], {}


def reduction(rng: random.Random) -> Written:
    right = rng.choice(["A[m, n]", "A[m, n]", "exp(A[m, n])", "A[m, n, k]", "A[m, n] * B[m]"])
    return [_Text(f"Z[m] = {right}", rng.choice(["sum", "max", "max", "min"]))], {}


def two_outputs(rng: random.Random) -> Written:
    return [_Text("Z[m, n] = A[m, k] * B[k, n]", second=rng.choice(["Y[m]", "Y[n, m]", "Y[m, k]"]))], {}


def chain(rng: random.Random) -> Written:
    n = rng.choice([2, 2, 3, 3, 4])
    letters = "jknpq"
    found, left = [], f"A[m, {letters[0]}]"
    batched = chance(rng, 0.15)
    for i in range(n):
        inner, outer = letters[i], letters[i + 1]
        output = f"T{i + 1}[m, {outer}]"
        weight = f"W{i + 1}[b, {inner}, {outer}]" if batched else f"W{i + 1}[{inner}, {outer}]"
        if batched:
            output, left = output.replace("[", "[b, "), left.replace("[", "[b, ") if i == 0 else left
        found.append(_Text(f"{output} = {left} * {weight}"))
        left = output
    return found, _small(rng, *letters[: n + 1], "b", largest=4)


def residual(rng: random.Random) -> Written:
    function = rng.choice(
        ["relu(X[m, n])", "exp(X[m, n])", "X[m, n] * X[m, n]", "X[m, n] / D[n]", "max(X[m, n], D[n])"]
    )
    function = function.replace("X[m, n] * X[m, n]", "sigmoid(X[m, n])")
    start = _Text("X[m, n] = A[m, k] * B[k, n]")
    kinds = [
        [start, _Text("Z[m, n] = X[m, n] + R[m, n]")],
        [start, _Text(f"Y[m, n] = {function}"), _Text("Z[m, n] = Y[m, n] + X[m, n]")],
        [start, _Text("Y[m, p] = X[m, n] * C[n, p]"), _Text("Z[m, n] = Y[P: p, M: m] + X[m, n]")],
        [start, _Text("Y[m, p] = X[m, n] * C[n, p]"), _Text("Z[m, p] = Y[m, p] + A[m, K: p]")],
        [
            start,
            _Text(f"Y[m, n] = {function}"),
            _Text("V[m, p] = Y[m, n] * C[n, p]"),
            _Text("Z[m, n, p] = V[m, p] + X[m, n]"),
        ],
    ]
    sizes = _small(rng, "k", "n", largest=4)
    chosen = rng.choice(kinds)
    if chosen is kinds[3]:
        sizes["p"] = sizes["k"]
    return chosen, sizes


def attention(rng: random.Random) -> Written:
    qk = rng.choice(["QK[m, p] = Q[m, e] * K[p, e]", "QK[h, m, p] = Q[h, m, e] * K[h, p, e]"])
    h = "h, " if "[h" in qk else ""
    first, second = _Text(qk), _Text(f"SN[{h}m, p] = exp(QK[{h}m, p])")
    last = _Text(f"AV[{h}m, f] = SN[{h}m, p] * V[{h}p, f]")
    maximum = _Text(f"GM[{h}m] = QK[{h}m, p]", "max")
    total = _Text(f"SD[{h}m] = SN[{h}m, p]")
    kinds = [
        [first, second, last],
        [first, _Text(last.text.replace("SN", "QK"))],
        [first, maximum, _Text(f"SN[{h}m, p] = exp(QK[{h}m, p] - GM[{h}m])"), last],
        [first, second, total, _Text(f"AV[{h}m, f] = SN[{h}m, p] / SD[{h}m] * V[{h}p, f]")],
        [first, maximum, _Text(f"SN[{h}m, p] = exp(QK[{h}m, p] - GM[{h}m])")],
    ]
    return rng.choice(kinds), _small(rng, "e", "f", "h")


def shared_input(rng: random.Random) -> Written:
    first = _Text("X[m, n] = A[m, k] * B[k, n]")
    second = _Text(rng.choice(["Y[m, p] = A[m, k] * C[k, p]", "Y[k, p] = A[m, k] * C[m, p]", "Y[m] = A[m, k]"]))
    found = [first, second]
    if chance(rng, 0.4):
        found.append(_Text({"Y[m, p]": "Z[m] = X[m, n] * Y[m, p]", "Y[k, p]": "Z[p] = X[m, n] * Y[k, p]"}.get(
            second.text[:7], "Z[m, n] = X[m, n] / Y[m]")))  # fmt: skip
    return found, _small(rng, "k", "n", largest=4) | _small(rng, "p")


def convolution_and_pointwise(rng: random.Random) -> Written:
    sizes = _small(rng, "c", "m", "n")
    index = window(rng, sizes, "p", "r")
    last = rng.choice(["Z[n, p] = T[m, p] * V[n, m]", "Z[m, p] = relu(T[m, p])", "Z[m] = T[m, p]"])
    return [_Text(f"T[m, p] = I[c, H: {index}] * F[m, c, r]"), _Text(last)], sizes


def pointwise_and_convolution(rng: random.Random) -> Written:
    sizes = _small(rng, "c", "m", "j")
    p, r = rng.randint(1, 4), rng.choice([1, 2, 2, 3])
    stride = r if chance(rng, 0.5) else rng.choice([1, 2, 3])
    sizes |= {"p": p, "r": r, "h": stride * (p - 1) + r}
    first = rng.choice(["T[c, h] = A[j, h] * B[j, c]", "T[c, h] = exp(A[c, h])"])
    second = _Text(f"Z[m, p] = T[c, H: {stride}*p + r] * F[m, c, r]")
    third = [_Text("Y[m, p] = Z[m, p] + D[m]")] if chance(rng, 0.3) else []
    return [_Text(first), second, *third], sizes


def copied(rng: random.Random) -> Written:
    copy = _Text("A1[m, k] = A[m, k]", is_copy=True)
    found = [copy, _Text("X[m, n] = A1[m, k] * B[k, n]")]
    if chance(rng, 0.4):
        found.append(_Text(rng.choice(["Z[m] = X[m, n]", "Z[m, p] = A1[m, k] * C[k, p]"])))
    return found, _small(rng, "k", "n", "p", largest=4)


KINDS = [
    (matmul, 4), (batched_matmul, 2), (three_inputs, 1), (convolution, 4), (scatter, 1), (elementwise, 1.5),
    (reduction, 1.5), (two_outputs, 0.5), (chain, 6), (residual, 5), (attention, 5), (shared_input, 4),
    (convolution_and_pointwise, 3), (pointwise_and_convolution, 3), (copied, 1.5),
]  # fmt: skip
"""Builders of workloads and how often each is drawn."""


def draw_bits(rng: random.Random, tensors: tuple[str, ...]) -> dict[str, int]:
    match rng.randrange(3):
        case 0:
            return {"All": rng.choice([4, 8])}
        case 1:
            return {"Inputs & ~Intermediates": 8, "Other": rng.choice([8, 16])} if len(tensors) < 3 else {"All": 16}
        case _:
            return {rng.choice(tensors): 4, "Other": 8}


# architectures


def _costs(rng: random.Random, actions: dict[str, tuple[int, int]]) -> Case:
    listed = [{"name": n, "energy": e, "throughput": t} for n, (e, t) in actions.items()]
    return {"area": rng.choice([0, 1]), "leak_power": rng.choice([0, 0, 1]), "actions": listed}


def _tensor_set(rng: random.Random, tensors: tuple[str, ...]) -> str:
    chosen = rng.sample(tensors, rng.randint(1, min(2, len(tensors))))
    return rng.choice(["All", "All", "Nothing", "Nothing", " | ".join(chosen), " | ".join(chosen), "~" + chosen[0]])


def _dimension(rng: random.Random, name: str, tensors: tuple[str, ...]) -> Case:
    found: Case = {"name": name, "fanout": rng.choice([2, 3, 4, 8])}
    match rng.randrange(8):
        case 0:
            pass
        case 1 | 2:
            found["reuse"] = _tensor_set(rng, tensors)
        case _:
            found["may_reuse"] = _tensor_set(rng, tensors)
    if chance(rng, 0.15):
        found["power_gateable"] = True
    return found


def _memory(rng: random.Random, name: str, tensors: tuple[str, ...], *, outermost: bool) -> Case:
    energies = {"read": (rng.randint(1, 9), rng.randint(1, 8)), "write": (rng.randint(1, 9), rng.randint(1, 8))}
    size: Any = "inf" if outermost else rng.choice([10**6] * 9 + [rng.choice([64, 200, 600])])
    found: Case = {"type": "Memory", "name": name, "size": size, **_costs(rng, energies)}
    if chance(rng, 0.6):
        found["skip_initial_output_write"] = chance(rng, 0.4)
    if chance(rng, 0.3):
        found["bits_per_action"] = rng.choice([8, 16, 24])
    elif chance(rng, 0.2):
        found["values_per_action"] = rng.choice([{"All": 2}, {rng.choice(tensors): 4}])
    if chance(rng, 0.15):
        found["bits_per_value"] = rng.choice([{"All": 16}, {rng.choice(tensors): 2}])
    elif chance(rng, 0.1):
        found["bits_per_value_scale"] = {rng.choice([*tensors, "All"]): 2}
    return found


def _toll(rng: random.Random, name: str, tensors: tuple[str, ...]) -> Case:
    ways = ("up", "down", "up_and_down")
    direction: Any = rng.choice(ways)
    if chance(rng, 0.2):
        direction = {rng.choice(tensors): direction, "Other": rng.choice(ways)}
    found = {"type": "Toll", "name": name, "direction": direction, **_costs(rng, {"read": (1, 2)})}
    if chance(rng, 0.2):
        found["bits_per_action"] = 8
    return found


def draw_arch(rng: random.Random, tensors: tuple[str, ...]) -> list[Case]:
    """Main, then up to two memories and a Compute; before each perhaps a Toll and lanes."""
    nodes = [_memory(rng, "Main", tensors, outermost=True)]
    n_inner = rng.choice([0, 1, 1, 1, 2, 2, 2])
    fanouts = rng.choice([0, 1, 1, 2])
    where = sorted(rng.randint(0, n_inner) for _ in range(fanouts))
    for i in range(n_inner + 1):
        if chance(rng, 0.22):
            nodes.append(_toll(rng, f"Link{i}", tensors))
        dimensions = [_dimension(rng, name, tensors) for name in "XY"[: where.count(i)]]
        if dimensions and chance(rng, 0.4):
            own = dimensions if chance(rng, 0.5) else dimensions[:1]
            nodes.append({"type": "Container", "name": f"Array{i}", "spatial": own})
            dimensions = dimensions[len(own) :]
        if i < n_inner:
            unit = _memory(rng, f"Buffer{i}", tensors, outermost=False)
        else:
            unit = {"type": "Compute", "name": "MAC", **_costs(rng, {"compute": (rng.randint(1, 5), 1)})}
            if chance(rng, 0.6):
                unit["skip_initial_output_write"] = chance(rng, 0.4)
        if dimensions:
            unit["spatial"] = dimensions
        nodes.append(unit)
    return nodes


# LoopTrees


@dataclass(frozen=True)
class _Bundle:
    """What one loop runs over: a variable of each Einsum, which advances `scale` values when the loop's unit does 1."""

    variables: dict[str, str]
    scales: dict[str, int]


@dataclass
class _State:
    """What the nodes above have settled: `held` is the innermost level of each tensor, `lanes` those in use."""

    extents: dict[str, dict[str, int]]
    held: dict[str, int] = field(default_factory=dict)
    lanes: dict[tuple[str, str, str], int] = field(default_factory=dict)

    def copy(self) -> _State:
        return _State({e: dict(x) for e, x in self.extents.items()}, dict(self.held), dict(self.lanes))

    def units(self, bundle: _Bundle) -> int:
        """Extent of a bundle in its units, the same for all its Einsums."""
        return max(-(-self.extents[e][v] // bundle.scales[e]) for e, v in bundle.variables.items())


@dataclass
class _Loop:
    position: float
    bundle: _Bundle
    dimension: tuple[str, Case] | None = None
    closing: bool = False


class _Trees:
    """Draws one LoopTree."""

    def __init__(self, rng: random.Random, einsums: list[DrawnEinsum], arch: list[Case]) -> None:
        self.rng = rng
        self.einsums = einsums
        self.by_name = {e.name: e for e in einsums}
        self.arch = arch
        self.memories = [i for i, node in enumerate(arch) if node["type"] == "Memory"]
        self.users: dict[str, list[str]] = {}
        self.producers: dict[str, str] = {}
        for e in einsums:
            for t in e.tensors:
                self.users.setdefault(t, []).append(e.name)
            for t in e.outputs:
                self.producers[t] = e.name
        self.intermediates = {t for t in self.producers if len(self.users[t]) > 1}
        # what this tree is like
        self.perfect = chance(rng, 0.45)
        self.density = rng.choice([0.3, 0.5, 0.7, 0.9])
        self.out_of_order = chance(rng, 0.2)
        self.style = "fused"
        if len(einsums) > 1:
            self.style = rng.choices(["fused", "unfused", "separate"], [7, 1.5, 1])[0]

    def nodes(self) -> list[Case]:
        state = _State({e.name: dict(e.extents) for e in self.einsums})
        names = [e.name for e in self.einsums]
        if len(names) == 1:
            return self.path(names[0], state, 0, 0)
        if self.style == "separate":
            return [self.sequential([self.path(n, state.copy(), 0, 0) for n in names])]
        return self.group(names, state, 0, 0)

    def sequential(self, branches: list[list[Case]]) -> Case:
        return {"type": "Sequential", "nodes": [{"type": "Nested", "nodes": branch} for branch in branches]}

    # one section of the tree

    def path(self, name: str, state: _State, start: int, spread_from: int) -> list[Case]:
        """All of one Einsum's branch; `start`: outermost level that may hold something, `spread_from`: have lanes."""
        levels = range(start, len(self.arch))
        items = self.holders([name], state, levels, set())
        items = self.with_markers(items, range(spread_from, len(self.arch)))
        bundles = [_Bundle({name: v}, {name: 1}) for v in state.extents[name]]
        loops = []
        for bundle in bundles:
            if state.units(bundle) > 1:
                loops += [self.temporal(bundle, items) for _ in range(self.rng.choice([0, 0, 1, 1, 2]))]
        loops += self.spatial(bundles, items, 0.75)
        placed = self.cut(loops, state)
        last = {id(loop.bundle): loop.position for loop, _ in placed}
        for bundle in bundles:
            if state.units(bundle) > 1:
                position = self.rng.uniform(last.get(id(bundle), self.first_gap(items)), len(items) - 0.5)
                placed += self.cut([_Loop(position, bundle, closing=True)], state)
        return [*self.merged(items, placed), {"type": "Compute", "einsum": name, "component": "MAC"}]

    def group(self, names: list[str], state: _State, start: int, spread_from: int) -> list[Case]:
        """The section of several Einsums, and the split below it."""
        rng = self.rng
        parts = self.partition(names)
        must = {
            t
            for t in self.intermediates - state.held.keys()
            if set(self.users[t]) <= set(names) and not any(set(self.users[t]) <= set(part) for part in parts)
        }
        if self.style == "unfused":
            stop = 0
        else:
            stop = max(rng.randint(start, self.memories[-1]) for _ in range(2))
            if must and not any(start <= m <= stop for m in self.memories):
                stop = next(m for m in self.memories if m >= start)
        items = self.holders(names, state, range(start, stop + 1), must)
        here = any(level == stop for level, _ in items)
        # lanes written above the split may also be those of components further in; and those of what is held above
        # it may be written below, where they must be the same for all who share it
        spread_to = stop + here
        if chance(rng, 0.3):
            spread_to = rng.randint(spread_from, len(self.arch))
        if self.style == "unfused":
            return [*self.merged(items, []), self.sequential([self.path(n, state.copy(), 0, 0) for n in names])]
        items = self.with_markers(items, range(spread_from, spread_to))
        bundles = self.bundles(names, state)
        loops = []
        if bundles:
            loops = [self.temporal(rng.choice(bundles), items) for _ in range(rng.choice([0, 1, 1, 2, 3]))]
            loops += self.spatial(bundles, items, 0.7)
        placed = self.cut(loops, state)
        branches = []
        for part in parts:
            below = state.copy()
            if len(part) == 1:
                branches.append(self.path(part[0], below, stop, max(spread_from, spread_to)))
            else:
                branches.append(self.group(part, below, stop, max(spread_from, spread_to)))
        return [*self.merged(items, placed), self.sequential(branches)]

    def partition(self, names: list[str]) -> list[list[str]]:
        """Consecutive parts, mostly single Einsums."""
        if len(names) == 2 or chance(self.rng, 0.5) or self.style == "unfused":
            return [[n] for n in names]
        cuts = sorted(self.rng.sample(range(1, len(names)), self.rng.randint(1, len(names) - 2)))
        return [names[a:b] for a, b in zip([0, *cuts], [*cuts, len(names)], strict=True)]

    # storage nodes

    def holders(self, names: list[str], state: _State, levels: range, must: set[str]) -> list[tuple[int, Case | None]]:
        """Storage and Toll nodes of the levels, in order: (level, node)."""
        rng = self.rng
        tensors = list(dict.fromkeys(t for n in names for t in self.by_name[n].tensors))
        inside = [m for m in self.memories if m in levels]
        backing: dict[str, int] = {}
        for t in tensors:
            if t in state.held:
                continue
            if t not in self.intermediates or self.style != "fused":
                backing[t] = 0
            elif t in must or (set(self.users[t]) <= set(names) and inside and chance(rng, 0.35)):
                backing[t] = rng.choice(inside)
        items: list[tuple[int, Case | None]] = []
        for level in levels:
            node = self.arch[level]
            if node["type"] not in ("Memory", "Toll"):
                continue
            chosen = [t for t, at in backing.items() if at == level]
            chosen += [t for t in tensors if state.held.get(t, level) < level and chance(rng, self.density)]
            for t in chosen:
                state.held[t] = level
            rng.shuffle(chosen)
            cut = rng.randint(0, len(chosen)) if chance(rng, 0.5) else 0
            for part in (chosen[:cut], chosen[cut:]):
                if part:
                    kind = "Storage" if node["type"] == "Memory" else "Toll"
                    found: Case = {"type": kind, "component": node["name"], "tensors": part}
                    if kind == "Storage" and chance(rng, 0.025):
                        found["persistent"] = True
                    items.append((level, found))
        return self.swapped(items) if self.out_of_order else items

    def swapped(self, items: list[tuple[int, Case | None]]) -> list[tuple[int, Case | None]]:
        """Neighbours with different tensors change places."""
        found = list(items)
        for i in range(len(found) - 1):
            (a, first), (b, second) = found[i], found[i + 1]
            assert first is not None
            assert second is not None
            disjoint = not set(first["tensors"]) & set(second["tensors"])
            if a > 0 and b > 0 and disjoint and chance(self.rng, 0.5):
                found[i], found[i + 1] = found[i + 1], found[i]
        return found

    def with_markers(self, items: list[tuple[int, Case | None]], levels: range) -> list[tuple[int, Case | None]]:
        """A marker (no node) for the lanes of a component, before the nodes of its level and those further in."""
        found = list(items)
        for level in levels:
            if self.arch[level].get("spatial"):
                at = next((i for i, (other, node) in enumerate(found) if other >= level and node), len(found))
                found.insert(at, (level, None))
        return found

    # loops

    def first_gap(self, items: list[tuple[int, Case | None]]) -> float:
        """Loops stand below the nodes of the outermost memory, sometimes above them where that means nothing."""
        if len(self.einsums) == 1 and chance(self.rng, 0.05):
            return -0.5
        return sum(level == 0 for level, node in items if node is not None) - 0.5

    def temporal(self, bundle: _Bundle, items: list[tuple[int, Case | None]]) -> _Loop:
        return _Loop(self.rng.uniform(self.first_gap(items), len(items) - 0.5), bundle)

    def spatial(self, bundles: list[_Bundle], items: list[tuple[int, Case | None]], often: float) -> list[_Loop]:
        found = []
        for at, (level, node) in enumerate(items):
            if node is not None:
                continue
            unit = self.arch[level]
            for dimension in unit["spatial"]:
                for _ in range(self.rng.choice([1, 1, 1, 2])):
                    if chance(self.rng, often):
                        bundle = self.rng.choice(bundles)
                        place = at + self.rng.uniform(-0.01, 0.01)
                        found.append(_Loop(place, bundle, (unit["name"], dimension)))
        return found

    def cut(self, loops: list[_Loop], state: _State) -> list[tuple[_Loop, Case]]:
        """Tile shapes, outermost loop first; loops that would cut nothing are mostly left out."""
        found = []
        for loop in sorted(loops, key=lambda each: each.position):
            units = state.units(loop.bundle)
            # another loop above may have cut a variable of one Einsum only
            shape = self.shape(loop, units, state) if self.is_even(loop.bundle, state) else None
            if shape is None:
                continue
            written = self.written(loop, shape, units, state)
            found.append((loop, written))
        return found

    def shape(self, loop: _Loop, units: int, state: _State) -> int | None:
        rng = self.rng
        if loop.closing:
            return 1
        if units == 1 and not chance(rng, 0.03):
            return None
        if chance(rng, 0.04):
            return units
        if loop.dimension is not None:
            component, dimension = loop.dimension
            used = max(state.lanes.get((e, component, dimension["name"]), 1) for e in loop.bundle.variables)
            fitting = [s for s in range(1, units) if -(-units // s) * used <= dimension["fanout"]]
        else:
            fitting = list(range(1, units))
        if self.perfect:
            fitting = [s for s in fitting if units % s == 0]
        return rng.choice(fitting) if fitting else None

    def written(self, loop: _Loop, shape: int, units: int, state: _State) -> Case:
        """The loop as a node; `state` is what it leaves to the nodes below."""
        bundle = loop.bundle
        shapes: dict[str, int] = {}
        for e, v in bundle.variables.items():
            extents = state.extents[e]
            shapes[e] = min(shape * bundle.scales[e], extents[v])
            if loop.dimension is not None:
                key = (e, loop.dimension[0], loop.dimension[1]["name"])
                state.lanes[key] = state.lanes.get(key, 1) * -(-extents[v] // shapes[e])
        initial = self.rng.randint(1, units - 1) if units > 1 and self.may_start_otherwise(loop) else None
        first = dict(shapes)
        if initial is not None:
            first = {e: initial * scale for e, scale in bundle.scales.items()}
        for e, v in bundle.variables.items():
            state.extents[e][v] = max(first[e], min(shapes[e], state.extents[e][v] - first[e]))
        plainly = self.rng.random() < 0.85
        names, sizes = set(bundle.variables.values()), set(shapes.values())
        node: Case = {
            "type": "Temporal" if loop.dimension is None else "Spatial",
            "rank_variable": names.pop() if len(names) == 1 and plainly else dict(bundle.variables),
            "tile_shape": sizes.pop() if len(sizes) == 1 and plainly else dict(shapes),
        }
        if initial is not None:
            node["initial_tile_shape"] = first
        if loop.dimension is not None:
            node |= {"component": loop.dimension[0], "name": loop.dimension[1]["name"]}
        return node

    def may_start_otherwise(self, loop: _Loop) -> bool:
        """Whether the loop gets an initial tile shape of its own."""
        return loop.dimension is None and not loop.closing and chance(self.rng, 0.03)

    def merged(self, items: list[tuple[int, Case | None]], placed: list[tuple[_Loop, Case]]) -> list[Case]:
        """Storage nodes and loops in the order of their positions."""
        everything = [(float(i), node) for i, (_, node) in enumerate(items) if node is not None]
        everything += [(loop.position, node) for loop, node in placed]
        return [node for _, node in sorted(everything, key=lambda each: each[0])]

    # bundles

    def bundles(self, names: list[str], state: _State) -> list[_Bundle]:
        """All that loops above a split of these Einsums may run over."""
        found: list[_Bundle] = []
        self.extend(names, {}, {}, found)
        return [b for b in found if self.is_even(b, state)]

    def is_even(self, bundle: _Bundle, state: _State) -> bool:
        """All Einsums have the same number of iterations."""
        return len({-(-state.extents[e][v] // bundle.scales[e]) for e, v in bundle.variables.items()}) == 1

    def extend(
        self, names: list[str], chosen: dict[str, str], scales: dict[str, Fraction], found: list[_Bundle]
    ) -> None:
        """All ways to choose a variable for each further Einsum."""
        if len(chosen) == len(names):
            common = math.lcm(*(s.denominator for s in scales.values()))
            found.append(_Bundle(chosen, {e: int(s * common) for e, s in scales.items()}))
            return
        name = names[len(chosen)]
        einsum = self.by_name[name]
        for variable in (v for v in einsum.extents if v not in einsum.cut):
            scale = Fraction(1)
            fits = True
            for t in einsum.tensors:
                producer = self.producers.get(t)
                if producer in chosen:
                    step = self.step(t, self.by_name[producer], chosen[producer], einsum, variable)
                    fits = fits and step is not None and scale in (1, step * scales[producer])
                    scale = (step or 1) * scales[producer]
            # what others of the group read must be indexed
            read = {t for other in names for t in self.by_name[other].tensors} & set(einsum.outputs)
            read &= {t for t in read if any(u in names and u != name for u in self.users[t])}
            fits = fits and all(einsum.rank_of(t, variable) for t in read)
            if fits:
                self.extend(names, {**chosen, name: variable}, {**scales, name: scale}, found)

    def step(
        self, tensor: str, producer: DrawnEinsum, written: str, consumer: DrawnEinsum, read: str
    ) -> Fraction | None:
        """Values of `read` for each value of `written`; None when they do not cut the tensor alike."""
        source, target = producer.rank_of(tensor, written), consumer.rank_of(tensor, read)
        if source is None or target is None or source[0] != target[0]:
            return None
        index = target[1]
        a = dict(index.terms)[read]
        reach = index.constant + sum(b * (consumer.extents[v] - 1) for v, b in index.terms if v != read and b > 0)
        back = any(b < 0 for _, b in index.terms)
        # the windows of consecutive values of `read` must not overlap, and the producer index one element at a time
        if len(source[1].terms) > 1 or source[1].terms[0][1] != 1 or source[1].constant or back or reach >= a:
            return None
        return Fraction(1, a)


# what a case exercises


def features(case: Case) -> frozenset[str]:
    """Names of what a case has, for counts of coverage."""
    found = set()
    einsums = case["workload"]["einsums"]
    found.add(f"{len(einsums)} Einsums")
    found |= {"workload n_instances"} if "n_instances" in case["workload"] else set()
    found |= {"bounded space"} if "iteration_space_shape" in case["workload"] else set()
    for e in einsums:
        found |= {"copy"} if e.get("is_copy_operation") else set()
        found |= {"Einsum n_instances"} if "n_instances" in e else set()
        found.add(e.get("reduction", "sum"))
        text = e.get("einsum") or " ".join([e["operation"], *map(str, e["tensor_accesses"])])
        found.add("concise" if "einsum" in e else "verbose")
        found |= {word for word in ("exp", "relu", "sigmoid", "/", "max(") if word in text}
        found |= {"stride"} if re.search(r"[23]\*p", text) else set()
        found |= {"dilation"} if re.search(r"[23]\*[rs]", text) else set()
        found |= {"backwards"} if re.search(r"p\w* - ", text) else set()
    for node in case["arch"]["nodes"]:
        found.add(node["type"])
        found |= {node["direction"]} if isinstance(node.get("direction"), str) else set()
        found |= {
            key
            for key in ("bits_per_action", "values_per_action", "bits_per_value", "bits_per_value_scale")
            if key in node
        }
        found |= {f"lanes of {node['type']}"} if node.get("spatial") else set()
        if "skip_initial_output_write" in node:
            found.add(f"{node['type']} skip {node['skip_initial_output_write']}")
        for dimension in node.get("spatial", ()):
            reuse = dimension.get("may_reuse")
            found.add(
                "reuse" if "reuse" in dimension else f"may_reuse {reuse if reuse in ('All', 'Nothing') else 'some'}"
            )
    memories = sum(node["type"] == "Memory" for node in case["arch"]["nodes"])
    found.add(f"{memories} memories")
    _tree_features(case["mapping"]["nodes"], found, 0, {e["name"]: i for i, e in enumerate(einsums)})
    return frozenset(found)


def _tree_features(nodes: list[Case], found: set[str], splits: int, order: dict[str, int]) -> None:
    below = nodes[-1]["type"] == "Sequential"
    for node in nodes:
        kind = node["type"]
        if kind in ("Temporal", "Spatial"):
            found.add(f"{kind} loop" + (" above a split" if below else ""))
            variables = node["rank_variable"]
            if isinstance(variables, dict) and len(set(variables.values())) > 1:
                found.add("loop over different variables")
            shapes = node["tile_shape"]
            found |= {"initial tile shape"} if "initial_tile_shape" in node else set()
            if isinstance(shapes, dict) and len(set(shapes.values())) > 1:
                found.add("loop with different tile shapes")
        elif kind == "Storage":
            if node.get("persistent"):
                found.add("persistent")
            if below and node["component"] != "Main":
                found.add("inner storage above a split")
            if below and any(n["type"] in ("Temporal", "Spatial") for n in nodes[: nodes.index(node)]):
                found.add("storage between shared loops and a split")
        elif kind == "Toll":
            found.add("Toll node" + (" above a split" if below else ""))
        elif kind == "Sequential":
            found.add("nested split" if splits else "split")
            for branch in node["nodes"]:
                _tree_features(branch["nodes"], found, splits + 1, order)


def shown(case: Case) -> str:
    """A case in short lines, for messages."""
    workload = case["workload"]
    lines = [str({k: v for k, v in workload.items() if k != "einsums"}), *map(str, workload["einsums"])]
    lines += [f"arch {node}" for node in case["arch"]["nodes"]]

    def show(nodes: list[Case], indent: str) -> None:
        for node in nodes:
            if node["type"] == "Sequential":
                for branch in node["nodes"]:
                    lines.append(f"{indent}branch")
                    show(branch["nodes"], indent + "  ")
            else:
                lines.append(indent + " ".join(str(value) for value in node.values()))

    show(case["mapping"]["nodes"], "")
    return "\n".join(lines)
