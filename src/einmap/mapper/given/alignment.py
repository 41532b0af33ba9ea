"""Where the given nodes stand in a dataplacement: for every gap the given loops and free places in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from einmap.errors import NoMappingError
from einmap.mapper.given.pattern import Free, GivenCompute, GivenHolder, GivenLoop, Pattern, Token
from einmap.mapper.mapspace.template import ABOVE, BELOW, TemplateBuilder

type GapToken = Free | GivenLoop
type Gap = tuple[GapToken, ...]
"""Given tokens between two storage nodes, from the outside in."""
type State = tuple[int, frozenset[str]]
"""The token that comes next, and the tensors of it that have been met already."""

NONE: frozenset[str] = frozenset()


@dataclass
class Aligner:
    """Finds alignments of one pattern. `furthest`: the first token that no dataplacement so far has reached."""

    pattern: Pattern
    extents: Mapping[str, int]
    unseen: frozenset[str] = NONE
    """Tensors that a search has added: their nodes stand anywhere."""
    furthest: int = field(default=0)
    ever: set[tuple[str, str]] = field(default_factory=set)
    """(memory, tensor) of the nodes of some dataplacement that was looked at."""
    always: set[tuple[str, str]] | None = None
    """Those of every one."""
    outermost: str = ""

    def may_hold(self, nodes: tuple[tuple[str, str], ...], n_outer: int) -> bool:
        """Whether the storage nodes are the given ones where tensors are named; a quick look before all others.

        Nodes of the outermost memory need not be given, and do not count as naming a tensor: every mapping has them.
        """
        self.outermost = _outermost(nodes, n_outer)
        self.ever.update(nodes)
        self.always = {*nodes} if self.always is None else self.always & {*nodes}
        stored = self.pattern.stored
        named = self.named(self.outermost)
        inner = {node for node in nodes[n_outer:] if node[1] in named}
        return inner <= stored <= {*nodes}

    def alignments(self, builder: TemplateBuilder) -> Iterator[tuple[Gap, ...]]:
        """All ways to let the given nodes stand in a dataplacement, the gaps from the outermost memory inwards."""
        start = self.outer(builder)
        if start is not None:
            yield from self.gaps(builder, builder.placement.n_outer, (start, NONE))

    def outer(self, builder: TemplateBuilder) -> int | None:
        """The token after those of the outermost memory, whose nodes have no loop among them and no order."""
        placement, tokens = builder.placement, self.pattern.tokens
        if not placement.n_outer:
            return 0
        memory, left = (
            placement.nodes[0][0],
            {tensor for _, tensor in placement.nodes[: placement.n_outer]} - self.unseen,
        )
        of_memory = [
            i for i, t in enumerate(tokens) if isinstance(t, GivenHolder) and not t.toll and t.component == memory
        ]
        after = of_memory[-1] + 1 if of_memory else 0
        for i, token in enumerate(tokens[:after]):
            self.reach(i)
            if i in of_memory and isinstance(token, GivenHolder):
                left -= token.tensors
            elif not isinstance(token, Free) and not self.may_be_absent(token):
                return None
        while left and not _has_free(tokens[: after + 1]) and self.may_be_absent(tokens[after]):
            after += 1
        self.reach(after)
        return after if not left or _has_free(tokens[: after + 1]) else None

    def may_be_absent(self, token: object) -> bool:
        """Whether a token is a loop that may have one iteration though nothing stands above it."""
        if not isinstance(token, GivenLoop):
            return False
        return token.shape is None or (token.dimension is None and token.shape == self.extents[token.variable])

    def gaps(self, builder: TemplateBuilder, index: int, state: State) -> Iterator[tuple[Gap, ...]]:
        """The gaps from the one before node `index` on."""
        nodes = builder.placement.nodes
        kept, tolls = self.named(_outermost(nodes, builder.placement.n_outer)), builder.tolls
        for above in self.tolls([(t.component, t.tensors[0]) for t in tolls.get((index, ABOVE), ())], state):
            for gap, inner in self.loops(builder, index, above):
                below = [(t.component, t.tensors[0]) for t in tolls.get((index, BELOW), ())]
                for met in self.tolls(below, inner):
                    if index == len(nodes):
                        if self.ends(builder, met):
                            yield (gap,)
                        continue
                    for after in self.holder(*nodes[index], kept, met):
                        for rest in self.gaps(builder, index + 1, after):
                            yield (gap, *rest)

    def ends(self, builder: TemplateBuilder, state: State) -> bool:
        """Whether only the compute is left."""
        at = state[0] + isinstance(self.pattern.tokens[state[0]], Free)
        token = self.pattern.tokens[at]
        self.reach(at)
        return isinstance(token, GivenCompute) and token.component in (None, builder.unit.name)

    def tolls(self, tolls: list[tuple[str, str]], state: State) -> Iterator[State]:
        """Past some tolls, each of one tensor."""
        if not tolls:
            yield state
            return
        for after in self.holder(*tolls[0], None, state):
            yield from self.tolls(tolls[1:], after)

    def holder(self, component: str, tensor: str, kept: frozenset[str] | None, state: State) -> Iterator[State]:
        """Past a storage node or toll: the given one, or one inserted at a free place.

        `kept`: tensors that have only the given storage nodes; None for a toll.
        """
        at, met = state
        if tensor in self.unseen:
            yield state
            return
        toll = kept is None
        token = self.pattern.tokens[at]
        if isinstance(token, Free):
            if kept is None or tensor not in kept:
                yield at, NONE
            yield from self.holder(component, tensor, kept, (at + 1, NONE))
        elif isinstance(token, GivenHolder) and (token.component, token.toll) == (component, toll):
            more = met | ({tensor} & token.tensors)
            if more != met:
                yield (at + 1, NONE) if more == token.tensors else (at, more)
                self.reach(at + 1)

    def named(self, outermost: str) -> frozenset[str]:
        """Tensors that are given a storage node below the outermost memory."""
        return frozenset(tensor for memory, tensor in self.pattern.stored if memory != outermost)

    def loops(self, builder: TemplateBuilder, index: int, state: State) -> Iterator[tuple[Gap, State]]:
        """Given tokens before node `index`: the loops that come next, or some of them, and free places.

        Lanes belong to the gap in which those of their component stand; open ones may be absent anywhere.
        """
        at, met = state
        tokens = self.pattern.tokens
        if met:
            yield (), state
            return
        gap: list[GapToken] = []
        if isinstance(free := tokens[at], Free):
            gap.append(free)
        yield tuple(gap), (at, NONE)
        at += len(gap)
        while isinstance(token := tokens[at], GivenLoop):
            if token.dimension is None or builder.place_of(token.dimension[0]) == index:
                gap.append(token)
            elif token.shape is not None:
                return
            at += 1
            self.reach(at)
            if isinstance(free := tokens[at], Free):
                gap.append(free)
                yield tuple(gap), (at, NONE)
                at += 1
            else:
                yield tuple(gap), (at, NONE)

    def reach(self, at: int) -> None:
        """Note that the tokens before this one can be met."""
        self.furthest = max(self.furthest, at)


def _outermost(nodes: Sequence[tuple[str, str]], n_outer: int) -> str:
    """The outermost memory; none where it keeps no tensor of the Einsum."""
    return nodes[0][0] if n_outer else ""


def _has_free(tokens: Sequence[Token]) -> bool:
    return any(isinstance(token, Free) for token in tokens)


def unlike(einsum: str, aligners: Sequence[Aligner]) -> NoMappingError:
    """The error when no mapping has the given nodes: why not, or the first node that cannot be met on any path."""
    for aligner in aligners:
        reason = aligner.pattern.kept_nowhere(aligner.ever)
        reason = reason or aligner.pattern.kept_elsewhere(aligner.always or set(), aligner.outermost)
        if reason is not None:
            return reason
    furthest = max(aligners, key=lambda aligner: aligner.furthest)
    at = furthest.furthest + isinstance(furthest.pattern.tokens[furthest.furthest], Free)
    return NoMappingError(
        f"no mapping of Einsum {einsum!r} that the mapper knows has the given nodes in this order: "
        "this one cannot follow those above it",
        at=furthest.pattern.places[at],
        hint="every tensor begins in the outermost memory, memories follow the hierarchy, lanes stand above the first "
        "memory below them; nodes are inserted at an !Any only, and a tensor that is named keeps its nodes",
    )
