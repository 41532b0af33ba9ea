"""Sweeps that run: results, failures, the store, and what is not computed twice."""

import os
import signal
import sqlite3
import subprocess
import sys
import time
from operator import le

import pytest
from hypothesis import given
from hypothesis import strategies as st

import einmap
from einmap import Progress, SpecError, sweep
from einmap.errors import At
from einmap.sweep import run as running
from einmap.sweep.actions import perform as outcomes
from einmap.sweep.engines.engine import Lost
from einmap.sweep.front import Front
from einmap.sweep.outcome import Outcome
from einmap.sweep.result import PointResult, front_of
from einmap.sweep.store.replay import replayed
from einmap.sweep.store.store import Store


def counted(monkeypatch):
    """How often something is mapped or evaluated from now on."""
    calls = []

    def outcome_of(task):
        calls.append(task)
        return outcome(task)

    outcome = running.outcome_of
    monkeypatch.setattr(running, "outcome_of", outcome_of)
    return calls


def test_each_point_is_what_it_is_by_itself(small):
    results = list(sweep(small, workers=0))
    assert [r.number for r in results] == list(range(6))
    spec = einmap.load("simple", "matmul", "simple_matmul", define={"M": 16, "K": 8, "N": 16})
    for result in results[3:]:
        point = spec.set("arch.nodes.GlobalBuffer.size", 32768)
        cost = einmap.evaluate(point.set("arch.nodes.MAC.actions.compute.throughput", result.values["clock"]))
        assert (result.status, result.energy, result.latency) == ("done", cost.energy, cost.latency)
        assert result.energy_delay_product == cost.edp
        assert sum(result.outcomes["workload"].energy_by_component.values()) == pytest.approx(cost.energy)
    assert [r.status for r in results[:3]] == ["failed"] * 3
    assert results[0].reason.startswith("invalid: ")
    assert "GlobalBuffer" in results[0].reason
    assert results[0].energy is None


def test_workloads_count_by_their_weights(small):
    one, two = {"M": 16, "K": 8, "N": 16}, {"M": 16, "K": 8, "N": 32}
    small |= {"define": {}, "workloads": [{"name": "a", "define": one, "weight": 3}, {"name": "b", "define": two}]}
    point = list(sweep(small, workers=0))[5]
    assert list(point.outcomes) == ["a", "b"]
    a, b = point.outcomes.values()
    assert point.energy == 3 * a.energy + b.energy
    assert point.latency == 3 * a.latency + b.latency
    assert point.energy_delay_product == point.energy * point.latency


def test_a_rerun_computes_what_is_missing_and_sweeps_share_a_store(small, tmp_path, monkeypatch):
    store = tmp_path / "s.sqlite"
    calls = counted(monkeypatch)
    first = list(sweep(small, workers=0, store=store))
    assert len(calls) == 6
    assert list(sweep(small, workers=0, store=store)) == first
    assert len(calls) == 6
    more = {**small, "name": "more", "axes": [small["axes"][0], {**small["axes"][1], "values": [2e9, 4e9, 8e9]}]}
    shared = list(sweep(more, workers=0, store=store))
    assert len(calls) == 8
    assert [r.energy for r in shared[3:5]] == [r.energy for r in first[4:]]
    opened = Store.opened(store)
    assert [kept.outline.name for kept in opened.sweeps()] == ["more", "small"]
    assert list(opened.results(opened.sweep("small"), whole=True)) == first
    assert opened.counts(opened.sweep("small")) == {"done": 3, "invalid": 3}
    with pytest.raises(SpecError, match="no sweep 'smal'\n  hint: did you mean 'small'"):
        opened.sweep("smal")
    opened.close()


def test_equal_points_are_computed_once(small, monkeypatch):
    calls = counted(monkeypatch)
    small["axes"].append({"name": "other", "path": "arch.GlobalBuffer.size", "values": [1, 4096 * 8]})
    results = list(sweep(small, workers=0))
    assert (len(results), len(calls)) == (12, 6)


def test_a_point_is_replayed_from_the_store(small, tmp_path):
    small |= {"specs": ["simple", "matmul"], "action": "map", "metric": "energy", "define": {"M": 8, "K": 8, "N": 8}}
    del small["axes"][1]
    results = list(sweep(small, workers=0, store=tmp_path / "s.sqlite"))
    assert [r.optimal for r in results] == [True, True]
    store = Store.opened(tmp_path / "s.sqlite")
    spec = replayed(store, store.sweep(), 1, "workload")
    cost = einmap.evaluate(einmap.loads(einmap.dump(spec)))
    assert (cost.energy, cost.latency) == (results[1].energy, results[1].latency)
    with pytest.raises(SpecError, match="no point 7"):
        replayed(store, store.sweep(), 7, "workload")
    store.close()


