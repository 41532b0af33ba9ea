"""Small random machines and plans, and a second, slow way to time a plan: step by step, block by block."""

import itertools
import random
from functools import cache

from einmap.errors import SpecError
from einmap.matmul.machine.machine import ComputeUnit, Level, Machine
from einmap.matmul.plan import plan_matmul


def random_machine(rng: random.Random, *, n_levels=None, workers=(1, 1, 2, 3), grain=(1, 2, 3)) -> Machine:
    count = n_levels or rng.randint(1, 3)
    levels = tuple(
        Level.of(
            f"L{count - i}",
            rng.randint(12, 60) * 8 * (count - i) ** 2,
            rng.choice([1.0, 2.0, 5.0]),
            workers=rng.choice(workers),
            store_bandwidth=rng.choice([1.0, 3.0]),
            accumulate_bandwidth=rng.choice([0.5, 2.0]),
            startup=rng.choice([0.0, 0.0, 4.0]),
            line_bits=rng.choice([1, 32]),
        )
        for i in range(count)
    )
    efficiency = rng.choice([None, {"n": {1: 0.5, 3: 1.0}, "k": {1: 0.25, 2: 0.75}}])
    compute = ComputeUnit.of({"int8": rng.choice([0.5, 2.0])}, pads=rng.random() < 0.3, efficiency=efficiency)
    return Machine("drawn", levels, compute, tuple(rng.choice(grain) for _ in range(3)))


def random_plan(rng: random.Random, sizes=(3, 24), **options):
    """A plan for a random machine, of one of the kinds that there are; drawn again where nothing fits."""
    while True:
        machine = random_machine(rng)
        resident = rng.choice([None, None, {"A": "L1"}, {"B": machine.levels[0].name}])
        drawn = {
            "method": rng.choice(["joint", "level by level"]),
            "accumulate": rng.choice(["owned", "atomic"]),
            "double_buffer": rng.random() < 0.3,
            "resident": resident,
            "accumulator": rng.choice([None, "int32"]),
        } | options
        try:
            return plan_matmul(*(rng.randint(*sizes) for _ in range(3)), machine, dtype="int8", **drawn)
        except SpecError as error:
            assert "holds" in str(error) or "larger than" in str(error)


OPERANDS = {"A": (0, 1), "B": (1, 2), "C": (0, 2)}
RESIDENT = {1: "C", 2: "A", 3: "B"}
INNER = {1: 1, 2: 2, 3: 0}


def block_sizes(size, grain):
    """For each number of parts the most even split, by trying all numbers."""
    units = -(-size // grain)
    return sorted({min(-(-units // parts) * grain, size) for parts in range(1, units + 1)})


class Walker:
    """Times plans by walking over all their blocks, one after the other. For machines without resident operands."""

    def __init__(self, plan):
        self.machine, self.rules, self.product = plan.machine, plan.rules, plan.product
        self.walk = cache(self._walk)

    def best(self):
        """The least time over all choices of all levels, each tried."""
        chains = self.chains(0, self.product.size)
        return min(self.walk(self.product.size, self.product.size, chain) for chain in chains)

    def chains(self, position, parent):
        if position == len(self.machine.levels):
            yield ()
            return
        level = self.machine.levels[position]
        sizes = [block_sizes(s, g) for s, g in zip(parent, self.rules.grain, strict=True)]
        for number, block in itertools.product((1, 2, 3), itertools.product(*sizes)):
            if self.fits(level, number, block):
                for rest in self.chains(position + 1, block):
                    yield ((number, block), *rest)

    def fits(self, level, number, block):
        bits = {
            t: b * block[OPERANDS[t][0]] * block[OPERANDS[t][1]] for t, b in zip("ABC", self.product.bits, strict=True)
        }
        copies = 2 if self.rules.double_buffer else 1
        resident = RESIDENT[number]
        return bits[resident] + copies * (sum(bits.values()) - bits[resident]) <= level.size_bits

    def _walk(self, size, nominal, chain):
        """Seconds for a block of `size`, cut like a whole one of the size `nominal`."""
        if not chain:
            rate = self.machine.rate(self.product.types[0].name)
            return self.machine.compute.seconds(size, rate, self.rules.grain)
        (number, block), *rest = chain
        level = self.machine.levels[len(self.machine.levels) - len(chain)]
        inner = INNER[number]
        blocks = -(-nominal[inner] // block[inner])
        chunk = -(-blocks // level.workers) * block[inner]
        shared = level.workers > 1 if self.rules.accumulate == "atomic" else number == 1 and chunk < nominal[inner]
        outer = [d for d in range(3) if d != inner]
        times = []
        for start in range(0, size[inner], chunk):
            seconds = 0.0
            steps = cuts(min(chunk, size[inner] - start), block[inner])
            for corner in itertools.product(*(cuts(size[d], block[d]) for d in outer)):
                sizes = dict(zip(outer, corner, strict=True))
                parts = [tuple({**sizes, inner: step}[d] for d in range(3)) for step in steps]
                down, up = self.moves(level, RESIDENT[number], parts[0], shared)
                seconds += down + up + self.sweep(level, number, parts, block, tuple(rest), shared)
            times.append(seconds)
        return max(times)

    def sweep(self, level, number, parts, block, rest, shared):
        streamed = [t for t in "ABC" if t != RESIDENT[number]]
        loads = [sum(self.moves(level, t, part, shared)[0] for t in streamed) for part in parts]
        stores = [sum(self.moves(level, t, part, shared)[1] for t in streamed) for part in parts]
        computes = [self.walk(part, block, rest) for part in parts]
        if not self.rules.double_buffer:
            return sum(loads) + sum(computes) + sum(stores)
        # one slot for each step: it computes, the link brings the next step's blocks and takes those of the one before
        links = [after + before for after, before in zip([*loads[1:], 0.0], [0.0, *stores[:-1]], strict=True)]
        slots = [max(compute, link) for compute, link in zip(computes, links, strict=True)]
        return loads[0] + sum(slots) + stores[-1]

    def moves(self, level, tensor, size, shared):
        bits = self.product.bits["ABC".index(tensor)]
        values = size[OPERANDS[tensor][0]] * size[OPERANDS[tensor][1]]
        moved = -(-bits * values // level.line_bits) * level.line_bits
        if tensor != "C":
            return level.startup + moved / level.load_bandwidth, 0.0
        if shared:
            return values * bits / level.zero_bandwidth, level.startup + moved / level.accumulate_bandwidth
        return level.startup + moved / level.load_bandwidth, level.startup + moved / level.store_bandwidth


def cuts(size, block):
    return [min(block, size - start) for start in range(0, size, block)]
