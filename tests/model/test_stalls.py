"""Stalls turn by turn, by hand and against the spans of the simulator's timeline."""

import json
import math
import random
from collections import Counter
from contextlib import contextmanager
from unittest.mock import patch

import pytest
from tests.amounts import few_and_many
from tests.execute.agreement import seconds_of
from tests.random_specs.cases import valid_case, valid_networks

import einmap
from einmap.arch.component import Compute, Memory, Network
from einmap.errors import NotSupportedError
from einmap.execute.networks.routing import Wires
from einmap.execute.results.timeline import Timeline


def spec(loops, k=8, stalls="tile_by_tile", width=1, extra="", tile="[A, B]"):
    """A dot product: A and B come into the buffer tile by tile, the result stays outside; one value, one second."""
    return einmap.loads(f"""
arch:
  nodes:
  - !Memory {{name: Main, size: inf, leak_power: 0, area: 0, {extra}
             actions: [{{name: read, energy: 1, throughput: {width}}}, {{name: write, energy: 1, throughput: inf}}]}}
  - !Memory {{name: Buffer, size: inf, leak_power: 0, area: 0, stalls: {stalls},
             actions: [{{name: read, energy: 1, throughput: inf}}, {{name: write, energy: 1, throughput: inf}}]}}
  - !Compute {{name: MAC, leak_power: 0, area: 0, actions: [{{name: compute, energy: 1, throughput: 0.25}}]}}
workload: {{rank_sizes: {{M: 1, K: {k}}}, bits_per_value: {{All: 1}}, einsums: ["Z[m] = A[m,k] * B[m,k]"]}}
mapping:
  nodes:
  - !Storage {{tensors: [A, B, Z], component: Main}}
  - !Storage {{tensors: [Z], component: Buffer}}
{loops}
  - !Compute {{einsum: Z, component: MAC}}""")


PLAIN = """
  - !Temporal {rank_variable: k, tile_shape: 2}
  - !Storage {tensors: [A, B], component: Buffer}
  - !Temporal {rank_variable: k, tile_shape: 1}"""
UNEVEN = PLAIN.replace("tile_shape: 2", "tile_shape: 3")
REUSED = """
  - !Storage {tensors: [A], component: Buffer}
  - !Temporal {rank_variable: k, tile_shape: 2}
  - !Storage {tensors: [B], component: Buffer}
  - !Temporal {rank_variable: k, tile_shape: 1}"""


def test_the_first_tiles_are_waited_for_and_the_others_hide():
    # 4 turns of 2 operations of 4 s; 2 values of each input are loaded in 4 s
    assert einmap.evaluate(spec(PLAIN)).latency == 4 + 4 * 8
    assert einmap.evaluate(spec(PLAIN, stalls="average")).latency == 32
    # loads of 16 s: the first one, three that take longer than a turn, the last turn
    assert einmap.evaluate(spec(PLAIN, width=0.25)).latency == 16 + 3 * 16 + 8
    assert einmap.evaluate(spec(PLAIN, width=0.25, stalls="average")).latency == 64


def test_a_smaller_last_tile_and_a_larger_first_load_count_as_they_are():
    # turns of 3, 3 and 2 operations, loads of 6, 6 and 4 values in 3 s each
    loads, work = (18, 18, 12), (12, 12, 8)
    assert einmap.evaluate(spec(UNEVEN, width=1 / 3)).latency == pytest.approx(
        loads[0] + max(work[0], loads[1]) + max(work[1], loads[2]) + work[2]
    )
    # all of A comes before the first turn: 8 + 2 values, then 2 for each of three turns, in 4 s each
    assert einmap.evaluate(spec(REUSED, width=0.25)).latency == 40 + 3 * max(8, 8) + 8


def test_results_go_out_while_the_turn_after_works():
    outward = """
  - !Temporal {rank_variable: m, tile_shape: 1}
  - !Storage {tensors: [A, B, Z], component: Buffer}
  - !Temporal {rank_variable: k, tile_shape: 1}"""
    written = spec(outward).to_dict()
    written["workload"] = {
        "rank_sizes": {"M": 3, "K": 2}, "bits_per_value": {"All": 1}, "einsums": ["Z[m] = A[m,k] * B[k]"],
    }  # fmt: skip
    del written["mapping"]["nodes"][1]
    written["arch"]["nodes"][0]["actions"][1]["throughput"] = 0.1
    # loads of 4 s, turns of 8 s, stores of 10 s, which pass one port with the loads
    slots = (4, max(8, 4), max(8, 4 + 10), max(8, 10), 10)
    assert einmap.evaluate(einmap.Spec.from_dict(written)).latency == sum(slots)
    # ports of their own: reads and writes of a slot overlap
    written["arch"]["nodes"][0]["ports"] = {"read": 1, "write": 1}
    assert einmap.evaluate(einmap.Spec.from_dict(written)).latency == 4 + 8 + 10 + 10 + 10


