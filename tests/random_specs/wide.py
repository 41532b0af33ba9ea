"""Random cascades of random Einsums: what lists of cascades by hand leave out.

Einsums have any ranks of any tensors: element-wise ones with inputs that index some of the ranks, halos and strides
over one rank beside another one that both share, renamed and reduced ranks, chains and residuals. Architectures have one
to three levels on which Einsums hold several nodes above an intermediate, bits for each value by tensor and by memory,
fanouts, tolls, and every kind of constraint; sizes let the order of loops and nodes matter.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field, replace
from typing import Any

from tests.random_specs.fused import Problem
from tests.random_specs.parts import KINDS_OF_TENSORS, Parts

SIZES = (2, 2, 3, 4, 4, 6, 8)
LARGE = (2, 4, 4, 6, 8, 12, 16, 64)
WORK = 12_000.0
"""Ways to cut the ranks into loops, all Einsums together, that a problem may have: tried out in well under a second."""


@dataclass
class _Einsums:
    """Einsums that are being drawn. `ranks`: of each tensor the names and sizes; `kinds`: what they are like."""

    rng: random.Random
    choices: tuple[int, ...]
    sizes: dict[str, int] = field(default_factory=dict)
    ranks: dict[str, list[str]] = field(default_factory=dict)
    texts: list[str] = field(default_factory=list)
    variables: list[dict[str, int]] = field(default_factory=list)
    kinds: set[str] = field(default_factory=set)

    def draw(self, n: int) -> None:
        """So many Einsums, each of which reads the one before, or an older one too."""
        self.first()
        while len(self.texts) < n:
            self.reader("XYZ"[len(self.texts)], "XYZ"[len(self.texts) - 1])

    def first(self) -> None:
        rng = self.rng
        names = ["m", "n", "h"][: rng.choice((1, 2, 2, 2, 3))]
        bounds = {v: rng.choice(self.choices) for v in names}
        if rng.random() < 0.35:
            bounds["k"] = rng.choice((2, 2, 3, 4))
        inputs = [self.some(list(bounds)) for _ in range(rng.choice((1, 2, 2)))]
        missing = [v for v in bounds if not any(v in own for own in inputs)]
        inputs[0] += missing
        self.sizes |= {v.upper(): bound for v, bound in bounds.items()}
        self.ranks["X"] = [v.upper() for v in names]
        self.add("X", names, [(t, own) for t, own in zip("AB", inputs, strict=False)], bounds)

    def some(self, variables: list[str]) -> list[str]:
        chosen = [v for v in variables if self.rng.random() < 0.6]
        return chosen or [self.rng.choice(variables)]

    def add(self, output: str, ranks: list[str], inputs: list[tuple[str, list[str]]], bounds: dict[str, int]) -> None:
        """`inputs`: tensors with an index for each rank."""
        sides = " * ".join(f"{t}[{','.join(index)}]" for t, index in inputs)
        self.texts.append(f"{output}[{','.join(ranks)}] = {sides}")
        self.variables.append(bounds)
        if all(v in ranks for v in bounds) and all("+" not in text for text in self.texts):
            self.kinds.add("element-wise")

    def reader(self, output: str, source: str) -> None:
        """One more Einsum, over the ranks of the tensor that it reads, some as a sum, renamed, or reduced."""
        rng = self.rng
        bounds: dict[str, int] = {}
        index: list[str] = []
        for rank in self.ranks[source]:
            index.append(f"{rank}: {self.of_rank(rank, bounds)}")
        read = [(source, index)]
        if rng.random() < 0.2:
            bounds["q"] = rng.choice((2, 3, 4))
            self.sizes["Q"] = bounds["q"]
        letter = "DFG"[len(self.texts) - 1]
        remainder = self.some(list(bounds))
        # what occurs in a sum alone would have no bound of its own
        remainder += [v for v in bounds if v[0] in "qr" and v not in remainder]
        if rng.random() < 0.85 or any(v[0] in "qr" for v in bounds):
            read.append((letter, remainder))
        if len(self.texts) > 1 and rng.random() < 0.3:
            older = self.older("XYZ"[len(self.texts) - 2], bounds)
            if older is not None:
                read.append(older)
                self.kinds.add("residual")
        kept = [v for v in bounds if v[0] == "p" or rng.random() < 0.75] or [next(iter(bounds))]
        self.ranks[output] = [v.upper() for v in kept]
        self.sizes |= {v.upper(): bounds[v] for v in kept}
        self.add(output, kept, read, bounds)

    def of_rank(self, rank: str, bounds: dict[str, int]) -> str:
        """An index of a rank: its own variable, another one's name, or a sum of two."""
        rng, size = self.rng, self.sizes[rank]
        way = rng.random()
        step = len(self.texts)
        if way < 0.3 and size >= 3 and not any("+" in text for text in self.texts):
            stride, dilation = rng.choice(((1, 1), (1, 1), (1, 1), (2, 1), (1, 2)))
            p, r = f"p{step}{len(bounds)}", f"r{step}{len(bounds)}"
            bound = rng.choice([b for b in range(1, 4) if (size - 1 - dilation * (b - 1)) >= 0] or [1])
            bounds[r] = bound
            bounds[p] = (size - 1 - dilation * (bound - 1)) // stride + 1
            self.sizes |= {p.upper(): bounds[p], r.upper(): bounds[r]}
            self.kinds.add("halo" if stride == 1 else "stride")
            return "+".join(f"{a}*{v}" if a > 1 else v for a, v in ((stride, p), (dilation, r)))
        if way < 0.45:
            v = f"u{step}{len(bounds)}"
            bounds[v] = size
            self.sizes[v.upper()] = size
            self.kinds.add("renamed")
            return v
        v = rank.lower()
        bounds[v] = size
        return v

    def older(self, tensor: str, bounds: dict[str, int]) -> tuple[str, list[str]] | None:
        """An older tensor, each rank by a variable that has its size; None where there is none."""
        index, left = [], dict(bounds)
        for rank in self.ranks[tensor]:
            v = next((v for v, bound in left.items() if bound == self.sizes[rank]), None)
            if v is None:
                return None
            left.pop(v)
            index.append(f"{rank}: {v}")
        return tensor, index

    @property
    def tensors(self) -> list[str]:
        """All tensors, those of the first Einsum first."""
        parts = (part for text in self.texts for side in text.split(" = ") for part in side.split(" * "))
        return list(dict.fromkeys(part.split("[")[0] for part in parts))

    def work(self, gaps: int, per_level: float) -> float:
        """About how many ways there are to cut all ranks into loops, with nodes in all orders."""
        most = 0.0
        for bounds in self.variables:
            ways = 1.0
            for bound in bounds.values():
                ways *= _ways(bound, gaps)
            most += ways * per_level
        return most


