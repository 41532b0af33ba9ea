"""Sweeps whose processes, workers and schedulers are killed: the store holds what an undisturbed run has."""

import importlib.util
import random
import time
from contextlib import closing

import pytest
from tests.sweep.kills import SWEEP, begun, cluster, finished, killed, moment, rows_of, seconds_of

from einmap.sweep.store.store import Store

needs_dask = pytest.mark.skipif(
    importlib.util.find_spec("distributed") is None, reason="Dask is not installed: pip install '.[cluster]'"
)
pytestmark = [pytest.mark.slow, pytest.mark.sweep]


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "kills.yaml"
    path.write_text(SWEEP)
    return path


@pytest.fixture
def whole(source, tmp_path):
    """The store of an undisturbed run, and how long that took."""
    store = tmp_path / "whole.sqlite"
    seconds = seconds_of(source, store, "--workers", 1)
    assert len(rows_of(store)["points"]) == 40
    return rows_of(store), seconds


def test_a_sweep_that_is_killed_at_fifty_moments_loses_and_changes_nothing(source, whole, tmp_path):
    rows, seconds = whole
    numbers = random.Random(0)
    kept = 0
    for trial in range(10):
        store = tmp_path / f"killed{trial}.sqlite"
        for _ in range(5):
            process = begun(source, store, "--workers", 1)
            moment(numbers, seconds)
            killed(process)
            if store.exists():
                with closing(Store.opened(store)) as opened:  # it opens, and is not damaged
                    kept += sum(opened.counts(sweep).get("done", 0) > 0 for sweep in opened.sweeps())
        finished(begun(source, store, "--workers", 1))
        assert rows_of(store) == rows
    assert kept > 10  # many moments are late enough for results


@needs_dask
def test_workers_of_dask_that_are_killed_at_twenty_moments_change_nothing(source, whole, tmp_path):
    rows, _ = whole
    numbers = random.Random(1)
    kills = 0
    with cluster(tmp_path) as dask:
        alone = seconds_of(source, tmp_path / "dask.sqlite", "--scheduler", dask.address)
        assert rows_of(tmp_path / "dask.sqlite") == rows
        trial = 0
        while kills < 20:
            trial += 1
            store = tmp_path / f"dask{trial}.sqlite"
            process = begun(source, store, "--scheduler", dask.address)
            while process.poll() is None and kills < 20:
                moment(numbers, alone / 2)
                if process.poll() is None:
                    killed(numbers.choice(dask.workers))
                    kills += 1
                    dask.repaired()
            finished(process)
            assert rows_of(store) == rows


@needs_dask
def test_a_scheduler_that_is_killed_and_started_again_changes_nothing(source, whole, tmp_path):
    rows, _ = whole
    numbers = random.Random(2)
    with cluster(tmp_path) as dask:
        alone = seconds_of(source, tmp_path / "dask.sqlite", "--scheduler", dask.address)
        for trial in range(5):
            store = tmp_path / f"dask{trial}.sqlite"
            process = begun(source, store, "--scheduler", dask.address)
            moment(numbers, alone)
            killed(dask.scheduler)
            time.sleep(1)
            while process.poll() is None:
                dask.repaired()
                time.sleep(0.5)
            finished(process)
            dask.repaired()
            assert rows_of(store) == rows
