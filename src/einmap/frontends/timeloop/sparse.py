"""Sparseloop's `sparse_optimizations` and densities as the key `sparsity`.

Sparseloop's formats have a rank for each loop over the tensor, in the level and further in; here a format has one level
for each rank of the tensor, so that loops over one rank are one level, by the kind of the innermost. A level that is
named for a tensor that passes it by saves at the next one outward that holds it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from einmap.errors import SpecError, did_you_mean
from einmap.expressions.scope import Scope
from einmap.frontends.foreign import Report, a_list, a_map, a_number, a_text, an_integer, named
from einmap.frontends.timeloop.architecture import Machine
from einmap.frontends.timeloop.components import Energies
from einmap.frontends.timeloop.levels import Level
from einmap.frontends.timeloop.mapping import Nest
from einmap.frontends.timeloop.problem import DataSpace, Problem
from einmap.spec.raw import Raw, RawList, RawMap, RawScalar, from_python

KINDS = {"CP": "CP", "B": "B", "RLE": "RLE", "UOP": "UOP", "U": "U", "UB": "U"}
PACKING = ("skipping_spatial", "spatial_skipping")
"""Optimizations by which zeros leave lanes free for others."""
DO = {"gating": "gate", "skipping": "skip", "position_skipping": "skip", **dict.fromkeys(PACKING, "gate")}
_STRUCTURED = ("fixed_structured", "fixed")
DISTRIBUTIONS = (*_STRUCTURED, "hypergeometric", "banded", "real_data")


@dataclass(frozen=True, slots=True)
class _Rank:
    """One rank of a format in written order: its kind, the bits of an entry, and the dimensions that it may flatten."""

    kind: str
    bits: int
    flattened: frozenset[str] | None


def read_sparse(
    targets: Sequence[tuple[str, RawMap]], problem: Problem, machine: Machine, nest: Nest | None, read: _Read
) -> RawMap | None:
    """The section `sparsity`; None where nothing is stored or saved otherwise. `targets`: by name of the level.

    Raises SpecError with the place of what is wrong.
    """
    return _Reader(problem, machine, nest, read).sparsity(targets)


@dataclass(frozen=True, slots=True)
class _Read:
    """Things that a reader needs beside the files' sections."""

    scope: Scope
    report: Report
    energies: Energies
    is_newer: bool


def reading(scope: Scope, report: Report, energies: Energies, *, is_newer: bool) -> _Read:
    """Values of variables, what is left out, energies, and whether the architecture has the form of version 0.4."""
    return _Read(scope, report, energies, is_newer)


def packs(targets: Sequence[tuple[str, RawMap]]) -> bool:
    """Whether zeros leave lanes free for others somewhere."""
    for _, target in targets:
        optimizations = _field(target, "action_optimization")
        for item in getattr(optimizations, "items", ()):
            kind = item.get("type") if isinstance(item, RawMap) else None
            if isinstance(kind, RawScalar) and _plain(str(kind.value)) in PACKING:
                return True
    return False


def targets_of(machine: Machine, sections: Sequence[Raw]) -> Iterator[tuple[str, RawMap]]:
    """Statements about zeros, at components and in sections `sparse_optimizations`, by name of the level."""
    for level in machine.levels:
        if level.sparse is not None:
            yield level.name, level.sparse
    for raw in sections:
        section = a_map(raw, "sparse_optimizations")
        for item in a_list(section.get("targets"), "sparse_optimizations.targets", section.at):
            target = a_map(item, "sparse_optimizations.targets")
            key = "name" if target.get("name") is not None else "target"
            yield a_text(target.get(key), "sparse_optimizations.targets.name", target.at), target


