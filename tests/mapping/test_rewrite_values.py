"""Rewrites keep what is computed: random mappings before and after, every rewrite wherever it applies."""

import random
import re
from collections import Counter
from functools import lru_cache

import numpy as np
import pytest
from tests.mapping.loop_trees import meaning
from tests.random_specs.cases import valid_case, valid_windows

from einmap import CapacityError, MappingError, SpecError, evaluate, execute
from einmap.arch.component import Memory
from einmap.errors import ManyErrors, NotSupportedError
from einmap.mapping.nodes import Sequential, Spatial, Storage, Temporal, format_address
from einmap.mapping.pretty import pretty
from einmap.mapping.rewrite.branches import distribute, merge
from einmap.mapping.rewrite.editing import beside, siblings
from einmap.mapping.rewrite.loops import fuse, interchange, split
from einmap.mapping.rewrite.storage import bypass, hoist, keep, sink
from einmap.mapping.rewrite.text import USAGE, rewritten
from einmap.model.counting.path import path_of
from einmap.model.counting.reuse import TensorCounts, VariableTiles
from einmap.model.counting.tiles import ALL, SKIP
from einmap.model.occupancy.occupancy import tile_takes

HARDWARE = (
    "a spatial loop would cross", "against the hierarchy", "its fanout is", "exceeds the extent", "grows inward",
    "in parts: each lane",
)  # fmt: skip
"""What `evaluate` may say about the tree after a rewrite: what the tree alone does not show. The last one is of lanes,
each of which has a buffer of its own.
"""


@lru_cache(maxsize=200)
def case(seed):
    return valid_case(random.Random(seed))


def cases(number, start=0):
    """Random valid specifications whose mappings compute what the Einsums say, with their costs."""
    for seed in range(start, start + number):
        spec, cost = case(seed)
        if not any("half-reduced" in note.text for note in cost.notes):
            yield seed, spec, cost


def commands(spec, rng):
    """Rewrites of every kind, of every node that there is, whether or not they apply."""
    placed = spec.mapping.placed
    loops = [p for p in placed if isinstance(p.node, Temporal | Spatial)]
    memories = [name for name, unit in spec.arch().components.items() if isinstance(unit, Memory)]
    for p in placed:
        where = format_address(p.address)
        match p.node:
            case Temporal() | Spatial():
                shapes = [p.node.tile_shape.of(e) for e in spec.mapping.path_of]
                yield f"interchange {where}"
                yield f"fuse {where}"
                yield f"distribute {where}"
                yield f"reshape {where} {rng.choice([1, 2, 3, 4])}"
                yield f"serialise {where}"
                yield f"initial {where} {rng.choice([2, 3, 4])}"
                yield f"initial {where} none"
                for name, unit in spec.arch().components.items():
                    yield from (f"spread {where} {name}.{d.name}" for d in unit.spatial)
                yield f"split {where} {rng.choice([2, 3]) * max(filter(None, shapes), default=1)}"
                yield f"tile {where} {rng.choice([2, 3])} {format_address((*p.address[:-1], p.address[-1] + 1))} 2"
            case Storage(tensors=tensors):
                tensor = rng.choice(tensors)
                yield f"hoist {tensor}@{where}"
                yield f"sink {tensor}@{where}"
                yield f"sink {where}"
                yield f"bypass {tensor}@{where}"
                for loop in rng.sample(loops, min(2, len(loops))):
                    yield f"hoist {tensor}@{where} above {format_address(loop.address)}"
                    yield f"sink {tensor}@{where} below {format_address(loop.address)}"
                    yield f"keep {tensor}@{memories[-1]} above {format_address(loop.address)}"
            case Sequential():
                yield f"merge {where}"
                yield f"merge {where} 0 1"
                yield f"group {where} {(first := rng.randrange(2))} {first + 1}"
                yield f"ungroup {where}"
            case _:
                pass


def attempt(spec, command):
    try:
        return rewritten(spec.mapping, spec.workload, command)
    except MappingError:
        return None


