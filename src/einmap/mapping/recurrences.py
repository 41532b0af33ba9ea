"""Conditions on the LoopTree of a recurrence (definition 15): one step after the other, and each step as a whole."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from einmap.einsum.spaces.recurrence import Recurrence
from einmap.einsum.workload import Workload
from einmap.errors import At, EinmapError, MappingError, NotSupportedError
from einmap.mapping.mapping import Mapping, PlacedNode
from einmap.mapping.met_loops import MetLoop, loops_met
from einmap.mapping.nodes import Address, Pipeline, Spatial, Storage, Temporal

type Where = Callable[[Address], At]


def check_recurrences(mapping: Mapping, workload: Workload, where: Where, problems: list[EinmapError]) -> None:
    """Add what breaks the order of time to `problems`; every loop names a rank variable and a tile shape."""
    for recurrence in workload.recurrences:
        names = [name for name in recurrence.einsums if name in mapping.path_of]
        if names and workload.by_name[names[0]].extents[recurrence.variable] > 1:
            _Check(mapping, workload, where, problems, recurrence, names).run()


@dataclass
class _Check:
    """Checks of one recurrence; `names`: those of its Einsums that are mapped."""

    mapping: Mapping
    workload: Workload
    where: Where
    problems: list[EinmapError]
    recurrence: Recurrence
    names: Sequence[str]

    def run(self) -> None:
        before = len(self.problems)
        turns = [turn for name in self.names if (turn := self._turn(name)) is not None]
        if len(self.problems) > before:
            return
        if len({turn.placed.address for turn in turns}) > 1:
            shown = ", ".join(self.names)
            text = f"{shown} are a recurrence over {self.recurrence.variable!r}: each step is that of all of them"
            hint = f"write the loop over {self.recurrence.variable} once, above the split"
            self.complain(text, turns[1].placed, hint)
            return
        for name, turn in zip(self.names, turns, strict=True):
            self._above(name, turn)
        for name in self._users():
            self._holders(name, turns[0].placed)

    def complain(self, text: str, placed: PlacedNode, hint: str) -> None:
        if not any(p.message == text for p in self.problems):
            self.problems.append(MappingError(text, at=self.where(placed.address), hint=hint))

    def _loops(self, name: str) -> list[MetLoop]:
        return [lp for lp in loops_met(self.mapping.path_of[name], self.workload.by_name[name]) if lp.iterations > 1]

    def _turn(self, name: str) -> MetLoop | None:
        """The loop over time of an Einsum; None where there is a problem."""
        variable = self.recurrence.variable
        path = self.mapping.path_of[name]
        pipeline = next((placed for placed in path if isinstance(placed.node, Pipeline)), None)
        if pipeline is not None:
            text = f"a recurrence ({', '.join(self.recurrence.einsums)}) does not run in a Pipeline yet"
            at = self.where(pipeline.address)
            self.problems.append(NotSupportedError(text, at=at, hint="write !Sequential"))
            return None
        over = [lp for lp in self._loops(name) if lp.variable == variable]
        for lp in over:
            if isinstance(lp.node, Spatial):
                text = f"Einsum {name!r}: {variable!r} is the time of a recurrence; its steps do not run side by side"
                self.complain(text, lp.placed, f"write !Temporal {{rank_variable: {variable}, tile_shape: 1}}")
                return None
        if over[0].shape != 1 or over[0].initial not in (None, 1):
            text = f"Einsum {name!r}: {variable!r} is the time of a recurrence, which runs one step at a time"
            self.complain(text, over[0].placed, "tile_shape: 1")
            return None
        return over[0]

    def _above(self, name: str, turn: MetLoop) -> None:
        """Loops outside of time are over what each state is independent in."""
        for lp in self._loops(name):
            outside = lp.placed.address < turn.placed.address
            if lp.placed.address == turn.placed.address or not outside:
                continue
            for state in self.recurrence.states:
                if not self._is_independent(state, lp):
                    text = (
                        f"the loop over {lp.variable!r} of Einsum {name!r} stands outside of the loop over "
                        f"{self.recurrence.variable!r}, and steps of {state!r} need what its other iterations compute"
                    )
                    self.complain(text, lp.placed, f"move it below the loop over {self.recurrence.variable}")

    def _is_independent(self, state: str, loop: MetLoop) -> bool:
        """Whether a step of the state needs nothing but steps of the same iteration of a loop that all share."""
        ranks = set()
        for name in self.names:
            access = self.workload.by_name[name].by_tensor.get(state)
            here = next((lp for lp in self._loops(name) if lp.placed.address == loop.placed.address), None)
            if here is None:
                return False
            if access is not None:
                alone = [(r, ix) for r, ix in access.projection if any(v == here.variable for v, _ in ix.terms)]
                ranks.add(tuple((r, ix.terms[0][1], ix.constant, len(ix.terms), here.shape) for r, ix in alone))
        return len(ranks) == 1 and all(len(alone) == 1 and alone[0][3] == 1 for alone in ranks)

    def _users(self) -> list[str]:
        """The Einsums that use a state, those behind the recurrence too."""
        used = {user for state in self.recurrence.states for user in self.workload.users[state]}
        return [name for name in self.mapping.path_of if name in used]

    def _holders(self, name: str, turn: PlacedNode) -> None:
        """Where a state is: as a whole outside of time, or step by step right below it; other copies in one branch."""
        path, variable = self.mapping.path_of[name], self.recurrence.variable
        loops = [lp for lp in self._loops(name) if isinstance(lp.node, Temporal)]
        for state in self.recurrence.states:
            holders = [p for p in path if isinstance(p.node, Storage) and state in p.held]
            for placed in holders:
                is_below = (
                    placed.address > turn.address and placed.address[: len(turn.address) - 1] == turn.address[:-1]
                )
                above = [lp for lp in loops if lp.placed.address < placed.address]
                if placed is holders[0]:
                    if is_below and above and above[-1].placed.address != turn.address:
                        text = (
                            f"the loop over {above[-1].variable!r} stands between the loop over {variable!r} and the "
                            f"outermost storage of {state!r}, which keeps what one step hands to the next"
                        )
                        self.complain(text, above[-1].placed, f"hold {state} right below the loop over {variable}")
                elif self._is_shared(state, placed):
                    text = (
                        f"{state!r} is held once more for several Einsums of its recurrence over {variable!r}; a step "
                        "would not find there what the one before has written"
                    )
                    self.complain(text, placed, f"hold {state} in the branches, or here alone")

    def _is_shared(self, state: str, holder: PlacedNode) -> bool:
        """Whether Einsums of the recurrence use a state below one of its storage nodes, and one of them writes it."""
        using = [
            name
            for name in self.names
            if state in self.workload.by_name[name].tensors
            and any(p.address == holder.address for p in self.mapping.path_of[name])
        ]
        return len(using) > 1 and self.workload.producers[state] in using
