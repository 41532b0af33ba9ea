"""Refresh of a memory: a part of its time and a power, by hand, and against an execution that refreshes as it goes."""

import random

import pytest
from tests.amounts import some
from tests.machines import workload
from tests.model.executed import Executed, differences_in
from tests.nests import nest
from tests.random_specs.cases import valid_case

import einmap
from einmap.model.explanation.energy_terms import explain_energy
from einmap.model.explanation.explain import explain
from einmap.report.costs.provenance import source_line
from einmap.spec.cost_sources import cost_sources

# DDR4 of 8 Gb: tREFI 7.8 us, tRFC1 350 ns (JESD79-4; Micron MT40A1G8); IDD5B 250 mA, IDD3N 46 mA, VDD 1.2 V
# (DDR4_8Gb_x8_2666 of DRAMsim3)
T_REFI, T_RFC, EXTRA_WATTS = 7.8e-6, 350e-9, (250e-3 - 46e-3) * 1.2
TEXT = (
    """
arch:
  nodes:
  - !Memory
    name: DRAM
    size: inf
    leak_power: 0
    refresh_busy: 350e-9 / 7.8e-6
    refresh_power: (250e-3 - 46e-3) * 1.2 * refresh_busy
    actions: [{name: read, energy: 10e-12, throughput: 1e9}, {name: write, energy: 10e-12, throughput: 5e8}]
  - !Compute {name: MAC, leak_power: 0, actions: [{name: compute, energy: 1e-12, throughput: 1e9}]}
"""
    + workload("M: 10, K: 10", "Z[m] = A[m, k] * B[k]")
    + nest("DRAM: A B Z / m 1 / k 1 / Z @ MAC")
)
MEMORY = "arch.nodes.DRAM"


def ddr4(**fields):
    spec = einmap.loads(TEXT)
    for name, value in fields.items():
        spec = spec.set(f"{MEMORY}.{name}", value)
    return spec


def test_a_ddr4_chip_is_refreshed_for_a_twenty_second_of_its_time():
    # 100 times A and B are read, 100 times Z is written and, but for the first of each of 10 rows, read: 8 bits each
    reads, writes = (100 + 100 + 90) * 8, 100 * 8
    serving = reads / 1e9 + writes / 5e8
    cost = einmap.evaluate(ddr4())
    seconds = serving / (1 - 350 / 7800)
    assert cost.latency == pytest.approx(seconds)
    # each 7.8 us one refresh of 350 ns at 244.8 mW
    assert cost.energy_by("action")[("refresh",)] == pytest.approx(seconds / T_REFI * T_RFC * EXTRA_WATTS)
    assert cost.energy == pytest.approx((reads + writes) * 10e-12 + 100e-12 + seconds * 0.0109846)
    assert cost.leak_energy == pytest.approx(seconds * 0.0109846)
    assert cost.count_by("action") == {("read",): reads, ("write",): writes, ("compute",): 100, ("refresh",): 0}


def test_nothing_is_refreshed_unless_it_is_said():
    plain = einmap.evaluate(ddr4(refresh_busy=0, refresh_power=0))
    assert plain.latency == (100 + 100 + 90) * 8 / 1e9 + 800 / 5e8
    assert {row.action for row in plain.actions} == {"read", "write", "compute"}


def test_chips_that_work_as_one_are_refreshed_each_and_scales_are_those_of_leakage():
    alone, scaled = einmap.evaluate(ddr4()), einmap.evaluate(ddr4(n_parallel_instances=8, leak_power_scale=0.5))
    assert scaled.latency == pytest.approx(alone.latency / 8)
    assert scaled.energy_by("action")[("refresh",)] == pytest.approx(alone.energy_by("action")[("refresh",)] / 2)


def test_refresh_is_not_gated_with_the_leakage():
    text = TEXT.replace("leak_power: 0\n", "leak_power: 1\n    spatial: [{name: X, fanout: 4, power_gateable: true}]\n")
    cost = einmap.evaluate(einmap.loads(text))
    energy = cost.energy_by("action")
    assert energy["leak",] == pytest.approx(cost.latency)
    assert energy["refresh",] == pytest.approx(4 * 0.0109846 * cost.latency)


