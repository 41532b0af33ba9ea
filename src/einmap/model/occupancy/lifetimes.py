"""How long each buffer lives, and what a memory holds at one time.

Under tree lifetimes (`exact`) a buffer lives for its node's visit, and between the first and the last
branch that uses it where no loop separates it from the split. Under shared-tensor lifetimes
(`accelforge`, definition 13 of docs/definitions.md) what two Einsums share is inferred from the tensors they share.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from einmap.arch.component import Memory
from einmap.einsum.workload import Workload
from einmap.mapping import nodes as tree
from einmap.mapping.mapping import Mapping as LoopTree
from einmap.mapping.mapping import PlacedNode
from einmap.mapping.nodes import Address
from einmap.model.counting.path import EinsumPath
from einmap.model.counting.tiles import Count
from einmap.model.occupancy.occupancy import Buffer

type Moment = tuple[str, list[Buffer]]
"""An Einsum, and what lives at one time while it runs."""


@dataclass(frozen=True, slots=True)
class Peak:
    """The most that lives at one time in one instance of a memory, while `einsum` runs."""

    bits: Count
    einsum: str
    live: tuple[Buffer, ...]

    @property
    def memory(self) -> Memory:
        """The memory that all these buffers are in."""
        return self.live[0].memory


def live_by_tree(
    mapping: LoopTree,
    order: tuple[str, ...],
    buffers: Mapping[str, tuple[Buffer, ...]],
    paths: Mapping[str, EinsumPath],
    slides: Mapping[tuple[str, Address], Address],
    depths: Mapping[Address, Mapping[str, int]] | None = None,
) -> dict[str, list[Buffer]]:
    """For each running Einsum the buffers that live, by the visits of their nodes (definition 8).

    What slides along a loop lives while anything below the loop runs. `paths`: that of each Einsum, or of one that is
    the same but for names. `depths`: at each Pipeline, for how many stages each Einsum waits.
    """
    shared = _shared_nodes(buffers)
    live: dict[str, list[Buffer]] = {}
    branches = _Branches({address: dict(by_einsum) for address, by_einsum in (depths or {}).items()})
    spread = _backed_in_each_branch(order, buffers)
    keys, groups = list(shared), list(shared.values())
    users = [{b.einsum for b in group} for group in groups]
    near = _Near(mapping, {}, users, branches)
    always = set()
    for i, ((address, tensor), group) in enumerate(shared.items()):
        if tensor not in spread or not all(b.backing for b in group):
            near.at.setdefault(address, []).append(i)
        # others are in the branches of other Einsums
        if (slides and (tensor, address) in slides) or any(b.persistent for b in group):
            always.add(i)
    for position, running in enumerate(order):
        path, alive = _Below(mapping.path_of[running]), []
        for i in sorted(always.union(near.of(path))):
            buffer = groups[i][0]
            if buffer.einsum != running or len(users[i]) > 1:
                if len(groups[i]) > 1:
                    buffer = next((b for b in groups[i] if b.einsum == running), buffer)
                loop = slides.get((keys[i][1], keys[i][0])) if slides else None
                inside = loop is not None and loop in path.position
                keeps = inside or buffer.persistent
                if not keeps and not _lives(path, keys[i][0], users[i], paths[running], branches):
                    continue
            # else only the running Einsum uses it, and its node stands on that Einsum's path
            if not (buffer.backing and keys[i][1] in spread):
                alive.append(buffer)
        for group, span in spread.values():
            if position in span:
                used = next((b for b in group if b.einsum == running), group[0])
                alive.append(used if used.bits >= group[0].bits else group[0])
        live[running] = alive
    return live


def _backed_in_each_branch(
    order: tuple[str, ...], buffers: Mapping[str, tuple[Buffer, ...]]
) -> dict[str, tuple[list[Buffer], range]]:
    """Tensors with a backing node in each of several branches: one buffer from the first user to the last.

    Where one of the nodes is persistent it lives throughout.
    """
    groups: dict[str, list[Buffer]] = {}
    for name in order:
        for buffer in buffers[name]:
            if buffer.backing:
                groups.setdefault(buffer.tensor, []).append(buffer)
    return {
        tensor: (
            sorted(group, key=lambda b: -b.bits),
            range(len(order))
            if any(b.persistent for b in group)
            else range(order.index(group[0].einsum), order.index(group[-1].einsum) + 1),
        )
        for tensor, group in groups.items()
        if len({b.address for b in group}) > 1
    }


def _shared_nodes(buffers: Mapping[str, tuple[Buffer, ...]]) -> dict[tuple[Address, str], list[Buffer]]:
    groups: dict[tuple[Address, str], list[Buffer]] = {}
    for group in buffers.values():
        for buffer in group:
            groups.setdefault((buffer.address, buffer.tensor), []).append(buffer)
    return groups


class _Below:
    """A path, and what of it matters for lives: where its nodes are, its temporal loops and splits."""

    def __init__(self, path: tuple[PlacedNode, ...]) -> None:
        self.path = path
        self.position = {placed.address: i for i, placed in enumerate(path)}
        self.parting = [i for i, p in enumerate(path) if isinstance(p.node, (tree.Temporal, tree.Split))]
        splits = (i for i in reversed(self.parting) if isinstance(path[i].node, tree.Split))
        self.last_split = next(splits, -1)
        last = path[-1].node
        assert isinstance(last, tree.Compute)
        self.einsum = last.einsum


@dataclass
class _Near:
    """Which buffers may live while an Einsum runs. `at`: their numbers by node; `users`: of each buffer."""

    mapping: LoopTree
    at: dict[Address, list[int]]
    users: list[set[str]]
    branches: _Branches
    by_branch: dict[Address, dict[int, list[int]]] = field(default_factory=dict)

    def of(self, below: _Below) -> Iterator[int]:
        """Buffers of the nodes above an Einsum, without those whose users are in other branches of the next split."""
        for position, placed in enumerate(below.path):
            here = self.at.get(placed.address)
            if not here:
                continue
            first = bisect(below.parting, position)
            parting = below.path[below.parting[first]] if first < len(below.parting) else None
            if parting is None or not isinstance(parting.node, tree.Split):
                yield from here
                continue
            branch = self.branches.of(parting.address, parting.node)[below.einsum]
            yield from self._in_branches(placed.address, here, parting.address, parting.node).get(branch, ())

    def _in_branches(self, address: Address, here: list[int], split: Address, node: tree.Split) -> dict[int, list[int]]:
        """The buffers of one node that are used in each branch, or before and after it."""
        if address not in self.by_branch:
            here_by_branch = self.by_branch[address] = {}
            branch_of = self.branches.of(split, node)
            for i in here:
                using = [branch_of[user] for user in self.users[i]]
                for branch in range(min(using), max(using) + 1):
                    here_by_branch.setdefault(branch, []).append(i)
        return self.by_branch[address]


def _lives(below: _Below, address: Address, users: set[str], running: EinsumPath, branches: _Branches) -> bool:
    """Whether the buffer of the node at `address` lives while the Einsum of the path `below` runs."""
    position = below.position.get(address)
    if position is None:
        return False
    if position > below.last_split:
        return True
    started = ended = False
    for i in below.parting[bisect(below.parting, position) :]:
        placed = below.path[i]
        node = placed.node
        if isinstance(node, tree.Temporal) and _iterates(running, i):
            return True
        if not isinstance(node, tree.Split):
            continue
        branch_of = branches.of(placed.address, node)
        branch = branch_of[below.einsum]
        using = [branch_of[user] for user in users if user in branch_of]
        first, last = min(using), max(using)
        if not started and branch < first:
            return False
        if not ended and branch > last:
            return False
        if isinstance(node, tree.Pipeline):
            return True  # as long as a stage works on its tile
        started = started or branch > first
        ended = ended or branch < last
        if started and ended:
            return True
    return True


def _iterates(running: EinsumPath, position: int) -> bool:
    return not next(loop for loop in running.loops if loop.position == position).absent


@dataclass
class _Branches:
    """The branch of each Einsum below a split, remembered; below a Pipeline how many stages it waits for."""

    by_split: dict[Address, dict[str, int]]

    def of(self, address: Address, split: tree.Split) -> dict[str, int]:
        if address not in self.by_split:
            branches = enumerate(split.branches)
            self.by_split[address] = {einsum: b for b, branch in branches for einsum in _einsums(branch)}
        return self.by_split[address]


def _einsums(nodes: tuple[tree.Node, ...]) -> set[str]:
    einsums: set[str] = set()
    for node in nodes:
        if isinstance(node, tree.Compute):
            einsums.add(node.einsum)
        elif isinstance(node, tree.Split):
            einsums = einsums.union(*(_einsums(branch) for branch in node.branches))
    return einsums


def live_by_shared_tensors(
    workload: Workload, order: tuple[str, ...], buffers: Mapping[str, tuple[Buffer, ...]]
) -> dict[str, list[Buffer]]:
    """For each running Einsum the buffers that live, inferred from where shared tensors are backed (definition 13).

    A shared tensor that the running Einsum does not use has the tile and the bits that its first user gives it.
    """
    position = {name: i for i, name in enumerate(order)}
    backing: dict[str, list[Buffer]] = {}
    for group in buffers.values():
        for buffer in group:
            users = [u for u in workload.users[buffer.tensor] if u in position]
            if buffer.backing and len(users) > 1:
                backing.setdefault(buffer.tensor, []).append(buffer)
    spans = {t: [position[b.einsum] for b in group] for t, group in backing.items()}

    def loops_into(k: int) -> int:
        return max((backing[t][0].depth for t, at in spans.items() if min(at) < k <= max(at)), default=0)

    into = [loops_into(k) for k in range(len(order))]

    lasting = [any(buffer.depth < 0 for buffer in buffers[name]) for name in order]

    def others(i: int) -> dict[int, int]:
        """Einsums of which something may live on, with the loops that they share with the one at position i."""
        shared_loops = {j: 0 for j, lasts in enumerate(lasting) if lasts}
        for step in (-1, 1):
            loops, j = into[i] if step < 0 else (into[i + 1] if i + 1 < len(into) else 0), i + step
            while loops > 0 and 0 <= j < len(into):
                shared_loops[j] = loops
                following = j if step < 0 else j + 1
                loops = min(loops, into[following]) if following < len(into) else 0
                j += step
        shared_loops.pop(i, None)
        return dict(sorted(shared_loops.items()))

    live: dict[str, list[Buffer]] = {}
    for i, name in enumerate(order):
        chosen: dict[object, Buffer] = {}
        for buffer in buffers[name]:
            _keep(chosen, buffer, backing)
        for tensor, at in spans.items():
            if min(at) <= i <= max(at):
                _keep(chosen, backing[tensor][0], backing)
        for j, loops in others(i).items():
            for buffer in buffers[order[j]]:
                if buffer.depth < loops:
                    is_shared = buffer.backing and buffer.tensor in backing
                    _keep(chosen, backing[buffer.tensor][0] if is_shared else buffer, backing)
        live[name] = list(chosen.values())
    return live


def _keep(chosen: dict[object, Buffer], buffer: Buffer, shared: Mapping[str, list[Buffer]]) -> None:
    """Add a buffer; a shared tensor's backing buffer is one object for all its users."""
    key = (
        buffer.tensor if buffer.backing and buffer.tensor in shared else (buffer.einsum, buffer.address, buffer.tensor)
    )
    chosen.setdefault(key, buffer)


