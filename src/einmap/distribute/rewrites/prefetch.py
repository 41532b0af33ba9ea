"""A tensor is moved while an Einsum before its reader runs: weights that are split and gathered one product ahead.

    all-gather W1; U = X * W1; all-gather W2; Z = U * W2
        -- W2 while U runs -->
    all-gather W1; all-gather W2, from when U may begin; U = X * W1; Z = U * W2

A PE then holds whole weights for two Einsums, and waits for the first gather only, where products take longer (fully
sharded data parallelism: Rajbhandari et al., "ZeRO: memory optimizations toward training trillion parameter models",
SC 2020; Zhao et al., "PyTorch FSDP: experiences on scaling fully sharded data parallel", VLDB 2023).
"""

from __future__ import annotations

from dataclasses import replace

from einmap.distribute.plans.plan import BufferName, Local, Move, Plan, buffers_read, buffers_written
from einmap.einsum.einsum import TensorName
from einmap.errors import At, SpecError


def prefetched(plan: Plan, tensor: TensorName, einsum: str, at: At | None = None) -> Plan:
    """The plan with the moves of a tensor after `einsum` put before it, to begin when the Einsum before that is done.

    Raises SpecError, with the reason, where there are none, or where they wait for the Einsum.
    """
    runs = next((n for n, step in enumerate(plan.steps) if isinstance(step, Local) and step.einsum == einsum), None)
    if runs is None:
        raise SpecError(f"Einsum {einsum!r} runs in turns, so nothing can be moved while it runs", at=at)
    moves = [
        step for step in plan.steps[runs:] if isinstance(step, Move) and plan.by_name[step.source].tensor == tensor
    ]
    if not moves:
        raise SpecError(
            f"{tensor!r} is not moved after Einsum {einsum!r}, so there is nothing to do while that runs",
            at=at,
            hint="name a tensor that is gathered for an Einsum after it",
        )
    made = {name for step in plan.steps[:runs] for name in buffers_written(step)} | {name for _, name in plan.inputs}
    for move in moves:
        if not buffers_read(move) <= made:
            text = f"{tensor!r} cannot be moved while Einsum {einsum!r} runs: it is not there yet"
            raise SpecError(text, at=at, hint="name a graph input, or an Einsum after that which computes it")
        made |= buffers_written(move)
    earlier = [step for step in plan.steps[:runs] if isinstance(step, Local)]
    after: BufferName | None = earlier[-1].results[0][1] if earlier else None
    ahead = [replace(move, after=after) for move in moves]
    rest = [step for step in plan.steps[runs:] if step not in moves]
    return replace(plan, steps=(*plan.steps[:runs], *ahead, *rest))
