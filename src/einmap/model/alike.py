"""Einsums whose traffic is the same but for names: layers of a network, say. It is counted once."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping

from einmap.arch.component import Leaf, Memory, Network, Toll
from einmap.einsum.einsum import Einsum
from einmap.model.path import Loop, Station
from einmap.model.traffic import EinsumTraffic


def traffic_key(traffic: EinsumTraffic) -> Hashable | None:
    """Equal for Einsums that have equal traffic up to names; None where it is a matter of other Einsums, too.

    That is so where a common tile of several Einsums is moved; on networks each Einsum is counted by itself.
    """
    path = traffic.path
    charges = {place: charge for tensor in traffic.tensors for place, charge in tensor.charges.items()}
    if any(charge.hull is not None for charge in charges.values()):
        return None
    if any(isinstance(leaf, Network) for leaf in path.leaves):
        return None
    names = {access.tensor: i for i, access in enumerate(path.einsum.accesses)}
    return (
        _einsum(path.einsum),
        tuple(_loop(loop, path.einsum, names) for loop in path.loops),
        tuple(tuple(map(_station, path.stations[tensor])) for tensor in names),
        _station(path.compute),
        tuple(tuple(_leaf(leaf, names)) for leaf in path.leaves),
        tuple((tensor.freed, tuple(sorted(tensor.slides.items()))) for tensor in traffic.tensors),
        tuple(sorted((names[tensor], position, charge.fills) for (tensor, position), charge in charges.items())),
    )


def tensors_by_position(old: Einsum, new: Einsum) -> Mapping[str, str]:
    """The tensors of an Einsum that is alike."""
    return {a.tensor: b.tensor for a, b in zip(old.accesses, new.accesses, strict=True)}


def _einsum(einsum: Einsum) -> Hashable:
    variable = {v: i for i, v in enumerate(einsum.rank_variables)}
    accesses = tuple(
        (
            tuple((tuple((variable[v], a) for v, a in index.terms), index.constant) for _, index in access.projection),
            access.output,
            access.bits_per_value,
            access.persistent,
        )
        for access in einsum.accesses
    )
    begins = tuple(sorted((variable[v], low) for v, low in einsum.first_values))
    return accesses, tuple((variable[v], n) for v, n in einsum.bounds), begins, einsum.is_copy


def _loop(loop: Loop, einsum: Einsum, names: Mapping[str, int]) -> Hashable:
    lanes = loop.dimension
    of_lanes = lanes and (lanes.name, lanes.fanout, _known(lanes.may_reuse, names), _known(lanes.reuse, names))
    variable = einsum.rank_variables.index(loop.variable)
    return variable, loop.shape, loop.initial, loop.position, loop.level, of_lanes, loop.iterations, loop.divides


def _station(station: Station) -> Hashable:
    return station.component.name, station.level, station.position, station.persistent, station.sliding_window


def _leaf(leaf: Leaf, names: Mapping[str, int]) -> Iterator[Hashable]:
    yield leaf.name
    yield getattr(leaf, "skip_initial_output_write", None)
    for action in getattr(leaf, "actions", ()):
        yield action.name, tuple(sorted((names[t], n) for t, n in action.per_value if t in names))
    if isinstance(leaf, Toll):
        yield tuple(sorted((names[t], way) for t, way in leaf.direction if t in names))
    if isinstance(leaf, Memory):
        yield tuple(sorted((names[t], bits) for t, bits in leaf.bits_per_value if t in names))


def _known(tensors: Iterable[str], names: Mapping[str, int]) -> tuple[int, ...]:
    return tuple(sorted(names[t] for t in tensors if t in names))
