"""Tables of language models."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from einmap.report.frames.frame import Row, Table

if TYPE_CHECKING:
    from einmap.frontends.huggingface.model import LanguageModel


def _parts(model: LanguageModel) -> Iterable[Row]:
    for part in model.parts:
        counts = part.instances, part.n_parameters, part.n_active_parameters, part.n_products
        yield part.name, *counts, *(bits / 8 for bits in (part.weight_bits, part.read_bits, part.appended_bits))


TABLES: dict[str, tuple[Table, ...]] = {
    "LanguageModel": (
        Table.written(
            "parts",
            "text part; integer instances | parameters | active parameters | products; "
            "number weights [bytes] | cache read [bytes] | cache written [bytes]",
            _parts,
        ),
    )
}
