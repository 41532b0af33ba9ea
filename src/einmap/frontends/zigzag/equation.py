"""The equation of a layer, and the relations of its dimensions, as tensors with affine indices."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from einmap.einsum.spaces.projection import Affine
from einmap.errors import SpecError, did_you_mean
from einmap.frontends.foreign import Value

_EQUATION = re.compile(
    r"(\w+)((?:\[\w+\])+)\s*\+?=\s*(\w+)((?:\[\w*\])*)(?:\s*([*+])\s*(\w+)((?:\[\w*\])*))?", re.ASCII
)
_RELATION = re.compile(r"(\w+)\s*=\s*(?:(\d{1,9})\s*\*\s*)?(\w+)\s*\+\s*(?:(\d{1,9})\s*\*\s*)?(\w+)", re.ASCII)
_INDEX = re.compile(r"\[(\w*)\]", re.ASCII)
_EXAMPLE = "write it as O[b][k][oy][ox]+=W[k][c][fy][fx]*I[b][c][iy][ix]"


@dataclass(frozen=True, slots=True)
class Operand:
    """One tensor of an equation: its letter, and for each index the name in the file and the index it stands for."""

    letter: str
    names: tuple[str, ...]
    index: tuple[Affine, ...]


@dataclass(frozen=True, slots=True)
class Equation:
    """A layer's output and inputs; `operator`: `*` or `+` between two inputs."""

    output: Operand
    inputs: tuple[Operand, ...]
    operator: str


def read_equation(value: Value, relations: Mapping[str, Affine], variables: Mapping[str, str]) -> Equation:
    """The equation in `value`.

    `variables`: rank variables by loop dimension, in small letters; `relations`: what other names stand for. Raises
    SpecError with the place.
    """
    found = _EQUATION.fullmatch(value.text())
    if found is None:
        raise value.wrong("an equation of one output and one or two inputs", hint=_EXAMPLE)
    output, output_index, first, first_index, operator, second, second_index = found.groups()

    def operand(letter: str, text: str) -> Operand:
        names = tuple(name.lower() for name in _INDEX.findall(text) if name)
        index = tuple(_index(value, name, relations, variables) for name in names)
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise SpecError(f"{letter} has the index {twice} twice", at=value.at)
        return Operand(letter, names, index)

    inputs = [operand(first, first_index)]
    if second is not None:
        inputs.append(operand(second, second_index))
    if len({output, *(each.letter for each in inputs)}) <= len(inputs):
        raise SpecError("two operands have the same letter", at=value.at, hint=_EXAMPLE)
    return Equation(operand(output, output_index), tuple(inputs), operator or "*")


def read_relations(value: Value | None, variables: Mapping[str, str]) -> dict[str, Affine]:
    """Indices by name, such as `ix` for `ix=2*ox+1*fx`. Raises SpecError with the place."""
    relations: dict[str, Affine] = {}
    for item in value.items() if value is not None else ():
        found = _RELATION.fullmatch(item.text())
        if found is None:
            raise item.wrong("a relation of three dimensions", hint="write it as ix=2*ox+1*fx")
        name, *terms = found.groups()
        name = name.lower()
        if name in variables or name in relations:
            raise SpecError(f"{name} is a loop dimension already, or related twice", at=item.at)
        factors: dict[str, int] = {}
        for factor, dimension in (terms[:2], terms[2:]):
            variable = _known(item, dimension.lower(), variables)
            factors[variable] = factors.get(variable, 0) + int(factor or 1)
        relations[name] = Affine(tuple((variable, factor) for variable, factor in factors.items() if factor))
    return relations


def _index(value: Value, name: str, relations: Mapping[str, Affine], variables: Mapping[str, str]) -> Affine:
    if name in relations:
        return relations[name]
    return Affine(((_known(value, name, {**variables, **dict.fromkeys(relations, "")}), 1),))


def _known(value: Value, name: str, variables: Mapping[str, str]) -> str:
    if name not in variables:
        hint = did_you_mean(name, variables, listing="dimensions of the layer")
        raise SpecError(f"{name} is neither in loop_dims nor in dimension_relations", at=value.at, hint=hint)
    return variables[name]
