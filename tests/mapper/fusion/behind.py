"""What lies behind an Einsum, by definition: each option at each boundary state, nothing remembered.

Also all stages of a cascade, edge by edge, in the order that the graph promises.
"""

from collections.abc import Mapping, Sequence

from einmap.mapper.fusion.fronts.nests.signatures import Key
from einmap.mapper.fusion.paths.boundary_states import (
    ANY_LOOPS,
    OTHER_LOOPS,
    OWN,
    BoundaryState,
    EinsumOptions,
    Live,
    Option,
    Slot,
)

NOTHING = BoundaryState((), ())


def by_definition(boundary_state: BoundaryState, option: Option, step: EinsumOptions) -> BoundaryState | None:
    """The boundary state behind an Einsum, None if the option does not fit."""
    return (relaxed_after if boundary_state.partial or option.unexpanded else after)(boundary_state, option, step)


def after(boundary_state: BoundaryState, option: Option, step: EinsumOptions) -> BoundaryState | None:
    """The boundary state behind an Einsum, None if the option does not fit."""
    if option.absent:
        copied = [Live(t, key, 0, (), (), option.bits[t]) for t, key in option.keys.items()]
        return BoundaryState(
            tuple(sorted((*boundary_state.live, *copied))), boundary_state.loops, boundary_state.partial
        )
    n = len(boundary_state.loops)
    if option.loops[:n] != boundary_state.loops:
        return None
    waiting: list[Live] = []
    for live in boundary_state.live:
        key = option.keys.get(live.slot)
        if key is not None:
            inside = _inside(option, live.slot, live.shared)
            if inside != live.held or any(not memory for _, memory in inside):
                return None
            cuts = option.cuts.get(live.slot, ())[: len(live.written)]
            if not (_alike(key.loops, live.key.loops) and key == live.key and _alike(live.written, cuts)):
                return None
        if live.slot in step.needed:
            waiting.append(live)
    known = {live.slot for live in boundary_state.live}
    born = [t for t in option.keys if t not in known and t in step.needed]
    keys = {**{live.slot: live.key for live in waiting}, **{t: option.keys[t] for t in born}}
    after = max((len(key.loops) for key in keys.values()), default=0)
    lives = [_later(live, option, after, live.slot in step.states) for live in waiting]
    for t in born:
        written = option.cuts.get(t, ())[: max(after - len(option.keys[t].loops), 0)]
        within = _inside(option, t, after)
        seen = written if t in step.intermediates else ()
        lives.append(Live(t, option.keys[t], after, within, seen, option.bits[t]))
    return BoundaryState(tuple(sorted(lives)), option.loops[:after])


def relaxed_after(boundary_state: BoundaryState, option: Option, step: EinsumOptions) -> BoundaryState | None:
    """The same where not everything is known: it fits unless it surely does not.

    Of the tensors that it uses the keys stay, as far as they are known; those that pass by are forgotten, and of none
    more than the key is looked at.
    """
    lives: dict[Slot, Live] = {}
    for live in boundary_state.live:
        own = option.keys.get(live.slot, live.key)
        if own.memory != live.key.memory:
            return None
        both_known = live.slot in option.keys and ANY_LOOPS not in (own.loops, live.key.loops)
        if both_known and not _alike(own.loops, live.key.loops):
            return None
        if live.slot in step.needed:
            key = own if live.key.loops == ANY_LOOPS else live.key
            seen = _of_key if live.slot in option.keys else _of_memory
            lives[live.slot] = seen(live.slot, key, max(live.bits, option.bits.get(live.slot, 0.0)))
    if option.absent:
        return after(boundary_state, option, step)
    if not lives and not option.unexpanded:
        return after(NOTHING, option, step)
    for slot, key in option.keys.items():
        if slot not in lives and slot in step.needed:
            lives[slot] = _of_key(slot, key, option.bits.get(slot, 0.0))
    return BoundaryState(tuple(sorted(lives.values())), (), any(live.key.loops for live in lives.values()))


def _inside(option: Option, slot: Slot, shared: int) -> tuple[tuple[int, str], ...]:
    """Nodes of a tensor, other than the backing one, that stand above some of the shared loops."""
    return tuple(node for node in option.held.get(slot, ()) if node[0] < shared)


