"""Loops above shared tensors that outer nests have, where these are too many to be listed."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from einmap.mapper.fusion.fronts.nests.gap_kernels import INNER, KIND, LEVEL, VARIABLE
from einmap.mapper.fusion.fronts.nests.loops import Cut
from einmap.mapper.fusion.fronts.nests.met_loops import KeyLoops
from einmap.mapper.fusion.fronts.nests.nest_rules import NestRules
from einmap.mapper.fusion.fronts.nests.outer_nests import OuterNests

WRITTEN = LEVEL + 1
"""Columns of a loop in `OuterNests.whole`."""
NUMBER = np.dtype("<i4")
NONE = b"\xff"
"""Bytes of a loop that is not there: rows end with them, and a tile shape, the last number of a loop, never does."""


@dataclass
class NestKeys:
    """For each shared tensor (by position) the loops above it in some of the outer nests that were looked at.

    `n`: how many these are.
    """

    loops: dict[int, set[KeyLoops]] = field(default_factory=dict)
    n: int = 0
    _known: dict[tuple[NestRules, int], _Decoder] = field(default_factory=dict)

    def add(self, rules: NestRules, nests: OuterNests) -> None:
        """Add the loops of outer nests of one dataplacement."""
        plan, whole = nests.plan, nests.whole
        self.n += len(whole)
        for t, _, _ in plan.backed:
            self.loops.setdefault(t, set()).add(())
        begin = 2 + 3 * plan.depth
        loops = whole[:, begin:].reshape(len(whole), -1, WRITTEN)[:, :, [KIND, VARIABLE, INNER]].astype(NUMBER)
        for level, t, _, _ in plan.backing:
            depth = whole[:, 2 + plan.depth + level]
            seen = loops[:, : depth.max()].copy()
            seen[np.arange(seen.shape[1]) >= depth[:, None]] = -1
            rows = seen.reshape(len(seen), -1)
            # nests that are listed one after the other mostly differ in their last loops
            rows = rows[np.concatenate([[True], (rows[1:] != rows[:-1]).any(axis=1)])]
            decoder = self._known.setdefault((rules, t), _Decoder(rules, t))
            self.loops.setdefault(t, set()).update(decoder.new(rows))


@dataclass
class _Decoder:
    """Loops above a tensor from rows of kinds, variables and tile shapes; each once."""

    rules: NestRules
    t: int
    known: set[bytes] = field(default_factory=set)
    loops: dict[bytes, Cut] = field(default_factory=dict)

    def new(self, rows: NDArray[np.int32]) -> list[KeyLoops]:
        """The loops of rows that were not there before."""
        if not rows.shape[1]:
            return [()]
        some = {
            row.rstrip(NONE) for row in rows.view(f"V{rows.itemsize * rows.shape[1]}").ravel().tolist()
        } - self.known
        self.known |= some
        width = 3 * rows.itemsize
        return [tuple([self._loop(row[i : i + width]) for i in range(0, len(row), width)]) for row in some]

    def _loop(self, encoded: bytes) -> Cut:
        if encoded not in self.loops:
            kind, v, inner = np.frombuffer(encoded, dtype=NUMBER).tolist()
            self.loops[encoded] = self.rules.names.kinds[kind], self.rules.ranks[self.t][v], inner
        return self.loops[encoded]
