"""MatmulPlan: blocks for every level of a machine, and everything that follows from them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

from einmap.errors import Note
from einmap.matmul.algorithms import Choice, Seconds, Stage, plan_seconds, stages_of
from einmap.matmul.compulsory_traffic import least_bits
from einmap.matmul.layout import Layouts, layouts_of
from einmap.matmul.machine.machine import DIMENSIONS, TENSORS, Machine, Sizes
from einmap.matmul.problem import Method, Product, Rules
from einmap.matmul.traffic import LevelTraffic, Moves, traffic_of
from einmap.visible import brief

SCHEMA = 1
"""Version of `MatmulPlan.to_dict()`."""


@dataclass(frozen=True, slots=True)
class PlannedLevel:
    """One row of a plan. Sizes are values, `parts` the numbers of blocks in a block of the level above.

    `bits`: of one block of A, B, C; `needed_bits`: of all that is held at a time by one worker, `used` that as part of
    its memory. `traffic` crosses the link above, all workers together, `least` is the bound for it. `seconds`: of the
    whole time, what this level's transfers add.
    """

    stage: Stage
    choice: Choice
    number: int
    parts: Sizes
    bits: Sizes
    needed_bits: float
    traffic: LevelTraffic
    least: float
    seconds: float

    @property
    def used(self) -> float:
        """The part of one worker's memory that the plan needs; above 1 it overflows."""
        return self.needed_bits / self.stage.level.size_bits


@dataclass(frozen=True)
class MatmulPlan:
    """`choices` for each level of the machine, outermost first. `optimal`: no other choices take less time, proven.

    Everything else is computed from these at first use.
    """

    __repr__ = brief

    machine: Machine
    product: Product
    rules: Rules
    choices: tuple[Choice, ...]
    method: Method
    optimal: bool = False

    @cached_property
    def stages(self) -> tuple[Stage, ...]:
        """The levels with this product's numbers."""
        return stages_of(self.machine, self.product, self.rules)

    @cached_property
    def _times(self) -> tuple[float, tuple[float, ...]]:
        return plan_seconds(
            self.stages, self.choices, self.product.size, compute_of(self.machine, self.product, self.rules)
        )

    @property
    def seconds(self) -> float:
        """The predicted time of the product, in s."""
        return self._times[0]

    @property
    def compute_seconds(self) -> float:
        """The part of the predicted time in which the busiest workers compute, in s."""
        return self._times[1][-1]

    @property
    def flops_per_s(self) -> float:
        """The predicted rate; infinite where nothing takes time."""
        return self.product.flops / self.seconds if self.seconds else math.inf

    @property
    def peak_part(self) -> float:
        """The predicted rate as part of the peak of all compute units."""
        return self.flops_per_s / self.machine.peak(self.product.types[0].name)

    @cached_property
    def levels(self) -> tuple[PlannedLevel, ...]:
        """One row for each level, outermost first."""
        rows = []
        traffic = traffic_of(self.stages, self.choices, self.product.size)
        parent = self.product.size
        for position, (stage, choice) in enumerate(zip(self.stages, self.choices, strict=True)):
            m, k, n = (-(-p // b) for p, b in zip(parent, choice.block, strict=True))
            a, b, c = (stage.block_bits(tensor, choice.block) for tensor in TENSORS)
            needed = stage.level.size_bits - stage.room + stage.needed_bits(choice.algorithm, choice.block)
            number = self.machine.number(position)
            least = least_bits(stage, self.product)
            seconds = self._times[1][position]
            rows.append(
                PlannedLevel(stage, choice, number, (m, k, n), (a, b, c), needed, traffic[position], least, seconds)
            )
            parent = choice.block
        return tuple(rows)

    @cached_property
    def layouts(self) -> tuple[Layouts, ...]:
        """How each operand may lie in the main memory, and what that costs."""
        return layouts_of(self.stages[0], self.levels[0].traffic, self.choices[0], self.product)

    @property
    def feasible(self) -> bool:
        """Whether everything fits."""
        return all(row.needed_bits <= row.stage.level.size_bits for row in self.levels)

    @property
    def notes(self) -> tuple[Note, ...]:
        """Warnings for the user: which level overflows, and by how much."""
        return tuple(Note(_overflow(row)) for row in self.levels if row.needed_bits > row.stage.level.size_bits)

    def to_dict(self) -> dict[str, Any]:
        """Plain dictionaries and lists, ready for JSON; `schema` is 1. Seconds, bits and values."""
        return {
            "schema": SCHEMA,
            "machine": self.machine.name,
            "size": dict(zip(DIMENSIONS, self.product.size, strict=True)),
            "types": dict(zip(TENSORS, (t.name for t in self.product.types), strict=True)),
            "rules": {
                "fit": self.rules.fit,
                "accumulate": self.rules.accumulate,
                "double_buffer": self.rules.double_buffer,
                "grain": dict(zip(DIMENSIONS, self.rules.grain, strict=True)),
                "resident": dict(self.rules.resident),
            },
            "method": self.method,
            "optimal": self.optimal,
            "feasible": self.feasible,
            "seconds": self.seconds,
            "compute_seconds": self.compute_seconds,
            "flops": self.product.flops,
            "flops_per_s": self.flops_per_s,
            "peak_part": self.peak_part,
            "levels": [_level_dict(row) for row in self.levels],
            "layouts": [layout.to_dict() for layout in self.layouts],
            "notes": [str(note) for note in self.notes],
        }


def compute_of(machine: Machine, product: Product, rules: Rules) -> Seconds:
    """Seconds of one compute unit as a function of the sizes of a block."""
    return partial(machine.compute.seconds, rate=machine.rate(product.types[0].name), grain=rules.grain)


def _overflow(row: PlannedLevel) -> str:
    level, algorithm = row.stage.level, row.choice.algorithm
    resident = row.bits[TENSORS.index(algorithm.resident)]
    more = math.ceil((row.needed_bits - level.size_bits) / 8)
    return (
        f"{level.name} overflows: the blocks need {_bytes(row.needed_bits)} bytes, {more:,} more than the "
        f"{_bytes(level.size_bits)} of one worker; the resident block of {algorithm.resident} alone takes "
        f"{_bytes(resident)}"
    )


def _bytes(bits: float) -> str:
    return f"{math.ceil(bits / 8):,}"


def _level_dict(row: PlannedLevel) -> dict[str, Any]:
    level, choice = row.stage.level, row.choice
    moves: dict[str, Moves] = {tensor: row.traffic.of(tensor) for tensor in TENSORS}
    return {
        "name": level.name,
        "number": row.number,
        "workers": level.workers,
        "workers_used": choice.workers,
        "size_bits": level.size_bits,
        "algorithm": choice.algorithm.value,
        "resident": choice.algorithm.resident,
        "innermost": DIMENSIONS[choice.algorithm.inner],
        "block": dict(zip(DIMENSIONS, choice.block, strict=True)),
        "parts": dict(zip(DIMENSIONS, row.parts, strict=True)),
        "blocks_per_worker": choice.share,
        "block_bits": dict(zip(TENSORS, row.bits, strict=True)),
        "needed_bits": row.needed_bits,
        "used": row.used,
        "seconds": row.seconds,
        "traffic_bits": row.traffic.bits,
        "least_bits": row.least,
        "traffic_values": {
            tensor: {"loads": m.loads, "stores": m.stores, "accumulates": m.accumulates} for tensor, m in moves.items()
        },
    }