@contextmanager
def crossings():
    """Notes what crosses networks while a mapping runs: for each span, and in (False) or out (True), what the wires do."""
    found, timelines = {}, []
    carry, visit = Wires.carry, Timeline.visit

    def begin(timeline, *given):
        timelines[:] = [timeline]
        visit(timeline, *given)

    def carried(wires, *given, up, **more):
        own = found.setdefault((len(timelines[0].spans) - 1, up), Wires())
        for each in (wires, own):
            carry(each, *given, up=up, **more)

    with patch.object(Wires, "carry", carried), patch.object(Timeline, "visit", begin):
        yield found


def judged(seed, valid=valid_case):
    """Compare a random mapping whose innermost memory stalls with the spans of its run; None where it is refused."""
    rng = random.Random(seed)
    written = valid(rng)[0].to_dict()
    memories = [node for node in written["arch"]["nodes"] if node.get("type") == "Memory"]
    for node in written["arch"]["nodes"]:
        for action in node.get("actions", ()):
            action["throughput"] = rng.choice((1, 2, 5))
            if node["type"] == "Network":
                action["throughput"], action["latency"] = rng.choice((0.1, 0.25, 1)), rng.choice((0, 2, 9))
    memories[-1]["stalls"] = "tile_by_tile"
    for action in memories[-1]["actions"]:
        action["throughput"] = "inf"
    if rng.random() < 0.4:
        memories[0]["ports"] = rng.choice(({"read": 1, "write": 1}, {"read_write": 2}))
    given = einmap.loads(json.dumps(written))
    try:
        cost = einmap.evaluate(given)
    except (NotSupportedError, einmap.CapacityError):
        return None
    with crossings() as crossed:
        execution = einmap.execute(given, timeline=10**7)
    longer = False
    for name, latency in cost.latency_by_einsum.items():
        einsum = given.workload.by_name[name]
        if einsum.is_copy:
            continue
        numbers = [i for i, span in enumerate(execution.spans) if any(key[0] == name for key in span.actions)]
        spans = [execution.spans[i] for i in numbers]
        assert all(span.visits == 1 for span in spans)
        wires = {(s, up): crossed[i, up] for s, i in enumerate(numbers) for up in (False, True) if (i, up) in crossed}
        seconds = _of_slots(given, name, spans, memories[-1]["name"], execution, wires)
        if seconds is None:
            return None
        busiest = max(row.latency for row in cost.latencies if row.einsum == name)
        instances = given.workload.n_instances * einsum.n_instances
        assert math.isclose(latency, max(busiest, seconds * instances), rel_tol=1e-9), (seed, name)
        longer |= latency > busiest * (1 + 1e-9)
    return longer


def _of_slots(given, name, spans, memory, execution, wires):
    """Seconds of a run whose turns are spans: fills of a span before it, what is written back after it.

    The memory itself takes no time, and neither side of an exchange with it is one of an exchange of the compute. None
    where memories stand between.
    """
    arch = given.arch(name)
    unit = next(c.name for c in arch.computes if (name, c.name, "compute") in execution.calls)
    moved = {key[:4] for key in execution.by_child if key[0] == name and key[4] == memory and key[1] != memory}
    if {key[4] for key in execution.by_child if key[0] == name} - {unit, memory} or not moved:
        return None
    slots = [Counter() for _ in range(len(spans) + 2)]
    work = Counter()
    total = 0.0
    for s, span in enumerate(spans):
        for key, counts in span.actions.items():
            if key[0] != name:
                continue
            if key[3] == "compute":
                work[s] = max(counts.values())
                total += work[s]
            elif key in moved:
                if not isinstance(arch.components[key[1]], Memory):
                    return None
                for instance, n in counts.items():
                    slots[s if key[3] == "read" else s + 2][key[1], key[3], instance] += n
    inside = seconds_of(arch.components[unit], {"compute": execution.calls[name, unit, "compute"]})
    calls = Counter()
    for key, counts in execution.by_child.items():
        if key[0] == name and key[4] == unit:
            for instance, n in counts.items():
                calls[key[1], key[3], instance] += n
    inside = max([inside, *_busy(arch, calls).values(), *_on_links(arch, name, unit, wires.values())])
    inside = max([inside, *_hops(arch, name, unit, wires.values())])
    longest = 0.0
    for s, slot in enumerate(slots):
        working = inside * work[s - 1] / total if 0 < s <= len(spans) else 0.0
        here = [wires[at] for at in ((s, False), (s - 2, True)) if at in wires]
        waiting = max([0.0, *_busy(arch, slot).values(), *_on_links(arch, name, memory, here)])
        longest += max(working, waiting + max(_tensors_hops(arch, name, memory, here), default=0.0))
    return longest


