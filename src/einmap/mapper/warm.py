"""Compile the kernels of the search ahead, or load them from the cache on disk."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass
from math import prod
from queue import SimpleQueue
from types import ModuleType
from typing import Any

import numpy as np

from einmap.compiled import loaded
from einmap.mapper.branch_and_bound import kernels
from einmap.mapper.cost_bounds.cost_to_go import dense_kernels
from einmap.mapper.mapspace import point_kernels
from einmap.mapper.mapspace.tile_lattice import FEW_POINTS
from einmap.mapper.objective import objective_kernels
from einmap.numbers import divisors
from einmap.progress import Progress

type Calls = tuple[tuple[ModuleType, ...], dict[str, Callable[[], Any]]]
"""Modules, and the smallest call of kernels in them, by name."""


@dataclass(frozen=True, slots=True)
class Warmed:
    """One kernel that is ready: whether it had to be compiled, and wall time in seconds."""

    name: str
    compiled: bool
    seconds: float


def _kernels(*, few: bool = True, cascades: bool = True) -> dict[str, tuple[Any, Callable[[], Any]]]:
    """Kernels by name, and the smallest call of each; with those that `few` searches, or those of `cascades`, need."""
    # the modules of the others take long to import
    of_paths, of_nests = [_calls_of_paths(), _calls_of_nests()] if cascades else [None, None]
    parts = filter(None, (of_nests, _calls(), of_paths, _calls_of_few() if few else None))
    found = {
        name: (next(getattr(module, name) for module in modules if hasattr(module, name)), call)
        for modules, calls in parts
        for name, call in calls.items()
        if cascades or name not in OF_CASCADES
    }
    # a quick one comes first: it tells whether there is something to compile
    return {"objectives": found["objectives"]} | found


def _calls() -> Calls:
    """A call of every kernel with the smallest arguments of the types that the search uses.

    Kernels that take long come at both ends of all, where the processes that compile them begin.
    """
    one, two = np.zeros(1, dtype=np.int64), np.zeros(2, dtype=np.int64)
    column, flags = np.zeros((1, 1), dtype=np.int64), np.zeros(1, dtype=np.bool_)
    table, costs, row = np.zeros((1, 2)), np.zeros(2), np.zeros(1)
    rows = np.zeros((0, 2))
    layout = row + 1, one, one + 1, one + 1, row + 1, two, one, one[:0], row[:0]
    return (objective_kernels, kernels, dense_kernels, point_kernels), {
        "objectives": lambda: objective_kernels.objectives(costs, 0.0, row, row, row, one, np.zeros(1)),
        "search": lambda: kernels.search(
            layout, one, two, column,
            one, np.zeros((1, 1), dtype=np.bool_), (one, one, one, column, one[:0], one[:0]), np.full((1, 3), -1),
            np.full((1, 3), -1), table, table, np.zeros((1, 4)), one, np.zeros((1, 0, 0)), row, row, two, one, column,
            table, row, np.zeros((1, 2)), two, table[:0], np.inf, row + 1, row, one, 0.0, 0, True,
            np.full((1, 1), np.inf), np.zeros((1, 3), dtype=np.int64), 0,
            two.copy(), np.zeros((2, 2)), np.zeros((2, 1)), two.copy(), two.copy(),
            np.zeros((1, 1)), column.copy(), column.copy(), one - 1, one.copy(), 100,
        ),
        "with_gap_and_node": lambda: dense_kernels.with_gap_and_node(
            np.zeros((2, 2)), one, one, one, one, np.zeros((1, 2), dtype=np.int32), flags, table, table,
            np.zeros((1, 4)), row, row, row, np.zeros((0, 0)), flags,
        ),
        "moves_inside": lambda: dense_kernels.moves_inside(one, one, flags, column, one, two, one, two),
        "lead_out": lambda: dense_kernels.lead_out(flags.copy(), flags, column, one, one, one, two),
        "times_lanes": lambda: dense_kernels.times_lanes(flags, flags.copy(), 0, column, 1, one, column),
        "over_lanes": lambda: dense_kernels.over_lanes(
            np.zeros((2, 2)), one, one, 1, one, column, one, column, column
        ),
        "take": lambda: kernels.take(
            np.zeros(1), one, 0, 0, np.full((1, 1), np.inf), np.zeros((1, 3), dtype=np.int64), 0
        ),
        "value_at": lambda: point_kernels.value_at(layout, 0, 0),
        "keep_least": lambda: objective_kernels.keep_least(table.copy(), 0, table),
        "exceeds_cutoff": lambda: objective_kernels.exceeds_cutoff(costs, rows, 0.0),
        "many_exceed_cutoff": lambda: objective_kernels.many_exceed_cutoff(table, rows, 0.0),
        "many_objectives": lambda: objective_kernels.many_objectives(table, row, row, row + 1, one, np.zeros((1, 1))),
        "beyond": lambda: objective_kernels.beyond(table, costs, rows, 0.0),
    }  # fmt: skip


def _calls_of_paths() -> Calls:
    """First calls of the kernels of paths through cascades."""
    from einmap.mapper.fusion.paths import envelope_kernels, label_kernels, path_kernels, state_kernels
    from einmap.mapper.fusion.paths.boundary_states import StateNumbers
    from einmap.mapper.fusion.paths.kernel_records import (
        Comparison,
        Fitting,
        JoinedEdges,
        Labels,
        Layout,
        Limits,
        PackedChains,
        PackedStages,
    )
    from einmap.mapper.fusion.paths.stage_edges import KeysAhead

    one, two, edge = np.zeros(1, dtype=np.int64), np.zeros(2, dtype=np.int64), np.zeros((1, 3), dtype=np.int64)
    table, row, levels = np.zeros((1, 2)), np.zeros(1), np.zeros((1, 1, 0))
    chains = PackedChains(one, one, np.arange(2), table, np.zeros((1, 1)), two, row[:0], two, row[:0], row[:0])
    numbers, nowhere = StateNumbers(), Layout(one[:0], one[:0], edge[:0], edge[:0])
    known = numbers.lives, numbers.parts, KeysAhead({}, {}, stays=False).by_slot
    return (path_kernels, envelope_kernels, label_kernels, state_kernels), {
        "lower_corners": lambda: envelope_kernels.lower_corners(row, table[:, :1].copy(), row),
        "least_products": lambda: envelope_kernels.least_products(row, table[:, :1].copy(), row),
        "least_paths": lambda: path_kernels.least_paths(
            one, np.arange(3), PackedStages(edge, np.arange(2), np.arange(2), np.arange(2), two, np.zeros((1, 1))),
            chains, row,
        ),
        "fitting_options": lambda: state_kernels.fitting_options(
            edge[:, :2].copy(), edge[:0, :2].copy(), one[:0], nowhere, *known
        ),
        "edges_behind": lambda: state_kernels.edges_behind(
            (0, 1), edge[:, :2].copy(), nowhere, Fitting(one, two, two, one[:0], one[:0], np.zeros((0, 5), np.int64)),
            state_kernels.nothing_reached(2), *known,
        ),
        "joined": lambda: label_kernels.joined(
            two.copy(), Labels(two, table[:0], levels[:0], levels[:0], edge[:0]),
            Labels(np.arange(2), table, levels, levels, edge), JoinedEdges(edge, one, one, np.zeros((1, 1)), levels),
            chains, Limits(row, table[None], one, row), Comparison(table, 0.0), 1,
        ),
    }  # fmt: skip


def _calls_of_nests() -> Calls:
    """First calls of the kernels that list outer nests."""
    from einmap.mapper.fusion.fronts.nests import gap_kernels, nest_kernels

    one, two, edge = np.zeros(1, dtype=np.int64), np.zeros(2, dtype=np.int64), np.zeros((1, 3), dtype=np.int64)
    table, row = np.zeros((1, 2)), np.zeros(1)
    flags, column = np.zeros(1, dtype=np.bool_), np.zeros((1, 1), dtype=np.int64)
    layout = row + 1, np.arange(2), one + 1, one + 1, row + 1, two, one, one[:0], row[:0]
    choice = np.zeros((2, gap_kernels.WIDTH), dtype=np.int64)
    limited = row[:0].reshape(0, 1), np.inf, table.copy(), 0
    return (nest_kernels,), {
        "outer_nests": lambda: nest_kernels.outer_nests(
            layout, (two, one, column, edge[:, :2].copy(), column), (two, one, two, one),
            (two, one, column, column, two, edge), np.zeros((1, gap_kernels.FIELDS), dtype=np.int64),
            np.ones((1, gap_kernels.NUMBERS)), np.zeros((2, 1, 1), dtype=np.bool_), (one, one, one, column), table, two,
            (table, table, table[:, :0].copy(), one, np.zeros((1, 0, 0))), np.zeros((1, 1), dtype=np.bool_), flags,
            (one - 1, two, one, one, flags, one[:0], np.zeros((0, 1), dtype=np.bool_), 1), np.zeros(5, dtype=np.int64),
            row, row, one, *limited, one - 1, choice, choice.copy(), edge.copy(), choice.copy(), flags.copy(),
            np.zeros((3, 1), dtype=np.int64), one - 1, column, table.copy(), np.zeros((2, 1)), table.copy(),
            table.copy(), choice.copy(), table.copy(), 1,
        ),
        "judged": lambda: nest_kernels.judged(
            table[:0], edge, 1, 1, row, row, row, one, *limited, table.copy(), flags.copy()
        ),
        "undominated": lambda: nest_kernels.undominated(table, two),
    }  # fmt: skip


def _calls_of_few() -> Calls:
    """First calls of the kernels that only large lattices, free dataplacements, or networks that are trees, need."""
    from einmap.mapper.cost_bounds.before_plans import placement_kernels
    from einmap.mapper.cost_bounds.cost_to_go import sparse_kernels
    from einmap.mapper.cost_bounds.networks import tree_kernels

    one, two = np.zeros(1, dtype=np.int64), np.zeros(2, dtype=np.int64)
    column, flags = np.zeros((1, 1), dtype=np.int64), np.zeros(1, dtype=np.bool_)
    table, row = np.zeros((1, 2)), np.zeros(1)
    layout = row + 1, one, one + 1, one + 1, row + 1, two, one, one[:0], row[:0]
    packed, nodes = (one + 1, one + 1, one, one[:0], two), np.zeros((1, 1, 1, 1))
    return (sparse_kernels, placement_kernels, tree_kernels), {
        "rows_above_gap": lambda: sparse_kernels.rows_above_gap(
            np.zeros((2, 2)), two.copy(), np.zeros((1, 2), dtype=np.int64), two.copy(), layout,
            (flags, one, two, one.astype(np.int32)),
            (one, row, 0.0), (0, one, row, 0.0, (np.zeros((1, 4), dtype=np.int64), one, row)), table, table,
            np.zeros((1, 4)), column, table,
            (np.zeros((1, 1)), 1, 0.0, table[:0, :1].copy(), 0.0, one, 0.0, row + 1, row, one, row),
        ),
        "outer_points": lambda: sparse_kernels.outer_points(one, 0, 1, layout, one, column, one, one.copy()),
        "take_least": lambda: sparse_kernels.take_least(table.copy(), one, one, table),
        "least_to_go": lambda: placement_kernels.least_to_go(
            np.zeros((1, 1, 1)), np.array([[0, -1]]), np.array([[[0, -1]]]), flags, column, table[:, :1].copy(), nodes,
            nodes, table[:, :1].copy(), table[:, :1].copy(), one, packed,
        ),
        "with_loops": lambda: placement_kernels.with_loops(table.copy(), packed),
        "with_node": lambda: placement_kernels.with_node(table.copy(), row, row, row, np.zeros(2)),
        "with_lanes": lambda: placement_kernels.with_lanes(table, two, table.copy()),
        "least_value": lambda: placement_kernels.least_value(table, table, 0.0, one, row.copy(), one, row, row.copy()),
        "links_to_groups": lambda: tree_kernels.links_to_groups(column, column, np.zeros((1, 1), dtype=np.bool_), 0),
    }  # fmt: skip


_ready: dict[str, Warmed] = {}


def needs_all(bounds: Iterable[Sequence[int]]) -> bool:
    """Whether a search may need every kernel, from the bounds of each Einsum's rank variables."""
    return any(prod(len(divisors(b)) for b in own) > FEW_POINTS for own in bounds)