def cost_of(spec, mapping, refusals=HARDWARE):
    """The cost; None when the hardware does not take the mapping, and nothing else may be wrong with it."""
    try:
        return evaluate(spec, mapping)
    except (CapacityError, NotSupportedError):
        return None
    except MappingError as error:
        problems = error.problems if isinstance(error, ManyErrors) else [error]
        if all(any(words in p.message for words in refusals) for p in problems):
            return None
        raise


def same_outputs(one, other):
    return one.keys() == other.keys() and all(np.allclose(one[t], other[t], rtol=1e-6, atol=1e-6) for t in one)


def nodes_of(mapping, *kinds):
    return [p for p in mapping.placed if isinstance(p.node, kinds)]


def done(change, *words, **more):
    """The mapping after a rewrite, None when it does not apply."""
    try:
        return change(*words, **more)
    except MappingError:
        return None


def test_whatever_rewrite_applies_the_outputs_stay_the_same():
    kinds = Counter()
    for seed, spec, _ in cases(31):
        rng = random.Random(seed)
        before = None
        tried = sorted(commands(spec, rng), key=lambda command: (kinds[command.split()[0]], rng.random()))
        for command in tried[:40]:
            mapping = attempt(spec, command)
            if mapping is None or cost_of(spec, mapping) is None:
                continue
            before = before or execute(spec).tensors
            after = execute(spec, mapping=mapping).tensors
            assert same_outputs(before, after), f"{command}\n{pretty(spec.mapping)}\n{pretty(mapping)}"
            kinds[command.split()[0]] += 1
            break
    assert set(USAGE) - set(kinds) <= {"ungroup", "pipeline", "sequence"}  # test_rewrite_stages


def test_whatever_rewrite_applies_around_line_buffers_the_outputs_stay_the_same():
    kinds = Counter()
    for seed in range(40):
        spec, cost = valid_windows(random.Random(seed))
        if any("half-reduced" in note.text for note in cost.notes):
            continue
        rng = random.Random(seed)
        before = None
        tried = sorted(commands(spec, rng), key=lambda command: (kinds[command.split()[0]], rng.random()))
        for command in tried[:15]:
            mapping = attempt(spec, command)
            if mapping is None or cost_of(spec, mapping, (*HARDWARE, "nothing is kept between visits")) is None:
                continue
            try:
                before = before or execute(spec).tensors
            except SpecError:  # a tensor indexed below 0 can be counted but not stored
                break
            after = execute(spec, mapping=mapping).tensors
            assert same_outputs(before, after), f"{command}\n{pretty(spec.mapping)}\n{pretty(mapping)}"
            kinds[command.split()[0]] += 1
            break
    assert set(USAGE) - set(kinds) <= {"merge", "distribute", "group", "ungroup", "pipeline", "sequence"}


def test_splitting_a_loop_changes_no_count():
    compared = 0
    for _, spec, cost in cases(24):
        for p in nodes_of(spec.mapping, Temporal, Spatial)[:3]:
            mapping = attempt(spec, f"split {format_address(p.address)} 2")
            after = mapping and cost_of(spec, mapping)
            if after:
                assert after.count_by("einsum", "component", "tensor", "action") == pytest.approx(
                    cost.count_by("einsum", "component", "tensor", "action")
                )
                compared += 1
    assert compared > 20


# there and back again


def test_fuse_undoes_split():
    undone = 0
    for _, spec, _ in cases(60):
        for p in nodes_of(spec.mapping, Temporal, Spatial):
            shape = {e: 2 * n for e in spec.mapping.path_of if (n := p.node.tile_shape.of(e))}
            below = {e: n for e, n in shape.items() if any(q.address == p.address for q in spec.mapping.path_of[e])}
            changed = done(split, spec.mapping, p.address, below)
            if changed is not None:
                assert fuse(changed, p.address) == spec.mapping
                undone += 1
    assert undone > 80


def test_interchanging_twice_changes_nothing():
    undone = 0
    for _, spec, _ in cases(60):
        for p in nodes_of(spec.mapping, Temporal, Spatial):
            changed = done(interchange, spec.mapping, p.address)
            if changed is not None:
                assert interchange(changed, p.address) == spec.mapping
                undone += 1
    assert undone > 50


