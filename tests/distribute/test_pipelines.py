"""Schedules of pipelines: what they take, what is idle, what they hold, and their form as CSV."""

import math
import random
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from einmap.distribute.pipelines.schedule import Action, PipelineSchedule, folded, looped
from einmap.distribute.pipelines.shipped import SCHEDULES, pipeline_schedule
from einmap.distribute.pipelines.table import schedule_csv, schedule_from_csv
from einmap.distribute.pipelines.timeline import StageCosts, needed_before, needed_here, run_pipeline
from einmap.errors import SpecError

REPLAYED = """
1 1 1 0 4 8 1f1b 33 33 4 3 2 1
1 1 1 0 4 8 zb-1p 27 27 4 4 4 4
1 1 1 0 4 8 zb-2p 27 24 8 8 8 8
1 1 1 0 4 8 interleaved 28.5 28.5 11 9 7 5
1 1 1 0 4 8 zb-v 25.5 24 8 8 8 8
10 12 8 0 4 8 1f1b 330 330 4 3 2 1
10 12 8 0 4 8 zb-1p 282 282 4 4 4 4
10 12 8 0 4 8 zb-2p 270 258 8 8 8 8
10 12 8 0 4 8 interleaved 285 285 11 9 7 5
10 12 8 0 4 8 zb-v 258 252 8 8 8 8
10 12 8 1 8 16 1f1b 730 730 8 7 6 5 4 3 2 1
10 12 8 1 8 16 zb-1p 606 606 8 8 8 8 8 8 8 8
10 12 8 1 8 16 zb-2p 557 536 16 16 16 16 16 16 16 16
10 12 8 1 8 16 interleaved 615 615 23 21 19 17 15 13 11 9
10 12 8 1 8 16 zb-v 555 548 16 16 16 16 16 16 16 16
"""
"""F, I, W, transfer, devices, micro-batches, schedule, makespan, longest span, activations of each device. Makespans and
activations but those of the last row (559 there) are those of the zero-bubble authors' scheduler, replayed; so are the
spans of 1f1b, zb-1p and interleaved. Theirs of zb-2p and zb-v depend on the costs, as of `best_pipeline`.
"""


def costs_of(schedule, forward, inputs, weights, transfer=0.0):
    """Costs of stages from those of a device."""
    parts = schedule.stages // schedule.devices
    return StageCosts.equal(schedule.stages, forward / parts, inputs / parts, weights / parts, transfer)


@pytest.mark.parametrize("row", REPLAYED.strip().splitlines())
def test_shipped_schedules_take_what_their_authors_scheduler_gives(row):
    forward, inputs, weights, transfer, devices, batches, name, makespan, span, *peaks = row.split()
    schedule = pipeline_schedule(name, int(devices), int(batches))
    timeline = run_pipeline(schedule, costs_of(schedule, *map(float, (forward, inputs, weights, transfer))))
    assert (timeline.makespan, max(timeline.spans)) == (float(makespan), float(span))
    assert timeline.peaks == tuple(map(float, peaks))


def test_bubbles_are_those_of_the_formulas():
    rng = random.Random(5)
    for _ in range(40):
        devices, chunks = rng.randint(1, 6), rng.randint(1, 3)
        batches = devices * rng.randint(2, 4)
        forward, inputs = rng.randint(4, 9), rng.randint(4, 9)
        weights = rng.randint(1, min(forward, inputs))
        work, bubble = batches * (forward + inputs + weights), (devices - 1) * (forward + inputs + weights)
        bubbles = {
            "fill-drain": bubble,
            "1f1b": bubble,
            "interleaved": bubble / chunks,
            "zb-1p": (devices - 1) * (forward + inputs - weights),
        }
        for name, idle in bubbles.items():
            schedule = pipeline_schedule(name, devices, batches, chunks=chunks)
            timeline = run_pipeline(schedule, costs_of(schedule, forward, inputs, weights))
            assert timeline.makespan == pytest.approx(work + idle), (name, devices, batches, chunks)
            assert timeline.bubble == pytest.approx(idle / (work + idle))


