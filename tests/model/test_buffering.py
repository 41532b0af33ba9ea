"""Single and double buffers, counted by hand."""

import json
import random
from itertools import product

import pytest
from tests.amounts import few_and_many
from tests.nests import nest_to_format
from tests.random_specs.cases import valid_case
from tests.random_specs.nodes import nodes

from einmap import CapacityError, NoMappingError, SpecError, evaluate, execute, loads, map_workload
from einmap.errors import NotSupportedError
from einmap.report.costs.cost_report import cost_report, to_text
from einmap.report.trace.timing import timing_of

FILE = """
arch:
  nodes:
  - !Memory {{name: DRAM, size: inf, leak_power: {leak}, area: 0, {dram}
             actions: [{{name: read, energy: 10, throughput: 2}}, {{name: write, energy: 12, throughput: 2}}]}}
  {between}
  - !Memory {{name: GLB, size: {size}, leak_power: 0, area: 0, {glb}
             actions: [{{name: read, energy: 1, throughput: 4}}, {{name: write, energy: 1, throughput: 4}}]}}
  - !Memory {{name: REG, size: 144, leak_power: 0, area: 0, {reg}
             actions: [{{name: read, energy: 1, throughput: 8}}, {{name: write, energy: 1, throughput: 8}}]}}
  - !Compute {{name: MAC, leak_power: 0, area: 0, actions: [{{name: compute, energy: 1, throughput: 0.125}}]}}
workload:
  rank_sizes: {{M: 4, K: 6}}
  bits_per_value: {{All: 8}}
  einsums: ["Z[m] = A[m, k] * B[k]"]
""" + nest_to_format("DRAM: A B Z / m 2 / GLB: A Z / k 3 / REG: A B / m 1 / k 1 / Z @ MAC")


def spec(size=1024, leak=0, dram="", glb="", reg="", between=""):
    return loads(FILE.format(size=size, leak=leak, dram=dram, glb=glb, reg=reg, between=between))


# bits: into GLB come 24 values of A (192) and back 4 of Z (32); into REG come 24 of A from GLB (192) and, for each of
# two tiles of m, 6 of B from DRAM (96); of the 24 operations each reads A and B from REG (384) and Z from GLB (192 less
# 4 first touches, 160) and writes Z there (192)
INTO_GLB = (192 + 32) / 2  # DRAM; GLB needs 192 / 4 + 32 / 4
INTO_REG = 96 / 2  # DRAM and GLB 192 / 4, REG (192 + 96) / 8
COMPUTING = 24 / 0.125
OF_GLB = (192 + 32 + 192 + 160 + 192) / 4


def test_without_buffering_everything_overlaps():
    assert evaluate(spec()).latency == max(INTO_GLB + 96 / 2, OF_GLB, COMPUTING) == 192
    assert evaluate(spec()).longer == ()


@pytest.mark.parametrize(
    ("fields", "seconds", "limits"),
    [
        ({"glb": "buffering: single,"}, INTO_GLB + max(INTO_REG, COMPUTING), ("DRAM", "MAC")),
        # DRAM and GLB are busy equally long with what goes into REG
        ({"reg": "buffering: single,"}, 48 + COMPUTING, ("DRAM", "GLB", "MAC")),
        ({"glb": "buffering: single,", "reg": "buffering: single,"}, INTO_GLB + 48 + COMPUTING, ("DRAM", "GLB", "MAC")),
        ({"glb": "buffering: double,", "reg": "buffering: double,"}, 192, ("GLB", "MAC")),
        # the outermost memory is not filled
        ({"dram": "buffering: single,"}, 192, ("GLB", "MAC")),
    ],
)
def test_a_single_buffer_is_filled_while_nothing_below_it_works(fields, seconds, limits):
    cost = evaluate(spec(**fields))
    assert cost.latency == seconds
    assert cost.latency_by_einsum == {"Z": seconds}
    assert [(row.einsum, row.latency) for row in cost.longer] == ([("Z", seconds)] if seconds > 192 else [])
    assert cost.limited_by == {"Z": limits}
    row = {"einsum": "Z", "latency": seconds, "limited_by": limits}
    assert cost.to_dict().get("longer", []) == ([row] if seconds > 192 else [])


# one visit of GLB takes in 12 values of A and gives back 2 of Z; one of REG takes in 6 of A (GLB) and 3 of B (DRAM)
FIRST_INTO_GLB = (96 + 16) / 2
FIRST_INTO_REG = max(24 / 2, 48 / 4, 72 / 8)


