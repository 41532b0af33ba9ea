"""Parts of random machines for the mapper: actions, tolls, fanouts, computes, networks."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

type Node = dict[str, Any]

NUMBERS = (0, 1, 1, 2, 3, 5, 7)
LARGEST = "max(a.n_calls / a.throughput for a in actions)"
KINDS_OF_TENSORS = ("Inputs", "Outputs", "Intermediates")


def maybe(rng: random.Random, p: float) -> bool:
    """Whether something is done that is done with probability `p`."""
    return rng.random() < p


@dataclass(frozen=True)
class Parts:
    """What parts are drawn from.

    `numbers`: energies; `rates`: bits in one second, with probability `unlimited` infinite; `widths`: bits of one action of
    what moves values, those of the workload if empty; `powers`: what leaks.
    """

    rng: random.Random
    rates: tuple[float | str, ...]
    unlimited: float = 0
    numbers: tuple[int, ...] = NUMBERS
    widths: tuple[int, ...] = ()
    powers: tuple[int, ...] = NUMBERS

    def number(self) -> float:
        return self.rng.choice(self.numbers)

    def leak(self, p: float) -> float:
        """Watts, with probability `p` some."""
        return self.rng.choice(self.powers) if maybe(self.rng, p) else 0

    def actions(self, names: tuple[str, ...], scale: int) -> list[Node]:
        """Actions whose energies are numbers times `scale`."""
        return [self._action(name, scale) for name in names]

    def _action(self, name: str, scale: int) -> Node:
        found: Node = {"name": name, "energy": self.number() * scale}
        endless = self.unlimited and maybe(self.rng, self.unlimited)
        found["throughput"] = "inf" if endless else self.rng.choice(self.rates)
        if self.widths and name != "compute":
            found["bits_per_action"] = self.rng.choice(self.widths)
        return found

    def toll(self, name: str, keep: tuple[str, ...]) -> Node:
        """One `!Toll`, for one of these sets of tensors."""
        found: Node = {"type": "Toll", "name": name, "leak_power": 0, "area": 0}
        found["direction"] = self.rng.choice(("up", "down", "up_and_down"))
        found["actions"] = self.actions(("read",), 2)
        return {**found, "tensors": {"keep": self.rng.choice(keep)}}

    def compute(self, name: str, p: float) -> Node:
        """One `!Compute` that leaks with probability `p`."""
        found: Node = {"type": "Compute", "name": name, "area": 0, "leak_power": self.leak(p)}
        return {**found, "actions": self.actions(("compute",), 1)}

    def memory(self, name: str, size: float | str, tensors: Node, scale: int, leaky: float) -> Node:
        """One `!Memory` of a cascade."""
        found: Node = {"type": "Memory", "name": name, "size": size, "tensors": tensors, "area": 0}
        found["leak_power"] = self.leak(leaky)
        found["actions"] = self.actions(("read", "write"), scale)
        if maybe(self.rng, 0.15):
            found["skip_initial_output_write"] = False
        if maybe(self.rng, 0.2):
            found["total_latency"] = LARGEST
        return found

    def fan(self, level: int, names: tuple[str, ...] = ("X",)) -> Node:
        """A `!Container` with fanouts of these names."""
        return {"type": "Container", "name": f"Fan{level}", "spatial": [self._dimension(name) for name in names]}

    def _dimension(self, name: str) -> Node:
        rng = self.rng
        found: Node = {"name": name, "fanout": rng.choice((2, 2, 3, 4))}
        if maybe(rng, 0.3):
            found["may_reuse"] = rng.choice(("Nothing", *KINDS_OF_TENSORS))
        if maybe(rng, 0.1):
            found["reuse"] = rng.choice(("Inputs", "Outputs"))
        if maybe(rng, 0.1):
            found["min_usage"] = 0.5
        if maybe(rng, 0.2):
            found["power_gateable"] = True
        return found
