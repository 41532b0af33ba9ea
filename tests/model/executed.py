"""Every number of an explanation, counted by the execution that visits, moves and stores."""

import math
from collections import Counter
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product, takewhile

import einmap
from einmap.arch.component import Memory
from einmap.mapping.rewrite.text import rewritten
from einmap.model.explanation.changes import changed
from einmap.model.timing.latency import busy_time
from einmap.schedule.boxes import box_of
from einmap.schedule.routes import chain_to_memory, ranks_of, route_of


@dataclass
class Executed:
    """One execution of a specification, and what it says about the terms of an explanation."""

    spec: einmap.Spec
    traced: bool = True

    @cached_property
    def run(self):
        components = self.spec.arch().components.items() if self.traced else ()
        memories = [name for name, unit in components if isinstance(unit, Memory)]
        return einmap.execute(self.spec, trace=memories)

    @cached_property
    def routes(self):
        ranks, mapping = ranks_of(self.spec.workload), self.spec.mapping
        return {
            e.name: route_of(mapping, e, self.spec.arch(e.name), ranks)
            for e in self.spec.workload.einsums
            if e.name in mapping.path_of
        }

    def instances(self, einsum):
        return self.spec.workload.n_instances * self.spec.workload.by_name[einsum].n_instances

    def hold(self, einsum, tensor, address):
        return next(h for h in self.routes[einsum].holds[tensor] if h.address == address)

    # visits

    @cached_property
    def visits_by_node(self):
        found = {}
        for visit in self.run.visits:
            for einsum, parts in visit.parts.items():
                lanes = [(lane, box, visit.values[einsum][lane]) for lane, box in parts.items()]
                found.setdefault((einsum, visit.tensor, visit.address), []).append(lanes)
        return found

    @cached_property
    def kept_by_node(self):
        """By lane: the part of an Einsum's tile that the visit before had, too, and has left in the buffer."""
        found, before = {}, {}
        for visit in self.run.visits:
            for einsum, parts in visit.parts.items():
                key = (einsum, visit.tensor, visit.address)
                for lane, box in parts.items():
                    last = before.get((visit.tensor, visit.address), {}).get(einsum, {}).get(lane)
                    if lane in visit.kept and last is not None:
                        common = tuple((max(a, c), min(b, d)) for (a, b), (c, d) in zip(box, last, strict=True))
                        found.setdefault(key, []).append((lane, volume(common)))
            before[visit.tensor, visit.address] = visit.parts
        return found

    def kept(self, einsum, tensor, address, to=None):
        """Values that stay from visit to visit; `to` as for `tiles`."""
        merged = self.merged(einsum, tensor, address, to)
        found = self.kept_by_node.get((einsum, tensor, address), ())
        return sum(values for lane, values in found if all(lane[i] == 0 for i in merged))

    def tiles(self, einsum, tensor, address, to=None):
        """Volumes of the tiles of a node's visits; `to`: a holder outward, lanes merged on the way there once."""
        merged = self.merged(einsum, tensor, address, to)
        return [
            volume(box)
            for lanes in self.visits_by_node[einsum, tensor, address]
            for lane, box, _ in lanes
            if all(lane[i] == 0 for i in merged)
        ]

    def merged(self, einsum, tensor, address, to):
        """Places of the lanes that are merged on the way to a holder outward."""
        if to is None:
            return ()
        route, hold = self.routes[einsum], self.hold(einsum, tensor, address)
        chain = chain_to_memory(route, tensor, hold)
        merges = route.merged_between(tensor, hold.level, [h.level for h in chain])
        return next(m for h, m in zip(chain, merges, strict=True) if h.address == to)

    def operations(self, einsum):
        unit = self.routes[einsum].unit
        rows = [r.count for r in self.run.actions if (r.einsum, r.component, r.tensor) == (einsum, unit.name, None)]
        return round(sum(rows) / unit.actions_scale / self.instances(einsum))

    def exchanged(self, einsum, tensor, child, station):
        return self.run.exchanges.get((einsum, tensor, child, station))

    # cost

    @cached_property
    def used(self):
        """Lanes of each (einsum, component, dimension)."""
        found = {}
        for name, route in self.routes.items():
            for leaf in route.arch.path(route.unit.name):
                for dimension in leaf.spatial:
                    found[name, leaf.name, dimension.name] = 1
            levels = route.arch.path(route.unit.name)
            for turn in route.turns:
                if turn.level is not None:
                    key = (name, levels[turn.level].name, turn.dimension.name)
                    found[key] *= route.iterations[turn.address]
        return found

    @cached_property
    def seconds(self):
        """Of each (einsum, component) that data pass, instance factors included."""
        found = {}
        for name, route in self.routes.items():
            held = {h.component.name for holds in route.holds.values() for h in holds}
            for leaf in route.arch.path(route.unit.name):
                if leaf.name in held or (leaf is route.unit and not route.einsum.is_copy):
                    calls = {action: n for (e, c, action), n in self.run.calls.items() if (e, c) == (name, leaf.name)}
                    found[name, leaf.name] = float(busy_time(leaf, calls, name)) * self.instances(name)
                if (name, leaf.name) in self.run.longest_route:
                    found[name, leaf.name] = self.network_seconds(name, leaf) * self.instances(name)
        return found

    def network_seconds(self, einsum, network):
        key = (einsum, network.name)
        waiting = self.run.link_traffic[key] / network.action("hop").throughput
        return max(self.run.longest_route[key] * network.hop_latency, waiting)

    def latency_of(self, einsum):
        return max((s for (name, _), s in self.seconds.items() if name == einsum), default=0.0)

    @property
    def latency(self):
        return math.fsum(self.latency_of(name) for name in self.routes)

    @cached_property
    def energies(self):
        """By (einsum, component, tensor, action), leakage and refresh included."""
        found = Counter()
        for row in self.run.actions:
            unit = self.routes[row.einsum].arch.components[row.component]
            found[row.einsum, row.component, row.tensor, row.action] += row.count * unit.action(row.action).energy
        for name, route in self.routes.items():
            used = {(c, d): n for (e, c, d), n in self.used.items() if e == name}
            on = route.arch.gating(route.unit.name, used)
            for component, unit in route.arch.components.items():
                watts = unit.leak_power * route.arch.instances[component] * on[component]
                found[name, component, None, "leak"] += watts * self.latency_of(name)
                if isinstance(unit, Memory):
                    refresh = sum(power.watts for power in unit.powers if power.name == "refresh")
                    joules = refresh * route.arch.instances[component] * self.latency_of(name)
                    found[name, component, None, "refresh"] += joules
        return found

    @property
    def energy(self):
        return math.fsum(self.energies.values())


