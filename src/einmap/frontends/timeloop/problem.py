"""Timeloop's problem as an Einsum: data spaces become tensors, dimensions rank variables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from einmap.einsum.spaces.projection import Affine
from einmap.errors import At, SpecError, did_you_mean
from einmap.expressions.scope import Scope
from einmap.frontends.foreign import Report, a_flag, a_list, a_map, a_text, an_integer, named
from einmap.frontends.timeloop.names import identifier, rank_variable
from einmap.spec.raw import Raw, RawList, RawMap, RawScalar, from_python

MAX_DIMENSIONS = 64
MAX_SPACES = 32
SHAPES: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "cnn-layer": {
        "Weights": ("C", "M", "R", "S"),
        "Inputs": ("N", "C", "P*Wstride + R*Wdilation", "Q*Hstride + S*Hdilation"),
        "Outputs": ("N", "M", "P", "Q"),
    },
    "gemm-ABZ": {"A": ("M", "K"), "B": ("N", "K"), "Z": ("M", "N")},
}
"""Shapes that Timeloop knows by name, the output last; older files call the output channels of a layer K."""


@dataclass(frozen=True, slots=True)
class DataSpace:
    """A tensor of the problem: its name here, and one index over rank variables for each of its ranks."""

    tensor: str
    indices: tuple[Affine, ...]
    is_output: bool

    def text(self, ranks: Mapping[str, str]) -> str:
        """The tensor as an Einsum has it, such as `Input[n, PR: p + r]`; `ranks`: names of ranks by variable."""
        indices = zip(self.rank_names(ranks), self.indices, strict=True)
        parts = [str(index) if ranks.get(str(index)) == rank else f"{rank}: {index}" for rank, index in indices]
        return f"{self.tensor}[{', '.join(parts)}]"

    def rank_names(self, ranks: Mapping[str, str]) -> list[str]:
        """The name of each rank: of an index that is one variable that of the variable, else one that is free."""
        taken = set(ranks.values())
        found: list[str] = []
        for index in self.indices:
            text, rank = str(index), ""
            if text not in ranks or ranks[text] in found:  # a diagonal has two ranks of one variable
                rank = identifier("".join(ranks[v] for v, _ in index.terms) or "ONE", taken)
                taken.add(rank)
            found.append(rank or ranks[text])
        return found


@dataclass(frozen=True, slots=True)
class Problem:
    """An Einsum and its sizes. `variables`: rank variables by dimension; `tensors`: names by data space.

    `dimensions`: all of them in written order; those of size 1 that index no data space have no rank variable.
    """

    spaces: tuple[DataSpace, ...]
    variables: Mapping[str, str]
    tensors: Mapping[str, str]
    sizes: Mapping[str, int]
    dimensions: tuple[str, ...]
    densities: Mapping[str, Raw] = field(default_factory=dict)
    """Densities that files give, by data space."""

    @property
    def einsum(self) -> str:
        """The name of the Einsum: that of its output."""
        return next(space.tensor for space in self.spaces if space.is_output)

    def rank_names(self, space: DataSpace) -> list[str]:
        """The ranks of a data space as the Einsum has them, in the order of its projection."""
        ranks = {variable: variable.upper() for variable in self.variables.values()}
        return space.rank_names(ranks)

    def raw(self, bits: int) -> RawMap:
        """The sections `workload` of a specification, every value of `bits` bits."""
        ranks = {variable: variable.upper() for variable in self.variables.values()}
        inputs = " * ".join(space.text(ranks) for space in self.spaces if not space.is_output)
        output = next(space.text(ranks) for space in self.spaces if space.is_output)
        workload = {
            "rank_sizes": {ranks[self.variables[dim]]: size for dim, size in self.sizes.items()},
            "bits_per_value": {"All": bits},
            "einsums": [{"einsum": f"{output} = {inputs}"}],
        }
        raw = from_python({"workload": workload})
        assert isinstance(raw, RawMap)
        return raw


def read_problem(raw: Raw, scope: Scope, report: Report) -> Problem:
    """The problem of a file. Raises SpecError with the place of what is wrong."""
    problem = a_map(raw, "problem")
    shape = problem.get("shape")
    given = problem.get("instance")
    instance = problem if given is None else a_map(given, "problem.instance")
    if isinstance(shape, RawScalar):
        shape = _named_shape(a_text(shape, "problem.shape"), shape.at, instance)
    elif shape is None and given is None:
        shape = _named_shape("cnn-layer", problem.at, instance)
    return _Reader(a_map(shape, "problem.shape", problem.at), instance, scope, report).problem(problem)


def _named_shape(name: str, at: At | None, instance: RawMap) -> Raw:
    plain = name.removesuffix(".yaml").replace("_", "-")
    if plain not in SHAPES:
        hint = did_you_mean(name, SHAPES, listing="shapes by name")
        raise SpecError(f"the shape {name!r} is not known by name", at=named(at, "problem.shape"), hint=hint)
    channels = "K" if plain == "cnn-layer" and instance.get("M") is None else "M"
    spaces, words = [], dict.fromkeys("CMRSNPQ" if plain == "cnn-layer" else "MNK")
    for space, indices in SHAPES[plain].items():
        terms = [[term.split("*") for term in index.split(" + ")] for index in indices]
        projection = [[[channels if word == "M" else word for word in term] for term in index] for index in terms]
        spaces.append({"name": space, "projection": projection, "read-write": space == [*SHAPES[plain]][-1]})
    dimensions = [channels if word == "M" else word for word in words]
    coefficients = [{"name": name, "default": 1} for name in ("Wstride", "Hstride", "Wdilation", "Hdilation")]
    shape = {"dimensions": dimensions, "data-spaces": spaces}
    return from_python(shape | ({"coefficients": coefficients} if plain == "cnn-layer" else {}), at)


class _Reader:
    def __init__(self, shape: RawMap, instance: RawMap, scope: Scope, report: Report) -> None:
        self._shape = shape
        self._instance = instance
        self._scope = scope
        self._report = report
        self._dimensions = self._names_of_dimensions()
        self._coefficients = self._values_of_coefficients()

    def problem(self, problem: RawMap) -> Problem:
        report, shape = self._report, self._shape
        report.leave_others(shape, ("name", "dimensions", "coefficients", "data-spaces", "data_spaces", "version"))
        known = {
            "shape",
            "instance",
            "version",
            "name",
            "densities",
            "commonDensity",
            *self._dimensions,
            *self._coefficients,
        }
        for fields in (problem,) if self._instance is problem else (problem, self._instance):
            for key, _ in fields.items:
                if key not in known:
                    report.leave(fields.place_of(key), key, "no projection uses it")
        variables: dict[str, str] = {}
        for dimension in self._dimensions:
            variables[dimension] = rank_variable(dimension, variables.values())
        spaces, tensors = self._spaces(variables)
        used = {v for space in spaces for index in space.indices for v, _ in index.terms}
        sizes = {dimension: self._size(dimension) for dimension in self._dimensions}
        for dimension in [d for d in sizes if variables[d] not in used]:
            if sizes[dimension] > 1:
                text = f"the dimension {dimension} of {sizes[dimension]} indexes no data space"
                raise SpecError(text, at=named(shape.place_of("dimensions"), "problem.shape.dimensions"))
            del sizes[dimension], variables[dimension]
        return Problem(spaces, variables, tensors, sizes, self._dimensions, self._densities(problem, tensors))

    def _densities(self, problem: RawMap, tensors: Mapping[str, str]) -> dict[str, Raw]:
        found: dict[str, Raw] = {}
        for fields in (problem, self._instance):
            if (common := fields.get("commonDensity")) is not None:
                found |= dict.fromkeys(tensors, common)
            if (each := fields.get("densities")) is not None:
                for space, density in a_map(each, "problem.instance.densities").items:
                    if space not in tensors:
                        hint = did_you_mean(space, tensors, listing="data spaces")
                        at = named(density.at, "problem.instance.densities")
                        raise SpecError(f"{space!r} is not a data space", at=at, hint=hint)
                    found[space] = density
        return found

    def _names_of_dimensions(self) -> tuple[str, ...]:
        what = "problem.shape.dimensions"
        raw = self._shape.get("dimensions")
        if isinstance(raw, RawScalar):  # older files: one letter for each
            names = tuple(a_text(raw, what))
        else:
            names = tuple(a_text(item, what) for item in a_list(raw, what, self._shape.at))
        at = named(raw.at if raw is not None else None, what)
        if not names or len(names) > MAX_DIMENSIONS:
            raise SpecError(f"expected 1 to {MAX_DIMENSIONS} dimensions, found {len(names)}", at=at)
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise SpecError(f"the dimension {twice!r} is given twice", at=at)
        return names

    def _values_of_coefficients(self) -> dict[str, int]:
        values: dict[str, int] = {}
        raw = self._shape.get("coefficients")
        for item in a_list(raw, "problem.shape.coefficients") if raw is not None else ():
            entry = a_map(item, "problem.shape.coefficients")
            self._report.leave_others(entry, ("name", "default"))
            name = a_text(entry.get("name"), "problem.shape.coefficients.name", entry.at)
            given = self._instance.get(name)
            value = entry.get("default") if given is None else given
            values[name] = an_integer(value, f"problem.instance.{name}", self._scope, -(2**40), entry.at)
        return values

    def _size(self, dimension: str) -> int:
        value = self._instance.get(dimension)
        if value is None:
            hint = f"sizes there: {', '.join(k for k, _ in self._instance.items if k in self._dimensions) or 'none'}"
            text = f"the size of the dimension {dimension} is missing"
            raise SpecError(text, at=named(self._instance.at, "problem.instance"), hint=hint)
        return an_integer(value, f"problem.instance.{dimension}", self._scope)

    def _spaces(self, variables: Mapping[str, str]) -> tuple[tuple[DataSpace, ...], dict[str, str]]:
        key = "data-spaces" if self._shape.get("data-spaces") is not None else "data_spaces"
        what = f"problem.shape.{key}"
        items = a_list(self._shape.get(key), what, self._shape.at)
        spaces: list[DataSpace] = []
        tensors: dict[str, str] = {}
        for item in items[: MAX_SPACES + 1]:
            entry = a_map(item, what)
            name = a_text(entry.get("name"), f"{what}.name", entry.at)
            if name in tensors:
                raise SpecError(f"the data space {name!r} is given twice", at=named(entry.at, what))
            tensors[name] = identifier(name, tensors.values())
            is_output = any(a_flag(entry.get(k), f"{what}.{k}") for k in ("read-write", "read_write"))
            self._report.leave_others(entry, ("name", "projection", "read-write", "read_write"))
            spaces.append(DataSpace(tensors[name], self._projection(entry, name, variables), is_output))
        at = named(self._shape.place_of(key), what)
        if len(items) > MAX_SPACES:
            raise SpecError(f"expected at most {MAX_SPACES} data spaces, found {len(items)}", at=at)
        outputs = sum(space.is_output for space in spaces)
        if outputs != 1 or len(spaces) < 2:
            text = f"expected one data space with read-write: true and others, found {outputs} of {len(spaces)}"
            raise SpecError(text, at=at, hint="an Einsum has one output")
        return tuple(spaces), tensors

    def _projection(self, entry: RawMap, name: str, variables: Mapping[str, str]) -> tuple[Affine, ...]:
        what = f"the projection of {name}"
        return tuple(self._index(item, what, variables) for item in a_list(entry.get("projection"), what, entry.at))

    def _index(self, raw: Raw, what: str, variables: Mapping[str, str]) -> Affine:
        """An index from a sum of products, such as `[[P, Wstride], [R]]`."""
        terms: dict[str, int] = {}
        for item in raw.items if isinstance(raw, RawList) else (raw,):
            product = item if isinstance(item, RawList) else RawList((item,), at=getattr(item, "at", None))
            factor, dimension = 1, None
            for word_raw in product.items:
                word = a_text(word_raw, what)
                if word in variables and dimension is None:
                    dimension = word
                elif word in self._coefficients:
                    factor *= self._coefficients[word]
                elif isinstance(word_raw, RawScalar) and isinstance(word_raw.value, int):
                    factor *= word_raw.value
                else:
                    text = f"{word!r} is not a dimension or a coefficient"
                    if word in variables:
                        text = f"{dimension} times {word}: an index is a sum of dimensions with coefficients"
                    hint = did_you_mean(word, [*variables, *self._coefficients])
                    raise SpecError(text, at=named(word_raw.at, what), hint=hint)
            if dimension is None:
                raise SpecError("a product without a dimension", at=named(product.at, what))
            variable = variables[dimension]
            terms[variable] = terms.get(variable, 0) + factor
        return Affine(tuple((v, a) for v, a in terms.items() if a))