OF_CASCADES = {
    "outer_nests",
    "judged",
    "undominated",
    "keep_least",
    "beyond",
    "least_paths",
    "least_products",
    "lower_corners",
    "fitting_options",
    "edges_behind",
    "joined",
}
"""Kernels that the search of a single Einsum does not need: most of the time goes into them."""


def warm(progress: Progress | None = None, *, everything: bool = True, cascades: bool = True) -> tuple[Warmed, ...]:
    """Make the kernels ready. The first time on a machine this takes some seconds; the result is kept on disk.

    Says to `progress` which kernel is being made; what is ready in this process is not made again. Without `everything`
    kernels that few searches need are left out, without `cascades` those for several Einsums. From the first one on
    that has to be compiled a second process compiles others from the end of the list, which are loaded from disk then.
    """
    calls = _kernels(few=everything, cascades=cascades)
    missing = deque(name for name in calls if name not in _ready)
    total = len(calls)

    def make_next(name: str) -> None:
        if progress is not None:
            text = f"making the kernels ready (compiled once on a machine): {name}"
            progress.report(text, total - len(missing) - 1, total)
        _make(name, *calls[name])

    if missing:
        compiled = False
        while missing and not compiled:
            name = missing.popleft()
            make_next(name)
            compiled = _ready[name].compiled
        helping: AbstractContextManager[dict[str, Warmed]] = _helped(missing) if missing else nullcontext({})
        with helping as elsewhere:
            while missing:
                try:
                    name = missing.popleft()
                except IndexError:  # the other process has just taken it
                    break
                make_next(name)
        for name in calls:
            if name not in _ready:
                _make(name, *calls[name])
        _ready.update(elsewhere)
    return tuple(_ready[name] for name in calls)