@pytest.mark.parametrize(
    ("fields", "seconds"),
    [
        ({"glb": "wind_up: true,"}, FIRST_INTO_GLB + COMPUTING),
        ({"reg": "wind_up: true,"}, FIRST_INTO_REG + COMPUTING),
        ({"glb": "wind_up: true,", "reg": "wind_up: true,"}, FIRST_INTO_GLB + FIRST_INTO_REG + COMPUTING),
        ({"glb": "wind_up: true,", "reg": "buffering: single,"}, FIRST_INTO_GLB + 48 + COMPUTING),
        ({"glb": "buffering: single,", "reg": "wind_up: true,"}, INTO_GLB + FIRST_INTO_REG + COMPUTING),
    ],
)
def test_what_is_below_waits_for_the_first_tiles_and_the_last_ones_leave_afterwards(fields, seconds):
    assert evaluate(spec(**fields)).latency == seconds


def test_the_report_names_what_an_einsum_waits_for_beside_its_busiest_component():
    winding = spec(dram="buffering: single,", glb="wind_up: true,", reg="buffering: single,")
    single = "what is below REG waits while it is filled and emptied (buffering: single)"
    first = "what is below GLB waits for its first tiles, and its last ones leave at the end (wind_up)"
    said = f"the Einsum takes longer than its busiest component: {single}; {first}"
    assert said in to_text(cost_report(evaluate(winding), winding), 300)
    assert "busiest component" not in to_text(cost_report(evaluate(spec()), spec()), 300)


def test_where_transfers_take_longer_than_what_is_below_winding_up_is_hidden():
    slow = FILE.replace("throughput: 2}}, {{name: write, energy: 12", "throughput: 0.25}}, {{name: write, energy: 12")
    given = dict.fromkeys(("dram", "reg", "between"), "") | {"size": 1024, "leak": 0}
    plain, winding = (evaluate(loads(slow.format(**given, glb=glb))).latency for glb in ("", "wind_up: true,"))
    assert plain == winding == (192 + 96) / 0.25 + 32 / 2


def test_a_port_that_fills_a_memory_that_winds_up_and_reads_it_does_one_after_the_other():
    # REG takes in 288 bits and gives out 384, at 2 bits/s, while GLB is not filled
    slow = FILE.replace("throughput: 8}}", "throughput: 2}}")
    given = dict.fromkeys(("dram", "between"), "") | {"size": 1024, "leak": 0, "glb": "buffering: single,"}
    plain, winding = (evaluate(loads(slow.format(**given, reg=reg))).latency for reg in ("", "wind_up: true,"))
    assert plain == winding == INTO_GLB + (288 + 384) / 2


def variants(seed):
    """A random mapping on a machine whose memories all overlap, wind up or have one buffer, and on one twice as fast."""
    given = valid_case(random.Random(seed))[0].to_dict()
    fields = ({}, {"wind_up": True}, {"buffering": "single"})
    for faster, more in product((1, 2), fields):
        written = json.loads(json.dumps(given))
        for node in nodes(written["arch"]["nodes"]):
            if node.get("type") == "Memory":
                node.update(more)
            for action in node.get("actions", ()) if node.get("type") in ("Memory", "Toll") else ():
                if isinstance(action.get("throughput"), int | float):
                    action["throughput"] *= faster
        yield loads(json.dumps(written))


@few_and_many("seeds, least", (range(7), 2), (range(15), 3), part="simulator")
def test_more_buffers_and_more_bandwidth_never_take_longer(seeds, least):
    differ = 0
    for seed in seeds:
        try:
            latencies = [evaluate(found).latency for found in variants(seed)]
        except NotSupportedError:
            continue
        slow, fast = latencies[:3], latencies[3:]
        assert slow == sorted(slow), seed
        assert fast == sorted(fast), seed
        assert all(f <= s * (1 + 1e-12) for f, s in zip(fast, slow, strict=True)), seed
        differ += len(set(latencies)) > 3
    assert differ >= least


def test_what_waits_leaks_longer():
    assert evaluate(spec(leak=3, glb="buffering: single,")).leak_energy == 3 * (INTO_GLB + COMPUTING)


def test_half_of_a_double_buffer_is_filled_while_the_other_half_is_used():
    # a tile of A has 12 values, one of Z 2
    tight = spec(size=224, glb="buffering: double,")
    assert evaluate(tight).memory_usage[1].usage == 1
    assert execute(tight).usage["GLB"] == 1
    assert evaluate(spec(size=224)).memory_usage[1].usage == 0.5
    with pytest.raises(CapacityError, match=r"needs 112 bits .* holds 111 in each half"):
        evaluate(spec(size=222, glb="buffering: double,"))


def test_the_mapper_says_which_size_a_double_buffer_needs():
    narrow = FILE.split("mapping:", maxsplit=1)[0].replace("size: 144", "size: 4, tensors: {{keep: All}}")
    found = loads(narrow.format(size=1024, leak=0, dram="", glb="", reg="buffering: double,", between=""))
    with pytest.raises(NoMappingError, match="it holds 2 bits in each half") as problem:
        map_workload(found)
    assert 'REG".size: 48 bits instead of 4 bits' in str(problem.value)