def _ways(n: int, places: int) -> int:
    """Ways to write n as a product of so many factors, in order."""
    found, p = 1, 2
    while n > 1:
        e = 0
        while n % p == 0:
            n, e = n // p, e + 1
        found *= math.comb(e + places - 1, places - 1)
        p += 1
    return found


def draw_wide(rng: random.Random, *, large: bool = False) -> tuple[Problem, frozenset[str]]:
    """A random problem that can be tried out, and the kinds that it is of; `large`: not to be tried out, no lanes."""
    while True:
        einsums = _Einsums(rng, LARGE if large else SIZES)
        einsums.draw(rng.choice((2, 2, 2, 3)))
        levels = rng.choice((1, 1, 2, 2, 3)) if len(einsums.texts) < 3 else rng.choice((1, 1, 2))
        fanout = 0 if large else rng.choice((0, 0, 0, 1, 2, 3))
        nodes, kinds = _nodes(rng, einsums, levels, fanout)
        optional = sum(str(node.get("tensors", {}).get("may_keep", "")) == "All" for node in nodes[1:])
        per_level = 6.0**levels * 4.0**optional * (4.0 if 0 < fanout <= levels + 1 else 1.0)
        # chains of three are combined with each other
        most = WORK if len(einsums.texts) < 3 else WORK / 10
        if large or einsums.work(levels + 1, per_level) <= most:
            break
    per_variable = rng.choice((1, 1, 1, 2, 3))
    most = rng.choice((0, 1, 2, 2, 3, math.inf, math.inf))
    kinds |= einsums.kinds
    kinds |= {f"{levels} levels", f"{len(einsums.texts)} Einsums", f"loops: {most}"}
    if per_variable > 1 and most > 1:
        kinds.add("loops over one variable")
    workload: dict[str, Any] = {"rank_sizes": einsums.sizes, "bits_per_value": {"All": 8}, "einsums": einsums.texts}
    if rng.random() < 0.5:
        workload["bits_per_value"] = {
            t: rng.choice((8, 16, 32)) for t in rng.sample(einsums.tensors, rng.choice((1, 2)))
        }
        workload["bits_per_value"]["Other"] = 8
        kinds.add("bits")
    if rng.random() < 0.1:
        workload["n_instances"] = 2
    semantics = rng.choice(("exact", "accelforge"))
    data = {"arch": {"nodes": nodes}, "workload": workload}
    return Problem("wide", data, semantics, most, per_variable), frozenset(kinds)


