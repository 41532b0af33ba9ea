"""Processes that make calls under limits: a call that takes too long or too much ends its process, no other one."""

import json
import os
import resource
import select
import signal
import subprocess
import sys
import time
import traceback
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path

SECONDS = 10
"""Of the processor of the machine on which limits are set (tests/work.py), for one call."""
MEMORY = 10**9
"""Bytes of address space of all calls of a process, beyond what einmap with its compiler takes."""
SILENCE = 120
"""Seconds on the wall without an answer after which a process is ended: it does not notice its alarm."""
LIFE = 3000
"""Calls of one process."""


@dataclass
class Failure:
    """`where`: the innermost line of einmap and the kind of exception, equal for failures of one cause."""

    index: int
    surface: str
    where: str
    text: str


@dataclass
class Tally:
    """What came of the calls. `slowest`: seconds of the processor and number of a call; `largest`: bytes of a process."""

    ends: Counter = field(default_factory=Counter)
    failures: list = field(default_factory=list)
    slowest: tuple = (0.0, -1)
    largest: int = 0


def run(seed, first, last, n_workers=2, seconds=None, most_failures=50, limit=SECONDS):
    """Make the calls `first` to `last` (not included), as far as they go within `seconds`."""
    tally, end = Tally(), time.monotonic() + (seconds or 10**9)
    workers = [_Worker(seed, range(first + w, last, n_workers), limit) for w in range(n_workers)]
    try:
        while (
            any(worker.process for worker in workers) and time.monotonic() < end and len(tally.failures) < most_failures
        ):
            running = [worker for worker in workers if worker.process]
            ready, _, _ = select.select([worker.process.stdout for worker in running], [], [], 1)
            for worker in running:
                if worker.process.stdout in ready:
                    worker.read(tally)
                elif time.monotonic() - worker.heard > SILENCE:
                    worker.lost(tally, "SILENT")
    finally:
        for worker in workers:
            worker.stop()
    return tally


def report(tally, surfaces):
    """Figures by surface, then one failure of each kind."""
    for name in surfaces:
        counts = {end: tally.ends[name, end] for end in ("result", "error", "failure")}
        print(f"{name:20} {sum(counts.values()):7} calls: {counts}")
    seconds, index = tally.slowest
    print(
        f"all {sum(tally.ends.values())} calls; slowest {seconds:.1f} s (call {index}); memory grew by {tally.largest / 1e6:.0f} MB at most"
    )
    kinds = defaultdict(list)
    for failure in tally.failures:
        kinds[failure.where].append(failure)
    for where, failures in kinds.items():
        print(f"== {len(failures)} x {where}: calls {[f.index for f in failures][:6]} ({failures[0].surface})")


class _Worker:
    def __init__(self, seed, indices, limit):
        self.limit = limit
        self.seed, self.left = seed, list(indices)[::-1]
        self.process = None
        self.start()

    def start(self):
        self.process, self.now, self.buffer = None, None, b""
        if self.left:
            chunk = [self.left.pop() for _ in range(min(LIFE, len(self.left)))]
            self.chunk = chunk[::-1]
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.fuzz.workers", str(self.seed), str(self.limit), json.dumps(chunk)],
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
            )
            self.heard = time.monotonic()

    def stop(self):
        if self.process:
            self.process.kill()
            self.process.wait()
            self.process.stdout.close()
            self.process = None

    def lost(self, tally, why):
        index = self.now
        self.stop()
        if index is not None:
            tally.failures.append(Failure(index, "", why, f"the process was lost in call {index}"))
        self.left += [i for i in self.chunk if index is None or i != index]
        self.start()

    def read(self, tally):
        data = os.read(self.process.stdout.fileno(), 1 << 20)
        self.heard = time.monotonic()
        if not data:
            if self.process.wait() != 0:
                self.lost(tally, "DIED")
            else:
                self.stop()
                self.start()
            return
        *lines, self.buffer = (self.buffer + data).split(b"\n")
        for line in lines:
            answer = json.loads(line)
            if "begin" in answer:
                self.now = answer["begin"]
                continue
            self.chunk.pop()
            self.now = None
            tally.ends[answer["surface"], answer["end"]] += 1
            tally.slowest = max(tally.slowest, (answer["seconds"], answer["index"]))
            tally.largest = max(tally.largest, answer["bytes"])
            if answer["end"] == "failure":
                tally.failures.append(Failure(answer["index"], answer["surface"], answer["where"], answer["text"]))


class _TooLongError(BaseException):
    pass


def _alarm(_signal, _frame):
    raise _TooLongError


def _serve(seed, limit, indices):
    import warnings

    from tests.fuzz import surfaces
    from tests.work import slowness

    import einmap.mapper.warm

    out = os.fdopen(os.dup(1), "w")
    warnings.simplefilter("error")
    if os.environ.get("FUZZ_SURFACE") != "misbehaving":  # which compiles nothing
        einmap.mapper.warm.warm(None)
    signal.signal(signal.SIGPROF, _alarm)
    here = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    idle = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    resource.setrlimit(resource.RLIMIT_AS, (here + MEMORY, here + MEMORY))
    times = slowness()
    for index in indices:
        print(json.dumps({"begin": index}), file=out, flush=True)
        name, call = surfaces.call_of(seed, index, os.environ.get("FUZZ_SURFACE"))
        answer = {"index": index, "surface": name, "end": "failure"}
        begin = time.process_time()
        try:
            signal.setitimer(signal.ITIMER_PROF, limit * times)
            try:
                answer["end"] = surfaces.ended(name, call)
            finally:
                signal.setitimer(signal.ITIMER_PROF, 0)
        except BaseException as error:
            answer |= {"where": _where(error), "text": "".join(traceback.format_exception(error, limit=-6))[-3000:]}
        answer |= {"seconds": time.process_time() - begin}
        answer["bytes"] = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - idle)
        print(json.dumps(answer), file=out, flush=True)


def _where(error):
    lines = [f for f in traceback.extract_tb(error.__traceback__) if "/src/einmap/" in f.filename]
    at = f"{lines[-1].filename.split('/src/')[1]}:{lines[-1].lineno} {lines[-1].name}" if lines else ""
    return f"{type(error).__name__} {at}" + (f" {str(error)[:80]}" if type(error).__name__ == "Wrong" else "")


if __name__ == "__main__":
    _serve(sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3]))
