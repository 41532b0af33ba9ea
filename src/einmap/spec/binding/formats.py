"""Formats of `sparsity.formats` into values: names, levels, ranks in blocks; errors at the field."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

from einmap.errors import At, SpecError, did_you_mean
from einmap.expressions.arithmetic import number
from einmap.expressions.scope import Scope
from einmap.sparse.formats import NAMED, Format, Kind, Written, format_of, named_format
from einmap.spec.schema.documented import word_in
from einmap.spec.schema.sparsity import FormatLevelInput, NamedFormatInput
from einmap.visible import short

_PART = re.compile(r"\s*(\w+)\s*(?:(//?|%)\s*(\S.*))?")
"""A rank, or `M / 4` and `M % 4` of one in blocks."""


@dataclass
class FormatBinder:
    """Binds the format of one tensor. `sizes`: of its ranks; `shares`: whether metadata are those of average tiles."""

    tensor: str
    sizes: Mapping[str, int]
    scope: Scope
    at: At
    shares: bool
    blocks: dict[str, int] = field(default_factory=dict)

    def bind(self, given: str | NamedFormatInput | list[FormatLevelInput]) -> Format:
        """The format. Raises SpecError."""
        if isinstance(given, str):
            return self._named(NamedFormatInput(name=given))
        if isinstance(given, NamedFormatInput):
            return self._named(given)
        return self._of_levels(given)

    def _named(self, given: NamedFormatInput) -> Format:
        name = given.name
        if name not in NAMED:
            hint = did_you_mean(name, NAMED, listing="formats")
            if "block" in name or name in ("bsr", "bcsr", "bell"):
                hint = (
                    f"a format of blocks is {{name: csr, block: {{{next(iter(self.sizes), 'K')}: 4}}}}, or of ellpack"
                )
            raise SpecError(f"unknown format {name!r}", at=self.at, hint=hint)
        if name in ("csr", "csc", "ellpack") and len(self.sizes) < 2:
            raise SpecError(f"{name} needs two ranks, {self.tensor!r} has {len(self.sizes)}", at=self.at)
        if given.entries is not None and name != "ellpack":
            raise SpecError(f"{name} has no fixed number of entries", at=self.at, hint="ellpack has")
        for rank, length in given.block.items():
            self._check_rank(rank)
            self._cut(rank, length)
        return named_format(name, tuple(self.sizes.values()), self._lengths(), self._entries(given.entries))

    def _of_levels(self, given: Sequence[FormatLevelInput]) -> Format:
        written = [[self._part(rank) for rank in level.ranks] for level in given]
        order = self._places()
        named = [part for parts in written for part in parts]
        if sorted(named) != sorted(order):
            names = _listed(named, self.blocks)
            raise SpecError(
                f"the levels of {self.tensor!r} must name each of its ranks once, found [{names}]",
                at=self.at,
                hint=f"its ranks are {_listed(list(order), self.blocks)}",
            )
        for rank in self.blocks:
            if named.index((rank, "/")) > named.index((rank, "%")):
                raise SpecError(f"{rank} % {self.blocks[rank]} stands before {rank} / {self.blocks[rank]}", at=self.at)
        levels: list[Written] = []
        for level, parts in zip(given, written, strict=True):
            kind: Kind = word_in(level, "format", self.at, listing="formats")
            if level.entries is not None and kind != "ELL":
                raise SpecError(f"a level of {kind} has no fixed number of entries", at=self.at, hint="ELL has")
            if level.bits is not None and kind == "U":
                text = f"a level of U has no metadata, found bits of it for {self.tensor!r}"
                raise SpecError(text, at=self.at, hint="leave out bits")
            bits = None if level.bits is None else self._whole(level.bits, "bits", 0)
            levels.append((kind, tuple(order[part] for part in parts), bits, self._entries(level.entries)))
        if levels[-1][0] == "UOP" or not all(group for _, group, _, _ in levels):
            raise SpecError(
                f"the last level of {self.tensor!r} says which values there are, and each level has a rank",
                at=self.at,
                hint="below UOP a level such as CP follows",
            )
        kinds = [kind for kind, _, _, _ in levels]
        if "ELL" in kinds and any(kind != "U" for kind in kinds[: len(kinds) - 1 - kinds[::-1].index("ELL")]):
            raise SpecError(
                f"ELL of {self.tensor!r} stands below a level that leaves out fibers; that is not supported yet",
                at=self.at,
                hint="above ELL all levels are U",
            )
        found = format_of(levels, tuple(self.sizes.values()), self._lengths())
        self._check_runs(found)
        return found

    def _check_runs(self, found: Format) -> None:
        parts = found.parts_of(tuple(self.sizes.values()))
        for level in found.levels:
            needed = max(0, prod(parts[rank] for rank in level.ranks) - 1).bit_length()
            if level.kind == "RLE" and level.bits < needed and not self.shares:
                raise SpecError(
                    f"runs of up to {2**needed} places of {self.tensor!r} do not fit into {level.bits} bits; runs that "
                    "go on in a further entry are not supported yet",
                    at=self.at,
                    hint=f"bits: {needed}",
                )

    # ranks in blocks

    def _part(self, text: str) -> tuple[str, str]:
        """A rank, and which part of it: all (""), which block ("/"), or where in a block ("%")."""
        match = _PART.fullmatch(text)
        if match is None:
            raise SpecError(f"{short(text)} is not a rank", at=self.at, hint="K, or K / 4 and K % 4 in blocks of 4")
        rank, sign, length = match.groups()
        if sign is None:
            return rank, ""
        self._check_rank(rank)
        self._cut(rank, length)
        return rank, sign[0]

    def _check_rank(self, rank: str) -> None:
        if rank not in self.sizes:
            hint = did_you_mean(rank, self.sizes, listing="ranks")
            raise SpecError(f"{self.tensor!r} has no rank {rank!r}", at=self.at, hint=hint)

    def _cut(self, rank: str, written: object) -> None:
        length = self._whole(written, f"block of {rank}", 1)
        if self.sizes[rank] % length:
            raise SpecError(
                f"blocks of {length} do not divide the {self.sizes[rank]} places of {self.tensor!r} along {rank}",
                at=self.at,
                hint="choose a size of block that divides the rank",
            )
        if length == 1:
            raise SpecError(f"blocks of 1 along {rank} cut nothing", at=self.at, hint=f"leave {rank} whole")
        if self.blocks.setdefault(rank, length) != length:
            raise SpecError(f"{rank} is cut by {self.blocks[rank]} and by {length}", at=self.at)

    def _lengths(self) -> tuple[int, ...]:
        return tuple(self.blocks.get(rank, 1) for rank in self.sizes) if self.blocks else ()

    def _places(self) -> dict[tuple[str, str], int]:
        """Positions of ranks and of their parts, as a format counts them."""
        parts = [(rank, sign) for rank in self.sizes for sign in (("/", "%") if rank in self.blocks else ("",))]
        return {part: place for place, part in enumerate(parts)}

    def _entries(self, given: object) -> int | None:
        return None if given is None else self._whole(given, "entries", 1)

    def _whole(self, given: object, what: str, least: int) -> int:
        return int(number(given, self.scope, at=self.at, what=what, minimum=least, integer=True, allow_inf=False))


def _listed(parts: Sequence[tuple[str, str]], blocks: Mapping[str, int]) -> str:
    return ", ".join(f"{rank} {sign} {blocks[rank]}" if sign else rank for rank, sign in parts)
