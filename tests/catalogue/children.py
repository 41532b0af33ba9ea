"""Runs commands of einmap, each in a process of its own under limits, and measures them.

One interpreter imports einmap, and is forked for each command: that is as honest as a process started
anew, and a hundred times as fast. `python children.py` reads commands as JSON and writes what came of them.
"""

from __future__ import annotations

import io
import json
import math
import os
import resource
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from pathlib import Path

MEMORY = 4_000_000_000
"""Bytes of address space of a command beyond what importing einmap takes; libraries reserve more than they use."""
PATIENCE = 60
"""Seconds on the wall for each second of the processor, for a process that sleeps: many others may run as well."""


@dataclass(frozen=True)
class Command:
    """Arguments of `einmap`, and the most seconds of the processor that they may take."""

    args: tuple[str, ...]
    seconds: int = 10


@dataclass(frozen=True)
class Ended:
    """`seconds` of the processor of the machine on which limits are set (tests/work.py); `growth`: bytes of memory at the peak beyond those of the process as it was forked."""

    status: int
    out: str
    err: str
    seconds: float
    growth: int


def run_all(commands: Sequence[Command], folder: Path) -> list[Ended]:
    """What came of each command, run in `folder`. A command that a limit ends has a negative status."""
    done = subprocess.run(
        [sys.executable, __file__],
        input=json.dumps([[command.args, command.seconds] for command in commands]),
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    return [Ended(*ended) for ended in json.loads(done.stdout)]


def _serve() -> None:
    sys.path[:] = [entry for entry in sys.path if entry != str(Path(__file__).parent)]
    from tests.work import slowness

    _warm_up()
    times = slowness()
    ended = [_run(args, math.ceil(seconds * times)) for args, seconds in json.load(sys.stdin)]
    json.dump([(*said, used / times, growth) for *said, used, growth in ended], sys.stdout)


def _warm_up() -> None:
    """Evaluate, run and map something: what commands import and load late would count as theirs, and be loaded by each."""
    from einmap.cli.main import main

    with tempfile.TemporaryDirectory() as folder, redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        (Path(folder) / "a.yaml").write_text("{{ 1 / 0 }}")
        simple, small = ["simple", "matmul"], ["-D", "M=2", "-D", "K=2", "-D", "N=2"]
        for args in (
            ["evaluate", f"{folder}/a.yaml"], ["simulate", *simple, "simple_matmul"], ["map", *simple, *small]
        ):  # fmt: skip
            with suppress(SystemExit):
                main(args)


def _run(args: list[str], seconds: int) -> tuple[int, str, str, float, int]:
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err, tempfile.TemporaryFile() as before:
        child = os.fork()
        if child == 0:
            os.write(before.fileno(), str(_resident()).encode())
            os.dup2(out.fileno(), 1)
            os.dup2(err.fileno(), 2)
            _limit(seconds)
            _main(args)
        _, status, used = os.wait4(child, 0)
        growth = used.ru_maxrss * 1024 - int(_text(before))
        texts = [_text(out), _text(err)]
    return os.waitstatus_to_exitcode(status), *texts, used.ru_utime + used.ru_stime, growth


def _limit(seconds: int) -> None:
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + MEMORY, size + MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.alarm(PATIENCE * seconds)


def _main(args: list[str]) -> None:
    """End this process as the command line would."""
    from einmap.cli.main import main

    status: object = 1
    try:
        main(args)
        status = 0
    except SystemExit as ended:
        status = ended.code
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status if isinstance(status, int) else 0 if status is None else 1)


def _text(file: tempfile._TemporaryFileWrapper[bytes]) -> str:
    file.seek(0)
    return file.read().decode(errors="replace")


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


if __name__ == "__main__":
    _serve()
