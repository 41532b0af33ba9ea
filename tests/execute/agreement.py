"""What must agree between the model and an execution, as a list of differences."""

import math
from collections import Counter

import numpy as np

import einmap
from einmap.arch.component import Compute, Memory, Network
from einmap.einsum.numeric import run
from einmap.einsum.spaces.projection import Relevance
from einmap.mapping import nodes as tree
from einmap.schedule.routes import ranks_of, route_of


def differences(spec, cost=None, execution=None):
    """Counts, usages, latencies of plain components, operations and output tensors that do not agree."""
    cost = cost or einmap.evaluate(spec, semantics="exact")
    execution = execution or einmap.execute(spec)
    return [
        *_counts(cost, execution),
        *_usages(cost, execution),
        *_latencies(spec, cost, execution),
        *_einsum_latencies(spec, cost, execution),
        *_tensors(spec, execution),
    ]


def _counts(cost, execution):
    model, simulated = Counter(), Counter()
    for row in cost.actions:
        if row.action != "leak":
            model[row.einsum, row.component, row.tensor, row.action] += row.count
    for row in execution.actions:
        simulated[row.einsum, row.component, row.tensor, row.action] += row.count
    for key in sorted({*model, *simulated}, key=str):
        if not math.isclose(model[key], simulated[key], rel_tol=1e-12):
            yield key, model[key], simulated[key]


def _usages(cost, execution):
    for row in cost.memory_usage:
        if not math.isclose(row.usage, execution.usage[row.component], rel_tol=1e-12):
            yield "usage", row.component, row.usage, execution.usage[row.component]


def _latencies(spec, cost, execution):
    """Seconds from the actions of the busiest instance, where no expression of the user says otherwise."""
    for row in cost.latencies:
        einsum = spec.workload.by_name[row.einsum]
        unit = spec.arch(row.einsum).components[row.component]
        if unit.total_latency is not None:
            continue
        if isinstance(unit, Network):
            if not math.isclose(found := _of_network(unit, row, spec, execution), row.latency, rel_tol=1e-9):
                yield "network latency", row.einsum, row.component, row.latency, found
            continue
        counted = execution.rounds if isinstance(unit, Memory) and unit.interleaved else execution.calls
        calls = {a.name: counted.get((row.einsum, unit.name, a.name), 0) for a in unit.actions}
        seconds = seconds_of(unit, calls) + beginning(unit, row.einsum, None, execution)
        seconds += waiting(spec, row.einsum, unit)
        seconds *= spec.workload.n_instances * einsum.n_instances
        if not math.isclose(seconds, row.latency, rel_tol=1e-9):
            yield "latency", row.einsum, row.component, row.latency, seconds


def seconds_of(unit, calls):
    """Seconds of an instance for so many actions, without an expression of the user."""
    alone = {action.name: calls.get(action.name, 0) / action.throughput for action in unit.actions}
    if not isinstance(unit, Memory) or unit.ports is None:
        return math.fsum(alone.values())
    serving = {"read": unit.ports.read, "write": unit.ports.write, "read write": unit.ports.read_write}
    least = 0.0
    for kinds in ("read", "write", "read write"):
        ports = sum(n for served, n in serving.items() if {*served.split()} & {*kinds.split()})
        if unit.ports.banks is not None:
            banks = unit.ports.banks.number
            missed = (1 - 1 / banks) ** ports if unit.ports.banks.conflicts == "random" else 0
            ports = banks * (1 - missed) if unit.ports.banks.conflicts == "random" else min(ports, banks)
        least = max(least, math.fsum(alone[kind] for kind in kinds.split()) / ports)
    return least


def beginning(unit, einsum, children, execution, once=False):
    """Seconds in which transfers of an instance begin, of some children or of all; `once`: those of one visit."""
    found = Counter()
    for (name, component, _, action, child), counts in (
        execution.first_transfers if once else execution.transfers
    ).items():
        if (
            (name, component) == (einsum, unit.name)
            and isinstance(unit, Memory)
            and (children is None or child in children)
        ):
            for instance, n in counts.items():
                found[action, instance] += n
    most = Counter()
    for (action, _), n in found.items():
        most[action] = max(most[action], n)
    return sum(n * unit.action(action).startup for action, n in most.items())