def test_nothing_that_fits_is_a_result_with_a_reason(small):
    small |= {"specs": ["simple", "matmul"], "action": "map"}
    small["axes"] = [{"path": "arch.GlobalBuffer.size", "values": [1, 16384]}]
    results = list(sweep(small, workers=0))
    assert [r.status for r in results] == ["failed", "done"]
    assert results[0].reason.startswith("no mapping: ")


@pytest.mark.parametrize(
    ("raised", "status", "reason"),
    [
        (MemoryError(), "out of memory", "there was not enough memory"),
        (ZeroDivisionError("oh"), "internal error", "ZeroDivisionError: oh"),
        (einmap.SpecError("bad", at=At("/home/a/b.yaml", 3)), "invalid", "b.yaml:3: bad"),
    ],
)
def test_whatever_goes_wrong_is_a_result_and_is_tried_again_when_asked(
    small, tmp_path, monkeypatch, raised, status, reason
):
    def fail(*_, **__):
        raise raised

    small["axes"] = [{"path": "arch.GlobalBuffer.size", "values": [32768]}]
    store = tmp_path / "s.sqlite"
    with monkeypatch.context() as patched:
        patched.setattr(outcomes, "evaluate", fail)
        (failed,) = sweep(small, workers=0, store=store)
        assert failed.reason == f"{status}: {reason}"
    assert list(sweep(small, workers=0, store=store)) == [failed]
    (again,) = sweep(small, workers=0, store=store, retry=True)
    assert again.status == ("failed" if status == "invalid" else "done")


def test_lost_tasks_are_failures(small, monkeypatch):
    answers = iter([Lost(True, "no answer within 3 s"), Lost(False, "3 processes ended")])
    monkeypatch.setattr(running, "outcome_of", lambda task: next(answers))
    del small["axes"][0]["values"][0]
    del small["axes"][1]["values"][2]
    results = list(sweep(small, workers=0))
    assert [r.reason for r in results] == ["time-out: no answer within 3 s", "crash: 3 processes ended"]


def test_processes_give_what_one_gives_and_a_stop_keeps_what_is_finished(small, tmp_path):
    alone = list(sweep(small, workers=0))
    several = sorted(sweep(small, workers=2, store=tmp_path / "a.sqlite"), key=lambda r: r.number)
    assert several == alone
    progress = Progress()
    stopped = []
    for result in sweep(small, workers=0, store=tmp_path / "b.sqlite", progress=progress):
        stopped.append(result)
        progress.stop()
    assert stopped == alone[:1]
    store = Store.opened(tmp_path / "b.sqlite")
    assert store.counts(store.sweep()) == {"invalid": 1, "missing": 5}
    store.close()


KILLED = """
import itertools, sys, time
import einmap
from einmap.sweep import run
slow, calls = run.outcome_of, itertools.count()
def outcome_of(task):
    time.sleep(0.02 if next(calls) < 20 else 600)
    return slow(task)
run.outcome_of = outcome_of
print("ready", flush=True)
for result in einmap.sweep(sys.argv[1], store=sys.argv[2], workers=0):
    print(result.number, flush=True)
"""


def rows_of(path):
    """All that a store says, wall times and what ran last aside."""
    with sqlite3.connect(path) as database:
        tables = ("points", "cases", "documents", "bases")
        found = {table: database.execute(f"SELECT * FROM {table} ORDER BY 1, 2, 3").fetchall() for table in tables[:2]}
        found |= {table: database.execute(f"SELECT * FROM {table} ORDER BY 1").fetchall() for table in tables[2:]}
        numbers = "key, status, reason, energy, latency, leak_energy, area, optimal, lower_bound"
        found["outcomes"] = database.execute(f"SELECT {numbers} FROM outcomes ORDER BY key").fetchall()
    database.close()
    return found


