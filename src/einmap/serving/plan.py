"""Ways to divide devices among which a model is served, and which of them there are."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import ceil

from einmap.distribute.costs.cluster import Cluster
from einmap.distribute.training.machine import Machine, machine_of
from einmap.distribute.training.plan import DIMS, Dim
from einmap.distribute.training.search import WORDS
from einmap.errors import At, SpecError, did_you_mean
from einmap.frontends.huggingface.description import DeltaRule, Description, Experts, Selective, StateSpace
from einmap.numbers import divisors
from einmap.units import counted
from einmap.visible import short

SHOWN: tuple[Dim, ...] = ("dp", "tp", "cp", "ep", "pp")
"""Ways to divide devices, in the order in which they are written."""

MOST_DEVICES = 4096
"""Devices that are divided: 1,820 ways, of a model with experts."""


@dataclass(frozen=True, slots=True)
class ServingPlan:
    """Devices are divided `dp` x `tp` x `cp` x `ep` x `pp`. Each of `dp` x `ep` groups has sequences of its own, of
    which `pp` micro-batches go through as many stages of layers, one behind another.

    In a stage of a group `tp` devices have heads of their own, of which `cp` devices have cached positions of their
    own; other products are divided among `tp` x `cp` by columns or rows (Helix parallelism, arXiv 2507.07120). `ep`
    groups have experts of their own, for the tokens of all of them.
    """

    dp: int = 1
    tp: int = 1
    cp: int = 1
    ep: int = 1
    pp: int = 1

    def size(self, dim: Dim) -> int:
        """Devices along one of the ways to divide them."""
        return {"tp": self.tp, "cp": self.cp, "ep": self.ep, "dp": self.dp, "pp": self.pp}[dim]

    @property
    def devices(self) -> int:
        """Number of devices."""
        return math.prod(self.size(dim) for dim in DIMS)

    @property
    def wide(self) -> int:
        """Devices among which products outside of attention are divided."""
        return self.tp * self.cp

    @property
    def groups(self) -> int:
        """Groups of devices with sequences of their own."""
        return self.dp * self.ep

    def of_group(self, batch: int) -> int:
        """Sequences of the group that has most of `batch`."""
        return ceil(batch / self.groups)

    def micro_batches(self, batch: int) -> int:
        """Micro-batches of that group: one for each stage, as far as there are sequences."""
        return min(self.pp, self.of_group(batch))

    def sequences(self, batch: int) -> int:
        """Sequences of a micro-batch of that group."""
        return ceil(self.of_group(batch) / self.micro_batches(batch))

    @property
    def kind(self) -> tuple[Dim, ...]:
        """The ways to divide devices that it uses."""
        return tuple(dim for dim in SHOWN if self.size(dim) > 1)

    def on(self, cluster: Cluster) -> Machine:
        """The devices on the axes of a cluster. Raises SpecError where they do not fit."""
        return machine_of(cluster, tuple(map(self.size, DIMS)))

    def joined(self) -> ServingPlan:
        """The devices with `tp` and `cp` as one way: for collectives among both."""
        return ServingPlan(self.dp, self.wide, 1, self.ep, self.pp)

    def __str__(self) -> str:
        return " x ".join(f"{WORDS[dim]} {self.size(dim)}" for dim in self.kind) or "one device"


type Fixed = Mapping[str, int | Sequence[int]]
"""Sizes that ways to divide devices may have, by `tensor`, `data` ..., or by `tp`, `dp` ..."""


def fixed_of(text: str) -> dict[str, tuple[int, ...]]:
    """Words such as `tensor=4,data=2` or `tp=4|8`. Raises SpecError, with the names that there are."""
    found: dict[str, tuple[int, ...]] = {}
    for word in text.split(","):
        name, equals, value = (part.strip() for part in word.partition("="))
        sizes = [size.strip() for size in value.split("|")]
        if not equals or not all(s.isascii() and s.isdecimal() and len(s) < 10 and int(s) for s in sizes):
            raise SpecError(f"--fix {short(word)}: expected a way to divide devices and how many", hint=_EXAMPLE)
        dim = _dim(name)
        if dim in found:
            raise SpecError(f"--fix {short(text)}: {WORDS[dim]} is fixed twice", hint=f"{WORDS[dim]}=4|8 gives several")
        found[dim] = tuple(int(size) for size in sizes)
    return found


_EXAMPLE = "write tensor=4,data=2, or tensor=4|8"


def _dim(name: str) -> Dim:
    for dim, word in WORDS.items():
        if name in (dim, word):
            return dim
    hint = did_you_mean(name, [WORDS[dim] for dim in SHOWN], listing="ways")
    raise SpecError(f"{short(name)} is not a way to divide devices", hint=hint)


def plans_of(
    made: Description, cluster: Cluster, devices: int, fixed: Fixed | None = None, at: At | None = None
) -> tuple[ServingPlan, ...]:
    """All ways to divide devices for a model: `ep` divides experts, `pp` layers, `cp` positions that are cached.

    `at`: where the cluster is written, for errors. Raises SpecError for more devices than there are, and where no way
    has the sizes of `fixed`.
    """
    _check_room(cluster, devices, at)
    given = {_dim(name): _sizes(name, value) for name, value in (fixed or {}).items()}
    most = _most(made)
    for dim, sizes in given.items():
        if min(sizes) > most.get(dim, math.inf):
            raise SpecError(f"{WORDS[dim]} {min(sizes):,}: the model has {_parts(dim, most[dim])}")
    every = divisors(devices)
    ways = [[n for n in every if n <= most.get(dim, devices) and n in given.get(dim, every)] for dim in SHOWN[1:]]
    found = list(_fitting(cluster, devices, ways, given.get("dp")))
    if not found:
        asked = ", ".join(f"{WORDS[dim]} {'|'.join(map(str, sizes))}" for dim, sizes in given.items())
        hint = f"all ways multiplied give {devices:,}" if asked else "take a number that the axes of the cluster divide"
        raise SpecError(f"{counted(devices, 'device')} cannot be divided so: {asked or 'no way fits'}", hint=hint)
    return tuple(found)


def _fitting(
    cluster: Cluster, devices: int, ways: Sequence[Sequence[int]], copies: Sequence[int] | None
) -> Iterator[ServingPlan]:
    for tp, cp, ep, pp in product(*ways):
        dp, left = divmod(devices, tp * cp * ep * pp)
        if left or (copies is not None and dp not in copies):
            continue
        plan = ServingPlan(dp, tp, cp, ep, pp)
        try:
            plan.on(cluster), plan.joined().on(cluster)
        except SpecError:
            continue
        yield plan


def _most(made: Description) -> dict[Dim, int]:
    """Devices that some ways have at most: as many as there are experts, layers, positions."""
    experts = [layer.second.number for layer in made.layers if isinstance(layer.second, Experts)]
    most: dict[Dim, int] = {"ep": min(experts, default=1), "pp": len(made.layers)}
    if all(isinstance(layer.mixer, StateSpace | Selective | DeltaRule) for layer in made.layers):
        most["cp"] = 1
    return most


def _parts(dim: Dim, most: int) -> str:
    """Parts of a model that a way divides, with their number: `no experts`, `32 layers`."""
    noun = {"ep": "expert", "pp": "layer", "cp": "cached position"}[dim]
    return f"no {noun}s" if most == 1 and dim != "pp" else counted(most, noun)


def _sizes(name: str, value: int | Sequence[int]) -> tuple[int, ...]:
    sizes = (value,) if isinstance(value, int) else tuple(value)
    if not sizes or any(type(size) is not int or size < 1 for size in sizes):
        raise SpecError(f"{name} is {short(value)}; expected a whole number from 1 on, or several")
    return sizes


def uneven(made: Description, plan: ServingPlan, batch: int) -> Iterator[str]:
    """Ways of a plan that do not divide heads or experts evenly, and copies of a model without a sequence, in words."""
    heads = {layer.mixer.heads for layer in made.layers if not isinstance(layer.mixer, Selective)}
    experts = {layer.second.number for layer in made.layers if isinstance(layer.second, Experts)}
    divided: tuple[tuple[Dim, set[int], str], ...] = (("tp", heads, "heads"), ("ep", experts, "experts"))
    for dim, numbers, noun in divided:
        for number in sorted(numbers):
            if number % plan.size(dim):
                way, most = f"{WORDS[dim]} {plan.size(dim)}", ceil(number / plan.size(dim))
                yield f"{way} does not divide {number} {noun}: a device with {most} of them counts"
    idle = plan.dp - ceil(batch / plan.ep)
    if idle > 0:
        yield f"{WORDS['dp']} {plan.dp} at batch {batch:,}: {idle:,} of the copies have nothing to do"


def _check_room(cluster: Cluster, devices: int, at: At | None) -> None:
    if devices > MOST_DEVICES:
        raise SpecError(f"{devices:,} devices; at most {MOST_DEVICES:,} are divided")
    sizes = [link.size for _, link in cluster.links]
    if None not in sizes and math.prod(size or 1 for size in sizes) < devices:
        there = counted(math.prod(size or 1 for size in sizes), "device")
        text = f"the cluster has {there}, {devices:,} are asked for"
        raise SpecError(text, at=at, hint="take a larger one, or fewer")
    machine_of(cluster, tuple(devices if dim == "tp" else 1 for dim in DIMS))
