"""Random small specifications of one Einsum with a mapping, for property tests."""

from dataclasses import dataclass, field, replace
from typing import Any

from hypothesis import strategies as st

from einmap import Spec

WORKLOADS = {
    "matmul": "Z[m, n] = A[m, k] * B[k, n]", "bias": "Z[m, n] = A[m] * B[n]", "elementwise": "Z[m, n] = A[m, n]",
    "sum": "Z[m] = A[m, n] * B[n, k]", "conv": "Z[m, p] = A[H: p + r] * B[m, r]",
    "strided conv": "Z[m, p] = A[H: 2*p + r] * B[m, r]", "dilated conv": "Z[p] = A[H: p + 2*r] * B[r]",
    "scatter": "Z[H: p + r] = A[p] * B[r]", "strided scatter": "Z[m, H: 2*p + r] = A[p, m] * B[r]",
}  # fmt: skip
VARIABLES = {
    "matmul": "mnk", "bias": "mn", "elementwise": "mn", "sum": "mnk", "conv": "mpr", "strided conv": "mpr",
    "dilated conv": "pr", "scatter": "pr", "strided scatter": "mpr",
}  # fmt: skip


@dataclass(frozen=True)
class Case:
    """A specification in parts that properties change; `spec` puts them together."""

    einsum: str
    sizes: dict[str, int]
    arch: list[dict[str, Any]]
    nodes: list[dict[str, Any]]
    bits: dict[str, int] = field(default_factory=lambda: {"All": 8})

    @property
    def spec(self) -> Spec:
        return Spec.from_dict(
            {
                "arch": {"nodes": self.arch},
                "workload": {
                    "rank_sizes": {v.upper(): n for v, n in self.sizes.items()},
                    "bits_per_value": self.bits,
                    "einsums": [{"name": "E", "einsum": self.einsum}],
                },
                "mapping": {"nodes": self.nodes},
            }
        )

    def __repr__(self) -> str:
        """As YAML-like lines, which is what one wants to read of a failing example."""
        lines = [f"{self.einsum}  {self.sizes}  {self.bits}"]
        lines += [f"  arch {node}" for node in self.arch]
        return "\n".join(lines + [f"  {node}" for node in self.nodes])

    def with_nodes(self, nodes: list[dict[str, Any]]) -> "Case":
        return replace(self, nodes=nodes)


def action(name: str, energy: int, throughput: int) -> dict[str, Any]:
    return {"name": name, "energy": energy, "throughput": throughput}


def memory(name: str, size: object, skip: bool, reads: int = 4, writes: int = 2) -> dict[str, Any]:
    actions = [action("read", 3, reads), action("write", 5, writes)]
    costs = {"area": 1, "leak_power": 1, "actions": actions, "size": size}
    return {"type": "Memory", "name": name, "skip_initial_output_write": skip, **costs}


@st.composite
def architectures(draw: st.DrawFn, tensors: tuple[str, ...]) -> list[dict[str, Any]]:
    """Main, then up to two memories and a Compute, with fanouts and Tolls between them."""
    nodes: list[dict[str, Any]] = [memory("Main", "inf", skip=draw(st.booleans()))]
    n_inner = draw(st.integers(0, 2))
    fanouts = draw(st.integers(0, 2))
    for index in range(n_inner + 1):
        if draw(st.integers(0, 3)) == 0:
            direction = draw(st.sampled_from(["up", "down", "up_and_down"]))
            toll = {"type": "Toll", "name": f"Link{index}", "direction": direction, "area": 1, "leak_power": 0}
            nodes.append({**toll, "actions": [action("read", 1, 2)]})
        dimensions: list[dict[str, Any]] = []
        if fanouts and draw(st.booleans()):
            fanouts -= 1
            reused = draw(st.sets(st.sampled_from(tensors)))
            may_reuse = " | ".join(sorted(reused)) or "Nothing"
            gated = draw(st.booleans())
            dimensions = [{"name": "X", "fanout": 8, "may_reuse": may_reuse, "power_gateable": gated}]
        if draw(st.booleans()) and dimensions:
            nodes.append({"type": "Container", "name": f"Array{index}", "spatial": dimensions})
            dimensions = []
        skip = draw(st.booleans())
        if index < n_inner:
            nodes.append({**memory(f"Buffer{index}", 10**6, skip), "spatial": dimensions})
        else:
            unit = {"type": "Compute", "name": "MAC", "area": 1, "leak_power": 1, "spatial": dimensions}
            nodes.append({**unit, "skip_initial_output_write": skip, "actions": [action("compute", 1, 1)]})
    return nodes


@st.composite
def loops(draw: st.DrawFn, sizes: dict[str, int], dimensions: list[tuple[str, str]], perfect: bool) -> list[dict]:
    """Loops of all variables down to tile shape 1, in random order, some of them spatial."""
    chains: list[list[dict[str, Any]]] = []
    for variable, size in sizes.items():
        shapes: list[dict[str, Any]] = []
        extent = size
        while extent > 1:
            fitting = [s for s in range(1, extent) if not perfect or extent % s == 0]
            extent = draw(st.sampled_from(fitting))
            shapes.append({"type": "Temporal", "rank_variable": variable, "tile_shape": extent})
        chains.append(shapes)
    order = draw(st.permutations([i for i, chain in enumerate(chains) for _ in chain]))
    found = [chains[i].pop(0) for i in order]
    used: dict[tuple[str, str], int] = dict.fromkeys(dimensions, 1)
    extents = dict(sizes)
    for loop in found:
        count = -(-extents[loop["rank_variable"]] // loop["tile_shape"])
        extents[loop["rank_variable"]] = loop["tile_shape"]
        free = [d for d in dimensions if used[d] * count <= 8]
        if free and draw(st.integers(0, 2)) == 0:
            component, name = draw(st.sampled_from(free))
            used[component, name] *= count
            loop |= {"type": "Spatial", "component": component, "name": name}
    return found


@st.composite
def cases(draw: st.DrawFn, perfect: bool = False, kinds: tuple[str, ...] = tuple(WORKLOADS)) -> Case:
    """A case; a few of them are refused because a spatial loop crosses another loop (see `evaluated`)."""
    kind = draw(st.sampled_from(kinds))
    einsum = WORKLOADS[kind]
    tensors = tuple(t for t in ("A", "B", "Z") if f"{t}[" in einsum)
    sizes = {v: draw(st.integers(1, 6)) for v in VARIABLES[kind]}
    arch = draw(architectures(tensors))
    dimensions = [(node["name"], d["name"]) for node in arch for d in node.get("spatial", [])]
    holders = []
    for node in arch:
        if node["type"] in ("Memory", "Toll"):
            everything = node["name"] == "Main"
            held = list(tensors) if everything else draw(st.lists(st.sampled_from(tensors), unique=True))
            kind_of_node = {"Memory": "Storage", "Toll": "Toll"}[node["type"]]
            cut = draw(st.integers(0, len(held)))
            for part in (held[:cut], held[cut:]):
                if part:
                    holders.append({"type": kind_of_node, "component": node["name"], "tensors": part})
    nodes = list(holders)
    at = 0
    for loop in draw(loops(sizes, dimensions, perfect)):
        at = draw(st.integers(at, len(nodes)))
        nodes.insert(at, loop)
        at += 1
    nodes.append({"type": "Compute", "einsum": "E", "component": "MAC"})
    bits = {t: draw(st.sampled_from([4, 8, 16])) for t in tensors}
    return Case(einsum, sizes, arch, nodes, bits)
