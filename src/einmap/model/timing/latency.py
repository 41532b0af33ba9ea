"""Seconds from action counts: a component is busy for the sum of its actions, or as its ports or expression say."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from einmap.arch.component import Action, Component, Memory, Network
from einmap.errors import ExpressionError, SpecError
from einmap.expressions.arithmetic import evaluate
from einmap.expressions.records import Record, RecordList
from einmap.model.counting.tiles import Count, larger
from einmap.model.traffic.actions import Actions
from einmap.model.traffic.mesh_crossing import NetworkUse
from einmap.visible import short


def network_time(network: Network, use: NetworkUse, einsum: str) -> Any:
    """Seconds that a network needs for an Einsum: for the longest route or for what passes the busiest link.

    Raises SpecError and ExpressionError as `busy_time` does.
    """
    scale = network.actions_scale
    busiest, traffic = use.busiest_hops * scale, use.max_link_traffic * scale
    if network.total_latency is not None:
        symbols = {"max_hops": use.max_hops, "max_link_traffic": traffic}
        return _expression(network, {"hop": busiest}, einsum, symbols)
    throughput = network.action("hop").throughput
    if throughput == 0 and not _is_zero(traffic):
        raise _no_throughput(network, network.action("hop"))
    waiting = 0.0 if math.isinf(throughput) or _is_zero(traffic) else traffic / throughput
    return larger(use.max_hops * network.hop_latency, waiting)


def seconds_of(component: Component, done: Actions | NetworkUse, einsum: str) -> Any:
    """Seconds that one instance of a memory or toll needs for its actions, or a network for what crosses it."""
    if isinstance(done, Actions):
        return memory_time(component, done, einsum)
    assert isinstance(component, Network)
    return network_time(component, done, einsum)


def memory_time(component: Component, done: Actions, einsum: str) -> Any:
    """Seconds that one instance of a memory or toll needs for its actions (`actions_scale` is applied here).

    Each transfer first takes the time in which its action starts. Raises as `busy_time` does.
    """
    scale = component.actions_scale
    read, write = done.read, done.write
    if isinstance(component, Memory) and component.interleaved:
        read, write = done.read_rounds, done.write_rounds
    seconds = busy_time(component, {"read": read * scale, "write": write * scale}, einsum)
    for action in component.actions:
        if action.startup:
            seconds = seconds + action.startup * (
                done.read_transfers if action.name == "read" else done.write_transfers
            )
    return seconds


def busy_time(component: Component, calls: Mapping[str, Count], einsum: str) -> Any:
    """Seconds that one instance needs for `calls` (actions by name, `actions_scale` applied).

    Counts may be arrays. Raises SpecError when an action that is used has no throughput, and
    ExpressionError when `total_latency` is not a number >= 0.
    """
    if component.total_latency is not None:
        return _expression(component, calls, einsum, {})
    ports = component.ports if isinstance(component, Memory) else None
    total: Any = 0.0
    by_action: dict[str, Any] = {}
    for action in component.actions:
        count = calls.get(action.name, 0)
        if math.isinf(action.throughput) or _is_zero(count):
            continue
        if action.throughput == 0:
            raise _no_throughput(component, action)
        by_action[action.name] = count / action.throughput
        total = total + count / action.throughput
    return total if ports is None else ports.seconds(by_action.get("read", 0.0), by_action.get("write", 0.0))


def _no_throughput(component: Component, action: Action) -> SpecError:
    """The error for an action that is used and never done."""
    text = f"division by zero: {component.name}.{action.name} has throughput 0 and is used"
    return SpecError(text, at=action.at, hint="give it a throughput above 0 (actions/s; inf: it takes no time)")


def _is_zero(count: Count) -> bool:
    return isinstance(count, int | float) and count == 0


def _expression(component: Component, calls: Mapping[str, Count], einsum: str, symbols: Mapping[str, Any]) -> Any:
    latency = component.total_latency
    assert latency is not None
    records = []
    seconds: dict[str, Any] = {}
    names: dict[str, Any] = dict(symbols)
    for action in component.actions:
        count = calls.get(action.name, 0)
        time = 0.0 if math.isinf(action.throughput) or action.throughput == 0 else count / action.throughput
        records.append(Record(action.name, {**dict(action.attributes), "n_calls": count}))
        seconds[action.name] = time
        names[f"{action.name}_actions"] = count
        names[f"{action.name}_latency"] = time
    names["actions"] = RecordList(tuple(records))
    names["action2latency"] = seconds
    what = f"total_latency of {component.name!r} (Einsum {einsum!r})"
    value = evaluate(latency.source, latency.scope.layer(names), at=latency.at)
    if isinstance(value, bool) or (not hasattr(value, "__float__") and not hasattr(value, "shape")):
        raise ExpressionError(f"{what} must be a number >= 0, got {short(value)}: {latency.text}", at=latency.at)
    if isinstance(value, int | float) and not value >= 0:
        raise ExpressionError(f"{what} must be a number >= 0, got {value}: {latency.text}", at=latency.at)
    return value
