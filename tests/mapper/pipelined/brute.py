"""The best Pipeline of a small chain of matrix products, by trying all trees: a judge for the mapper.

Each product, or several that take turns, is a stage on lanes of its own of the fanout Array.X, between a main memory and
a buffer. A product's chain is tried below all loops that stages can have in common, and evaluated once, in a tree with any chain of the others, since
what it costs does not depend on them. Sums of chains are then taken from the best on; the first tree that `evaluate`
accepts is the best, and it must cost what was added up here.
"""

import math
from dataclasses import dataclass
from itertools import combinations, groupby, permutations, product

import einmap
from einmap.errors import CapacityError


@dataclass(frozen=True)
class Chain:
    """`above`: tensors in the buffer by the number of common loops above; `below`: nodes of the stage itself."""

    above: tuple[tuple[str, int], ...]
    below: tuple[dict, ...]
    lanes: int
    energy: float = 0.0
    latency: float = 0.0
    main: float = 0.0
    buffer: float = 0.0

    def __hash__(self):
        return id(self)


def factors(n, parts):
    """All ways to write n as an ordered product."""
    if parts == 0:
        return [()] if n == 1 else []
    return [(d, *rest) for d in range(1, n + 1) if n % d == 0 for rest in factors(n // d, parts - 1)]


def spatial(variable, shape, component, name):
    """A loop over lanes."""
    loop = {"type": "Spatial", "rank_variable": variable, "tile_shape": shape}
    return {**loop, "component": component, "name": name}


class Brute:
    """All Pipelines of a specification that has no mapping. `handed`: from Einsum to Einsum; `keeps`: all is buffered.

    `sizes`: how many Einsums each stage has; one by default.
    """

    def __init__(self, case, keeps, sizes=None):
        self.case, self.keeps = case, keeps
        self.spec = einmap.Spec.from_dict(case)
        self.einsums = self.spec.workload.einsums
        self.stage_of = [n for n, size in enumerate(sizes or [1] * len(self.einsums)) for _ in range(size)]
        read = {t for e in self.einsums for t in e.inputs}
        self.handed = tuple(t for e in self.einsums for t in e.outputs if t in read)
        arch = {node["name"]: node for node in case["arch"]["nodes"]}
        self.fanout = arch["Array"]["spatial"][0]["fanout"]
        self.row = arch["Row"]["spatial"][0]["fanout"] if "Row" in arch else 1
        roomy = {**case, "arch": {"nodes": [{**n, **({"size": "inf"} if n["name"] == "Buffer" else {})}
                                            for n in case["arch"]["nodes"]]}}  # fmt: skip
        self.roomy = einmap.Spec.from_dict(roomy)

    def loops(self):
        """Common loops: for each the variable of every Einsum (those of what is handed on), and the iterations.

        Stages that hand nothing on have none, and run side by side.
        """
        if not self.handed:
            yield ()
            return
        variables = []
        for named in product(*(e.rank_variables for e in self.einsums)):
            bounds = {dict(e.bounds)[v] for e, v in zip(self.einsums, named, strict=True)}
            if len(bounds) == 1 and all(
                self.rank(i, t, named[i]) is not None and self.rank(i, t, named[i]) == self.rank(i + 1, t, named[i + 1])
                for i, t in enumerate(self.handed)
            ):
                variables.append((named, bounds.pop()))
        for n in range(1, len(variables) + 1):
            for chosen in permutations(variables, n):
                yield from product(
                    *([(named, d) for d in range(2, bound + 1) if bound % d == 0] for named, bound in chosen)
                )

    def rank(self, i, tensor, variable):
        access = self.einsums[i].by_tensor[tensor]
        return next((rank for rank, index in access.projection if dict(index.terms).get(variable)), None)

    def chains(self, i, loops):
        """All chains of an Einsum below common loops, without costs."""
        einsum = self.einsums[i]
        left = dict(einsum.bounds)
        for named, n in loops:
            left[named[i]] //= n
        own = [a.tensor for a in einsum.accesses if a.tensor not in self.handed]
        kept_choices = [own] if self.keeps else [c for n in range(len(own) + 1) for c in combinations(own, n)]
        for kept in kept_choices:
            for places in product(range(len(loops) + 1), repeat=len(kept)):
                above = tuple((t, at) for t, at in zip(kept, places, strict=True) if at < len(loops))
                inner = [t for t, at in zip(kept, places, strict=True) if at == len(loops)]
                for order in permutations(inner):
                    yield from self.below(einsum, left, above, order)

    def below(self, einsum, left, above, order):
        """Temporal loops in the gaps around the nodes `order`, then lanes."""
        variables = [v for v, n in left.items() if n > 1]
        gaps = len(order) + 1
        parts = gaps + 1 + (self.row > 1)
        for cut in product(*(factors(left[v], parts) for v in variables)):
            lanes, inner = math.prod(c[gaps] for c in cut), math.prod(n for c in cut for n in c[gaps + 1 :])
            if lanes >= self.fanout or inner > self.row:
                continue
            nodes, now = [], dict(left)
            for gap in range(gaps):
                if gap:
                    nodes.append({"type": "Storage", "tensors": [order[gap - 1]], "component": "Buffer"})
                for v, c in zip(variables, cut, strict=True):
                    if c[gap] > 1:
                        now[v] //= c[gap]
                        nodes.append({"type": "Temporal", "rank_variable": v, "tile_shape": now[v]})
            for v, c in zip(variables, cut, strict=True):
                if c[gaps] > 1:
                    now[v] //= c[gaps]
                    nodes.append(spatial(v, now[v], "Array", "X"))
            inner_loops = [
                spatial(v, 1, "Row", "Y") for v, c in zip(variables, cut, strict=True) if c[gaps + 1 :] > (1,)
            ]
            # below a network the order of lanes matters
            for arranged in permutations(inner_loops):
                compute = {"type": "Compute", "einsum": einsum.name, "component": "MAC"}
                yield Chain(above, (*nodes, *arranged, compute), lanes)

    def tree(self, loops, chains):
        """The mapping of one chain for each stage."""
        outside = [t for e in self.einsums for t in e.tensors if t not in self.handed]
        nodes = [{"type": "Storage", "tensors": sorted(set(outside)), "component": "Main"}]
        left = [dict(e.bounds) for e in self.einsums]
        for depth in range(len(loops) + 1):
            held = [t for chain in chains for t, at in chain.above if at == depth]
            if depth == len(loops):
                held += self.handed
            if held:
                nodes.append({"type": "Storage", "tensors": held, "component": "Buffer"})
            if depth < len(loops):
                named, n = loops[depth]
                shapes, names = {}, {}
                for i, e in enumerate(self.einsums):
                    left[i][named[i]] //= n
                    shapes[e.name], names[e.name] = left[i][named[i]], named[i]
                nodes.append({"type": "Temporal", "rank_variable": names, "tile_shape": shapes})
        nests = [{"type": "Nested", "nodes": list(chain.below)} for chain in chains]
        branches = []
        for _, stage in groupby(zip(self.stage_of, nests, strict=True), key=lambda row: row[0]):
            alike = [nest for _, nest in stage]
            turns = {"type": "Nested", "nodes": [{"type": "Sequential", "nodes": alike}]}
            branches.append(alike[0] if len(alike) == 1 else turns)
        nodes.append({"type": "Pipeline", "component": "Array", "name": "X", "nodes": branches})
        return {"nodes": nodes}

    def evaluated(self, loops, chains, spec):
        return einmap.evaluate(einmap.Spec.from_dict({**spec.to_dict(), "mapping": self.tree(loops, chains)}))

    def costed(self, loops):
        """The chains of each stage with their costs."""
        every = [list(self.chains(i, loops)) for i in range(len(self.einsums))]
        if not all(every):
            return None
        found = []
        for i, chains in enumerate(every):
            narrow = [min(c, key=lambda chain: chain.lanes) for c in every]
            mine = []
            for chain in chains:
                others = [chain if j == i else c for j, c in enumerate(narrow)]
                if self.lanes(others) > self.fanout:
                    continue
                cost = self.evaluated(loops, others, self.roomy)
                name = self.einsums[i].name
                energy = sum(row.energy for row in cost.actions if row.einsum == name and row.action != "leak")
                busy = {row.component: row.latency for row in cost.latencies if row.einsum == name}
                mine.append(
                    Chain(chain.above, chain.below, chain.lanes, energy, cost.latency_by_einsum[name],
                          busy["Main"], busy.get("Buffer", 0.0))
                )  # fmt: skip
            found.append(mine)
        return found

    def lanes(self, chains):
        """Of all stages together; Einsums of one take turns on the same."""
        most = {}
        for n, chain in zip(self.stage_of, chains, strict=True):
            most[n] = max(most.get(n, 0), chain.lanes)
        return sum(most.values())

    def sums(self):
        """Energy, latency and tree of everything, space not looked at."""
        leak = self.spec.arch().total_leak_power
        for loops in self.loops():
            tiles = math.prod(n for _, n in loops)
            every = self.costed(loops)
            for chains in product(*every) if every else ():
                if self.lanes(chains) > self.fanout:
                    continue
                times = [0.0] * (self.stage_of[-1] + 1)
                for n, chain in zip(self.stage_of, chains, strict=True):
                    times[n] += chain.latency
                latency = max(times) + (sum(times) - max(times)) / tiles if self.handed else max(times)
                latency = max(latency, sum(c.main for c in chains), sum(c.buffer for c in chains))
                yield sum(c.energy for c in chains) + leak * latency, latency, (loops, chains)

    def best(self, value, like=lambda loops, chains: True):
        """The least value of (energy, latency) that a tree has which `evaluate` accepts; inf when there is none.

        `like`: which trees are meant.
        """
        every = sorted(self.sums(), key=lambda found: value(*found[:2]))
        for energy, latency, (loops, chains) in every:
            if not like(loops, chains):
                continue
            try:
                cost = self.evaluated(loops, chains, self.spec)
            except CapacityError:
                continue
            assert math.isclose(cost.energy, energy, rel_tol=1e-9)
            assert math.isclose(cost.latency, latency, rel_tol=1e-9)
            return value(energy, latency)
        return math.inf