def test_sink_undoes_hoist():
    undone = 0
    for seed, spec, _ in cases(60):
        rng = random.Random(seed)
        for p in nodes_of(spec.mapping, Storage):
            tensor = rng.choice(p.node.tensors)
            loops = [q for q in nodes_of(spec.mapping, Temporal, Spatial) if is_above(q.address, p.address)]
            if not loops:
                continue
            loop = loops[-1].address
            changed = done(hoist, spec.mapping, spec.workload, f"{tensor}@{format_address(p.address)}")
            if changed is None:
                continue
            at_loop = changed.at(loop)
            joined = not (isinstance(at_loop, Storage) and tensor in at_loop.tensors)
            holder, loop = (beside(loop, -1), loop) if joined else (loop, beside(loop))
            back = sink(changed, spec.workload, f"{tensor}@{format_address(holder)}", below=loop)
            assert meaning(back) == meaning(spec.mapping)
            undone += 1
    assert undone > 80


def is_above(address, below):
    """In the same list."""
    return address[:-1] == below[:-1] and address < below


def test_keep_undoes_bypass():
    undone = 0
    for seed, spec, _ in cases(60):
        for p in nodes_of(spec.mapping, Storage):
            tensor = random.Random(seed).choice(p.node.tensors)
            changed = done(bypass, spec.mapping, spec.workload, f"{tensor}@{format_address(p.address)}")
            producer = spec.workload.producers.get(tensor)
            # where a copy writes past a buffer, `keep` does not put the buffer back
            if changed is None or (producer and spec.workload.by_name[producer].is_copy):
                continue
            after = p.address if len(p.node.tensors) == 1 else beside(p.address)
            words = f"{tensor}@{p.node.component}"
            back = keep(changed, spec.workload, words, above=after, persistent=p.node.persistent)
            assert meaning(back) == meaning(spec.mapping)
            undone += 1
    assert undone > 80


def test_distribute_undoes_merge():
    undone = 0
    for _, spec, _ in cases(140):
        for p in nodes_of(spec.mapping, Sequential):
            for branches in [None, (0, 1)]:
                changed = done(merge, spec.mapping, spec.workload, p.address, branches)
                if changed is None:
                    continue
                is_all = branches is None or len(p.node.branches) == 2
                loop = p.address if is_all else (*p.address, 0, 0)
                if not isinstance(siblings(changed, loop)[loop[-1] + 1], Sequential):
                    continue
                assert meaning(distribute(changed, loop)) == meaning(spec.mapping)
                undone += 1
    assert undone > 5


# further down


def moves_down(number, start=0):
    """One storage node of each random mapping before and after a move down, as evaluated."""
    for seed, spec, cost in cases(number, start):
        rng = random.Random(seed)
        pairs = [
            (held, loop)
            for held in nodes_of(spec.mapping, Storage)
            for loop in nodes_of(spec.mapping, Temporal, Spatial)
            if loop.address > held.address
        ]
        for held, loop in rng.sample(pairs, len(pairs)):
            words = f"{rng.choice(held.node.tensors)}@{format_address(held.address)}"
            mapping = done(sink, spec.mapping, spec.workload, words, below=loop.address)
            after = mapping and cost_of(spec, mapping)
            if after:
                yield spec, cost, words.partition("@")[0], held.node.component, mapping, after
                break


def reuse(spec, mapping, tensor, component):
    """For each Einsum: how often loops that do not index the tensor come back to an element, in one visit."""
    found = {}
    for name in mapping.path_of:
        path = path_of(mapping, spec.workload.by_name[name], spec.arch(name))
        for station in path.stations.get(tensor, ()):
            if station.component.name == component:
                counts = TensorCounts(path, path.einsum.by_tensor[tensor], VariableTiles(path))
                every = tuple(ALL for _ in path.loops)
                above = tuple(SKIP if take == SKIP else ALL for take in tile_takes(path, station))
                found[name] = counts.repeats(every) / counts.repeats(above)
    return found


