"""The LoopTree of chains that fit: what they share above splits, the rest in branches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from einmap.einsum.isomorphism import Renaming
from einmap.mapper.mapspace.template import joined
from einmap.mapping import nodes as tree
from einmap.mapping.mapping import Mapping as LoopTree
from einmap.mapping.renamed import renamed_nodes


@dataclass(frozen=True)
class LinearNest:
    """One Einsum's nodes from the outside in, each storage node with one tensor.

    `n_outer`: nodes of the outermost memory, which come first; `fused`: loops that other Einsums may stand below.
    `backed`: for each shared tensor the number of loops above its outermost storage.
    """

    einsum: str
    nodes: Sequence[tree.Node]
    n_outer: int
    fused: int
    backed: dict[str, int]

    def backing(self) -> dict[int, int]:
        """The positions of the outermost storage nodes of shared tensors, with the number of loops above each."""
        first: dict[str, int] = {}
        for position, node in enumerate(self.nodes):
            if isinstance(node, tree.Storage):
                first.setdefault(node.tensors[0], position)
        return {first[tensor]: depth for tensor, depth in self.backed.items() if tensor in first}

    def renamed(self, names: Renaming) -> LinearNest:
        """This chain with other names."""
        if names.new.name == names.old.name:
            return self
        nodes, backed = renamed_nodes(self.nodes, names), names.by_tensor(self.backed)
        return replace(self, einsum=names.new.name, nodes=nodes, backed=backed)

    def segments(self) -> list[list[tuple[int, tree.Node]]]:
        """Nodes below the first 0, 1, ... fused loops and above the next one; each begins with its loop.

        Nodes with their positions.
        """
        segments: list[list[tuple[int, tree.Node]]] = [[]]
        for position, node in enumerate(self.nodes[self.n_outer :], start=self.n_outer):
            if isinstance(node, tree.Temporal | tree.Spatial) and len(segments) <= self.fused:
                segments.append([])
            segments[-1].append((position, node))
        return segments


@dataclass
class TreeBuilder:
    """Puts chains together. `shared[k]`: loops that chains k - 1 and k share; `users`: of each shared tensor."""

    chains: Sequence[LinearNest]
    shared: Sequence[int]
    done: set[str] = field(default_factory=set)
    emitted: set[tuple[int, int]] = field(default_factory=set)
    """Storage nodes and tolls that are in the tree, by chain and position."""

    def __post_init__(self) -> None:
        self.segments = [chain.segments() for chain in self.chains]
        self.backing = [chain.backing() for chain in self.chains]
        """For each chain the positions of the outermost storage nodes of shared tensors, with the loops above."""
        self.users: dict[str, list[int]] = {}
        for i, chain in enumerate(self.chains):
            for tensor in chain.backed:
                self.users.setdefault(tensor, []).append(i)

    def build(self) -> LoopTree:
        """The whole tree: what the outermost memories hold first."""
        outer: list[tree.Storage] = []
        for chain in self.chains:
            outer += [node for node in chain.nodes[: chain.n_outer] if isinstance(node, tree.Storage)]
        self.done |= {node.tensors[0] for node in outer}
        return LoopTree((*gathered(outer), *_flat(self.group(0, len(self.chains), 0))))

    def group(self, begin: int, end: int, depth: int) -> Iterator[tree.Node]:
        """Chains begin .. end, below their first `depth` loops."""
        if end - begin == 1:
            segments = self.segments[begin]
            yield from self.nodes_at(begin, depth, with_loop=False)
            for later in range(depth + 1, len(segments)):
                yield from self.nodes_at(begin, later, with_loop=True)
            return
        until = min(self.shared[begin + 1 : end])
        for level in range(depth, until):
            yield from self.common(begin, end, level)
            yield self.loop(begin, end, level + 1)
        yield from self.backings(begin, end, until)
        cuts = [begin, *(k for k in range(begin + 1, end) if self.shared[k] == until), end]
        parts = pairwise(cuts)
        yield tree.Sequential(tuple(tuple(self.group(first, last, until)) for first, last in parts))

    def common(self, begin: int, end: int, level: int) -> Iterator[tree.Node]:
        """Nodes of several chains above a loop that they share; a node that some have in common once."""
        seen: set[tree.Node] = set()
        for k in range(begin, end):
            for node in self.nodes_at(k, level, with_loop=False):
                if node not in seen or not isinstance(node, tree.Storage):
                    yield node
                seen.add(node)

    def nodes_at(self, k: int, level: int, *, with_loop: bool) -> Iterator[tree.Node]:
        """Nodes of a chain below `level` loops, but for those that are there already."""
        backing = self.backing[k]
        for i, (position, node) in enumerate(self.segments[k][level]):
            if (i == 0 and level > 0 and not with_loop) or (k, position) in self.emitted:
                continue
            if backing.get(position) == level:
                assert isinstance(node, tree.Storage)
                if node.tensors[0] in self.done:
                    continue
                self.done.add(node.tensors[0])
            yield node

    def backings(self, begin: int, end: int, level: int) -> Iterator[tree.Node]:
        """Outermost storage, below `level` loops, of tensors that several of the chains use.

        What precedes it in its chain and is a matter of that chain alone comes along, in the order of the hierarchy.
        """
        for k in range(begin, end):
            nodes = self.segments[k][level]
            common = [
                i
                for i, (position, node) in enumerate(nodes)
                if self.backing[k].get(position) == level and self.is_shared(node, begin, end)
            ]
            for i, (position, node) in enumerate(nodes[: max(common, default=-1) + 1]):
                if i in common or not self.is_shared(node, begin, end):
                    if i in common:
                        assert isinstance(node, tree.Storage)
                        if node.tensors[0] in self.done:
                            continue
                        self.done.add(node.tensors[0])
                    self.emitted.add((k, position))
                    yield node

    def is_shared(self, node: tree.Node, begin: int, end: int) -> bool:
        """Whether several chains of a group use the tensor of a node. Loops stay where they are."""
        if not isinstance(node, tree.Storage | tree.Toll):
            return True
        return sum(begin <= user < end for user in self.users.get(node.tensors[0], ())) > 1

    def loop(self, begin: int, end: int, level: int) -> tree.Node:
        """The loop that several chains share, with names and tile shapes by Einsum where they differ."""
        loops = [(self.chains[k].einsum, self.segments[k][level][0][1]) for k in range(begin, end)]
        first = loops[0][1]
        assert isinstance(first, tree.Temporal | tree.Spatial)
        variables, shapes = [], []
        for name, node in loops:
            assert isinstance(node, tree.Temporal | tree.Spatial)
            variables.append((name, str(node.rank_variable.default)))
            shapes.append((name, int(node.tile_shape.default or 1)))
        variable, shape = _per_einsum(variables), _per_einsum(shapes)
        if isinstance(first, tree.Temporal):
            return tree.Temporal(variable, shape)
        return tree.Spatial(variable, shape, first.component, first.name)


def _per_einsum[T](values: Sequence[tuple[str, T]]) -> tree.PerEinsum[T]:
    if len({value for _, value in values}) == 1:
        return tree.PerEinsum(values[0][1])
    return tree.PerEinsum(None, tuple(values))


def gathered(storage: Sequence[tree.Storage]) -> list[tree.Node]:
    """Nodes of the outermost memories, one for each memory; a tensor that is persistent somewhere is held so, once."""
    tensors_of: dict[tuple[str, bool], dict[str, None]] = {}
    seen: set[str] = set()
    for node in sorted(storage, key=lambda node: not node.persistent):
        for tensor in node.tensors:
            if tensor not in seen:
                tensors_of.setdefault((node.component, node.persistent), {})[tensor] = None
        seen.update(node.tensors)
    return [tree.Storage(tuple(tensors), memory, lasting) for (memory, lasting), tensors in tensors_of.items()]


def _flat(nodes: Iterator[tree.Node]) -> Iterator[tree.Node]:
    """Neighbouring storage nodes of one memory put together, below splits too."""
    for node in joined(nodes).nodes:
        if isinstance(node, tree.Split):
            yield replace(node, branches=tuple(tuple(_flat(iter(branch))) for branch in node.branches))
        else:
            yield node


def tree_of(chains: Sequence[LinearNest], spans: Iterable[tuple[str, int, int]]) -> LoopTree:
    """The LoopTree of the chains of successive Einsums. `spans`: shared tensors with their first and last users."""
    shared = [0] * len(chains)
    for t, first, last in spans:
        depth = max((c.backed[t] for c in chains[first : last + 1] if t in c.backed), default=0)
        for k in range(first + 1, last + 1):
            shared[k] = max(shared[k], depth)
    present = [k for k, chain in enumerate(chains) if chain.nodes]
    return TreeBuilder([chains[k] for k in present], [shared[k] for k in present]).build()
