"""Tables of language models, and of what their tokens cost."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from einmap.report.frames.frame import Row, Table

if TYPE_CHECKING:
    from einmap.frontends.huggingface.model import LanguageModel
    from einmap.serving.tokens import TokenCosts, TokenPoint


def _parts(model: LanguageModel) -> Iterable[Row]:
    for part in model.parts:
        counts = part.instances, part.n_parameters, part.n_active_parameters, part.n_products
        yield part.name, *counts, *(bits / 8 for bits in (part.weight_bits, part.read_bits, part.appended_bits))


def _points(several: Iterable[TokenCosts]) -> Iterable[Row]:
    return (_point(costs.machine, point) for costs in several for point in costs.points)


def _front(several: Iterable[TokenCosts]) -> Iterable[Row]:
    return (_point(costs.machine, point) for costs in several for point in costs.front)


def _point(machine: str, point: TokenPoint) -> Row:
    held = point.held
    room = held.weights, held.cache, held.activations
    times = point.seconds, point.served, point.seconds_to_first, point.rate, point.user_rate, point.energy
    sizes = machine, point.batch, point.context, point.devices, str(point.plan)
    return *sizes, *times, *room, point.most_sequences, held.fits, point.limited_by, point.proven


def _ways(several: Iterable[TokenCosts]) -> Iterable[Row]:
    for costs, point in _every(several):
        for way in point.ways:
            times = way.each_token, way.collectives
            yield costs.machine, point.batch, point.context, str(way.plan), *times, way.held.total, way.held.fits


def _layers(several: Iterable[TokenCosts]) -> Iterable[Row]:
    for costs, point in _every(several):
        for phase, parts in (("token", point.parts), ("prompt", point.first)):
            for part in parts:
                counts = part.moved, round(part.operations)
                cells = part.name, part.instances, part.seconds, part.energy, *counts, part.limited_by, part.proven
                yield costs.machine, point.batch, point.context, phase, *cells


def _every(several: Iterable[TokenCosts]) -> Iterable[tuple[TokenCosts, TokenPoint]]:
    return ((costs, point) for costs in several for point in costs.points)


_POINT = (
    "text machine; integer batch | context | devices; text plan; "
    "number time for each token [s] | time served [s] | time to first token [s] | "
    "tokens of a device [1/s] | tokens of a user [1/s] | energy of a token [J] | weights [bytes] | cache [bytes] | "
    "activations [bytes]; integer most sequences; truth fits; text limited by; truth proven"
)

TABLES: dict[str, tuple[Table, ...]] = {
    "LanguageModel": (
        Table.written(
            "parts",
            "text part; integer instances | parameters | active parameters | products; "
            "number weights [bytes] | cache read [bytes] | cache written [bytes]",
            _parts,
        ),
    ),
    "TokenCosts": (
        Table.written("points", _POINT, _points),
        Table.written("front", _POINT, _front),
        Table.written(
            "ways",
            "text machine; integer batch | context; text plan; number time for each token [s] | in collectives [s] | "
            "held [bytes]; truth fits",
            _ways,
        ),
        Table.written(
            "parts",
            "text machine; integer batch | context; text phase | part; integer instances; number time [s] | "
            "energy [J] | moved [bytes]; integer operations; "
            "text limited by; truth proven",
            _layers,
        ),
    ),
}