def test_a_storage_node_that_moves_down_needs_no_larger_tile_is_reused_no_more_and_lives_no_longer():
    moved = set()
    for spec, before, tensor, component, mapping, after in moves_down(140):
        tiles = [
            {(r.einsum, r.tensor): r.usage for r in c.memory_usage_by_tensor if r.component == component}
            for c in (before, after)
        ]
        assert all(tiles[1][key] <= tiles[0][key] for key in tiles[1])
        uses = [reuse(spec, m, tensor, component) for m in (spec.mapping, mapping)]
        assert all(uses[1][name] <= uses[0][name] for name in uses[1])
        # what lives at one time, tiles and lifetimes together
        usage = [{r.component: r.usage for r in c.memory_usage} for c in (before, after)]
        assert all(usage[1][name] <= usage[0][name] * (1 + 1e-12) for name in usage[1])
        moved.add(spec)
    assert len(moved) >= 100


def test_bits_times_steps_never_grow_when_a_storage_node_moves_down():
    executed = 0
    for spec, _, _tensor, component, mapping, _ in moves_down(14, 60):
        if executed < 12:
            spans = [held_for(execute(spec, mapping=m), spec, component) for m in (spec.mapping, mapping)]
            assert spans[1] <= spans[0]
            executed += 1
    assert executed == 12


def held_for(execution, spec, component):
    """Bits in a memory times operations, over the whole run."""
    rows = [row for row in execution.occupancy if row.component == component]
    end = sum(e.n_computes for e in spec.workload.einsums)
    ends = [row.step for row in rows[1:]] + [end]
    return sum(row.bits * (until - row.step) for row, until in zip(rows, ends, strict=True))


def test_sinking_as_far_as_it_saves_space_moves_nothing_more_and_follows_the_advice_of_the_evaluation():
    sunk = saved = 0
    for _, spec, before in cases(24):
        advised = {n.at.path for n in before.notes if n.kind == "advice" and "would need" in n.text}
        for p in nodes_of(spec.mapping, Storage):
            mapping = done(sink, spec.mapping, spec.workload, p.address)
            after = mapping and cost_of(spec, mapping)
            if not after:
                continue
            keys = ("einsum", "component", "tensor", "action")
            counts = before.count_by(*keys)
            assert all(count <= counts[key] * (1 + 1e-9) for key, count in after.count_by(*keys).items())
            usage = {r.component: r.usage for r in before.memory_usage}
            assert all(r.usage <= usage[r.component] * (1 + 1e-12) for r in after.memory_usage)
            sunk += 1
            if spec.place_of_node(p.address).path in advised:
                assert advice(after, p.node.component) < advice(before, p.node.component)
                saved += 1
    assert sunk > 15
    assert saved > 5


def test_every_rewrite_that_a_note_names_applies_and_saves_what_the_note_says():
    followed = 0
    for _, spec, before in cases(60):
        for note in before.notes:
            if "would need" not in note.text:
                continue
            (step,) = re.findall(r"--do '(.*)'", note.text)
            tensor, bits = re.search(r": (\w+) in .* need ([\d,]+) bits less", note.text).groups()
            mapping = rewritten(spec.mapping, spec.workload, step)
            after = cost_of(spec, mapping)
            keys = ("einsum", "component", "tensor", "action")
            counts = before.count_by(*keys)
            assert all(count <= counts[key] * (1 + 1e-9) for key, count in after.count_by(*keys).items())
            name = re.search(r"Einsum '(\w+)'", note.text).group(1)
            component = re.search(r" in (\w+) would", note.text).group(1)
            tiles = [tile_bits(spec, m, name, tensor, component) for m in (spec.mapping, mapping)]
            assert tiles[0] - tiles[1] >= int(bits.replace(",", ""))
            followed += 1
    assert followed > 30


def tile_bits(spec, mapping, einsum, tensor, component):
    """Bits of the largest tile of a tensor in its nodes of a memory, all nodes together."""
    path = path_of(mapping, spec.workload.by_name[einsum], spec.arch(einsum))
    counts = TensorCounts(path, path.einsum.by_tensor[tensor], VariableTiles(path))
    held = [s for s in path.stations[tensor] if s.component.name == component]
    return sum(counts.tile_values(tile_takes(path, s)) * s.component.bits[tensor] for s in held)


def advice(cost, component):
    return sum(f"in {component} would need" in note.text for note in cost.notes)
