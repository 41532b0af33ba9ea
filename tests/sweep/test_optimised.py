"""Points that Optuna proposes, and limits of objectives."""

import importlib.util

import pytest

from einmap import SpecError, sweep
from einmap.sweep.definition.points.optimised import Optimised
from einmap.sweep.definition.read import read_sweep
from einmap.sweep.result import front_of

needs_optuna = pytest.mark.skipif(
    importlib.util.find_spec("optuna") is None, reason="Optuna is not installed: pip install '.[search]'"
)


def grid_of(small, **changes):
    axes = [
        {"name": "a", "path": "arch.GlobalBuffer.size", "range": {"least": 0, "most": 19}},
        {"name": "b", "path": "arch.MAC.actions.compute.throughput", "range": {"least": 0, "most": 19}},
        {"name": "c", "path": "variables.mode", "values": ["slow", "fast"]},
    ]
    return read_sweep({**small, "axes": axes, **changes}).grid


def proposed(grid, count, judge, seed=0, order=1):
    """All points that are proposed; `order`: whether those of a batch are told as they come or the other way round."""
    points, numbers = Optimised(grid, count, seed, 2), []
    while not points.ended:
        batch = []
        while (number := points.next()) is not None:
            batch.append(number)
        for number in batch[::order]:
            points.tell(number, judge(grid.point(number).values))
        numbers += batch
    return numbers


def judged(values):
    """The front is a = b, fast: one objective falls with a, the other one grows."""
    off = abs(values["a"] - values["b"]) + 5 * (values["c"] == "slow")
    return float(values["a"] + off), float(19 - values["a"] + off)


def without_some(values):
    """A third of the points has no cost."""
    return None if (values["a"] + values["b"]) % 3 == 2 else judged(values)


@needs_optuna
def test_more_points_of_the_front_are_proposed_than_samples_have(small):
    grid = grid_of(small)
    front = {number for number in range(grid.size) if sum(judged(grid.point(number).values)) == 19}
    numbers = {seed: proposed(grid, 100, judged, seed) for seed in range(2)}
    assert all(len({*each}) == len(each) == 100 for each in numbers.values())
    assert sum(len(front & {*each}) for each in numbers.values()) > 2 * sum(
        len(front & {*grid.sample(100, seed)}) for seed in range(2)
    )


@needs_optuna
def test_who_is_finished_first_does_not_matter(small):
    grid = grid_of(small)
    assert proposed(grid, 40, without_some, order=-1) == proposed(grid, 40, without_some)


@needs_optuna
def test_what_conditions_leave_is_proposed_and_then_there_is_an_end(small):
    grid = grid_of(small, where="a * b > 300")
    numbers = proposed(grid, 60, without_some)
    assert sorted(numbers) == list(grid.numbers())  # fewer than were asked for, and each once


@needs_optuna
def test_an_optimised_sweep_is_the_same_for_any_number_of_processes_and_goes_on(small, tmp_path):
    small["axes"][0]["values"] = [8192 + 64 * i for i in range(30)]
    alone = list(sweep(small, workers=0, optimise=20, store=tmp_path / "s.sqlite"))
    assert len(alone) == 20
    several = sorted(sweep(small, workers=2, optimise=20), key=lambda r: r.number)
    assert several == sorted(alone, key=lambda r: r.number)
    assert list(sweep(small, workers=0, optimise=20, store=tmp_path / "s.sqlite")) == alone
    with pytest.raises(SpecError, match="takes a sample, or is optimised"):
        sweep(small, optimise=3, sample=3)


LIMITED = {
    "specs": ["simple", "matmul"],
    "define": {"M": 8, "K": 8, "N": 8},
    "axes": [
        {"name": "area", "path": "arch.MAC.area", "values": [1e-9, 3e-9]},
        {"name": "clock", "path": "arch.MAC.actions.compute.throughput", "values": [1e9, 1e6]},
    ],
    "metric": "energy",
    "objectives": ["latency"],
}


def test_what_is_beyond_a_limit_is_not_searched_where_a_bound_says_so(tmp_path):
    every = list(sweep(LIMITED, workers=0))
    limits = {"area": "2e-9", "latency": 1e-4}  # 512 operations take at least 512 us at 1 MHz
    limited = list(sweep({**LIMITED, "limits": limits}, workers=0, store=tmp_path / "s.sqlite"))
    assert [r.status for r in limited] == ["done", "ruled out", "ruled out", "ruled out"]
    assert [r.reason for r in limited[1:3]] == [
        "latency is above its limit of 0.0001 s",
        "area is above its limit of 2e-09 m^2",
    ]
    assert all(r.outcomes == {} for r in limited[1:])
    assert front_of(limited) == limited[:1]
    assert limited[0].latency == every[0].latency
    again = list(sweep({**LIMITED, "limits": limits}, workers=0, store=tmp_path / "s.sqlite"))
    assert again == limited


def test_what_a_search_finds_beyond_a_limit_is_ruled_out():
    every = list(sweep(LIMITED, workers=0))
    energy = every[0].energy
    limited = list(sweep({**LIMITED, "limits": {"energy": energy * 0.999}}, workers=0))
    assert {r.status for r in limited} == {"ruled out"}
    assert limited[0].reason.startswith("energy is above its limit")
    with pytest.raises(
        SpecError, match=r"sweep.limits.enrgy: unknown objective 'enrgy'\n  hint: did you mean 'energy'"
    ):
        sweep({**LIMITED, "limits": {"enrgy": 1}})
