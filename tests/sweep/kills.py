"""Sweeps in processes of their own that are killed, and what their stores hold."""

import os
import random
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from contextlib import contextmanager, suppress

SWEEP = """
sweep:
  specs: [simple]
  axes:
  - {name: buffer, path: arch.GlobalBuffer.size, geometric: {least: 1024, most: 65536, count: 20}}
  - {name: clock, path: arch.MAC.actions.compute.throughput, values: [0.5e9, 1e9]}
  workloads:
  - {name: cube, files: [matmul], define: {M: 48, K: 48, N: 48}}
  - {name: flat, files: [matmul], define: {M: 96, K: 12, N: 48}, weight: 2}
  metric: energy
"""
"""40 points of two workloads, each of which takes milliseconds."""
CALL = "from einmap.cli.main import main; main()"
OPTIONS = {"text": True, "stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "start_new_session": True}


def rows_of(path):
    """All that a store says, wall times and what ran last aside."""
    numbers = (
        "key, status, reason, energy, latency, leak_energy, area, optimal, lower_bound, sent_bytes, peak_memory, "
        "processing_elements"
    )
    with sqlite3.connect(path) as database:
        tables = dict.fromkeys(("points", "cases", "documents", "bases"), "*") | {"outcomes": numbers}
        found = {table: sorted(database.execute(f"SELECT {of} FROM {table}")) for table, of in tables.items()}
    database.close()
    return found


def begun(source, store, *options):
    """A sweep on the command line, in a process group of its own."""
    words = ["sweep", str(source), "--store", str(store), *map(str, options)]
    return subprocess.Popen([sys.executable, "-c", CALL, *words], **OPTIONS)


def killed(process):
    """End a process and all that it started, at once."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def finished(process, seconds=300):
    """Wait for a sweep, which must end well."""
    _, told = process.communicate(timeout=seconds)
    assert process.returncode == 0, told


def seconds_of(source, store, *options):
    """How long an undisturbed sweep takes."""
    start = time.monotonic()
    finished(begun(source, store, *options))
    return time.monotonic() - start


def free_port():
    """A port that nobody listens to."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return listening.getsockname()[1]


class Cluster:
    """A Dask scheduler and two workers of one thread without nannies; what ends is started again by `repaired`."""

    def __init__(self, folder):
        self.address = f"tcp://127.0.0.1:{free_port()}"
        self.folder = folder
        self.scheduler = self._scheduler()
        self.workers = [self._worker(), self._worker()]

    def _process(self, module, *words):
        command = [sys.executable, "-m", f"distributed.cli.{module}", *words]
        return subprocess.Popen(
            command, cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )

    def _scheduler(self):
        port = self.address.rpartition(":")[2]
        return self._process("dask_scheduler", "--host", "127.0.0.1", "--port", port, "--no-dashboard")

    def _worker(self):
        return self._process("dask_worker", self.address, "--no-nanny", "--nthreads", "1", "--no-dashboard")

    def repaired(self):
        """Start again what has ended, as the supervisor of a cluster does."""
        if self.scheduler.poll() is not None:
            self.scheduler = self._scheduler()
        self.workers = [self._worker() if one.poll() is not None else one for one in self.workers]

    def close(self):
        """End everything."""
        for process in (*self.workers, self.scheduler):
            killed(process)


@contextmanager
def cluster(folder):
    """A cluster for a test."""
    made = Cluster(folder)
    try:
        yield made
    finally:
        made.close()


def moment(random_numbers: random.Random, seconds: float) -> None:
    """Wait for some part of that time."""
    time.sleep(random_numbers.uniform(0.05, seconds))