def waiting(spec, einsum, unit):
    """Seconds in which the last lane of the array waits for values to come through the others."""
    if not isinstance(unit, Compute):
        return 0.0
    arch, path = spec.arch(einsum), spec.arch(einsum).path(unit.name)
    if all(d.skew == "none" for leaf in path for d in leaf.spatial):
        return 0.0
    route = route_of(spec.mapping, spec.workload.by_name[einsum], arch, ranks_of(spec.workload))
    steps = 0
    for level, leaf in enumerate(path):
        for dimension in leaf.spatial:
            lanes = math.prod(
                route.iterations[t.address]
                for t in route.turns
                if t.level == level and t.dimension.name == dimension.name
            )
            inside = [
                h.position
                for holds in route.holds.values()
                for h in holds
                if isinstance(h.component, Memory) and h.level >= level
            ]
            folds = 1
            if dimension.skew == "each_fold" and inside:
                folds = visits(spec, einsum, max(inside))
            if dimension.skew != "none":
                steps += folds * (lanes - 1)
    return steps * unit.actions_scale / unit.action("compute").throughput


def visits(spec, einsum, position):
    """How often the first lane comes to a place in the tree, going through all temporal loops above it."""
    placed = spec.mapping.path_of[einsum]

    def walk(at, extents):
        if at == position:
            return 1
        node = placed[at].node
        if not isinstance(node, tree.Temporal | tree.Spatial):
            return walk(at + 1, extents)
        variable, shape = node.rank_variable.of(einsum), node.tile_shape.of(einsum)
        first = node.initial_tile_shape.of(einsum) if isinstance(node, tree.Temporal) else None
        left, tile, found = extents[variable], first or shape, 0
        while left > 0:
            found += walk(at + 1, {**extents, variable: min(tile, left)})
            left, tile = (left - tile, shape) if isinstance(node, tree.Temporal) else (0, shape)
        return found

    return walk(0, dict(spec.workload.by_name[einsum].bounds))


def _einsum_latencies(spec, cost, execution):
    """Seconds of Einsums, from the actions of exchanges told by their child, and from the ways of single values."""
    turns, waits = on_their_way(spec)
    for name, latency in cost.latency_by_einsum.items():
        einsum, arch = spec.workload.by_name[name], spec.arch(name)
        used = [arch.components[row.component] for row in cost.latencies if row.einsum == name]
        if any(unit.total_latency is not None for unit in used) or einsum.is_copy:
            continue
        seconds = max((row.latency for row in cost.latencies if row.einsum == name), default=0.0)
        instances = spec.workload.n_instances * einsum.n_instances
        found = max(seconds, in_turns(spec, name, execution) * instances, turns[name] * instances)
        found += waits[name] * instances
        if not math.isclose(found, latency, rel_tol=1e-9):
            yield "Einsum latency", name, latency, found


def on_their_way(spec):
    """Seconds of Einsums in which one value goes through the nodes in each turn, and in which they wait once.

    A node is a part of each turn if it is visited as often as the innermost split, or is the last one before the
    compute; otherwise it works ahead of the first split that is visited more often.
    """
    turns, below = {}, {}
    for name in spec.mapping.path_of:
        einsum, placed, arch = spec.workload.by_name[name], spec.mapping.path_of[name], spec.arch(name)
        turns[name] = 0.0
        if einsum.is_copy:
            continue
        splits = [(p.address, i) for i, p in enumerate(placed) if isinstance(p.node, tree.Sequential)]
        often = [visits(spec, name, i) for _, i in splits]
        route = route_of(spec.mapping, einsum, arch, ranks_of(spec.workload))
        ways = [{False: Counter(), True: Counter()} for _ in (*splits, None)]
        for access in einsum.accesses:
            holds = route.holds[access.tensor]
            held = [(h.position, h.component) for h in holds if isinstance(h.component, Memory)]
            for i, (position, memory) in enumerate(held):
                ahead = [j for j, n in enumerate(often) if visits(spec, name, position) < n]
                depth = ahead[0] if ahead and i < len(held) - 1 else len(splits)
                done = {"write"} if access.output else {"read"}
                if i > 0 or (access.output and len(held) == 1 and _is_reduced(einsum, access)):
                    done = {"read", "write"}
                seconds = sum(memory.action(action).pipeline_latency for action in done)
                ways[depth][access.output][access.tensor] += seconds
        slowest = [{out: max(way[out].values(), default=0.0) for out in way} for way in ways]
        unit = arch.components[placed[-1].node.component]
        turns[name] = sum(slowest[-1].values()) + unit.action("compute").pipeline_latency
        turns[name] *= often[-1] if often else 1
        for j, (address, _) in enumerate(splits):
            below.setdefault(address, (often[j - 1] if j else 1, []))[1].append((name, slowest[j]))
    waits = dict.fromkeys(turns, 0.0)
    for times, members in below.values():
        for out, (name, _) in ((False, members[0]), (True, members[-1])):
            waits[name] += times * max(slowest[out] for _, slowest in members)
    return turns, waits