def _make(name: str, kernel: Any, call: Callable[[], Any]) -> None:
    """Make one kernel ready, and keep what is known of it."""
    _ready[name] = made_ready(name, kernel, call)


def made_ready(name: str, kernel: Any, call: Callable[[], Any]) -> Warmed:
    """Load a kernel of Numba, or call it for the first time, and say how it came about."""
    start = time.perf_counter()
    if not loaded(kernel):
        call()
    stats = getattr(kernel, "stats", None)  # none where Numba is switched off
    compiled = stats is not None and not sum(stats.cache_hits.values())
    return Warmed(name, compiled, time.perf_counter() - start)


def warm_simulator() -> Warmed:
    """Make the kernel of `einmap.execute` ready too."""
    from einmap.execute.kernel.kernels import run_leaf
    from einmap.execute.kernel.warm import smallest_call

    if "run_leaf" not in _ready:
        _ready["run_leaf"] = made_ready("run_leaf", run_leaf, smallest_call)
    return _ready["run_leaf"]


_HELPER = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from einmap.mapper import warm; warm.serve()"


@contextmanager
def _helped(missing: deque[str]) -> Iterator[dict[str, Warmed]]:
    """Let a second process compile the last of the missing kernels, one after the other, while this one takes others.

    Gives what it has made; at the end of the block all of that is there. It fails silently: what it leaves is made here
    afterwards. With one core there is none, nor where Python is part of another program. It ends with this one.
    """
    made: dict[str, Warmed] = {}
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if cores < 2 or not sys.executable or getattr(sys, "frozen", False):
        yield made
        return
    # -P: a file in the current folder is not imported in place of a library
    command = [sys.executable, "-P", "-c", _HELPER, json.dumps(sys.path)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True) as helper:
        asking = threading.Thread(target=_ask, args=(helper, missing, made), daemon=True)
        asking.start()
        try:
            yield made
            asking.join()
        finally:
            helper.kill()


def _ask(helper: subprocess.Popen[str], missing: deque[str], made: dict[str, Warmed]) -> None:
    """Have kernels made by the second process as long as there are some, and it answers."""
    assert helper.stdin is not None
    assert helper.stdout is not None
    helper.stdout.readline()  # it has loaded the compiler
    with suppress(OSError, ValueError, IndexError):
        while True:
            helper.stdin.write(missing.pop() + "\n")
            helper.stdin.flush()
            answer = Warmed(**json.loads(helper.stdout.readline()))
            made[answer.name] = answer


def serve() -> None:
    """Compile the kernels whose names come on standard input, and say of each on standard output that it is there.

    Ends when the input does, at once.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    names: SimpleQueue[str] = SimpleQueue()

    def listen() -> None:
        for line in sys.stdin:
            names.put(line.strip())
        os._exit(0)

    threading.Thread(target=listen, daemon=True).start()
    calls = _kernels()
    print(flush=True)
    while True:
        name = names.get()
        _make(name, *calls[name])
        print(json.dumps(asdict(_ready[name])), flush=True)
