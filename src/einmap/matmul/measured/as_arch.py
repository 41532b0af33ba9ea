"""The processor at hand as an architecture: a file with which `einmap map` finds nests that `emit --fast` can run.

A core is a path of caches, a load-store unit, vector registers and the lanes of a multiply-add. Energies are seconds
at 1 W that a transfer adds to the time of the core, so that the mapping with the least energy is the one that waits
least; latencies are the usual roofline.
"""

from __future__ import annotations

from dataclasses import dataclass

from einmap.errors import SpecError
from einmap.matmul.measured.registers import TILE
from einmap.matmul.measured.this_cpu import Cache, Processor, Rates
from einmap.units import format_bytes, format_si

REGISTERS = {512: 32, 256: 16, 128: 32}
"""Vector registers by their width in bits; 128 bits are NEON's."""
USABLE = {1: 0.75}
"""The part of a cache that tiles may fill, by level: the rest is for what streams by."""
USABLE_FURTHER_OUT = 0.4
HIDDEN = 0.85
"""The part of a transfer between a core's own caches that is hidden behind computing: processors fetch ahead what is
read in order, as packed tiles are. Of the order that is seen on a Zen 4 core when a product is cut into other blocks;
what comes from a cache of several cores is counted in full."""
ASSUMED_LATENCIES = (1.5e-9, 4e-9, 15e-9)
"""Seconds from when a line is asked for until it is there, of levels 1, 2 and 3."""
ASSUMED_MAIN = 100e-9


@dataclass(frozen=True, slots=True)
class Core:
    """One core as it was measured, or assumed: `latencies` in s of each cache and of main memory, level 1 first."""

    processor: Processor
    rates: Rates
    latencies: tuple[float, ...]


def assumed_latencies(processor: Processor) -> tuple[float, ...]:
    """Latencies in s of the usual order, of each cache and of main memory."""
    caches = tuple(ASSUMED_LATENCIES[min(cache.level, 3) - 1] for cache in processor.caches)
    return (*caches, ASSUMED_MAIN)


def arch_text(core: Core, cores: int = 1, *, fused: bool = False) -> str:
    """YAML with `arch` and options of the mapper, for `cores` cores. Raises SpecError for more than there are.

    `fused`: what its template variable FUSED is unless it is given: whether intermediates stay in the core's own cache.
    """
    processor = core.processor
    if not 1 <= cores <= processor.cores:
        raise SpecError(f"this processor has 1 to {processor.cores} cores, found {cores}", hint="--cores")
    flops = dict(core.rates.flops)["fp32"]
    step = flops / 2 / (TILE.vector_bits / 32)
    nodes = [_main(core)]
    shared, own = list[str](), list[str]()
    names = [f"L{cache.level}" for cache in reversed(processor.caches)]
    kept_in = next((c for c in reversed(processor.caches) if c.sharing == 1), processor.caches[0])
    outer = list(zip(reversed(processor.caches), reversed(core.rates.bandwidths), strict=True))
    for place, (cache, _) in enumerate(outer):
        # a cache is written from outside at the rate into it, and read at the rate into the next one
        into_next = outer[place + 1][1] if place + 1 < len(outer) else None
        latency = core.latencies[cache.level - 1]
        text = _cache(cache, outer[place][1], into_next, latency, names[:place], fuses=cache == kept_in)
        (shared if cache.sharing > 1 and cache.level > 1 else own).append(text)
    nodes += shared
    if cores > 1:
        nodes.append(_CORES.format(cores=cores))
    nodes += [*own, _END]
    size = TILE.vector_bits
    registers, kept = REGISTERS.get(size, 16), f"L{kept_in.level}"
    about = _about(core)
    head = _HEAD.format(
        about=about, vector=size, registers=registers, step=f"{step:.4g}", kept_in=kept, fused=int(fused)
    )
    # a reduction of one tensor is a pass along the last rank that it reads
    along = _either("(Outputs if len(Inputs) > 1 else Inputs)", "Outputs")
    return head + "".join(nodes).replace("~ALONG.", f"~{along}.") + _OPTIONS


def _about(core: Core) -> str:
    caches = ", ".join(
        f"L{c.level} {format_bytes(c.size_bytes)}" + (f" of {c.sharing} cores" if c.sharing > 1 else "")
        for c in core.processor.caches
    )
    rates = ", ".join(
        f"{format_si(bits / 8, 'B/s')} into L{c.level}"
        for c, bits in zip(core.processor.caches, core.rates.bandwidths, strict=True)
    )
    peaks = ", ".join(f"{format_si(value, 'flop/s')} {name}" for name, value in core.rates.flops)
    lines = core.processor.caches[0].line_bytes
    return (
        f"# {core.processor.cores} cores; {caches}; lines of {lines} bytes\n# one core: {peaks}; {rates}\n"
        f"# ({core.rates.source})"
    )


