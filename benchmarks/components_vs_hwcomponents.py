"""Built-in component models beside those of hwcomponents, where its packages are installed: energy and area.

Run with `pip install 'einmap[components]'` in an environment of its own. Expected: 0.5 to 2; docs/components.md
explains larger gaps. A model that does not run there (CACTI and NeuroSim need their programs) is left out. With
`designs` it maps a convolution onto the shipped designs that have component classes alone, with the models of both.
"""

import sys
from dataclasses import dataclass, field

import einmap
from einmap.components.installed.hwcomponents import installed_registry
from einmap.components.registry import builtin
from einmap.errors import EinmapError

KB = 8 * 1024
NM = 1e-9
NODES = (65, 45, 22)


@dataclass(frozen=True)
class Case:
    """One comparison: a class here and there, its action here and there, and attributes of each."""

    name: str
    action: str
    attributes: dict = field(default_factory=dict)
    other: str = ""
    other_action: str = ""
    other_attributes: dict = field(default_factory=dict)
    bits: int = 0

    def here(self):
        """Estimate of the built-in model, and J of the action."""
        estimate = builtin().estimate(self.name, self.attributes, {self.action: self._overrides()})
        return estimate, estimate.actions[self.action].energy

    def there(self):
        """Estimate of the model of hwcomponents, and J of the action."""
        action, attributes = self.other_action or self.action, self.other_attributes or self.attributes
        estimate = installed_registry().estimate(self.other or self.name, attributes, {action: self._overrides()})
        return estimate, estimate.actions[action].energy

    def _overrides(self):
        return {"bits_per_action": self.bits} if self.bits else {}


def at_nodes(name, action, *, nodes=NODES, other="", other_action="", bits=0, **attributes):
    """One comparison at each node."""
    return [Case(name, action, {"tech_node": node * NM, **attributes}, other, other_action, {}, bits) for node in nodes]


def converter(bits, rate):
    """Converters of ISAAC beside the survey of hwcomponents-adc."""
    there = {"tech_node": 32 * NM, "n_bits": bits, "throughput": rate}
    return Case("ADC", "convert", {"tech_node": 32 * NM, "resolution": bits}, "hwcomponents_adc.ADC", "convert", there)


CASES = [
    *at_nodes("AladdinAdder", "add", width=16),
    *at_nodes("AladdinMultiplier", "multiply", width=8),
    *at_nodes("AladdinIntMAC", "mac", multiplier_width=8, adder_width=16),
    *at_nodes("AladdinRegister", "read", width=16),
    *at_nodes("AladdinComparator", "compare", width=32),
    *at_nodes("AladdinCounter", "count", width=32),
    *(Case("ADC", "convert", {"tech_node": 32 * NM, "resolution": n}, "IsaacADC", bits=0) for n in (7, 8, 9)),
    *(converter(bits, rate) for bits, rate in ((6, 1e9), (8, 1e9), (8, 1e8), (10, 1e8))),
    *at_nodes("DAC", "convert", nodes=(65, 32, 16), other="IsaacDAC"),
    *at_nodes("EDRAM", "read", nodes=(65, 32, 16), other="IsaacEDRAM", width=256, depth=2048),
    *at_nodes("Router", "transfer", nodes=(65, 32, 16), other="IsaacRouter"),
    *at_nodes("ShiftAdd", "shift_add", nodes=(65, 32, 16), other="IsaacShiftAdd"),
    *at_nodes("EDRAMBus", "transfer", nodes=(65, 32, 16), other="IsaacEDRAMBus"),
    *at_nodes("ChipLink", "transfer", nodes=(65, 32, 16), other="IsaacChip2ChipLink", other_action="read"),
    *at_nodes("Wire", "transfer", nodes=(65, 40, 22), other="Wire", other_action="read", length=1e-3),
    *(
        Case(kind, "read", bits=bits)
        for kind in ("DDR3", "LPDDR", "LPDDR4", "HBM2", "HBM3", "HBM4")
        for bits in (32, 64, 128)
    ),
    *(
        Case(name, action, {"tech_node": node * NM, "width": 64, "size": size * KB}, bits=64)
        for name, sizes in (
            ("SRAM", ((65, 108), (45, 8), (45, 32), (45, 1024), (32, 64), (22, 64))),
            ("SmartBufferSRAM", ((65, 128), (45, 32), (45, 128), (22, 64))),
        )
        for action in ("read", "write")
        for node, size in sizes
    ),
]


def compare():
    """Print one line for each comparison."""
    for case in CASES:
        estimate, here = case.here()
        try:
            other, there = case.there()
        except EinmapError as error:
            outcome = f"not run: {error.message[:60]}"
        else:
            ratio = here / there if there else float("inf")
            area = f"{estimate.area / other.area:6.2f}" if other.area and estimate.area else "     -"
            outside = "" if 0.5 <= ratio <= 2 else "  outside 2x"
            outcome = f"{there:10.3e} J  energy {ratio:6.3f}  area {area}{outside}"
        words = ", ".join(f"{key} {value:g}" for key, value in case.attributes.items())
        print(f"{case.name:18} {case.action:9} {here:10.3e} J  {outcome}  {words}")


DESIGNS = {"eyeriss_components": 16, "nvdla_components": 8, "simba_components": 8}
REFUSED = "AladdinRegister"
"""A class that hwcomponents has and refuses where a size and another width are given, as the designs do."""


def design(name, bits, first):
    """The shipped `conv` on a design, mapped for energy; `first`: classes that hwcomponents has come from there."""
    spec = einmap.load(name, "conv", define={"BITS": bits})
    for node in spec.get("arch.nodes") if first else ():
        kind = node.get("component_class")
        if kind is not None and kind != REFUSED and kind in installed_registry():
            spec = spec.set(f"arch.nodes.{node['name']}.component_class", f"hwcomponents.{kind}")
    result = einmap.map_workload(spec, metrics="energy")
    parts = result.cost.energy_by("component")
    return result.cost, ", ".join(f"{part} {energy * 1e6:.3f}" for (part,), energy in parts.items())


def designs():
    """Print energy (uJ) and area (mm^2) of each design by both kinds of models."""
    for name, bits in DESIGNS.items():
        for first in (False, True):
            try:
                cost, parts = design(name, bits, first)
            except EinmapError as error:
                print(f"{name:20} hwcomponents {error}")
                continue
            models = "hwcomponents" if first else "built-in"
            words = f"{cost.energy * 1e6:7.3f} uJ {cost.latency * 1e6:8.2f} us {(cost.area or 0) * 1e6:7.3f} mm2"
            print(f"{name:20} {models:12} {words}  {parts}")


if __name__ == "__main__":
    designs() if sys.argv[1:] == ["designs"] else compare()
