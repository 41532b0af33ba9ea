"""Recurrences: Einsums that read what a later Einsum, or one of them, has written at an earlier index of a rank.

    R[t, n] = H[S: t, m] * U[m, n]
    H[S: t + 1, n] = tanh(P[t, n] + R[t, n])

H is the *state*, t the variable of the recurrence: both Einsums run once for each t, in ascending order. What nothing
writes, H at 0 here, is 0. The recurrence is the part of the cascade from the first Einsum that reads a state early to
the last one that writes one (docs/definitions.md, definition 15).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from einmap.einsum.spaces.projection import Affine, Projection, Rank, RankVar
from einmap.errors import At, NotSupportedError

type Indexed = tuple[str, Projection, bool]
"""A tensor, how it is indexed, and whether it is written."""
type Listed = tuple[str, Sequence[Indexed]]
"""An Einsum by name with its accesses."""
type Complaint = Callable[[int, str, str | None], None]
"""Takes the position of an Einsum, what is wrong with it, and a hint."""


@dataclass(frozen=True, slots=True)
class Recurrence:
    """Einsums that run once for each value of `variable`, in order.

    `einsums`: their names as they run; `states`: tensors that one of them reads before it is written, each with the
    rank along which time runs.
    """

    variable: RankVar
    einsums: tuple[str, ...]
    states: Mapping[str, Rank]


@dataclass(frozen=True, slots=True)
class _Early:
    """The Einsum at `reader` reads `tensor` early, which the one at `writer` writes."""

    reader: int
    writer: int
    tensor: str
    rank: Rank
    variable: RankVar


def recurrences(einsums: Sequence[Listed], complain: Complaint) -> tuple[Recurrence, ...]:
    """The recurrences of a cascade, in order. What breaks the order of time is told to `complain`.

    Reads of a tensor that a later Einsum writes are looked at; whether there is a cycle is not.
    """
    early: list[_Early] = []
    writers = {t: i for i, (_, accesses) in enumerate(einsums) for t, _, written in accesses if written}
    for reader, (_, accesses) in enumerate(einsums):
        for tensor, projection, written in accesses:
            writer = writers.get(tensor, -1)
            if not written and writer > reader:
                target = next(p for t, p, w in einsums[writer][1] if w and t == tensor)
                found = _early_read(einsums, (reader, projection), (writer, target), tensor, complain)
                early += [found] if found else []
    merged: list[Recurrence] = []
    for first, last, reads in _joined(early):
        variables = {read.variable for read in reads}
        if len(variables) > 1:
            text = f"the recurrence of Einsums {einsums[first][0]!r} to {einsums[last][0]!r} runs over one rank "
            complain(first, text + f"variable, found {', '.join(sorted(variables))}", None)
            continue
        (variable,) = variables
        names = tuple(name for name, _ in einsums[first : last + 1])
        merged.append(Recurrence(variable, names, {read.tensor: read.rank for read in reads}))
        for position in range(first, last + 1):
            _check_step(einsums[position], position, merged[-1], complain)
        _check_readers(einsums, range(first, last + 1), merged[-1], writers, complain)
    return tuple(merged)


def refuse_recurrences(found: Sequence[Recurrence], what: str, at: At | None = None, hint: str | None = None) -> None:
    """Raise NotSupportedError where there is a recurrence. `what`: what does not know them."""
    for recurrence in found:
        names = ", ".join(recurrence.einsums)
        text = f"{what} does not know recurrences yet: the Einsums {names} run once for each {recurrence.variable}"
        raise NotSupportedError(text, at=at, hint=hint)


def _early_read(
    einsums: Sequence[Listed],
    read: tuple[int, Projection],
    written: tuple[int, Projection],
    tensor: str,
    complain: Complaint,
) -> _Early | None:
    """The rank along which a tensor is read at an earlier index than it is written."""
    targets = dict(written[1])
    behind: list[tuple[Rank, int]] = []
    for rank, index in read[1]:
        variable, other = _alone(index), _alone(targets.get(rank, Affine(())))
        if variable is None or variable != other:
            continue
        lag = targets[rank].constant - index.constant
        if lag > 0:
            return _Early(read[0], written[0], tensor, rank, variable)
        behind.append((rank, -lag))
    reader, writer = einsums[read[0]][0], einsums[written[0]][0]
    text = f"Einsum {reader!r} reads {tensor!r} before Einsum {writer!r} writes it"
    if behind and any(ahead for _, ahead in behind):
        rank, ahead = next((rank, ahead) for rank, ahead in behind if ahead)
        text += f": {ahead} further along rank {rank} than what is written in the same step"
    hint = f"write {tensor} at a later index of one rank than it is read, such as {tensor}[T: t + 1] and {tensor}[T: t]"
    complain(read[0], text, hint)
    return None


def _alone(index: Affine) -> RankVar | None:
    """The variable of an index that is a variable and a constant."""
    return index.terms[0][0] if len(index.terms) == 1 and index.terms[0][1] == 1 else None


def _joined(early: Sequence[_Early]) -> list[tuple[int, int, list[_Early]]]:
    """Reads whose spans from reader to writer overlap, together: first and last Einsum, and the reads."""
    joined: list[tuple[int, int, list[_Early]]] = []
    for read in sorted(early, key=lambda read: read.reader):
        if joined and read.reader <= joined[-1][1]:
            first, last, reads = joined[-1]
            joined[-1] = first, max(last, read.writer), [*reads, read]
        else:
            joined.append((read.reader, read.writer, [read]))
    return joined


def _check_step(einsum: Listed, position: int, recurrence: Recurrence, complain: Complaint) -> None:
    """Outputs of an Einsum of a recurrence must have the variable as an index of its own, ascending."""
    name, accesses = einsum
    for tensor, projection, written in accesses:
        if written and not any(_alone(index) == recurrence.variable for _, index in projection):
            complain(
                position,
                f"Einsum {name!r} stands within the recurrence over {recurrence.variable!r} (Einsums "
                f"{', '.join(recurrence.einsums)}), and no rank of {tensor!r} has the index {recurrence.variable!r}",
                "move it before or behind the recurrence, or give its output the rank",
            )


def _check_readers(
    einsums: Sequence[Listed], span: range, recurrence: Recurrence, writers: Mapping[str, int], complain: Complaint
) -> None:
    """Within a recurrence what it writes is read at the same step or an earlier one, and by no sum over steps."""
    for position in span:
        name, accesses = einsums[position]
        for tensor, projection, written in accesses:
            writer = writers.get(tensor, -1)
            if written or writer not in span:
                continue
            target = next(p for t, p, w in einsums[writer][1] if w and t == tensor)
            timed = next((entry for entry in target if _alone(entry[1]) == recurrence.variable), None)
            if timed is None:
                continue  # said of the Einsum that writes it
            rank, at = timed
            index = dict(projection)[rank]
            if _alone(index) != recurrence.variable or index.constant > at.constant:
                text = f"Einsum {name!r} reads {tensor!r} at {rank}: {index}, and step {recurrence.variable} writes it"
                hint = f"read it at {recurrence.variable} or earlier, or move the Einsum behind the recurrence"
                complain(position, f"{text} at {rank}: {at}: a recurrence reads what its steps have written", hint)
