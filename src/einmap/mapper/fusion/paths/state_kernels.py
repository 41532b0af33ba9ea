"""The compiled part of stage edges: which options fit behind which boundary states, and where they lead.

Tensors that are needed, keys, loops and nodes are numbers here, those of `StateNumbers`. A boundary state is a row: for
each slot the number of its tensor, 0 where there is none, then the number of the open loops, and 1 if not all is known.
An option is a row: its kind, the number of its loops, and for each slot of its step key, held nodes, cuts and bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from einmap.arrays import Ints
from einmap.compiled import inner, kernel, maker, place_in
from einmap.mapper.fusion.paths.inner_kernels import grown, longer, number_of, row_table
from einmap.mapper.fusion.paths.kernel_records import (
    ABSENT,
    PLAIN,
    UNEXPANDED,
    Ahead,
    Fitting,
    Layout,
    Parts,
    Reached,
    RowTable,
)

SLOT, KEY, SHARED, HELD, WRITTEN, BITS = range(6)
"""Columns of the table of tensors; see `Live`."""
MEMORY, LOOPS, ANY_KEY, OTHER_KEY = range(4)
"""Columns of the table of keys: memory, loops, and the keys in that memory with ANY_LOOPS and OTHER_LOOPS."""
NEEDED, INTERMEDIATE, STATE = range(3)
"""Columns of what is known of each slot of a step; see `EinsumOptions`."""
UNCHANGED, RELAXED, TOLD = -1, -2, -3
"""State of tensors that pass by, where it is not that only so many loops stay open."""
ANY = 1
"""Number of ANY_LOOPS among the cuts; no loops are 0, and so are no nodes, no bits and no tensor."""
ROOM = 64
"""Rows that a table has room for at first."""


def empty_table(width: int) -> RowTable:
    """A table without rows."""
    return RowTable(np.empty((ROOM, width), np.int64), np.full(2 * ROOM, -1), np.zeros(1, np.int64))


def table_of_tensors() -> RowTable:
    """A table of tensors; number 0 stands for none."""
    lives = empty_table(6)
    lives.rows[0], lives.size[0] = 0, 1
    return lives


def nothing_reached(width: int) -> Reached:
    """No boundary states behind an Einsum, with so many columns each."""
    return Reached(empty_table(width), np.empty(ROOM, np.int64), empty_table(width))


@inner
def live_of(lives: RowTable, row: Ints, slot: int, key: int, bits: int) -> Any:
    """The number of a tensor of which nothing but key and bits is looked at; `row`: six places."""
    row[SLOT], row[KEY], row[SHARED], row[HELD], row[WRITTEN], row[BITS] = slot, key, 0, 0, 0, bits
    return number_of(lives, row)


@inner
def by_memory(lives: RowTable, parts: Parts, row: Ints, live: int) -> Any:
    """The number of a tensor of whose key only the memory is looked at, unless it is kept as a whole."""
    slot, key, bits = lives.rows[live, SLOT], lives.rows[live, KEY], lives.rows[live, BITS]
    if parts.keys[key, LOOPS]:
        return live_of(lives, row, slot, parts.keys[key, ANY_KEY], 0)
    return live_of(lives, row, slot, key, bits)


@inner
def told_live(lives: RowTable, parts: Parts, ahead: Ahead, row: Ints, live: int) -> Any:
    """The number of a tensor where not all is known, with only what later Einsums tell apart."""
    if live == 0:
        return 0
    slot, key, bits = lives.rows[live, SLOT], lives.rows[live, KEY], lives.rows[live, BITS]
    if slot >= len(ahead.is_next) or not ahead.is_next[slot]:
        return by_memory(lives, parts, row, live)
    loops = parts.keys[key, LOOPS]
    if loops == 0:
        return live_of(lives, row, slot, key, bits)
    if loops != ANY and place_in(ahead.later_keys, ahead.first_later[slot], ahead.first_later[slot + 1], key) < 0:
        key = parts.keys[key, OTHER_KEY]
    return live_of(lives, row, slot, key, 0)


@inner
def ends(lives: RowTable, parts: Parts, ahead: Ahead, live: int) -> Any:
    """Whether no listed option of the next Einsum can follow behind a tensor."""
    slot, key = lives.rows[live, SLOT], lives.rows[live, KEY]
    if live == 0 or parts.keys[key, LOOPS] == 0 or slot >= len(ahead.is_next) or not ahead.is_next[slot]:
        return False
    return place_in(ahead.next_keys, ahead.first_next[slot], ahead.first_next[slot + 1], key) < 0


@inner
def first_of(table: Ints, number: int, n: int) -> Any:
    """The number of the first `n` of something, by a table of prefixes."""
    return table[number, min(n, table.shape[1] - 1)]


@inner
def fits(group: Ints, option: Ints, layout: Layout, lives: RowTable, parts: Parts) -> bool:
    """Whether an option may follow behind boundary states.

    `group`: for each slot of the step the tensor, the loops, whether not all is known.
    """
    n, kind = len(layout.used), option[0]
    loops, partial = group[n], group[n + 1]
    relaxed = partial or kind == UNEXPANDED
    if not relaxed:
        if kind == ABSENT:
            return True
        if first_of(parts.loop_prefixes, option[1], parts.loop_lengths[loops]) != loops:
            return False
    for s in range(n):
        live = group[s]
        if live == 0:
            if layout.used[s] >= 0:
                return False
            continue
        own, theirs = option[2 + 4 * s], lives.rows[live, KEY]
        own_loops, their_loops = parts.keys[own, LOOPS], parts.keys[theirs, LOOPS]
        if parts.keys[own, MEMORY] != parts.keys[theirs, MEMORY]:
            return False
        unknown = relaxed and ANY in (own_loops, their_loops)
        if not unknown and (own_loops != their_loops or parts.cut_own[own_loops]):
            return False
        if not relaxed:
            inside = first_of(parts.held_inside, option[3 + 4 * s], lives.rows[live, SHARED])
            written = lives.rows[live, WRITTEN]
            cuts = first_of(parts.cut_prefixes, option[4 + 4 * s], parts.cut_lengths[written])
            if inside != lives.rows[live, HELD] or parts.held_hidden[inside]:
                return False
            if cuts != written or parts.cut_own[written]:
                return False
    return True


@inner
def lead_to(
    target: Ints, group: Ints, option: Ints, slots: Ints, layout: Layout, lives: RowTable, parts: Parts, row: Ints
) -> None:
    """Fill the target of an option that fits; see Fitting. `slots`: of the step; `row`: six places.

    `group`: as of `fits`, then the loops that tensors keep open that are needed behind, and whether there are such.
    """
    n, kind = len(layout.used), option[0]
    partial, keeps = group[n + 1], group[n + 3]
    plain = kind == PLAIN and not (partial and keeps)
    target[n], target[n + 1], target[n + 2], target[n + 3] = UNCHANGED, group[n], partial, 0
    after = group[n + 2]
    for s in range(n):
        if group[s] == 0 and layout.facts[s, NEEDED]:
            after = max(after, parts.cut_lengths[parts.keys[option[2 + 4 * s], LOOPS]])
    if plain:
        target[n], target[n + 1], target[n + 2] = after, first_of(parts.loop_prefixes, option[1], after), 0
    elif kind != ABSENT:
        target[n], target[n + 1], target[n + 2] = RELAXED, 0, 0
    for s in range(n):
        live, key, cuts, bits = group[s], option[2 + 4 * s], option[4 + 4 * s], option[5 + 4 * s]
        target[s] = 0
        if kind == ABSENT:
            target[s] = live_of(lives, row, slots[s], key, bits)
        elif plain and layout.facts[s, NEEDED]:
            if live:
                key, bits = lives.rows[live, KEY], lives.rows[live, BITS]
                cuts = cuts if layout.facts[s, STATE] else lives.rows[live, WRITTEN]
            elif not layout.facts[s, INTERMEDIATE]:
                cuts = 0
            below = max(after - parts.cut_lengths[parts.keys[key, LOOPS]], 0)
            row[SLOT], row[KEY], row[SHARED], row[BITS] = slots[s], key, after, bits
            row[HELD] = first_of(parts.held_inside, option[3 + 4 * s], after)
            row[WRITTEN] = first_of(parts.cut_prefixes, cuts, below)
            target[s] = number_of(lives, row)
        elif layout.facts[s, NEEDED]:
            if live:
                theirs = lives.rows[live, BITS]
                bits = theirs if parts.bits[theirs] >= parts.bits[bits] else bits
                key = key if parts.keys[lives.rows[live, KEY], LOOPS] == ANY else lives.rows[live, KEY]
            cut = parts.keys[key, LOOPS] != 0
            target[s] = live_of(lives, row, slots[s], key, 0 if cut else bits)
            target[n + 2] = target[n + 2] or cut


@inner
def tell(target: Ints, n: int, lives: RowTable, parts: Parts, ahead: Ahead, row: Ints) -> None:
    """Leave of a target only what later Einsums tell apart, where that is known whatever passes by."""
    end = target[n + 2] != 0
    for s in range(n):
        end = end or ends(lives, parts, ahead, target[s])
    if ahead.stays or not end:
        return
    for s in range(n):
        target[s] = told_live(lives, parts, ahead, row, target[s])
    target[n] = RELAXED if target[n] == RELAXED else TOLD
    target[n + 1], target[n + 2], target[n + 3] = 0, 1, 1


@maker
def groups_of(before: Ints, layout: Layout, lives: RowTable, parts: Parts, group: Ints) -> Any:
    """Boundary states that are alike in what the Einsum uses, as `RowTable`; `group` gets the group of each.

    A row: the tensor of each slot of the step, loops, whether not all is known, the loops that tensors keep open that
    are needed behind, and whether there are such.
    """
    n, last = len(layout.used), before.shape[1]
    groups, row = row_table(ROOM, n + 4), np.empty(n + 4, np.int64)
    for i in range(len(before)):
        state = before[i]
        row[n], row[n + 1], row[n + 2], row[n + 3] = state[last - 2], state[last - 1], 0, 0
        for s in range(n):
            row[s] = state[layout.used[s]] if layout.used[s] >= 0 else 0
            if row[s] and layout.facts[s, NEEDED]:
                row[n + 2] = max(row[n + 2], parts.cut_lengths[parts.keys[lives.rows[row[s], KEY], LOOPS]])
                row[n + 3] = 1
        for c in range(len(layout.others)):
            live = state[layout.others[c, 0]]
            if live and layout.others[c, 2]:
                row[n + 2] = max(row[n + 2], parts.cut_lengths[parts.keys[lives.rows[live, KEY], LOOPS]])
                row[n + 3] = 1
        groups = grown(groups, 1)
        group[i] = number_of(groups, row)
    return groups


@maker
def in_turn(options: Ints, absent_last: bool) -> Any:
    """Numbers of options in the order in which they are tried: those that stand for what is not listed come first.

    Copies that are left out come last, or among the others.
    """
    order, at = np.empty(len(options), np.int64), 0
    for turn in range(3):
        for o in range(len(options)):
            kind = options[o, 0]
            if (0 if kind == UNEXPANDED else 2 if kind == ABSENT and absent_last else 1) == turn:
                order[at] = o
                at += 1
    return order


@kernel
def fitting_options(
    before: Ints, options: Ints, slots: Ints, layout: Layout, lives: RowTable, parts: Parts, ahead: Ahead
) -> Any:
    """The options that fit behind boundary states, as Fitting, and the table of tensors, which may have grown."""
    n, n_options = len(slots), len(options)
    group = np.empty(len(before), np.int64)
    groups = groups_of(before, layout, lives, parts, group)
    n_groups = groups.size[0]
    first_pair, first_lead = np.zeros(n_groups + 1, np.int64), np.zeros(n_groups + 1, np.int64)
    of_pair, lead_of_pair, pairs = np.empty(ROOM, np.int64), np.empty(ROOM, np.int64), 0
    target, row = np.empty(n + 5, np.int64), np.empty(6, np.int64)
    leads, orders = row_table(ROOM, n + 5), (in_turn(options, True), in_turn(options, False))
    for g in range(n_groups):
        alike = groups.rows[g]
        order = orders[1] if alike[n + 1] else orders[0]
        lives, leads = grown(lives, 2 * n * n_options), grown(leads, n_options)
        of_pair, lead_of_pair = longer(of_pair, pairs, n_options), longer(lead_of_pair, pairs, n_options)
        for i in range(n_options):
            option = options[order[i]]
            if fits(alike, option, layout, lives, parts):
                lead_to(target, alike, option, slots, layout, lives, parts, row)
                tell(target, n, lives, parts, ahead, row)
                target[n + 4] = g
                of_pair[pairs], lead_of_pair[pairs] = order[i], number_of(leads, target)
                pairs += 1
        first_pair[g + 1], first_lead[g + 1] = pairs, leads.size[0]
    found = Fitting(group, first_pair, first_lead, of_pair[:pairs], lead_of_pair[:pairs], leads.rows[: leads.size[0]])
    return found, lives


@inner
def pass_by(
    passed: Ints, state: Ints, code: int, layout: Layout, lives: RowTable, parts: Parts, ahead: Ahead, row: Ints
) -> None:
    """Fill the tensors of a boundary state that pass by, and whether loops stand above some where these are not known.

    `code`: their state behind the Einsum, see UNCHANGED. `passed`: for each a place, and one more.
    """
    n = len(layout.others)
    passed[n] = 0
    for c in range(n):
        live = state[layout.others[c, 0]]
        if code == UNCHANGED or live == 0:
            passed[c] = live
            continue
        passed[c] = 0
        if not layout.others[c, 2]:
            continue
        if code >= 0:
            for i in range(6):
                row[i] = lives.rows[live, i]
            row[SHARED] = min(row[SHARED], code)
            row[HELD] = first_of(parts.held_inside, row[HELD], row[SHARED])
            below = max(code - parts.cut_lengths[parts.keys[row[KEY], LOOPS]], 0)
            row[WRITTEN] = first_of(parts.cut_prefixes, row[WRITTEN], below)
            passed[c] = number_of(lives, row)
            continue
        if code == RELAXED:
            passed[c] = by_memory(lives, parts, row, live)
        else:
            passed[c] = told_live(lives, parts, ahead, row, live)
        if parts.keys[lives.rows[passed[c], KEY], LOOPS]:
            passed[n] = 1


@inner
def tell_state(after: Ints, told: Ints, lives: RowTable, parts: Parts, ahead: Ahead, row: Ints) -> None:
    """Fill a boundary state with only what later Einsums tell apart of another one."""
    n = len(after) - 2
    end = after[n + 1] != 0
    for c in range(n):
        end = end or ends(lives, parts, ahead, after[c])
    for i in range(n + 2):
        told[i] = after[i]
    if ahead.stays or not end:
        return
    told[n], told[n + 1] = 0, 0
    for c in range(n):
        told[c] = told_live(lives, parts, ahead, row, after[c])
        if parts.keys[lives.rows[told[c], KEY], LOOPS]:
            told[n + 1] = 1


@kernel
def edges_behind(
    part: tuple[int, int], before: Ints, layout: Layout, fitting: Fitting, reached: Reached, lives: RowTable,
    parts: Parts, ahead: Ahead,
) -> Any:  # fmt: skip
    """The edges of boundary states from the first number of `part` to before the second one, (n, 3).

    Also all that is reached, and the table of tensors, which may have grown.
    """
    begin, end = part
    n, width, last = len(layout.used), reached.told.rows.shape[1], fitting.targets.shape[1] - 5
    n_edges, at = 0, 0
    for i in range(begin, end):
        n_edges += fitting.first_pair[fitting.group[i] + 1] - fitting.first_pair[fitting.group[i]]
    edges, afters, numbers, told = np.empty((n_edges, 3), np.int64), reached.afters, reached.numbers, reached.told
    after, told_row, row = np.empty(width, np.int64), np.empty(width, np.int64), np.empty(6, np.int64)
    # for each code of tensors that pass by, from TOLD on, those of the state at hand, and of which state they are
    codes = parts.cut_prefixes.shape[1] - TOLD
    passed, is_of = np.empty((codes, len(layout.others) + 1), np.int64), np.full(codes, -1)
    for i in range(begin, end):
        group = fitting.group[i]
        first, beyond = fitting.first_lead[group], fitting.first_lead[group + 1]
        more = beyond - first
        lives, afters, told = grown(lives, 2 * width * more), grown(afters, more), grown(told, more)
        numbers = longer(numbers, afters.size[0], more)
        leads_to = np.empty(more, np.int64)
        for lead in range(first, beyond):
            target = fitting.targets[lead]
            code = target[last]
            passing = passed[code - TOLD]
            if is_of[code - TOLD] != i:
                pass_by(passing, before[i], code, layout, lives, parts, ahead, row)
                is_of[code - TOLD] = i
            for c in range(width):
                after[c] = 0
            for s in range(n):
                if layout.own[s] >= 0:
                    after[layout.own[s]] = target[s]
            for c in range(len(layout.others)):
                after[layout.others[c, 1]] = passing[c]
            after[width - 2], after[width - 1] = target[last + 1], 1 if target[last + 2] or passing[-1] else 0
            known = afters.size[0]
            number = number_of(afters, after)
            if number == known:
                if target[last + 3]:
                    numbers[number] = number_of(told, after)
                else:
                    tell_state(after, told_row, lives, parts, ahead, row)
                    numbers[number] = number_of(told, told_row)
            leads_to[lead - first] = numbers[number]
        for pair in range(fitting.first_pair[group], fitting.first_pair[group + 1]):
            edge = edges[at]
            edge[0], edge[1], edge[2] = i, fitting.options[pair], leads_to[fitting.leads[pair] - first]
            at += 1
    return edges, Reached(afters, numbers, told), lives