def volume(box):
    return math.prod(max(0, high - low + 1) for low, high in box)


def differences(spec, explanation):
    """(what, said, executed) for every number that is not what the execution counts."""
    executed = Executed(spec)
    for part in PARTS:
        yield from differences_in(part, executed, explanation)


def differences_in(part, executed, explanation):
    """The same for one field of the explanation, or its totals."""
    for what, said, counted in PARTS[part](executed, explanation):
        if not equal(said, counted):
            yield f"{part}: {what}", said, counted


def equal(said, counted):
    if isinstance(said, float) and isinstance(counted, float | int):
        return math.isclose(said, counted, rel_tol=1e-9)
    return said == counted


def totals(executed, explanation):
    yield "energy", explanation.cost.energy, executed.energy
    yield "latency", explanation.cost.latency, executed.latency


def loops(executed, einsum, uses):
    for use in uses:
        yield f"iterations over {use.variable}", use.iterations, executed.routes[einsum].iterations[use.address]


def cases(executed, explanation):
    expected = {
        (name, h.tensor, h.address)
        for name, route in executed.routes.items()
        for holds in route.holds.values()
        for h in holds
        if isinstance(h.component, Memory) and not route.einsum.is_copy
    }
    yield "nodes", {(n.einsum, n.tensor, n.address) for n in explanation.cases}, expected
    for n in explanation.cases:
        key = (n.einsum, n.tensor, n.address)
        for what, said, counted in (*case(executed, n), *loops(executed, n.einsum, (*n.above, *n.below))):
            yield f"{key} {what}", said, counted


