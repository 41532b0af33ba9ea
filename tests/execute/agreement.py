"""What must agree between the model and an execution, as a list of differences."""

import math
from collections import Counter

import numpy as np

import einmap
from einmap.arch.component import Memory, Network
from einmap.einsum.numeric import run


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
        calls = {a.name: execution.calls.get((row.einsum, unit.name, a.name), 0) for a in unit.actions}
        seconds = seconds_of(unit, calls) * spec.workload.n_instances * einsum.n_instances
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


def _einsum_latencies(spec, cost, execution):
    """Seconds of Einsums, from the actions of exchanges told by their child."""
    for name, latency in cost.latency_by_einsum.items():
        einsum, arch = spec.workload.by_name[name], spec.arch(name)
        used = [arch.components[row.component] for row in cost.latencies if row.einsum == name]
        if any(unit.total_latency is not None or isinstance(unit, Network) for unit in used) or einsum.is_copy:
            continue
        seconds = max((row.latency for row in cost.latencies if row.einsum == name), default=0.0)
        found = in_turns(arch, name, execution) * spec.workload.n_instances * einsum.n_instances
        if not math.isclose(max(seconds, found), latency, rel_tol=1e-9):
            yield "Einsum latency", name, latency, max(seconds, found)


def in_turns(arch, einsum, execution):
    """Seconds with memories of one buffer: they are filled and emptied while nothing below them works.

    From the compute outward: a memory of one buffer waits for all that was so far, any other one does not.
    """
    unit = next(c.name for c in arch.computes if (einsum, c.name, "compute") in execution.calls)
    path = [leaf for leaf in arch.path(unit) if isinstance(leaf, Memory)]
    total = seconds_of(arch.components[unit], {"compute": execution.calls[einsum, unit, "compute"]})
    beside = [unit]
    for memory in reversed(path):
        if memory.buffering == "single":
            total = max(total, _busiest(arch, einsum, beside, execution))
            total += _busiest(arch, einsum, [memory.name], execution)
            beside = []
        else:
            beside.append(memory.name)
    return total


def _busiest(arch, einsum, children, execution):
    """Seconds of the component that is busy longest with what some children exchange."""
    calls = {}
    for (name, component, _, action, child), counts in execution.by_child.items():
        if name == einsum and child in children:
            for instance, n in counts.items():
                of_action = calls.setdefault(component, {}).setdefault(action, Counter())
                of_action[instance] += n
    busiest = {c: {a: max(n.values()) for a, n in actions.items()} for c, actions in calls.items()}
    return max((seconds_of(arch.components[c], n) for c, n in busiest.items()), default=0.0)


def _of_network(unit, row, spec, execution):
    key = (row.einsum, row.component)
    waiting = execution.link_traffic.get(key, 0) / unit.action("hop").throughput
    seconds = max(execution.longest_route.get(key, 0) * unit.hop_latency, waiting)
    return seconds * spec.workload.n_instances * spec.workload.by_name[row.einsum].n_instances


def _tensors(spec, execution):
    for tensor, expected in run(spec.workload, execution.inputs).items():
        if not np.allclose(execution.tensors[tensor], expected, rtol=1e-9, atol=1e-12):
            yield "tensor", tensor, float(np.abs(execution.tensors[tensor] - expected).max())