def _later(live: Live, option: Option, after: int, writes: bool) -> Live:
    """A tensor that is needed later still, behind one more Einsum; `writes`: a state of a recurrence, this one."""
    cuts = option.cuts.get(live.slot, ()) if writes else live.written
    written = cuts[: max(after - len(live.key.loops), 0)]
    if live.slot in option.keys:
        inside = _inside(option, live.slot, after)
        return Live(live.slot, live.key, after, inside, written, live.bits)
    shared = min(live.shared, after)
    held = tuple(n for n in live.held if n[0] < shared)
    return Live(live.slot, live.key, shared, held, written, live.bits)


def _of_memory(slot: Slot, key: Key, bits: float) -> Live:
    return Live(slot, Key(key.memory, ANY_LOOPS), 0, (), (), 0.0) if key.loops else Live(slot, key, 0, (), (), bits)


def _of_key(slot: Slot, key: Key, bits: float) -> Live:
    return Live(slot, key, 0, (), (), 0.0 if key.loops else bits)


def _alike(these, those) -> bool:
    return these == those and not any(rank.startswith(OWN) for _, rank, _ in these)


# whole cascades

type Keys = Mapping[Slot, frozenset[Key]]
type Edges = list[tuple[BoundaryState, int, BoundaryState]]


def stages_by_definition(steps: Sequence[EinsumOptions]) -> list[tuple[list[BoundaryState], Edges]]:
    """For each Einsum the boundary states before it, and its edges, but for those that lead nowhere."""
    before, stages = [NOTHING], []
    for k, step in enumerate(steps):
        edges: Edges = []
        for state in before:
            for o in _in_turn(step, state):
                found = by_definition(state, step.options[o], step)
                if found is not None:
                    edges.append((state, o, _told(found, steps, k)))
        stages.append((before, edges))
        before = list(dict.fromkeys(found for _, _, found in edges))
    ends = set(before[:1])
    for k in reversed(range(len(steps))):
        states, edges = stages[k]
        stages[k] = states, [edge for edge in edges if edge[2] in ends]
        ends = {edge[0] for edge in stages[k][1]}
    return stages


def _in_turn(step: EinsumOptions, state: BoundaryState) -> list[int]:
    """Options that stand for what is not listed, then all others, those of copies that are left out behind them where
    all is known.
    """
    turn = [0 if o.unexpanded else 2 if o.absent and not state.partial else 1 for o in step.options]
    return sorted(range(len(turn)), key=turn.__getitem__)


def _told(state: BoundaryState, steps: Sequence[EinsumOptions], k: int) -> BoundaryState:
    """The boundary state behind Einsum k with only what later Einsums tell apart."""
    if k + 1 == len(steps):
        return state
    of_next, later = _listed(steps[k + 1]), _later_keys(steps, k + 1)
    if later and any(option.absent for option in steps[k + 1].options):
        return state
    ends = any(v.key.loops and v.slot in of_next and v.key not in of_next[v.slot] for v in state.live)
    if not (state.partial or ends):
        return state
    lives = []
    for live in state.live:
        if live.slot not in of_next:
            lives.append(_of_memory(live.slot, live.key, live.bits))
        elif live.key.loops in ((), ANY_LOOPS) or live.key in later[live.slot]:
            lives.append(_of_key(live.slot, live.key, live.bits))
        else:
            lives.append(_of_key(live.slot, Key(live.key.memory, OTHER_LOOPS), live.bits))
    return BoundaryState(tuple(lives), (), any(live.key.loops for live in lives))


def _listed(step: EinsumOptions) -> Keys:
    """Keys below loops that listed options have, of the tensors that were there before."""
    listed = [option for option in step.options if not option.unexpanded]
    return {t: frozenset(o.keys[t] for o in listed if o.keys[t].loops) for t in step.slots - step.born}


def _later_keys(steps: Sequence[EinsumOptions], k: int) -> Keys:
    """Such keys of Einsum k and all later ones, as long as each tensor is needed."""
    if k == len(steps):
        return {}
    own, later = _listed(steps[k]), _later_keys(steps, k + 1)
    needed = steps[k].needed - steps[k].born
    every = {t: own.get(t, frozenset()) | later.get(t, frozenset()) for t in needed}
    return every | {t: keys for t, keys in own.items() if t not in steps[k].needed}