def _is_reduced(einsum, access):
    """Whether several points of the iteration space belong to one value."""
    return math.prod(bound for _, bound in einsum.bounds) > math.prod(
        bound for v, bound in einsum.bounds if access.relevance(v) is Relevance.FULL
    )


def in_turns(spec, einsum, execution):
    """Seconds with memories of one buffer: they are filled and emptied while nothing below them works.

    From the compute outward: a memory of one buffer waits for all that was so far, any other one does not. What goes
    into it or out is there when the last value of each transfer has gone all its hops.
    """
    arch = spec.arch(einsum)
    unit = next(c.name for c in arch.computes if (einsum, c.name, "compute") in execution.calls)
    path = [leaf for leaf in arch.path(unit) if isinstance(leaf, Memory)]
    total = seconds_of(arch.components[unit], {"compute": execution.calls[einsum, unit, "compute"]})
    total += waiting(spec, einsum, arch.components[unit])
    beside = [unit]
    for memory in reversed(path):
        if memory.buffering == "single" or memory.wind_up:
            total = max(total, _busiest(arch, einsum, beside, execution), _routed(arch, einsum, beside, execution))
            total += _busiest(arch, einsum, [memory.name], execution, once=memory.wind_up)
            total += _hops(arch, einsum, memory, execution)
            beside = [*beside, memory.name] if memory.wind_up else []
        else:
            beside.append(memory.name)
    return total


def _busiest(arch, einsum, children, execution, once=False):
    """Seconds of the component that is busy longest with what some children exchange."""
    calls = {}
    for key, counts in (execution.first if once else execution.by_child).items():
        name, component, _, action, child = key
        if name == einsum and child in children:
            for instance, n in (counts if once else execution.rounds_by_child.get(key, counts)).items():
                of_action = calls.setdefault(component, {}).setdefault(action, Counter())
                of_action[instance] += n
    busiest = {c: {a: max(n.values()) for a, n in actions.items()} for c, actions in calls.items()}
    loads = execution.first_link_loads if once else execution.link_loads
    of_links = (
        max(found.values(), default=0.0) / unit.action("hop").throughput
        for unit, found in _crossed(arch, einsum, children, loads)
    )
    return max(
        (
            *(
                seconds_of(unit, busiest.get(name, {})) + beginning(unit, einsum, children, execution, once)
                for name, unit in arch.components.items()
                if not isinstance(unit, Compute | Network)
            ),
            *of_links,
        ),
        default=0.0,
    )


def _crossed(arch, einsum, children, loads):
    """Each network with its loads of exchanges of some children, by link."""
    for name, unit in arch.components.items():
        if isinstance(unit, Network):
            found = Counter()
            for child in children:
                found.update(loads.get((einsum, name, child), {}))
            yield unit, found


def _routed(arch, einsum, children, execution):
    """Seconds of the longest route of exchanges of some children."""
    return max(
        (
            steps * arch.components[network].hop_latency
            for ((name, network, child), _), steps in execution.routes.items()
            if name == einsum and child in children
        ),
        default=0.0,
    )


def _hops(arch, einsum, memory, execution):
    """Seconds that the last values of the transfers of a memory are on their way, those of the tensor that has most."""
    found = Counter()
    for ((name, network, child), tensor), steps in execution.routes.items():
        if (name, child) == (einsum, memory.name):
            keys = [(einsum, memory.name, tensor, action, memory.name) for action in ("read", "write")]
            transfers = sum(max(execution.transfers.get(key, {}).values(), default=0) for key in keys)
            found[tensor] += (1 if memory.wind_up else transfers) * steps * arch.components[network].hop_latency
    return max(found.values(), default=0.0)


def _of_network(unit, row, spec, execution):
    key = (row.einsum, row.component)
    waiting = execution.link_traffic.get(key, 0) / unit.action("hop").throughput
    seconds = max(execution.longest_route.get(key, 0) * unit.hop_latency, waiting)
    return seconds * spec.workload.n_instances * spec.workload.by_name[row.einsum].n_instances


def _tensors(spec, execution):
    for tensor, expected in run(spec.workload, execution.inputs).items():
        if not np.allclose(execution.tensors[tensor], expected, rtol=1e-9, atol=1e-12, equal_nan=True):
            yield "tensor", tensor, float(np.abs(execution.tensors[tensor] - expected).max())