def _on_links(arch, einsum, child, wires):
    """Seconds of the busiest link of each network for exchanges of a child."""
    for network in arch.components.values():
        loads = Counter()
        for one in wires:
            loads.update(one.loads.get((einsum, network.name, child), {}))
        for n in loads.values():
            yield n / network.action("hop").throughput


def _hops(arch, einsum, child, wires):
    """Seconds of the longest route through each network for exchanges of a child."""
    for one in wires:
        for ((name, network, to), _), steps in one.routes.items():
            if (name, to) == (einsum, child) and one.loads.get((name, network, to)):
                yield steps * arch.components[network].hop_latency


def _tensors_hops(arch, einsum, child, wires):
    """Seconds of the longest routes of each tensor through all networks."""
    for one in wires:
        found = Counter()
        for ((name, network, to), tensor), steps in one.routes.items():
            if (name, to) == (einsum, child) and any(one.hops.get((name, network, tensor), {}).values()):
                found[tensor] += steps * arch.components[network].hop_latency
        yield from found.values()


def _busy(arch, calls):
    """Seconds of each component for what its busiest instance does, each action by itself."""
    most = {}
    for (component, action, _), n in calls.items():
        of_component = most.setdefault(component, Counter())
        of_component[action] = max(of_component[action], n)
    return {
        c: seconds_of(arch.components[c], n)
        for c, n in most.items()
        if not isinstance(arch.components[c], Compute | Network)
    }


STALLING = (3, 4, 16, 22, 36, 47, 49, 55, 59, 92, 99, 117, 121, 132, 140)
"""Random mappings that stall; many others are refused, or have memories between."""
STALLING_BELOW_NETWORKS = (26, 40, 78, 109, 117, 197, 230)


@few_and_many(
    "seeds, below_networks",
    (STALLING[::3], STALLING_BELOW_NETWORKS[::3]),
    (STALLING, STALLING_BELOW_NETWORKS),
    part="simulator",
)
def test_random_mappings_stall_as_the_spans_of_their_runs_do(seeds, below_networks):
    assert all(judged(seed) for seed in seeds)
    assert all(judged(seed, valid_networks) for seed in below_networks)


@pytest.mark.slow
@pytest.mark.simulator
def test_many_random_mappings_stall_as_the_spans_of_their_runs_do():
    found = [outcome for seed in range(1000, 2000) if (outcome := judged(seed)) is not None]
    assert len(found) >= 100
    assert sum(found) >= 50
    found = [outcome for seed in range(1000, 2000) if (outcome := judged(seed, valid_networks)) is not None]
    assert len(found) >= 80
    assert sum(found) >= 40


def test_what_cannot_be_told_turn_by_turn_is_refused_by_name():
    with pytest.raises(NotSupportedError, match="of 'Buffer' with the preset 'accelforge'"):
        einmap.evaluate(spec(PLAIN), semantics="accelforge")
    with pytest.raises(NotSupportedError, match="beside a memory that is single or winds up"):
        einmap.evaluate(spec(PLAIN.replace("tile_shape: 2", "tile_shape: 4"), extra="wind_up: true,"))
    expressed = spec(PLAIN).to_dict()
    hop = {"name": "hop", "energy": 0, "latency": 0, "throughput": 1}
    network = {"type": "Network", "name": "Noc", "leak_power": 0, "area": 0, "total_latency": "9", "actions": [hop]}
    expressed["arch"]["nodes"].insert(1, network)
    with pytest.raises(NotSupportedError, match="beside a network's total_latency"):
        einmap.evaluate(einmap.Spec.from_dict(expressed))
    with pytest.raises(NotSupportedError, match="has 200,000 turns"):
        einmap.evaluate(spec(PLAIN.replace("tile_shape: 2", "tile_shape: 1"), k=200_000))
