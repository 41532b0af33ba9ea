"""How a long search shows itself and is stopped: a progress bar on stderr, and Ctrl-C."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from rich.console import Console

from einmap.cli.output import error_console, print_hint
from einmap.gc_pause import importing, set_aside
from einmap.progress import Progress, Report
from einmap.units import format_count

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress

PATIENCE = 1.0
"""Seconds before a progress bar is shown."""


@dataclass(slots=True)
class Search:
    """A running search: the token that it is given, and whether the user has interrupted it."""

    progress: Progress
    interrupted: bool = False


@contextmanager
def searching(*, maps: bool = False) -> Iterator[Search]:
    """Show progress where stderr is a terminal; the first Ctrl-C asks the search for the best so far.

    `maps`: mappings are searched; where that has to be compiled first, it is said, in a pipe too.
    """
    if maps and is_uncompiled():
        print_hint("the kernels of the search are compiled first, once on this machine (`einmap warmup` does it ahead)")
        with set_aside(), importing():
            import_numba()
            from einmap.compiled import load_compiler  # here: it takes long, and few commands need it

            load_compiler()
    elif maps:
        with set_aside(), importing():
            import_numba()
    shown = ProgressBar(error_console())
    search = Search(Progress(shown.report if shown.console.is_terminal else None))
    with shown, stopped_by_ctrl_c(search):
        yield search


def import_numba() -> None:
    """Import Numba without YAML and SciPy, of which it reads settings that are not there and a version."""
    hidden = [name for name in ("yaml", "scipy") if name not in sys.modules]
    if "numba" in sys.modules or Path(".numba_config.yaml").exists():
        return
    sys.modules |= dict.fromkeys(hidden)  # type: ignore[arg-type]
    try:
        import numba  # noqa: F401
    finally:
        for name in hidden:
            del sys.modules[name]


def is_uncompiled() -> bool:
    """Whether Numba has kept nothing of the kernels of the search; found out without importing it."""
    spec = find_spec("einmap.mapper.branch_and_bound.kernels")
    if spec is None or spec.origin is None or os.environ.get("NUMBA_DISABLE_JIT", "0") != "0":
        return False
    source = Path(spec.origin)
    folder = os.environ.get("NUMBA_CACHE_DIR")
    name = "kernels.search-*.nbi"
    kept = Path(folder).rglob(name) if folder else (source.parent / "__pycache__").glob(name)
    # whether what is kept is of this source, Numba alone knows: it looks at the text, not at times
    return not any(kept)


@contextmanager
def stopped_by_ctrl_c(search: Search) -> Iterator[None]:
    """Turn the first Ctrl-C into `progress.stop()`; the second one ends the program as usual."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(_signal: int, _frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler if before == signal.SIG_IGN else before)
        search.interrupted = True
        search.progress.stop()
        print_hint("stopping, the best so far follows; press Ctrl-C again to end at once")

    before = signal.signal(signal.SIGINT, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@dataclass
class ProgressBar:
    """A bar that appears once the work has taken a while. Reports may come from any thread."""

    console: Console
    _bar: RichProgress | None = None
    _latest: Report | None = None
    _timer: threading.Timer = field(init=False)

    def __post_init__(self) -> None:
        self._timer = threading.Timer(PATIENCE, self._appear)
        self._timer.daemon = True

    def __enter__(self) -> ProgressBar:
        if self.console.is_terminal:
            self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        if self._timer.is_alive():
            self._timer.join()
        if self._bar is not None:
            self._bar.stop()

    def _appear(self) -> None:
        # here, not above: it takes long to import, and most commands show none
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        columns = (
            SpinnerColumn(),
            BarColumn(bar_width=10),
            TextColumn("{task.fields[counts]}", markup=False),
            TextColumn("{task.fields[best]}", style="green", markup=False),
            TimeElapsedColumn(),
            TextColumn("{task.description}", markup=False),  # last: the end of a long line is cut off
        )
        bar = Progress(*columns, console=self.console, transient=True, redirect_stdout=False)
        task = bar.add_task("searching", total=None, counts="", best="")
        bar.tasks[task].start_time = bar.get_time() - PATIENCE
        self._bar = bar
        if self._latest is not None:
            self.report(self._latest)
        bar.start()

    def report(self, report: Report) -> None:
        """The callback of `Progress`."""
        self._latest = report
        if self._bar is None:
            return
        whole = f" of {format_count(report.total)}" if report.total is not None else ""
        counts = format_count(report.done) + whole
        best = f"best {report.best}" if report.best else ""
        what, done, total = report.what, report.done, report.total
        self._bar.update(self._bar.task_ids[0], description=what, completed=done, total=total, counts=counts, best=best)
