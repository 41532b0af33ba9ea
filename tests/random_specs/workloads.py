"""Random workloads: single Einsums and cascades of 2-4."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from einmap.einsum.notation.parse import parse_einsum
from einmap.einsum.spaces.projection import Affine, Lookup
from einmap.einsum.spaces.projection import Written as Indices

MAX_OPERATIONS = 3000

type Case = dict[str, Any]
type Projection = tuple[tuple[str, Affine], ...]


def chance(rng: random.Random, p: float) -> bool:
    return rng.random() < p


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
    gathered: dict[str, Indices] = field(default_factory=dict)
    """How tensors are indexed of which ranks are looked up in others; `accesses` has their rows."""

    @property
    def tensors(self) -> tuple[str, ...]:
        return tuple(self.accesses)

    @property
    def indices(self) -> dict[str, Indices]:
        """How each tensor is indexed, as it is written."""
        return self.accesses | self.gathered

    def rank_of(self, tensor: str, variable: str) -> tuple[str, Affine] | None:
        """The rank of a tensor that a variable indexes."""
        for rank, index in self.accesses[tensor]:
            if any(v == variable for v, _ in index.terms):
                return rank, index
        return None

    def renamed(self, names: dict[str, str]) -> DrawnEinsum:
        def changed(index: Affine | Lookup) -> Any:
            if isinstance(index, Lookup):
                return replace(index, projection=tuple((rank, changed(i)) for rank, i in index.projection))
            return Affine(tuple((names[v], a) for v, a in index.terms), index.constant)

        accesses, gathered = (
            {t: tuple((rank, changed(i)) for rank, i in indices) for t, indices in by_tensor.items()}
            for by_tensor in (self.accesses, self.gathered)
        )
        extents = {names[v]: n for v, n in self.extents.items()}
        return replace(self, accesses=accesses, gathered=gathered, extents=extents)

    def written(self, rng: random.Random) -> Case:
        """As a dictionary, concise where that can say it."""
        found: Case = {"name": self.name}
        if len(self.outputs) == 1 and chance(rng, 0.7):
            shown = {t: f"{t}[{', '.join(f'{r}: {_shown(i)}' for r, i in p)}]" for t, p in self.indices.items()}
            right = re.sub(r"\b[A-Z]\w*\b", lambda m: shown[m[0]], self.operation)
            found["einsum"] = f"{shown[self.outputs[0]]} = {right}"
        else:
            found["operation"] = self.operation
            found["tensor_accesses"] = [
                {"name": t, "projection": {r: _shown(i) for r, i in p}}
                | ({"output": True} if t in self.outputs else {})
                for t, p in self.indices.items()
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
type Builder = Callable[[random.Random], Written]


def draw_workload(
    rng: random.Random, builders: list[tuple[Builder, float]] | None = None
) -> tuple[list[DrawnEinsum], dict[str, int]]:
    """Einsums and sizes of all ranks; at most MAX_OPERATIONS operations in all."""
    kinds, weights = zip(*(builders or KINDS), strict=True)
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
        for projection in e.indices.values():
            for rank, index in projection:
                if isinstance(index, Lookup):
                    sizes.setdefault(rank, rng.randint(1, 7))
                    continue
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
    gathered = {use.tensor: use.gathered for use in parsed.uses if use.gathered}
    plain = re.sub(r"\[[^\]]*\]", "", given.text.split("=")[1]).strip()
    return DrawnEinsum(
        outputs[0],
        accesses,
        tuple(outputs),
        str(parsed.operation) if gathered else plain,
        given.reduction,
        {v: sizes[v] for v in variables},
        given.is_copy,
        gathered=gathered,
    )


def _shown(index: Affine | Lookup) -> str:
    if isinstance(index, Affine):
        return str(index)
    return f"{index.tensor}[{', '.join(f'{rank}: {place}' for rank, place in index.projection)}]"


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


def wide_scatter(rng: random.Random) -> Written:
    sizes: dict[str, int] = {}
    first, second = window(rng, sizes, "p", "r"), window(rng, sizes, "q", "s")
    sizes |= _small(rng, "m") | {"p": rng.randint(2, 8)}
    kinds = [
        f"Z[H: {first}] = A[p, m] * B[r]",
        f"Z[H: {first}] = A[p, m] * B[m, r]",
        f"Z[m, H: {first}] = A[m, p] * B[r]",
        f"Z[H: {first}, G: {second}] = A[p, q] * B[r, s]",
        "Z[H: p + r, G: p + s] = A[p] * B[r, s]",
        "Z[H: p + r, G: 2*p] = A[p, m] * B[r]",
        "Z[H: 2*p + r, G: p + s] = A[p, m] * B[r, s]",
    ]
    return [_Text(rng.choice(kinds), rng.choice(["sum", "sum", "max"]))], sizes


def wide_convolution(rng: random.Random) -> Written:
    sizes: dict[str, int] = {}
    first, second = window(rng, sizes, "p", "r"), window(rng, sizes, "q", "s")
    sizes |= _small(rng, "c", "m") | {"p": rng.randint(2, 8)}
    kinds = [
        f"O[m, p] = I[c, H: {first}] * F[m, c, r]",
        f"O[p, q] = I[H: {first}, G: {second}] * F[r, s]",
        f"O[p] = I[H: {first}, G: {first}] * F[r]",
        f"O[p, m] = I[H: {first}, G: p] * F[r, m]",
        "O[p, q] = I[H: p + r, G: q + r] * F[r]",
        "O[p] = I[H: p + r + s] * F[r, s]",
        "O[p, q] = I[H: p + q + r] * F[r]",
    ]
    return [_Text(rng.choice(kinds))], sizes


def two_windows(rng: random.Random) -> Written:
    sizes: dict[str, int] = {}
    # with different strides the common tile would grow with every iteration
    first = window(rng, sizes, "p", "r")
    second = f"{re.sub(' - .*', '', first).split('*p')[0]}*p + {rng.choice([1, 2])}*s"
    sizes |= _small(rng, "m", "s") | {"p": rng.randint(2, 8)}
    found = [_Text(f"X[p, m] = I[H: {first}] * F[r, m]"), _Text(f"Y[p] = I[H: {second}] * G[s]")]
    if chance(rng, 0.3):
        found.append(_Text("Z[p] = X[p, m] * Y[p]"))
    return found, sizes


def windows_of_intermediates(rng: random.Random) -> Written:
    sizes = _small(rng, "m", "c") | {"p": rng.randint(2, 5), "r": rng.choice([2, 3])}
    sizes["h"] = sizes["p"] + sizes["r"] - 1
    second = _Text("Z[m, p] = T[c, H: p + r] * F[m, c, r]")
    return [_Text(rng.choice(["T[c, h] = A[h] * B[c]", "T[c, h] = A[c, h, j] * B[j]"])), second], sizes


WINDOWS: list[tuple[Builder, float]] = [
    (wide_scatter, 4), (wide_convolution, 4), (two_windows, 3), (windows_of_intermediates, 2), (convolution, 1),
    (convolution_and_pointwise, 2), (pointwise_and_convolution, 1),
]  # fmt: skip
"""Workloads in which tiles of consecutive iterations overlap."""


def draw_bits(rng: random.Random, tensors: tuple[str, ...]) -> dict[str, int]:
    match rng.randrange(3):
        case 0:
            return {"All": rng.choice([4, 8])}
        case 1:
            return {"Inputs & ~Intermediates": 8, "Other": rng.choice([8, 16])} if len(tensors) < 3 else {"All": 16}
        case _:
            return {rng.choice(tensors): 4, "Other": 8}
