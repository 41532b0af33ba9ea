"""The number formats of the operands, and how many bits a value has."""

from __future__ import annotations

from dataclasses import dataclass

from einmap.errors import SpecError, did_you_mean
from einmap.units import DATA_TYPE_BITS


@dataclass(frozen=True, slots=True)
class DataType:
    """A number format; `bits` of one value."""

    name: str
    bits: int


DATA_TYPES = {name: DataType(name, bits) for name, bits in DATA_TYPE_BITS.items()}
"""Formats that `data_type` knows, by name."""


def data_type(name: object, field: str = "dtype") -> DataType:
    """The format of that name. Raises SpecError with the name that was probably meant; `field` is what it was for."""
    known_type = DATA_TYPES.get(name) if isinstance(name, str) else None
    if known_type is None:
        raise SpecError(f"{field}: no data type {name!r}", hint=did_you_mean(str(name), DATA_TYPES, listing="types"))
    return known_type
