"""The engine on a Dask cluster: what is lost is tried again, what keeps killing workers is given up."""

import importlib.util
import os
from types import SimpleNamespace

import pytest

from einmap import EinmapError, Progress, SpecError, sweep
from einmap.sweep.engines.dask_cluster import DaskCluster, Other, dask_cluster
from einmap.sweep.engines.engine import Lost

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("distributed") is None, reason="Dask is not installed: pip install '.[cluster]'"
)


class Future:
    """A future as it is from the start."""

    def __init__(self, key, status, said):
        self.key, self.status, self.said = key, status, said

    def add_done_callback(self, call):
        call(self)

    def result(self, timeout):
        return self.said

    def exception(self, timeout):
        return self.said


class Client:
    """A cluster of one thread whose answers to each task are given: status and what is said, one for each try."""

    def __init__(self, answers):
        self.answers, self.status, self.log, self.restarted = answers, "running", [], []

    def submit(self, remote, function, code, pickled, **options):
        number = int(options["key"].split("-")[-2])
        self.log.append(number)
        return Future(options["key"], *self.answers[number].pop(0))

    def nthreads(self):
        return {"tcp://a:1": 1}

    def processing(self):
        return {"tcp://a:1": ["einmap-never"]} if not self.restarted else {}

    def cancel(self, futures, force=False):
        pass

    def restart_workers(self, workers, **_):
        self.restarted += workers

    def close(self, timeout):
        self.status = "closed"


def killed(allowed=0):
    from distributed.scheduler import KilledWorker

    return "error", KilledWorker("key", SimpleNamespace(address="tcp://a:1"), allowed)


def answers_of(answers, limit=None):
    """The answers to tasks that are submitted together, and the client."""
    client = Client(answers)
    engine = DaskCluster(abs, lambda: client, limit, Progress())
    for number in sorted(answers):
        engine.submit(number, -number)
    found = []
    while engine.busy:
        found += engine.wait()
    engine.close()
    return sorted(found, key=lambda answer: answer[0]), client


def test_tasks_of_lost_workers_and_schedulers_are_tried_again():
    lost = ("cancelled", None)
    found, client = answers_of({0: [killed(), ("finished", 3)], 1: [lost, ("lost", None), ("finished", 4)]})
    assert found == [(0, 3), (1, 4)]
    assert client.log.count(0) == 2 and client.log.count(1) == 3


def test_a_task_that_kills_three_workers_is_given_up_and_its_last_try_is_made_alone():
    found, client = answers_of({0: [killed()] * 3, 1: [("cancelled", None)] * 3 + [("finished", 4)]})
    assert found == [(0, Lost(False, "3 workers ended with it, the last one tcp://a:1")), (1, 4)]
    assert client.log[-1] == 0  # not before the other one is done


def test_a_task_that_others_took_down_with_them_is_done():
    found, _ = answers_of({0: [killed(3), ("finished", 5)]})  # a scheduler that allows three failures
    assert found == [(0, 5)]


def test_work_that_no_worker_can_do_ends_the_sweep():
    with pytest.raises(EinmapError, match="cannot do its work: ModuleNotFoundError: einmap"):
        answers_of({0: [("error", ModuleNotFoundError("einmap"))]})
    with pytest.raises(EinmapError, match="another einmap"):
        answers_of({0: [("finished", Other("b"))]})


def test_there_is_room_for_two_tasks_of_each_thread():
    client = Client({n: [("pending", None)] for n in range(3)})
    engine = DaskCluster(abs, lambda: client, None, Progress())
    assert engine.has_room and not engine.busy
    engine.submit(0, 0)
    assert engine.has_room
    engine.submit(1, 0)
    assert not engine.has_room
    engine.close()


def test_a_task_that_takes_too_long_ends_its_worker():
    client = Client({0: [("pending", None)]})
    client.processing = lambda: {"tcp://a:1": [engine._tasks[0].future.key]}
    engine = DaskCluster(abs, lambda: client, 0.01, Progress())
    engine.submit(0, 0)
    assert engine.wait() == [(0, Lost(True, "no answer within 0.01 s"))]
    assert client.restarted == ["tcp://a:1"]


@pytest.mark.parametrize(
    ("scheduler", "message"),
    [
        ("foo", "scheduler 'foo' cannot be reached: missing port number"),
        ("tcp://127.0.0.1:9", r"cannot be reached within 0.3 s"),
        ("tls://127.0.0.1:9", "cannot be reached: TLS expects"),
    ],
)
def test_a_scheduler_that_cannot_be_reached_is_told_at_once(small, scheduler, message):
    import dask

    with dask.config.set({"distributed.comm.timeouts.connect": "300ms"}), pytest.raises(EinmapError, match=message):
        list(sweep(small, scheduler=scheduler))


def test_what_is_not_a_scheduler_is_refused(small):
    with pytest.raises(SpecError, match="a scheduler is an address"):
        sweep(small, scheduler=3)
    with pytest.raises(SpecError, match="a scheduler has workers of its own"):
        sweep(small, scheduler="tcp://a:1", workers=2)


def test_a_cluster_gives_what_one_process_gives(small):
    from distributed import Client, LocalCluster

    alone = list(sweep(small, workers=0))
    options = {"n_workers": 2, "threads_per_worker": 1, "processes": False, "dashboard_address": None}
    with LocalCluster(**options) as cluster, Client(cluster, set_as_default=False) as client:
        assert sorted(sweep(small, scheduler=client), key=lambda r: r.number) == alone
        assert client.status == "running"  # it is the caller's


@pytest.mark.slow
@pytest.mark.sweep
def test_points_that_kill_their_workers_are_given_up_and_others_are_done():
    engine = dask_cluster(ending, "local", 2, None, Progress())
    found = {}
    try:
        for number in range(8):
            while not engine.has_room:
                found |= dict(engine.wait())
            engine.submit(number, number)
        while engine.busy:
            found |= dict(engine.wait())
    finally:
        engine.close()
    assert {n: said for n, said in found.items() if n != 3} == {n: n for n in range(8) if n != 3}
    assert found[3].reason.startswith("3 workers ended with it")


def ending(number):
    """A task, of which one ends its process."""
    if number == 3:
        os._exit(1)
    return number