def _main(core: Core) -> str:
    return _MEMORY.format(
        name="MainMemory",
        size="inf",
        tensors=_either("{keep: ~Intermediates, may_keep: ~Intermediates}", "{keep: ~Intermediates, may_keep: All}"),
        read=f"{core.rates.bandwidths[-1]:.4g}",
        write=f"{core.rates.bandwidths[-1]:.4g}",
        part="1",
        write_part="1",
        latency=f"{core.latencies[-1]:.3g}",
    )


def _either(fused: str, apart: str) -> str:
    """A template of a value that depends on whether intermediates stay in a cache."""
    return f"{{% if FUSED %}}{fused}{{% else %}}{apart}{{% endif %}}"


def _held(level: int, further: list[str], *, fuses: bool) -> str:
    """The tensors of a cache; `fuses`: whether intermediates stay in it where any do."""
    outside = [f"{name}.tensors" for name in further]
    inputs = "Inputs" if fuses else "Inputs - Intermediates"
    own = " - ".join(["Inputs", *outside]) if level == 1 else "Nothing"
    own_fused = " - ".join([inputs, *outside]) if level == 1 else "Nothing"
    if fuses:
        own_fused = f"Intermediates | {own_fused}" if level == 1 else "Intermediates"
        # one cache packs an input, and the nearest one may have a part of it
        inputs = " - ".join(["Intermediates | Inputs", *outside])
    return _either(f"{{keep: {own_fused}, may_keep: {inputs}}}", f"{{keep: {own}, may_keep: Inputs}}")


def _cache(
    cache: Cache, into: float, into_next: float | None, latency: float, further: list[str], *, fuses: bool
) -> str:
    hidden = f"{1 - HIDDEN:.2g}"
    return _MEMORY.format(
        name=f"L{cache.level}",
        size=f"{USABLE.get(cache.level, USABLE_FURTHER_OUT)} * 8 * {cache.size_bytes}",
        tensors=_held(cache.level, further, fuses=fuses),
        read="inf" if into_next is None else f"{into_next:.4g}",
        write=f"{into:.4g}",
        part="1" if cache.level > 2 else hidden,
        write_part=hidden,
        latency=f"{latency:.3g}",
    )


_HEAD = """\
# This processor, written by `einmap machine --this-cpu`.
{about}
# Energies are seconds at 1 W by which transfers make a core wait: the least energy is the shortest wait.
# FUSED, a template variable: with 1 intermediates stay in {kept_in}, tile by tile; with 0 they may lie in main memory.
{{% set FUSED = FUSED | default({fused}) | int %}}
arch:
  variables:
    vector: {vector}          # bits of a vector
    registers: {registers}
    step: {step}       # multiply-adds of a vector in a second
    loads: 2 * vector * step  # bits between L1 and registers in a second
  nodes:
"""
_MEMORY = """\
  - !Memory
    name: {name}
    size: {size}
    leak_power: 0
    area: 0
    tensors: {tensors}
    actions:
    - {{name: read, energy: {part} / {read}, throughput: {read}, pipeline_latency: {latency}}}
    - {{name: write, energy: {write_part} / {write}, throughput: {write}}}
"""
_CORES = """\
  - !Container
    name: Cores
    spatial:
    - name: cores
      fanout: {cores}
      may_reuse: All
      loop_bounds: [{{expression: ~Outputs.rank_variables, operator: ==, value: 1}}]   # no sums over cores
"""
_END = """\
  - !Toll                             # loads and stores: a value that is not along a vector takes a whole one
    name: LoadStore
    direction: up_and_down
    leak_power: 0
    area: 0
    tensors: {keep: All}
    bits_per_value: {Inputs - Outputs.last_rank_variables.tensors: vector}
    actions:
    - {name: read, energy: 1 / loads, throughput: loads}
  - !Memory
    name: Registers
    size: registers * vector
    leak_power: 0
    area: 0
    tensors: {keep: All, tensor_order_options: [[Outputs, Inputs]]}   # sums stay while inputs stream by
    bits_per_value: {Inputs - Outputs.last_rank_variables.tensors: vector}
    actions:
    - {name: read, energy: 0, throughput: inf}
    - {name: write, energy: 0, throughput: inf}
  - !Compute
    name: FMA
    leak_power: 0
    area: 0
    spatial:                          # neighbours of the output in memory are the lanes of a vector
    - name: lanes
      fanout: vector // Outputs.bits_per_value
      vector: true
      min_usage: 1
      loop_bounds: [{expression: ~ALONG.last_rank_variables, operator: ==, value: 1}]
    actions:
    - {name: compute, energy: 1 / step / (vector // Outputs.bits_per_value), throughput: step}
"""
_OPTIONS = """\
mapper:
  metrics: energy
{% if FUSED %}
  max_fused_loops: 2
  tiling_coarseness: 3
  break_ties: false
{% else %}
  explore_imperfect_temporal_loops: true
{% endif %}
"""
