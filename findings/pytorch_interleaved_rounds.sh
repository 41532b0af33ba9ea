#!/usr/bin/env bash
# torch.distributed.pipelining (PyTorch 2.13.0, CPU): ScheduleInterleaved1F1B does not need a multiple of the ranks.
#
# Megatron-LM's interleaved 1F1B sends p micro-batches (p: pipeline ranks) through one virtual stage and then the next
# one, so their number has to be a multiple of p. PyTorch takes max(1, n // p) equal rounds of n / rounds micro-batches
# instead: 10 micro-batches on 4 ranks go in two rounds of 5 and 5 micro-batches in one round of 5, which holds more
# activations than Megatron's order; 9 are refused, since two rounds cannot be equal. A tool that gives such a schedule
# PyTorch's makespan or memory has to know the rounds.
#
# Output seen: the first actions of rank 0
#   10: 0F0 0F1 0F2 0F3 0F4 4F0 4F1 4F2 4F3 4F4 0F5
#   5:  0F0 0F1 0F2 0F3 0F4 4F0 4F1 4F2 4F3 4F4
#   9:  ValueError
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check torch==2.13.0 numpy
cat >"$work/rounds.py" <<'PYTHON'
import torch
from torch.distributed.pipelining import ScheduleInterleaved1F1B
from torch.distributed.pipelining.stage import _PipelineStageBase

RANKS, STAGES = 4, 8


class Stage(_PipelineStageBase):
    """A stage without a module: schedules are made before any runs."""

    def __init__(self, index):
        self.stage_index, self.num_stages, self.group_rank, self.group_size = index, STAGES, 0, RANKS
        self.device, self.has_backward, self.submod = torch.device("cpu"), True, None


Stage.__abstractmethods__ = frozenset()


def first_actions(batches):
    try:
        schedule = ScheduleInterleaved1F1B([Stage(0), Stage(RANKS)], batches, loss_fn=lambda a, b: a)
    except ValueError as error:
        return type(error).__name__
    return " ".join(str(action) for action in schedule.pipeline_order[0][:11] if action is not None)


for batches in (10, 5, 9):
    print(f"{batches}: {first_actions(batches)}")
PYTHON
seen=$("$work/venv/bin/python" "$work/rounds.py" 2>/dev/null)
expected="10: 0F0 0F1 0F2 0F3 0F4 4F0 4F1 4F2 4F3 4F4 0F5
5: 0F0 0F1 0F2 0F3 0F4 4F0 4F1 4F2 4F3 4F4
9: ValueError"
echo "$seen"
[[ "$seen" == "$expected" ]] || { echo "changed; expected:"; echo "$expected"; exit 1; }