def test_forward_and_backward_passes_of_dual_pipe_v_overlap():
    # 4 devices, 10 micro-batches, two stages each: 60 units of work; the bubble is 6
    schedule = pipeline_schedule("dual-pipe-v", 4, 10)
    unit = StageCosts.equal(8, 1, 1, 1)
    assert run_pipeline(schedule, unit).makespan == 66
    assert run_pipeline(schedule, replace(unit, overlapped=2.5 / 3)).makespan == pytest.approx(59)
    assert run_pipeline(schedule, StageCosts.equal(8, 10, 12, 8)).makespan == 672


def longest_ways(schedule, costs):
    """When each step ends, by the longest way to it through everything that comes before: an oracle by recursion."""
    at = {action: (d, n) for d, steps in enumerate(schedule.steps) for n, step in enumerate(steps) for action in step}

    @cache
    def end(device, number):
        step = schedule.steps[device][number]
        begin = end(device, number - 1) if number else 0.0
        for action in step:
            before = [other for other in needed_here(action) if at[other] != (device, number)]
            before += [next(a for a in group if a in at) for group in needed_before(action, schedule.stages)]
            for other in before:
                lag = costs.transfer if at[other][0] != device else 0.0
                begin = max(begin, end(*at[other]) + lag)
        return begin + costs.of_step(step)

    return {action: end(*place) for action, place in at.items()}


@pytest.mark.parametrize("name", SCHEDULES)
def test_ends_are_the_longest_ways(name):
    rng = random.Random(name)
    for devices, batches in [(1, 2), (2, 4), (3, 6), (4, 8)]:
        schedule = pipeline_schedule(name, devices, batches)
        rows = [tuple(rng.randint(0, 9) for _ in range(schedule.stages)) for _ in range(3)]
        costs = StageCosts(*rows, transfer=rng.choice([0, 2]), overlapped=rng.choice([1.0, 0.75]))
        assert run_pipeline(schedule, costs).ends == pytest.approx(longest_ways(schedule, costs))


def test_activations_are_held_from_forward_to_the_end_of_backward():
    # device 0: F 0-1, F 1-2, waits for device 1, B 3-5 and 6-8 (2 for I, which is 1, and W, which is 1)
    schedule = pipeline_schedule("1f1b", 2, 2)
    timeline = run_pipeline(schedule, StageCosts.equal(2, 1, 1, 1))
    assert [timeline.begins[Action(0, "B", batch)] for batch in (0, 1)] == [4, 7]
    assert timeline.held(0) == [(0, 1), (1, 2), (6, 1), (9, 0)]
    assert timeline.peaks == (2, 1)
    assert timeline.busy == (6, 6)


@pytest.mark.parametrize("name", SCHEDULES)
def test_schedules_are_the_same_after_csv(name):
    for devices, batches in [(1, 3), (2, 4), (4, 8), (3, 9)]:
        schedule = pipeline_schedule(name, devices, batches)
        assert schedule_from_csv(schedule_csv(schedule)) == schedule


@pytest.mark.parametrize(
    ("file", "name", "devices", "batches"),
    [
        ("interleaved_4x10", "interleaved", 4, 10),
        ("zero_bubble_v_3x5", "zb-v", 3, 5),
        ("dual_pipe_v_2x6", "dual-pipe-v", 2, 6),
    ],
)
def test_schedules_are_those_of_pytorch(file, name, devices, batches):
    # written by torch.distributed.pipelining of PyTorch 2.13, classes ScheduleInterleaved1F1B, ScheduleZBVZeroBubble and
    # ScheduleDualPipeV; empty cells of the file are idle
    text = Path(__file__).with_name("data").joinpath(f"pytorch_{file}.csv").read_text()
    assert schedule_from_csv(text) == pipeline_schedule(name, devices, batches)