def case(executed, n):
    route, hold = executed.routes[n.einsum], executed.hold(n.einsum, n.tensor, n.address)
    access = route.einsum.by_tensor[n.tensor]
    visits = executed.visits_by_node[n.einsum, n.tensor, n.address]
    boxes = [box for lanes in visits for _, box, _ in lanes]

    def position(values):
        return tuple(sorted((v, at) for v, at in values.items() if v in access.variables))

    places = {}
    for lanes in visits:
        for lane, box, values in lanes:
            places.setdefault(position(values), []).append((lane, box))
    yield "visits", n.visits, len(boxes)
    yield "positions", n.positions, len(places)
    yield "fetches", {n.fetches}, {len(found) for found in places.values()}
    at_once = max(Counter(position(v) for _, _, v in lanes).most_common(1)[0][1] for lanes in visits)
    yield "lanes", n.lanes, at_once
    chain = chain_to_memory(route, n.tensor, hold)
    yield "backing", n.backing, not chain
    if not chain:
        yield "reads", n.reads, 0
    else:
        yield "reads", n.reads * n.positions, len(executed.tiles(*key_of(n), to=chain[-1].address))
    yield "values", n.values, sum(volume(found[0][1]) for found in places.values())
    yield "chunks", n.chunks, len(set(boxes))
    elements = {i for box in set(boxes) for i in product(*(range(low, high + 1) for low, high in box))}
    yield "elements", n.elements, len(elements)
    shapes = [tuple(high - low + 1 for low, high in box) for box in boxes]
    ordered = [rank for rank, _ in access.projection]
    ranks = ranks_of(executed.spec.workload)[n.tensor]
    said = [dict(zip(ordered, shape, strict=True)) for shape in (n.shape, n.smallest)]
    for what, mine, pick in (("shape", said[0], max), ("smallest", said[1], min)):
        counted = tuple(pick(sizes) for sizes in zip(*shapes, strict=True))
        yield what, tuple(mine[rank] for rank in ranks), counted
    yield "bits", n.bits, max(map(volume, boxes)) * hold.component.bits[n.tensor]
    yield "held", n.held, sum(map(volume, boxes))
    yield "kept", n.kept, executed.kept(*key_of(n))
    yield "used", n.used, used(executed, route, hold, n)


def key_of(n):
    return n.einsum, n.tensor, n.address


def used(executed, route, hold, n):
    inner = [h for h in route.holds[n.tensor] if isinstance(h.component, Memory)]
    inner = inner[inner.index(hold) + 1 :]
    if inner and hold.component.is_spread and n.tensor in hold.component.replicate:
        return executed.exchanged(n.einsum, n.tensor, inner[0].address, n.address).down
    if inner:
        below = (n.einsum, n.tensor, inner[0].address, n.address)
        return sum(executed.tiles(*below)) - executed.kept(*below)
    row = executed.exchanged(n.einsum, n.tensor, (), n.address)
    return row.up if n.tensor in route.einsum.outputs else row.down


def fullest_iterations(route):
    """For each loop the first iteration with the largest tile: 1 where later tiles, cut by the extent, are larger."""
    extents, fullest = dict(route.einsum.bounds), {}
    for turn in route.turns:
        first = min(turn.first, extents[turn.variable])
        later = min(turn.shape, extents[turn.variable] - first)
        fullest[turn.address] = int(later > first)
        extents[turn.variable] = max(first, later)
    return fullest


