"""The best mappings of a run judged anew by executing them: by the simulator, or as C on this machine.

A search trusts its cost model. What it takes for the best may be near-ties there, and differ where it counts: on the
machine. So the top candidates are executed, and put in the order of what was measured.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from einmap.arch.component import Memory
from einmap.emit.emit import emit
from einmap.errors import EinmapError, NotSupportedError, SpecError, did_you_mean
from einmap.execute.execute import execute
from einmap.mapper.mapspace.mapspace import Point
from einmap.mapper.objective.metrics import of_energy_and_latency
from einmap.mapping.mapping import Mapping as LoopTree
from einmap.model.evaluate import evaluate
from einmap.model.timing.latency import busy_time
from einmap.model.timing.ways import has_ways
from einmap.progress import Progress
from einmap.search.problem import SearchProblem
from einmap.search.run import Candidate, SearchResult

REPEATS = 3
"""Runs of a compiled mapping, of which the fastest counts."""
PATIENCE = 300.0
"""Seconds that compiling, and one run, may take."""
COMPILERS = ("cc", "gcc", "clang")
PRINTED = re.compile(r'^ *printf\("%s%lld\\n", .*, (\w+)\);\n', re.MULTILINE)
"""A line of emitted C that prints a counter."""


@dataclass(frozen=True)
class Remeasured:
    """A candidate: `predicted`, the objective by the cost model; `measured`, by execution.

    By the simulator both are in the unit of the objective (J, s or J*s). In C `measured` is the processor time in
    seconds that the loop nest takes on this machine. `place`: the place by the cost model among those executed, from 1.
    """

    point: Point | None
    mapping: LoopTree
    predicted: float
    measured: float
    place: int


def remeasured(
    result: SearchResult, by: str = "simulator", *, top: int = 8, progress: Progress | None = None
) -> list[Remeasured]:
    """The `top` best different mappings of a run, the best by execution first; what cannot be executed is left out.

    `by`: `simulator` (counts of a run on random data, priced) or `c` (emitted, compiled with -O2, run, and checked
    against a plain loop nest). Raises SpecError for another way, for `top` below 1, where there is no C compiler, and
    NotSupportedError where none of the mappings can be executed.
    """
    if top < 1:
        raise SpecError(f"there is nothing to measure in {top} mappings", hint="at least 1")
    return measured(result.problem, result.candidates(top), by, progress=progress)


def measured(
    problem: SearchProblem, candidates: Sequence[Candidate], by: str, *, progress: Progress | None = None
) -> list[Remeasured]:
    """Some mappings, the best first, in the order of what was measured; see `remeasured`."""
    check_way(by)
    token = progress or Progress()
    measure = WAYS[by](problem)
    found: list[Remeasured] = []
    failure: EinmapError | None = None
    for done, one in enumerate(candidates):
        if token.stopped and found:
            break
        token.report("measuring", done, len(candidates))
        try:
            found.append(Remeasured(one.point, one.mapping, one.value, measure(one.mapping), done + 1))
        except EinmapError as error:
            failure = error
    if not found:
        raise NotSupportedError(f"none of the best mappings can be executed: {failure or 'none is valid'}")
    return sorted(found, key=lambda one: (one.measured, one.place))


def check_way(by: str) -> None:
    """Raises SpecError for a way to measure that there is not, with the closest name."""
    if by not in WAYS:
        raise SpecError(f"mappings cannot be measured by {by!r}", hint=did_you_mean(by, WAYS, listing="ways"))


def _by_simulator(problem: SearchProblem) -> Callable[[LoopTree], float]:
    """The objective from the actions that the simulator counts; leakage is as the model has it for each second.

    Raises NotSupportedError for a machine on which components wait for one another: actions alone say too little.
    """
    for leaf in problem.arch.leaves.values():
        waits = isinstance(leaf, Memory) and (leaf.buffering == "single" or leaf.wind_up or leaf.starts)
        if waits or has_ways([leaf]) or any(dimension.skew != "none" for dimension in leaf.spatial):
            raise NotSupportedError(
                f"the simulator cannot judge latencies with {leaf.name!r} yet, which is waited for",
                hint="leave out buffering: single, wind_up, startup, pipeline_latency and skew",
            )

    def measure(mapping: LoopTree) -> float:
        spec = problem.spec.with_mapping(mapping)
        execution, cost = execute(spec), evaluate(spec, semantics="exact")
        energy = sum(
            row.count * problem.arch.components[row.component].action(row.action).energy for row in execution.actions
        )
        calls: dict[str, dict[str, float]] = {}
        for (_, component, action), count in execution.calls.items():
            calls.setdefault(component, {})[action] = count
        einsum, components = problem.einsum.name, problem.arch.components
        latency = max(float(busy_time(components[name], of_one, einsum)) for name, of_one in calls.items())
        # the simulator counts actions; what leaks in a second does not depend on them
        energy += cost.leak_energy / cost.latency * latency if cost.latency else 0.0
        return of_energy_and_latency(problem.objective, energy, latency)

    return measure


def _by_c(problem: SearchProblem) -> Callable[[LoopTree], float]:
    """Seconds of processor time of the loop nest, the least of some runs, compiled here."""
    compiler = next((path for path in map(shutil.which, COMPILERS) if path), None)
    if compiler is None:
        raise SpecError("there is no C compiler", hint=f"install one of {', '.join(COMPILERS)}")

    def measure(mapping: LoopTree) -> float:
        text = timed(emit(problem.spec.with_mapping(mapping), "c"))
        with tempfile.TemporaryDirectory() as folder:
            source, program = Path(folder) / "nest.c", Path(folder) / "nest"
            source.write_text(text, encoding="utf-8")
            _run([compiler, "-std=c99", "-O2", str(source), "-o", str(program), "-lm"])
            return min(_seconds(_run([str(program)])) for _ in range(REPEATS))

    return measure


def timed(text: str) -> str:
    """Emitted C that prints the seconds of its nest and does not count what it moves."""
    counters = PRINTED.findall(text)
    text = PRINTED.sub("", text)
    if counters:
        names = "|".join(map(re.escape, counters))
        text = re.sub(rf"^ *(?:{names})(?:\+\+| \+= [^;]*);\n", "", text, flags=re.MULTILINE)
    before, call, after = text.rpartition("    nest();\n")
    begin, end = (
        "const clock_t begin = clock();\n",
        "const double seconds = (double)(clock() - begin) / CLOCKS_PER_SEC;\n",
    )
    shown = 'printf("seconds\\t%.9g\\n", seconds);\n'
    return f"#include <time.h>\n{before}    {begin}{call}    {end}    {shown}{after}"


def _run(command: list[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    except subprocess.TimeoutExpired as error:
        raise NotSupportedError(f"{Path(command[0]).name} took more than {PATIENCE:g} s") from error
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise NotSupportedError(f"{Path(command[0]).name} failed: {said[0] if said else done.returncode}")
    return done.stdout


def _seconds(printed: str) -> float:
    return float(next(line for line in printed.splitlines() if line.startswith("seconds\t")).split("\t")[1])


WAYS: dict[str, Callable[[SearchProblem], Callable[[LoopTree], float]]] = {"simulator": _by_simulator, "c": _by_c}
"""How mappings are measured."""