def test_after_a_kill_the_store_is_whole_and_the_rest_is_added(tmp_path):
    source = tmp_path / "small.yaml"
    source.write_text(
        "sweep:\n  specs: [simple, matmul, simple_matmul]\n  define: {M: 16, K: 8, N: 16}\n  action: evaluate\n  axes:\n"
        "  - {path: arch.GlobalBuffer.size, range: {least: 8192, most: 8231}}\n"
    )
    undisturbed = list(sweep(source, workers=0, store=tmp_path / "whole.sqlite"))
    assert len(undisturbed) == 40
    killed = tmp_path / "killed.sqlite"
    for moment in (1, 7):
        command = [sys.executable, "-c", KILLED, str(source), str(killed)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ}) as process:
            assert process.stdout is not None
            lines = [process.stdout.readline() for _ in range(1 + moment)]
            time.sleep(0.003 * moment)
            process.send_signal(signal.SIGKILL)
        finished = int(lines[-1])
        store = Store.opened(killed)
        kept = {r.number for r in store.results(store.sweep()) if r.status == "done"}
        assert set(range(finished + 1)) <= kept
        assert len(kept) < 40
        store.close()
    assert list(sweep(source, workers=0, store=killed)) == undisturbed
    assert rows_of(killed) == rows_of(tmp_path / "whole.sqlite")


def test_what_is_not_a_store_is_told_and_left_alone(small, tmp_path):
    text = tmp_path / "notes.txt"
    text.write_text("not a database, but a text that is longer than the header of one\n" * 40)
    with pytest.raises(SpecError, match=r"notes\.txt: this is not a store, or it is damaged"):
        sweep(small, store=text, workers=0)
    assert text.read_text().startswith("not a database")
    other = tmp_path / "other.sqlite"
    with sqlite3.connect(other) as database:
        database.execute("CREATE TABLE a (b)")
    database.close()
    before = other.read_bytes()
    with pytest.raises(SpecError, match="a database of something else"):
        sweep(small, store=other, workers=0)
    assert other.read_bytes() == before
    path = tmp_path / "s.sqlite"
    list(sweep(small, store=path, workers=0))
    content = bytearray(path.read_bytes())
    content[4096:8192] = os.urandom(4096)
    path.write_bytes(content)
    with pytest.raises(SpecError, match="damaged"):
        list(sweep(small, store=path, workers=0))
    assert path.read_bytes() == content
    with pytest.raises(SpecError, match="there is no such store"):
        Store.opened(tmp_path / "none.sqlite", create=False)
    with pytest.raises(SpecError, match="does not exist"):
        sweep(small, store=tmp_path / "none" / "s.sqlite", workers=0)


def test_a_full_disk_ends_the_sweep_and_keeps_what_is_finished(small, tmp_path):
    path = tmp_path / "s.sqlite"
    small["axes"][0]["values"] = list(range(8192, 8292))
    run = sweep(small, store=path, workers=0)
    kept = [next(run).number]
    run.gi_frame.f_locals["run"].store._connection.execute("PRAGMA max_page_count = 1")
    with pytest.raises(SpecError, match=r"cannot use the store: database or disk is full"):
        kept += [r.number for r in run]
    store = Store.opened(path)
    assert kept[0] in {r.number for r in store.results(store.sweep()) if r.outcomes}
    store.close()


@given(st.lists(st.tuples(*[st.integers(0, 4)] * 3), min_size=1, max_size=30), st.randoms())
def test_a_front_does_not_depend_on_the_order(values, random):
    expected = {i for i, v in enumerate(values) if not any(u != v and all(map(le, u, v)) for u in values)}
    order = list(range(len(values)))
    random.shuffle(order)
    front = Front()
    for number in order:
        front.add(number, values[number])
    assert {*front.points} == expected


def test_the_front_has_what_nothing_beats():
    def point(number, energy, latency):
        outcome = Outcome("done", energy=energy, latency=latency, leak_energy=0.0)
        return PointResult(number, {}, {"w": outcome}, {"w": 1.0}, ("energy", "latency"))

    points = [point(0, 2.0, 2.0), point(1, 1.0, 3.0), point(2, 2.0, 2.0), point(3, 3.0, 2.0), point(4, 0.5, 9.0)]
    assert [p.number for p in front_of(points)] == [0, 1, 2, 4]
    assert [p.number for p in front_of(points[::-1])] == [4, 2, 1, 0]
    front = Front()
    assert front.add(0, (1.0, 1.0)) and not front.add(1, (1.0, 2.0)) and front.add(2, (1.0, 0.5))
    assert front.points == {2: (1.0, 0.5)}
    assert front.add(3, (1.0, 0.5)) and (front.size, front.least) == (2, (1.0, 0.5))
    assert front.better_than((1.0, 0.5)) is None and front.better_than((1.0, 0.6)) == 2
    without_area = PointResult(0, {}, points[0].outcomes, {"w": 1.0}, ("energy", "area"))
    assert (without_area.status, without_area.reason) == ("failed", "no area: a component gives none")