def stationary(executed, explanation):
    """At the fullest iteration of all other loops, the tile stays over all iterations of the last loops, no longer."""
    for s in explanation.stationary:
        route = executed.routes[s.einsum]
        yield from loops(executed, s.einsum, s.loops)
        turns = {t.address: t for t in route.turns if t.level is None and route.iterations[t.address] > 1}
        end = turns[s.loops[-1].address].position
        held = {h.position for holds in route.holds.values() for h in holds if isinstance(h.component, Memory)}
        nodes_above = {a: sum(position < t.position for position in held) for a, t in turns.items()}
        level = sorted(set(nodes_above.values())).index(nodes_above[s.loops[-1].address])
        yield f"{s.einsum} level", s.level, level
        staying = [use.address for use in s.loops[len(s.loops) - s.stays_for :]]
        moving = [use.address for use in s.loops[: len(s.loops) - s.stays_for]]
        fullest = {a: fullest_iterations(route)[a] for a in turns}
        outside = replace(route, turns=tuple(t for t in route.turns if t.position <= end))
        lane = (0,) * len(outside.lane_turns)

        def tile(clock, route=outside, lane=lane, tensor=s.tensor):
            at = route.intervals(clock, lane, route.unit_level, route.turns[-1].position + 1)
            return None if at is None else tuple((a, b - 1) for a, b in box_of(route, tensor, at))

        seen = [
            tile({**fullest, **dict(zip(staying, chosen, strict=True))})
            for chosen in product(*(range(route.iterations[a]) for a in staying))
        ]
        seen = [box for box in seen if box is not None]
        yield f"{s.einsum} {s.tensor} iterations", s.iterations, len(seen)
        indexing = route.einsum.by_tensor[s.tensor].variables
        trailing = takewhile(lambda use, names=indexing: use.variable not in names, reversed(s.loops))
        yield f"{s.einsum} {s.tensor} stays for", s.stays_for, len(list(trailing))
        yield f"{s.einsum} {s.tensor} stays", 1, len(set(seen))
        yield f"{s.einsum} {s.tensor} values", s.values, volume(seen[0])
        shape = Counter(high - low + 1 for low, high in seen[0])
        yield f"{s.einsum} {s.tensor} shape", Counter(s.shape), shape
        if moving:
            other = {**fullest, moving[-1]: 1 - fullest[moving[-1]]}
            yield f"{s.einsum} {s.tensor} moves", True, tile(other) != seen[0]


def derivations(executed, explanation):
    rows = {
        (r.einsum, r.component, r.tensor, r.action): r.count
        for r in executed.run.actions
        if r.count and not counts_otherwise(executed.routes[r.einsum].arch.components[r.component], r.tensor)
    }
    said = {(d.einsum, d.component, d.tensor, d.action): d for d in explanation.derivations}
    counts = {(r.einsum, r.component, r.tensor, r.action): r.count for r in explanation.cost.actions}
    yield "counts", set(said), set(rows)
    for key, d in said.items():
        unit = executed.routes[d.einsum].arch.components[d.component]
        yield f"{key} count", d.count, rows.get(key)
        yield f"{key} count of the cost", d.count, counts[key]
        yield f"{key} energy", d.energy, executed.energies[key]
        yield f"{key} instances", d.instances, executed.instances(d.einsum)
        yield f"{key} scale", d.scale, unit.actions_scale
        if d.bits is not None:
            yield f"{key} bits", d.bits, unit.bits[d.tensor]
        saved = {} if d.tensor is None else unit.action(d.action).saved_by_complete
        yield f"{key} saved", d.saved, saved.get(d.tensor, 0.0)
        if not d.saved:
            yield f"{key} complete", sum(p.complete for p in d.pieces), 0
        done = d.instances * d.scale * d.per_value
        for p in d.pieces:
            yield from loops(executed, d.einsum, (*p.loops, *p.below, *p.merged))
            if not (isinstance(unit, Memory) and unit.is_spread and d.tensor in unit.replicate):
                yield f"{key} units", p.units, 1
            if p.way in ("down", "up"):
                for what, mine, counted in piece(executed, d, p):
                    yield f"{key} {p.child} {p.way} {what}", mine, counted
            elif p.way == "compute":
                operations = executed.operations(d.einsum)
                yield f"{key} operations", sizes(p), (operations, 1, operations, operations, 0, 0, 0)
            elif p.way == "hop":
                turns = {t.address: t for t in executed.routes[d.einsum].turns}
                shared = tuple(use for use in p.loops if executed.routes[d.einsum].merges(turns[use.address], d.tensor))
                able = unit.multicast and unit.adds_on_the_way
                # of those the ones whose network can
                yield f"{key} passed on", p.merged, shared if able else tuple(u for u in shared if u in p.merged)
                yield f"{key} steps", sizes(p), (p.gross, 1, p.gross, p.gross, 0, 0, 0)
            else:
                moved = round(rows[key] / done / len(d.pieces))
                yield f"{key} copied", sizes(p), (1, moved, moved, moved, 0, 0, 0)
        yield f"{key} values", sum(p.values for p in d.pieces), round(rows[key] / done)