def test_each_joule_and_second_of_refresh_has_its_line():
    terms = {term.action: term for term in explain_energy(ddr4()).terms}
    assert (terms["refresh"].component, terms["refresh"].count) == ("DRAM", None)
    assert source_line(terms["refresh"].each) == "DRAM refresh power 11 mW, from <text>:9"
    (latency,) = [
        row
        for row in cost_sources(ddr4(), "Z")
        if (row.component, row.action, row.quantity) == ("DRAM", "read", "latency")
    ]
    assert source_line(latency) == (
        "DRAM read 1.05 ns = 1 ns / time without refresh 0.955128 (<text>:8), from <text>:10"
    )


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("refresh_busy", 1, "refresh_busy must be below 1, found 1"),
        ("refresh_busy", "-0.1", "refresh_busy must be >= 0, found -0.1"),
        ("refresh_power", -1, "refresh_power must be >= 0, found -1"),
        ("refresh_power", "1/0", "division by zero"),
    ],
)
def test_what_no_memory_can_have_is_refused_at_its_field(field, value, message):
    with pytest.raises(einmap.SpecError) as error:
        einmap.evaluate(ddr4(**{"refresh_power": 0, field: value}))
    assert message in str(error.value)
    assert str(error.value).count(message) == 1
    assert error.value.at.path == f'arch.nodes[0] "DRAM".{field}'


def test_only_memories_are_refreshed():
    with pytest.raises(einmap.SpecError, match="refresh_power"):
        einmap.evaluate(einmap.loads(TEXT.replace("!Compute {name: MAC", "!Compute {refresh_power: 1, name: MAC")))


def test_refresh_stays_in_dumped_files():
    again = einmap.loads(einmap.dump(ddr4()))
    (here, there) = (spec.arch().components["DRAM"] for spec in (ddr4(), again))
    assert (there.powers, there.actions) == (here.powers, here.actions)
    assert einmap.evaluate(again) == einmap.evaluate(ddr4())


def refreshed(spec, rng):
    """A random cascade of which some memories are refreshed; the powers and parts of time by memory."""
    given = {}
    for name, unit in spec.arch().components.items():
        if type(unit).__name__ == "Memory" and rng.random() < 0.7:
            given[name] = rng.choice([0, 1, 3]), rng.choice([0, 0.125, 0.5])
            spec = spec.set(f"arch.nodes.{name}.refresh_power", given[name][0])
            spec = spec.set(f"arch.nodes.{name}.refresh_busy", given[name][1])
    return spec, given


@pytest.mark.parametrize("part", some(3, range(3), "simulator"))
def test_an_execution_that_is_refreshed_as_it_goes_takes_as_long_and_as_much(part):
    for seed in range(4 * part, 4 * part + 4):
        plain, _ = valid_case(random.Random(seed))
        spec, given = refreshed(plain, random.Random(seed))
        cost, executed = einmap.evaluate(spec), Executed(plain)
        seconds, watts = {}, 0.0
        for (einsum, component), busy in executed.seconds.items():
            # of 1 s it serves what is left of it, so that it takes more of them
            left = 1 - given.get(component, (0, 0))[1]
            seconds[einsum] = max(seconds.get(einsum, 0.0), busy / left)
        latency = sum(seconds.values())
        for component, (power, _) in given.items():
            watts += power * plain.arch().instances[component]
        joules = latency * watts
        for einsum, took in seconds.items():
            longer = took - executed.latency_of(einsum)
            joules += sum(
                energy / executed.latency_of(einsum) * longer
                for (name, _, _, action), energy in executed.energies.items()
                if (name, action) == (einsum, "leak") and energy
            )
        assert cost.latency == pytest.approx(latency)
        assert cost.energy == pytest.approx(executed.energy + joules)
        explained, after = explain(spec), Executed(spec)
        for field in ("cost", "bottlenecks", "energy"):
            assert list(differences_in(field, after, explained)) == []


def test_more_refresh_never_takes_less_energy_or_time():
    for seed in range(8):
        rng = random.Random(seed)
        spec, given = refreshed(valid_case(rng)[0], rng)
        before = einmap.evaluate(spec)
        for name, (power, busy) in given.items():
            for field, more in (("refresh_power", power + 1), ("refresh_busy", busy + 0.25)):
                after = einmap.evaluate(spec.set(f"arch.nodes.{name}.{field}", more))
                assert after.energy >= before.energy
                assert after.latency >= before.latency