class _Reader:
    def __init__(self, problem: Problem, machine: Machine, nest: Nest | None, read: _Read) -> None:
        self._problem, self._machine, self._nest = problem, machine, nest
        self._scope, self._report, self._energies = read.scope, read.report, read.energies
        self._is_newer = read.is_newer
        self._levels = {name: level for level in machine.levels if level.kind != "fanout" for name in level.targets}
        self._formats: dict[str, dict[str, object]] = {}
        self._savings: list[dict[str, object]] = []
        self._computes = False
        """Whether the compute itself saves operations."""
        self._ranks: dict[tuple[str, str], int] = {}
        self._rank_of: dict[tuple[str, str], dict[str, int]] = {}

    def sparsity(self, targets: Sequence[tuple[str, RawMap]]) -> RawMap | None:
        order = list(self._levels)
        for name, target in targets:
            if name not in self._levels:
                hint = did_you_mean(name, self._levels, listing="levels")
                at = named(target.at, "sparse_optimizations")
                raise SpecError(f"{name!r} is not a level of the architecture", at=at, hint=hint)
        for name, target in sorted(targets, key=lambda entry: -order.index(entry[0])):  # formats build on those inside
            level = self._levels[name]
            for key, value in target.items:
                self._section(level, target, _plain(key), key, value)
        if not self._formats and not self._savings:
            for density in self._problem.densities.values():
                self._report.leave(density.at, "densities", "no format and no optimization uses them")
            return None
        densities: dict[str, object] = {}
        for space, given in self._problem.densities.items():
            densities[self._problem.tensors[space]] = self._density(space, given)
        for output in (space.tensor for space in self._problem.spaces if space.is_output):
            if any(output in of_memory for of_memory in self._formats.values()):
                densities.setdefault(output, 1)  # Sparseloop takes outputs as dense unless it is told
        found: dict[str, object] = {"densities": densities, "formats": self._formats}
        # Timeloop 0.4 charges less than the versions before it
        found["metadata"], found["fills"] = ("share", "lanes") if self._is_newer else ("share_all", "all")
        found["savings"] = self._savings
        if energies := self._own_energies():
            found["energies"] = energies
        raw_found = from_python({"sparsity": found})
        assert isinstance(raw_found, RawMap)
        return raw_found

    def _section(self, level: Level, target: RawMap, plain: str, key: str, value: Raw) -> None:
        match plain:
            case "name" | "target" | "version":
                pass
            case "representation_format":
                spaces = _field(a_map(value, key), "data_spaces")
                for item in a_list(spaces, f"{key}.data_spaces", value.at):
                    self._format(level, a_map(item, f"{key}.data_spaces"))
            case "action_optimization":
                for item in a_list(value, key):
                    self._saving(level, a_map(item, key))
            case "compute_optimization":
                for item in a_list(value, key):
                    self._compute(level, a_map(item, key))
            case _:
                self._report.leave(target.place_of(key), f"{level.name}.{key}", "it has no counterpart")

    # densities

    def _leave_others(self, entry: RawMap, known: Sequence[str], what: str) -> None:
        """Report the fields of an entry that are not known."""
        for key, _ in entry.items:
            if _plain(key) not in known:
                self._report.leave(entry.place_of(key), f"{what}.{key}", "it has no counterpart")

    def _density(self, space: str, raw: Raw) -> object:
        what = f"density of {space}"
        if isinstance(raw, RawScalar):
            return {"even": self._part(raw, what)}
        given = a_map(raw, what)
        self._leave_others(given, ("distribution", "density", "band_width", "data_file_path"), what)
        kind = _plain(a_text(_field(given, "distribution"), f"{what}.distribution", given.at))
        if kind in _STRUCTURED:
            return {"even": self._part(given.get("density"), what, given)}
        if kind == "hypergeometric":
            return self._part(given.get("density"), what, given)
        if kind == "banded":
            width = an_integer(_field(given, "band_width"), f"{what}.band_width", self._scope, 0, given.at)
            return {"band": [width, width]}
        if kind == "real_data":
            path = a_text(_field(given, "data_file_path"), f"{what}.data_file_path", given.at)
            file = PurePosixPath(path).name
            reason = f"the path; the mask is read as {file} beside the specification"
            self._report.leave(given.at, f"{space}: data_file_path", reason)
            return {"file": file}
        hint = did_you_mean(kind, DISTRIBUTIONS, listing="distributions")
        raise SpecError(f"unknown distribution {kind!r}", at=named(given.at, what), hint=hint)

    def _part(self, raw: Raw | None, what: str, given: RawMap | None = None) -> float:
        part = a_number(raw, what, self._scope, 0, given.at if given is not None else None)
        if part > 1:
            raise SpecError(f"{what} must be at most 1, found {part:g}", at=named(getattr(raw, "at", None), what))
        return part

    # formats

    def _format(self, level: Level, entry: RawMap) -> None:
        name = a_text(entry.get("name"), "representation_format.data_spaces.name", entry.at)
        self._leave_others(entry, ("name", "ranks", "rank_application_order"), f"{level.name}.{name}")
        space = self._space(name, entry)
        if self._nest is not None and not any(h.level is level and h.space is space for h in self._nest.holds):
            return  # passes by: Sparseloop stores nothing either
        ranks = [self._rank(level, a_map(item, "ranks")) for item in a_list(entry.get("ranks"), "ranks", entry.at)]
        order = _field(entry, "rank_application_order")
        inward = order is not None and _plain(a_text(order, "rank_application_order")) == "inner_to_outer"
        self._ranks[level.name, space.tensor] = len(ranks)
        levels = self._levels_of(level, space, ranks, inward)
        if levels:
            self._formats.setdefault(self._machine.components[level.name], {})[space.tensor] = levels

    def _space(self, name: str, entry: RawMap) -> DataSpace:
        tensor = self._problem.tensors.get(name)
        found = next((space for space in self._problem.spaces if space.tensor == tensor), None)
        if found is None:
            hint = did_you_mean(name, self._problem.tensors, listing="data spaces")
            raise SpecError(f"{name!r} is not a data space", at=named(entry.at, "sparse_optimizations"), hint=hint)
        return found

    def _rank(self, level: Level, entry: RawMap) -> _Rank:
        written = a_text(entry.get("format"), "ranks.format", entry.at)
        known = ("format", "metadata_word_bits", "payload_word_bits", "flattened_rankids")
        self._leave_others(entry, known, f"{level.name}.ranks")
        if written.upper() not in KINDS:
            hint = did_you_mean(written, KINDS, listing="formats")
            raise SpecError(f"unknown format {written!r}", at=named(entry.at, "ranks.format"), hint=hint)
        kind = KINDS[written.upper()]
        if written.upper() == "UB":
            self._report.leave(entry.place_of("format"), "UB", "its mask: all values are stored, without metadata")
        key = "payload_word_bits" if kind == "UOP" else "metadata_word_bits"
        raw, standard = _field(entry, key), 1 if kind == "B" else self._attribute(level, "metadata_datawidth")
        bits = standard if raw is None else an_integer(raw, f"ranks.{key}", self._scope, 0)
        width = self._attribute(level, "metadata_storage_width")
        # Sparseloop widens an entry until whole ones fill a row
        bits = next((b for b in range(bits, 2 * bits) if width % b == 0), bits) if bits else 0
        flattened = _field(entry, "flattened_rankids")
        names = None if flattened is None else frozenset(_names(flattened))
        for name in sorted(names or ()):
            if name not in self._problem.variables:
                hint = did_you_mean(name, self._problem.variables, listing="dimensions")
                at = named(entry.at, "ranks.flattened_rankIDs")
                raise SpecError(f"{name!r} is not a dimension of the problem", at=at, hint=hint)
        return _Rank(kind, bits, names)

    def _attribute(self, level: Level, key: str) -> int:
        raw = level.attributes.get(key)
        return 0 if raw is None else an_integer(raw, f"{level.name}.{key}", self._scope, 0)

    def _levels_of(self, level: Level, space: DataSpace, ranks: Sequence[_Rank], inward: bool) -> list[object]:
        """Levels of a format, each rank of the tensor in one of them: that of its innermost loop.

        Ranks of the tile that the next holder further in has are as they are there, or one for all of it where that
        stores everything; others are for the loops between. A tile of one value has no ranks.
        """
        inside = self._inside(level, space)
        order = {other.name: place for place, other in enumerate(self._machine.levels)}
        within = [] if inside is None else self._loops_over(space, order[inside.name], len(order))
        rank_of, taken = dict[str, int](), 0
        if inside is not None and within:
            taken = self._ranks.get((inside.name, space.tensor), 1)
            known = self._rank_of.get((inside.name, space.tensor), dict.fromkeys(within, -1))
            rank_of = {v: place + len(ranks) for v, place in known.items()}
        last = len(order) if inside is None else order[inside.name]
        loops = self._loops_over(space, order[level.name], last)
        step = -1 if inward else 1
        waiting, here, is_used = list(range(max(len(ranks) - taken, 0)))[::step], -1, True
        for variable in loops[::step]:
            dimension = next(name for name, v in self._problem.variables.items() if v == variable)
            while waiting and (here < 0 or not self._takes(ranks[here], dimension, is_used)):
                here, is_used = waiting.pop(0), False
            is_used = True
            rank_of[variable] = max(here, 0, rank_of.get(variable, 0))
        # counted from the innermost one, as holders further out do
        self._rank_of[level.name, space.tensor] = {v: place - len(ranks) for v, place in rank_of.items()}
        return self._written(space, ranks, rank_of)

    def _loops_over(self, space: DataSpace, first: int, last: int) -> list[str]:
        """Rank variables of the loops that index a data space in levels from `first` to before `last`."""
        order = [other.name for other in self._machine.levels]
        own = {v for index in space.indices for v, _ in index.terms}
        loops = self._nest.loops if self._nest is not None else ()
        places = [(order.index(loop.level.name), self._problem.variables[loop.dimension]) for loop in loops]
        return [variable for place, variable in places if first <= place < last and variable in own]

    def _inside(self, level: Level, space: DataSpace) -> Level | None:
        """The next holder of a data space further in."""
        if self._nest is None:
            return None
        within = [hold.level for hold in self._nest.holds if hold.space is space]
        return next(iter(within[within.index(level) + 1 :]), None)

    def _takes(self, rank: _Rank, dimension: str, is_used: bool) -> bool:
        return not is_used if rank.flattened is None else dimension in rank.flattened

    def _written(self, space: DataSpace, ranks: Sequence[_Rank], rank_of: Mapping[str, int]) -> list[object]:
        members: dict[int, list[str]] = {}
        names = self._problem.rank_names(space)
        known = [max((rank_of[v] for v, _ in index.terms if v in rank_of), default=-1) for index in space.indices]
        outermost = min((place for place in known if place >= 0), default=len(ranks) - 1)
        for place, name in zip(known, names, strict=True):
            members.setdefault(outermost if place < 0 else place, []).append(name)
        found: list[object] = []
        for place in sorted(members):
            rank = ranks[place]
            kind = rank.kind
            if place == max(members) and kind == "UOP":
                # ranks further in are of one place; offsets tell as much as a mask with as many bits
                kind = "U" if ranks[-1].kind in ("U", "UOP") else "B"
            level: dict[str, object] = {"format": kind, "ranks": members[place]}
            found.append(level if kind == "U" else level | {"bits": rank.bits})
        return found

    # savings

    def _saving(self, level: Level, entry: RawMap) -> None:
        kind = _plain(a_text(entry.get("type"), "action_optimization.type", entry.at))
        if kind not in DO:
            hint = did_you_mean(kind, DO, listing="optimizations")
            raise SpecError(f"unknown optimization {kind!r}", at=named(entry.at, "action_optimization.type"), hint=hint)
        options = entry.get("options")
        self._leave_others(entry, ("type", "options", "target", "condition_on"), f"{level.name}.action_optimization")
        choices = [entry] if options is None else [a_map(o, "options") for o in a_list(options, "options")]
        for choice in choices if options is not None else ():
            self._leave_others(choice, ("target", "condition_on"), f"{level.name}.options")
        for other in choices[1:]:
            reason = "of several options the first is read; Sparseloop takes the one that saves most"
            self._report.leave(other.at, f"{level.name}: options", reason)
        if kind == "position_skipping":
            self._position(level, entry)
            return
        if kind in PACKING:
            reason = (
                "lanes that zeros leave free take no work of others: it is read as gating, on as many lanes as named"
            )
            self._report.leave(entry.place_of("type"), f"{level.name}: {kind}", reason)
        for choice in choices[:1]:
            target = self._space(a_text(choice.get("target"), "target", choice.at), choice)
            on = _field(choice, "condition_on")
            leaders = [self._space(name, choice) for name in (_names(on) if on is not None else ())]
            inputs = [space for space in leaders if not space.is_output and space is not target]
            for space in leaders:
                if space not in inputs:
                    reason = f"zeros of {space.tensor} do not tell of an operation that is to come"
                    self._report.leave(choice.place_of("condition_on"), f"{level.name}: condition_on", reason)
            if inputs:
                at = self._machine.components[self._holder(level, target).name]
                leading = " | ".join(space.tensor for space in inputs)
                self._savings.append({"at": at, "do": DO[kind], "tensors": target.tensor, "on": leading})
                packed: dict[str, object] = {"at": self._machine.compute, "do": DO[kind], "on": leading}
                if kind in PACKING and packed not in self._savings:  # lanes that are left free do nothing
                    self._savings.append(packed)

    def _position(self, level: Level, entry: RawMap) -> None:
        """Nonzeros alone are dealt to lanes: the compute skips what has none."""
        space = self._space(a_text(entry.get("target"), "target", entry.at), entry)
        self._savings.append({"at": self._machine.compute, "do": "skip", "on": space.tensor})
        reason = "lanes do not get equal numbers of nonzeros: each skips those of its own"
        self._report.leave(entry.place_of("type"), f"{level.name}: position skipping", reason)

    def _holder(self, level: Level, space: DataSpace) -> Level:
        """The level, or the next one outward that holds a data space."""
        if self._nest is None:
            return level
        order = [other.name for other in self._machine.levels]
        within = [h.level for h in self._nest.holds if h.space is space]
        outward = [other for other in within if order.index(other.name) <= order.index(level.name)]
        return outward[-1] if outward else within[0]

    def _compute(self, level: Level, entry: RawMap) -> None:
        kind = _plain(a_text(entry.get("type"), "compute_optimization.type", entry.at))
        if kind not in ("gating", "skipping"):
            hint = did_you_mean(kind, ("gating", "skipping"), listing="optimizations")
            raise SpecError(f"unknown optimization {kind!r}", at=named(entry.at, "compute_optimization"), hint=hint)
        self._computes = True
        on = " | ".join(space.tensor for space in self._problem.spaces if not space.is_output)
        self._savings.append({"at": self._machine.components[level.name], "do": DO[kind], "on": on})

    # energies

    def _own_energies(self) -> dict[str, object]:
        found: dict[str, object] = {}
        for level in self._machine.levels:
            actions = self._energies.get(level.name, {})
            own: dict[str, object] = {}
            if level.kind == "compute":
                names = {"gated_compute": "mac_gated", "skipped_compute": "mac_skipped"}
                # Sparseloop charges operations that the compute itself saves, none whose values do not come
                own = {ours: actions[theirs] for ours, theirs in names.items() if theirs in actions and self._computes}
            elif level.kind == "memory":
                saved = [f"{state}_{action}" for state in ("gated", "skipped") for action in ("read", "write")]
                own = {action: actions[action] for action in saved if action in actions}
                for action in ("read", "write"):  # as Sparseloop does
                    if f"gated_{action}" in own:
                        own.setdefault(f"skipped_{action}", own[f"gated_{action}"])
                width = self._attribute(level, "metadata_storage_width")
                stores = self._machine.components[level.name] in self._formats  # in a store of its own
                if stores and not actions:
                    self._report.leave(
                        level.at, f"{level.name}: metadata", "its energy, which counts as 0 without an ERT"
                    )
                for action in ("metadata_read", "metadata_write"):
                    if stores:
                        own[action] = actions.get(action, 0.0) / width if width else 0.0
            if own:
                found[self._machine.components[level.name]] = own
        return found


def _plain(key: str) -> str:
    """A key in the spelling of version 0.4, in small letters."""
    return key.replace("-", "_").lower()


def _field(fields: RawMap, key: str) -> Raw | None:
    """A field in the spelling of any version."""
    return next((value for name, value in fields.items if _plain(name) == key), None)


def _names(raw: Raw) -> list[str]:
    """Names in a list, in lists of it, or in one text."""
    if isinstance(raw, RawList):
        return [name for item in raw.items for name in _names(item)]
    return [a_text(raw, "names")]