def test_files_with_transfers_and_idle_cells_are_read():
    text = "0F0,0SEND_F0,,0RECV_B0,0B0\n1UNSHARD,1RECV_F0,1F0,1B0,1SEND_B0\n"
    assert schedule_csv(schedule_from_csv(text)) == "0F0,0B0\n1F0,1B0\n"
    overlap = "0F0,0F1,(0F2;0B0)OVERLAP_F_B,0B1,0B2\n"
    assert schedule_csv(schedule_from_csv(overlap)) == overlap


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("0F0,0B0\n1F0,1X0\n", "s.csv:2:2: '1X0' is not an action"),
        ("0F0,0B0,0F0\n", "s.csv: not a schedule of a pipeline: 0F0 is there 2 times"),
        ("0F0,0I0\n", "missing are 0W0"),
        ("0F0,0B0,1F0\n1B0\n", "not an action of device 0"),
        ("0B0,0F0\n", "0B0 of device 0 comes before 0F0"),
        ("0F0,0B0,2F0,2B0\n", "stage 1 has no action, stage 2 has some"),
        ("", "the file has no action"),
        ("0F0,0F999999,0B0\n", "missing are 0F1, 0I1, 0W1, 0F2, 0I2, ..."),
        ('0F0,"0B0\n', "this is not CSV"),
        ("0F0,0I0,0W0,0B0\n", "0B0 of device 0 follows a backward pass in two parts"),
    ],
)
def test_files_that_hold_no_schedule_are_refused_with_their_place(text, words):
    with pytest.raises(SpecError) as refused:
        schedule_from_csv(text, "s.csv")
    assert words in str(refused.value)


def test_devices_that_wait_for_each_other_are_named():
    # stages 0 and 2 on device 0: it waits for stage 1, whose device waits for stage 0 of the next micro-batch
    steps = (
        [(0, "F", 0), (2, "F", 0), (0, "F", 1), (2, "F", 1), (2, "B", 0), (2, "B", 1), (0, "B", 0), (0, "B", 1)],
        [(1, "F", 1), (1, "F", 0), (1, "B", 0), (1, "B", 1)],
    )
    schedule = PipelineSchedule((0, 1, 0), tuple(tuple((Action(*each),) for each in row) for row in steps))
    with pytest.raises(SpecError, match="wait for each other for ever, before 2F0, 1F1"):
        run_pipeline(schedule, StageCosts.equal(3, 1, 1, 1))


def test_numbers_that_a_schedule_does_not_know_are_refused():
    with pytest.raises(SpecError, match="9 micro-batches on 4 devices are not 2 equal rounds") as refused:
        pipeline_schedule("interleaved", 4, 9)
    assert refused.value.hint == "take a multiple of 4, e.g. 12"
    with pytest.raises(SpecError, match="dual-pipe-v: 7 micro-batches"):
        pipeline_schedule("dual-pipe-v", 4, 7)
    with pytest.raises(SpecError, match="no schedule has the name 'zb-3p'"):
        pipeline_schedule("zb-3p", 4, 8)
    with pytest.raises(SpecError, match="at least one device"):
        pipeline_schedule("1f1b", 0, 8)
    with pytest.raises(SpecError, match="2 stages have costs, the schedule has 4"):
        run_pipeline(pipeline_schedule("1f1b", 4, 4), StageCosts.equal(2, 1, 1, 1))
    with pytest.raises(SpecError, match="different lengths"):
        StageCosts((1,), (1, 1), (1,))
    with pytest.raises(SpecError, match="finite"):
        StageCosts((math.inf,), (1,), (1,))


def test_stages_go_round_the_devices_or_to_the_last_one_and_back():
    assert looped(3, 2) == (0, 1, 2, 0, 1, 2)
    assert folded(3) == (0, 1, 2, 2, 1, 0)


def test_fewer_micro_batches_than_devices_are_scheduled():
    for name in ("fill-drain", "1f1b", "zb-1p", "zb-2p", "zb-v"):
        for batches in (1, 2, 3):
            schedule = pipeline_schedule(name, 4, batches)
            assert schedule.micro_batches == batches
            assert run_pipeline(schedule, costs_of(schedule, 1, 1, 1)).makespan >= 4 + 4