def _nodes(rng: random.Random, einsums: _Einsums, levels: int, fanout: int) -> tuple[list[dict[str, Any]], set[str]]:
    kinds: set[str] = set()
    sizes = sorted(einsums.sizes[r] for r in einsums.ranks["X"])
    unit = 8 * math.prod(sizes[-2:])
    outermost = rng.choice(("~Intermediates", "~Intermediates", "~Intermediates", "All", "Nothing", "Outputs"))
    top = {"keep": outermost, "may_keep": "All"} if outermost != "Outputs" else {"keep": "~Inputs | Intermediates"}
    parts = Parts(rng, ("inf", 1, 2, 4, 8, 16, 32), powers=(1, 2, 5))
    nodes = [parts.memory("L0", "inf", top, 10, 0.2)]
    names = einsums.tensors
    for level in range(1, levels + 1):
        if fanout == level:
            nodes.append(parts.fan(level, ("X", "Y")[: rng.choice((1, 1, 1, 2))]))
            kinds.add("fanout")
        tensors = _kept(rng, level, names)
        if rng.random() < 0.15:
            field_ = rng.choice(("no_refetch_from_above", "no_resend_to_below"))
            tensors[field_] = rng.choice(("Inputs", "Outputs", "Intermediates", *names))
            kinds.add("constraints of moves")
        if rng.random() < 0.12:
            of = f"{rng.choice(names)}.rank_variables"
            tensors["tile_shape"] = [{"expression": of, "operator": rng.choice(("<=", ">=", "==")), "value": 2}]
            kinds.add("tile_shape")
        if rng.random() < 0.12:
            first = rng.choice(names)
            tensors["tensor_order_options"] = [[first, f"~{first}"]]
            kinds.add("orders")
        if rng.random() < 0.1:
            nodes.append(parts.toll(f"Toll{level}", ("All", *KINDS_OF_TENSORS)))
            kinds.add("toll")
        size = rng.choice(("inf", unit, unit * 1.5, unit * 0.75, unit * 0.5, unit * 2, 16, 32, 48, 64, 128, 192, 256))
        nodes.append(parts.memory(f"L{level}", size, tensors, 3 if level == 1 else 1, 0.2))
        if rng.random() < 0.2:
            nodes[-1]["bits_per_value"] = {rng.choice(("Intermediates", "Inputs", "Outputs")): rng.choice((4, 16))}
            kinds.add("bits of a memory")
    if fanout == levels + 1:
        nodes.append(parts.fan(fanout, ("X", "Y")[: rng.choice((1, 1, 1, 2))]))
        kinds.add("fanout")
    nodes.append(replace(parts, powers=(1, 3)).compute("MAC", 0.2))
    return nodes, kinds


def _kept(rng: random.Random, level: int, names: list[str]) -> dict[str, Any]:
    """What a memory keeps: everything, one tensor, kinds of tensors, and what it may keep beside."""
    keep = rng.choice(("All", "All", "~L0", "Nothing", "Inputs", "Outputs", "Intermediates", "Shared", *names[:2]))
    found: dict[str, Any] = {"keep": keep}
    if keep != "All":
        found["may_keep"] = rng.choice(("All", "All", "All", "Intermediates", "Inputs", "Nothing"))
    if rng.random() < 0.05:
        found["back"] = rng.choice(("Intermediates", "X"))
    return found
