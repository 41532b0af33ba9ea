"""What must agree between the model and an execution, as a list of differences."""

import math
from collections import Counter

import numpy as np

import einmap
from einmap.arch.component import Network
from einmap.einsum.numeric import run


def differences(spec, cost=None, execution=None):
    """Counts, usages, latencies of plain components, operations and output tensors that do not agree."""
    cost = cost or einmap.evaluate(spec, semantics="exact")
    execution = execution or einmap.execute(spec)
    return [
        *_counts(cost, execution),
        *_usages(cost, execution),
        *_latencies(spec, cost, execution),
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
        seconds = 0.0
        for action in unit.actions:
            calls = execution.calls.get((row.einsum, unit.name, action.name), 0)
            if calls:
                seconds += calls / action.throughput
        seconds *= spec.workload.n_instances * einsum.n_instances
        if not math.isclose(seconds, row.latency, rel_tol=1e-9):
            yield "latency", row.einsum, row.component, row.latency, seconds


def _of_network(unit, row, spec, execution):
    key = (row.einsum, row.component)
    waiting = execution.link_traffic.get(key, 0) / unit.action("hop").throughput
    seconds = max(execution.longest_route.get(key, 0) * unit.hop_latency, waiting)
    return seconds * spec.workload.n_instances * spec.workload.by_name[row.einsum].n_instances


def _tensors(spec, execution):
    for tensor, expected in run(spec.workload, execution.inputs).items():
        if not np.allclose(execution.tensors[tensor], expected, rtol=1e-9, atol=1e-12):
            yield "tensor", tensor, float(np.abs(execution.tensors[tensor] - expected).max())