def without_aliases(live: Iterable[Moment], same: Mapping[tuple[str, str], str]) -> list[Moment]:
    """Copies that stay in the memory of their source share its buffer: the larger one is kept.

    `same`: the common name of a tensor in a memory (`copies.aliases`).
    """
    merged: list[Moment] = []
    for running, group in live:
        kept: dict[object, Buffer] = {}
        for buffer in group:
            name = same.get((buffer.memory.name, buffer.tensor), buffer.tensor)
            key = (buffer.memory.name, name) if buffer.backing else (buffer.einsum, buffer.address, buffer.tensor)
            if key not in kept or kept[key].bits < buffer.bits:
                kept[key] = buffer
        merged.append((running, list(kept.values())))
    return merged


def peaks(live: Iterable[Moment]) -> dict[str, Peak]:
    """For each memory the most bits at one time."""
    largest: dict[str, Peak] = {}
    for einsum, group in live:
        by_memory: dict[str, list[Buffer]] = {}
        for buffer in group:
            by_memory.setdefault(buffer.memory.name, []).append(buffer)
        for memory, held in by_memory.items():
            bits = sum(b.bits for b in held)
            if memory not in largest or bits > largest[memory].bits:
                largest[memory] = Peak(bits, einsum, tuple(held))
    return largest