def counts_otherwise(unit, tensor):
    """Whether a memory moves lines of a tensor."""
    return isinstance(unit, Memory) and tensor in unit.layouts


def cuts(turn, hold):
    """Whether a loop cuts the tile of a node: in time by where it is written, over lanes by where its fanout stands."""
    return turn.position < hold.position if turn.level is None else turn.level <= hold.level


def sizes(p):
    return p.tiles, p.tile_values, p.gross, p.unmerged, p.skipped, p.shared, p.kept


def piece(executed, d, p):
    row = executed.exchanged(d.einsum, d.tensor, p.child_address, p.station)
    yield "values", p.values, 0 if row is None else getattr(row, p.way)
    yield "skipped", p.skipped, row.skipped if row is not None and p.way == "down" else 0
    if not p.child_address:
        counted = getattr(row, p.way) // p.units + p.skipped
        yield "tiles", (p.tiles, p.tile_values, p.gross), (counted, 1, counted)
        yield "unmerged", p.unmerged, executed.operations(d.einsum)
        return
    route = executed.routes[d.einsum]
    hold = executed.hold(d.einsum, d.tensor, p.child_address)
    parent = chain_to_memory(route, d.tensor, hold)[-1].address
    to = parent if p.way == "down" and d.tensor in route.einsum.outputs else p.station
    everyone = executed.tiles(d.einsum, d.tensor, p.child_address)
    yield "kept", p.kept, executed.kept(d.einsum, d.tensor, p.child_address, None if to == p.child_address else to)
    seen = everyone if to == p.child_address else executed.tiles(d.einsum, d.tensor, p.child_address, to=to)
    yield "tiles", (p.tiles, p.tile_values, p.gross), (len(seen), max(seen), sum(seen))
    inside = [t for t in route.turns if not cuts(t, hold) and route.iterations[t.address] > 1]
    indexing = [t.address for t in inside if t.variable in route.einsum.by_tensor[d.tensor].variables]
    yield "loops below", [use.address for use in p.below], indexing
    yield "unmerged", p.unmerged, sum(everyone)


def lives(executed, explanation):
    rows = {(r.tensor, r.address): r for r in executed.run.lives}
    yield "buffers", {(life.tensor, life.address) for life in explanation.lives}, set(rows)
    for life in explanation.lives:
        row = rows.get((life.tensor, life.address))
        if row is not None:
            said = (life.begins, life.ends, life.times, set(life.einsums), float(life.bits))
            counted = (row.begins, row.ends, row.times, set(row.einsums), float(row.bits))
            yield f"{life.tensor} at {life.address}", said, counted
            yield f"{life.tensor} at {life.address} persistent", life.persistent, row.begins == ()
        # outside of Pipelines a node has one visit at a time
        yield f"{life.tensor} at {life.address} copies", life.copies, 1


def fullest(executed, explanation):
    for one in explanation.fullest:
        everywhere = [b for (_, memory), b in executed.run.fullest.items() if memory == one.memory]
        yield f"{one.memory} bits", float(one.bits), float(max(everywhere))
        yield f"{one.memory} bits of {one.einsum}", float(one.bits), executed.run.fullest[one.einsum, one.memory]
        capacity = executed.spec.arch().components[one.memory].size_bits
        yield f"{one.memory} capacity", one.capacity, capacity
        moment = {(t, a): bits for t, a, bits in executed.run.moments[one.einsum, one.memory]}
        yield f"{one.memory} sum", float(one.bits), float(sum(bits for _, _, bits in one.live))
        for tensor, address, bits in one.live:
            yield f"{one.memory} {tensor} {address}", float(bits), moment.get((tensor, address))


