"""Rewrites of splits as a whole: branches that form a branch of their own, and branches that work at one time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from einmap.einsum.workload import Workload
from einmap.mapping.mapping import Mapping
from einmap.mapping.nodes import Pipeline, Sequential, Split, format_address
from einmap.mapping.rewrite.branches import chosen_branches
from einmap.mapping.rewrite.editing import replaced
from einmap.mapping.rewrite.places import Ref, at, find_split, refuse
from einmap.mapping.validate import check_tree


def group(mapping: Mapping, split: Ref, branches: Sequence[int]) -> Mapping:
    """Neighbouring branches become one branch with a split of its own, or one stage of a Pipeline.

    `group nodes[1] 1 2`:

        [DRAM holds A, B, C, D]
        first:
          for m by 1
            compute B on MAC
        then:
          for m by 1
            compute C on MAC
        then:
          for m by 1
            compute D on MAC
        ->
        [DRAM holds A, B, C, D]
        first:
          for m by 1
            compute B on MAC
        then:
          first:
            for m by 1
              compute C on MAC
          then:
            for m by 1
              compute D on MAC

    `branches`: their numbers, from 0. They still run one after the other, in the same order. `pipeline` makes stages of
    the branches that the split then has. Raises MappingError where they are not neighbours, or all of the branches.
    """
    address, node = find_split(mapping, split)
    chosen = chosen_branches(address, node, branches)
    if len(chosen) == len(node.branches):
        raise refuse("these are all branches of the split", address, "leave one of them out")
    first, end = chosen[0], chosen[-1] + 1
    inner = Sequential(node.branches[first:end])
    return replaced(
        mapping, address, 1, (replace(node, branches=(*node.branches[:first], (inner,), *node.branches[end:])),)
    )


def ungroup(mapping: Mapping, split: Ref) -> Mapping:
    """Branches of a split that is all of a branch become branches, or stages, of the outer one: undoes `group`.

    `ungroup nodes[1].nodes[1].nodes[0]`:

        [DRAM holds A, B, C, D]
        first:
          for m by 1
            compute B on MAC
        then:
          first:
            for m by 1
              compute C on MAC
          then:
            for m by 1
              compute D on MAC
        ->
        [DRAM holds A, B, C, D]
        first:
          for m by 1
            compute B on MAC
        then:
          for m by 1
            compute C on MAC
        then:
          for m by 1
            compute D on MAC

    Raises MappingError for a Pipeline, for the outermost split, and where other nodes stand above it in its branch.
    """
    address, node = find_split(mapping, split)
    if isinstance(node, Pipeline):
        raise refuse("the branches of a Pipeline work at one time", address, "`sequence` lets them take turns first")
    if len(address) == 1:
        raise refuse("this split is in no branch of another one", address, "`group` puts branches into one")
    if address[-1] > 0:
        hint = "`distribute` moves a loop into the branches of the split, `sink` a storage node"
        raise refuse("other nodes stand above this split in its branch", (*address[:-1], 0), hint)
    place, branch = address[:-2], address[-2]
    outer = mapping.at(place)
    assert isinstance(outer, Split)
    joined = (*outer.branches[:branch], *node.branches, *outer.branches[branch + 1 :])
    return replaced(mapping, place, 1, (replace(outer, branches=joined),))


def pipeline(mapping: Mapping, workload: Workload, split: Ref | None = None, dimension: str | None = None) -> Mapping:
    """Branches that take turns become stages of a Pipeline, which work at one time: the inverse of `sequence`.

    `pipeline nodes[2]`:

        [DRAM holds A, D, T, Y]
        for {T: m, Y: p} by 2
          first:
            for m by 1
              for k by 1
                compute T on MAC
          then:
            for p by 1
              for n by 1
                compute Y on Vector
        ->
        [DRAM holds A, D, T, Y]
        for {T: m, Y: p} by 2
          pipeline
          stage 1:
            for m by 1
              for k by 1
                compute T on MAC
          stage 2:
            for p by 1
              for n by 1
                compute Y on Vector

    `split`: by default the only one; `dimension`: the fanout of which each stage takes lanes of its own, as `Array.X`;
    without one each stage needs Computes of its own. Whether the hardware has them is seen when the mapping is
    evaluated. Raises MappingError for a Pipeline, and inside a stage of one.
    """
    check_tree(mapping, workload, at)
    address, node = find_split(mapping, split)
    if isinstance(node, Pipeline):
        raise refuse("this is a Pipeline already", address, "`sequence` lets its branches take turns")
    outer = [address[:end] for end in range(1, len(address), 2) if isinstance(mapping.at(address[:end]), Pipeline)]
    if outer:
        hint = "`ungroup` makes stages of the branches of a stage"
        raise refuse(f"this split is inside a stage of the Pipeline at {format_address(outer[0])}", address, hint)
    component, dot, name = (dimension or "").rpartition(".")
    if dimension is not None and not (component and dot and name):
        raise refuse(f"{dimension!r} is not a dimension of a fanout", address, "write for example Array.X")
    new = Pipeline(node.branches, component, name) if dimension is not None else Pipeline(node.branches)
    return replaced(mapping, address, 1, (new,))


def sequence(mapping: Mapping, split: Ref | None = None) -> Mapping:
    """Stages of a Pipeline become branches that take turns: the inverse of `pipeline`.

    `sequence`:

        [DRAM holds A, D, T, Y]
        for {T: m, Y: p} by 2
          pipeline side by side on Array.X
          stage 1:
            for m by 1
              for k by 1
                compute T on MAC
          stage 2:
            for p by 1
              for n by 1
                compute Y on MAC
        ->
        [DRAM holds A, D, T, Y]
        for {T: m, Y: p} by 2
          first:
            for m by 1
              for k by 1
                compute T on MAC
          then:
            for p by 1
              for n by 1
                compute Y on MAC

    `split`: by default the only one. Raises MappingError for a split whose branches take turns already.
    """
    address, node = find_split(mapping, split)
    if not isinstance(node, Pipeline):
        raise refuse("the branches of this split take turns already", address, "`pipeline` makes stages of them")
    return replaced(mapping, address, 1, (Sequential(node.branches),))
