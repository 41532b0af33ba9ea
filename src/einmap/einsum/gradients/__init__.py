"""Backward passes of cascades, as Einsums.

- `gradient`: the gradients of one tensor by others: a workload of the forward and the backward Einsums.
- `derivatives`: the derivative of a map expression by its operands.
- `paths`: which operands of which Einsums gradients flow through.
- `backward`: the Einsums of the backward pass, from the last one to the first, those of recurrences in reversed time.
- `names`: names that are free.
- `recompute`: intermediates that are computed again in place of being kept.
- `update`: the step of an optimiser.
"""