def occupied(executed, explanation):
    said = {(o.einsum, o.memory): float(o.bits) for o in explanation.occupied}
    yield "all", set(said), set(executed.run.fullest)
    for key, bits in said.items():
        yield f"{key}", bits, executed.run.fullest.get(key)


def bottlenecks(executed, explanation):
    for b in explanation.bottlenecks:
        counted = {c: s for (einsum, c), s in executed.seconds.items() if einsum == b.einsum}
        # no value may cross a network although an exchange does
        yield f"{b.einsum} components", {c for c, seconds in b.busy if seconds or c in counted}, set(counted)
        for component, seconds in b.busy:
            yield f"{b.einsum} {component}", seconds, counted.get(component, 0.0)
        order = sorted(counted.values(), reverse=True)
        if b.margin is not None:
            yield f"{b.einsum} margin", b.margin, order[0] / order[1]
        if order and b.einsum not in {row.einsum for row in explanation.cost.longer}:
            yield f"{b.einsum} latency", b.latency, order[0]
            yield (
                f"{b.einsum} limits",
                set(b.limited_by),
                {c for c, s in counted.items() if s and s >= 0.999 * order[0]},
            )


def shares(executed, explanation):
    found = Counter()
    for (_, component, tensor, action), energy in executed.energies.items():
        found[component, tensor, action] += energy
    for e in explanation.energy:
        energy = found[e.component, e.tensor, e.action]
        yield f"{e.component} {e.tensor} {e.action}", e.energy, energy
        yield f"{e.component} {e.tensor} {e.action} share", e.share, energy / executed.energy if energy else 0.0


def fanouts(executed, explanation):
    said = {(f.einsum, f.component, f.dimension): f.used for f in explanation.fanouts}
    yield "used", said, executed.used
    for f in explanation.fanouts:
        leaf = executed.routes[f.einsum].arch.leaves[f.component]
        yield "available", f.available, next(d.fanout for d in leaf.spatial if d.name == f.dimension)


def changes(executed, explanation):
    for c in explanation.changes:
        # throughputs change no count: what has been executed is taken for other seconds
        after = Executed(changed(executed.spec, c.sets, c.mapping), traced=False)
        if c.kind == "throughput":
            after.run = executed.run
        name = f"{c.kind} {c.component} {c.what}"
        if c.rewrite is not None:
            done = rewritten(executed.spec.mapping, executed.spec.workload, c.rewrite)
            yield f"{name} rewrite", done, c.mapping
        yield f"{name} energy", c.energy, after.energy
        yield f"{name} latency", c.latency, after.latency
        yield f"{name} energy change", c.energy_change + 1, after.energy / executed.energy
        if executed.latency:
            yield f"{name} latency change", c.latency_change + 1, after.latency / executed.latency
        if c.needs_bits is not None:
            needs = max(b for (_, memory), b in after.run.fullest.items() if memory == c.component)
            yield f"{name} bits", float(c.needs_bits), needs
            yield f"{name} capacity", c.capacity, executed.spec.arch().components[c.component].size_bits
        if c.used is not None:
            dimension = c.what.partition(":")[0]
            lanes = [n for (_, k, d), n in executed.used.items() if (k, d) == (c.component, dimension)]
            leaves = [route.arch.leaves.get(c.component) for route in executed.routes.values()]
            fanouts = [d.fanout for leaf in leaves if leaf for d in leaf.spatial if d.name == dimension]
            yield f"{name} used", c.used, (max(lanes), max(fanouts))


PARTS = {
    "cost": totals, "cases": cases, "stationary": stationary, "derivations": derivations, "lives": lives,
    "fullest": fullest, "occupied": occupied, "bottlenecks": bottlenecks, "energy": shares, "fanouts": fanouts,
    "changes": changes,
}  # fmt: skip
"""What checks each field of an Explanation."""