LANES = """
arch:
  nodes:
  - !Memory {{name: Main, size: inf, leak_power: 0, area: 0,
             actions: [{{name: read, energy: 1, throughput: 4}}, {{name: write, energy: 1, throughput: 4}}]}}
  - !Network {{name: Noc, leak_power: 0, area: 0, {noc} actions: [{{name: hop, energy: 1, latency: 0.5, throughput: 2}}]}}
  - !Memory {{name: Buffer, size: inf, leak_power: 0, area: 0, {buffer} spatial: [{{name: X, fanout: 4}}],
             actions: [{{name: read, energy: 1, throughput: inf}}, {{name: write, energy: 1, throughput: inf}}]}}
  - !Compute {{name: MAC, leak_power: 0, area: 0, actions: [{{name: compute, energy: 1, throughput: 0.25}}]}}
workload: {{rank_sizes: {{M: 4, N: 8}}, bits_per_value: {{All: 1}}, einsums: ["Z[m, n] = A[m] * B[n]"]}}
mapping:
  nodes:
  - !Storage {{tensors: [A, B, Z], component: Main}}
  - !Spatial {{rank_variable: m, tile_shape: 1, component: Buffer, name: X}}
  - !Temporal {{rank_variable: n, tile_shape: 2}}
  - !Storage {{tensors: [A, B, Z], component: Buffer}}
  - !Temporal {{rank_variable: n, tile_shape: 1}}
  - !Compute {{einsum: Z, component: MAC}}
"""


@pytest.mark.parametrize(
    ("buffer", "noc", "seconds", "limits"),
    [
        ("", "", 8 * 4, ("MAC",)),
        # 4 visits of 3 values of A, 2 of B and 6 of Z on the first link, 8 transfers of Z over 4 steps
        ("buffering: single,", "", 4 * 11 / 2 + 8 * 4 * 0.5 + 32, ("MAC", "Noc")),
        ("wind_up: true,", "", 11 / 2 + 4 * 0.5 + 32, ("MAC", "Noc")),
        # A 3 values, B as many, since each lane has a copy of its own
        ("wind_up: true,", "multicast: false,", (3 + 3 * 2 + 6) / 2 + 2 + 32, ("MAC", "Noc")),
        # Z alone passes a link 6 times; main memory is busier, with 4 values of A, 2 of B and 8 of Z
        ("wind_up: true,", "links: per_tensor,", 14 / 4 + 2 + 32, ("Main", "MAC", "Noc")),
        # each sends what lanes share once, and a step to each lane
        ("buffering: single,", "topology: all_to_all,", 4 * 11 / 2 + 8 * 0.5 + 32, ("MAC", "Noc")),
        # all pass the bus: 4 of A, 2 of B, 8 of Z
        ("buffering: single,", "topology: bus,", 4 * 14 / 2 + 8 * 0.5 + 32, ("MAC", "Noc")),
        ("buffering: single,", "total_latency: 10 * max_hops,", 10 * 4 + 32, ("MAC", "Noc")),
        # a load of 5 values and the hops, four turns that hide the rest, a store of 6
        ("stalls: tile_by_tile,", "", (5 / 2 + 2) + 4 * 8 + (6 / 2 + 2), ("MAC", "Noc")),
    ],
)
def test_what_fills_and_leaves_such_a_memory_passes_links_and_hops(buffer, noc, seconds, limits):
    cost = evaluate(loads(LANES.format(buffer=buffer, noc=noc)))
    assert cost.latency == seconds
    assert cost.limited_by == {"Z": limits}


def test_a_network_beside_such_a_memory_is_refused_with_the_preset_accelforge():
    with pytest.raises(NotSupportedError, match="the network 'Noc' are not supported with the preset 'accelforge'"):
        evaluate(loads(LANES.format(buffer="buffering: single,", noc="")), semantics="accelforge")


def test_a_single_buffer_that_winds_up_is_refused_where_it_stands():
    with pytest.raises(SpecError, match=r"\"GLB\".wind_up: 'GLB' has one buffer"):
        evaluate(spec(glb="buffering: single, wind_up: true,"))


def test_an_unknown_buffering_is_refused_where_it_stands():
    with pytest.raises(SpecError, match=r"\"GLB\".buffering: unknown buffering 'doubel'\n.*did you mean 'double'"):
        evaluate(spec(glb="buffering: doubel,"))


def test_a_trace_of_such_a_mapping_is_refused_by_name():
    found = spec(glb="buffering: single,")
    with pytest.raises(NotSupportedError, match="a trace of Einsum 'Z'"):
        timing_of(found, evaluate(found), execute(found, timeline=10))
