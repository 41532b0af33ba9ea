"""Energies of built-in component models beside those of hwcomponents, where its packages are installed: ratios.

Run with `pip install hwcomponents hwcomponents-library hwcomponents-cacti` in an environment of its own. Expected: 0.5
to 2; docs/components.md explains larger gaps. A model that does not run there (CACTI needs its binary) is left out.
"""

import importlib

from einmap.components.registry import builtin

KB = 8 * 1024
NM = 1e-9
LIBRARY, CACTI = "hwcomponents_library", "hwcomponents_cacti"


def word(name, action, module, bits=None, **attributes):
    """One comparison: class here and there, action, and attributes that both know."""
    return name, action, module, bits, attributes


CASES = [
    *(word("AladdinAdder", "add", LIBRARY, tech_node=node * NM, width=16) for node in (65, 40, 14)),
    *(word("AladdinMultiplier", "multiply", LIBRARY, tech_node=node * NM, width=8) for node in (65, 40, 14)),
    *(
        word("AladdinIntMAC", "mac", LIBRARY, tech_node=node * NM, multiplier_width=8, adder_width=16)
        for node in (65, 40, 14)
    ),
    *(word("AladdinRegister", "read", LIBRARY, tech_node=node * NM, width=16) for node in (65, 40, 14)),
    *(word("AladdinComparator", "compare", LIBRARY, tech_node=node * NM, width=32) for node in (65, 40, 14)),
    *(word("AladdinCounter", "count", LIBRARY, tech_node=node * NM, width=32) for node in (65, 40, 14)),
    *(word("IsaacADC", "convert", LIBRARY, tech_node=32 * NM, resolution=bits) for bits in (7, 8, 9)),
    *(word("IsaacDAC", "convert", LIBRARY, tech_node=node * NM) for node in (65, 32, 16)),
    *(word("IsaacEDRAM", "read", LIBRARY, tech_node=node * NM, width=256, depth=2048) for node in (65, 32, 16)),
    *(word("IsaacRouter", "transfer", LIBRARY, tech_node=node * NM) for node in (65, 32, 16)),
    *(word("IsaacShiftAdd", "shift_add", LIBRARY, tech_node=node * NM) for node in (65, 32, 16)),
    *(word("IsaacEDRAMBus", "transfer", LIBRARY, tech_node=node * NM) for node in (65, 32, 16)),
    *(word("IsaacChip2ChipLink", "read", LIBRARY, tech_node=node * NM) for node in (65, 32, 16)),
    *(word(kind, "read", CACTI, 64) for kind in ("DDR3", "LPDDR", "LPDDR4", "HBM2", "HBM3", "HBM4")),
    *(
        word("SRAM", action, CACTI, 64, tech_node=node * NM, width=64, size=size * KB)
        for action in ("read", "write")
        for node, size in ((65, 108), (45, 8), (45, 32), (45, 1024), (22, 64))
    ),
    word("SmartBufferSRAM", "read", LIBRARY, 64, tech_node=65 * NM, width=64, size=128 * KB),
]


def energy_here(name, action, bits, attributes):
    """J of the built-in model."""
    overrides = {"bits_per_action": bits} if bits else {}
    return builtin().find(name).estimate(attributes, {action: overrides}).actions[action].energy


def energy_there(module, name, action, bits, attributes):
    """J of the model of hwcomponents."""
    model = getattr(importlib.import_module(module), name)(**attributes)
    return getattr(model, action)(**({"bits_per_action": bits} if bits else {})).energy


def main():
    """Print one line for each comparison."""
    for name, action, module, bits, attributes in CASES:
        here = energy_here(name, action, bits, attributes)
        try:
            there = energy_there(module, name, action, bits, attributes)
        except Exception as error:  # whatever another package does: the line says so
            outcome = f"{'':10} not run: {type(error).__name__}"
        else:
            outcome = f"{there:10.3e} J  ratio {here / there:6.3f}{'' if 0.5 <= here / there <= 2 else '  outside 2x'}"
        words = ", ".join(f"{key} {value:g}" for key, value in attributes.items())
        print(f"{name:20} {action:10} {here:10.3e} J  {outcome}  {words}")


if __name__ == "__main__":
    main()
