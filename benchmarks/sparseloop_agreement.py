"""Reference outputs of Sparseloop (clones of yours) beside einmap's expected counts of the same files.

    python benchmarks/sparseloop_agreement.py CLONE [PART_OF_A_PATH]

CLONE is `timeloop-accelergy-exercises` or `micro22-sparseloop-artifact` of Accelergy-Project. Each `*.stats.txt` below
it is compared with an evaluation of the files that it came from: reads, fills, updates and operations by state, their
energies, and cycles. What a memory gives back to the one outside is a read here and none there, and is left out. Prints
a table in markdown: how many counts agree within 1 % (or one value), how many energies within 2 %, and all others.
"""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from einmap import load
from einmap.errors import EinmapError
from einmap.frontends.timeloop.names import identifier
from einmap.frontends.timeloop.read import read
from einmap.model.evaluate import workings_of
from einmap.model.sparsity.expected import EinsumZeros, Passed
from einmap.sparse.savings import STATES, Sparsity

_LEVEL = re.compile(r"=== (.+?) ===\s*")
_TENSOR = re.compile(r" {4}(?!Loop nest)(\w[\w -]*?)(?: \(Streamed\))?:$")
_COUNT = re.compile(r" {8}(Actual|Gated|Skipped) scalar (reads|fills|updates) \(per-instance\) *: (\d+)")
_USED = re.compile(r" {8}Utilized instances \(average\) *: ([\d.]+)")
_ENERGY = re.compile(r" {4,8}Energy \(total\) *: ([\d.]+) pJ")
_OPERATIONS = re.compile(r" {4}(Actual|Gated) Computes \(total\) *: (\d+)")
COUNTS, ENERGIES = 0.01, 0.02
"""Relative differences that agree."""

type Key = tuple[str, str, str]
"""A component, a tensor ("" for operations), and a number: `actual reads`, `energy`, `cycles`."""


@dataclass
class Run:
    """The numbers of one run."""

    numbers: dict[Key, float] = field(default_factory=dict)


def read_statistics(text: str) -> dict[Key, float]:
    """Counts of all instances, energies in pJ and cycles of a `stats.txt`."""
    found: dict[Key, float] = {}
    level, tensor, used = "", "", 1.0
    for line in text.splitlines():
        if heading := _LEVEL.fullmatch(line):
            level, tensor, used = identifier(heading[1].rsplit(".", 1)[-1].split("[")[0]), "", 1.0
        elif line.startswith("Networks"):
            break
        elif section := _TENSOR.match(line):
            tensor = identifier(section[1])
        elif instances := _USED.match(line):
            used = float(instances[1])
        elif count := _COUNT.match(line):
            found[level, tensor, f"{count[1].lower()} {count[2]}"] = int(count[3]) * used
        elif done := _OPERATIONS.match(line):
            found[level, "", f"{done[1].lower()} computes"] = int(done[2])
        elif energy := _ENERGY.match(line):
            found.setdefault((level, tensor, "energy"), float(energy[1]))
    cycles = re.findall(r"^Cycles: (\d+)", text, re.MULTILINE)
    found["", "", "cycles"] = int(cycles[-1])
    return found


def inputs_of(statistics: Path) -> Iterator[list[Path]]:
    """Files that a run may have read, the likeliest first."""
    folder = statistics.parent
    exercise = next((p.parent for p in folder.parents if p.name in ("ref_outputs",)), folder)
    mappings = [*sorted(folder.glob("*.map.yaml")), exercise / "mapping.yaml"]
    for mapping in mappings:
        yield [exercise / "arch.yaml", exercise / "problem.yaml", mapping, *folder.glob("*.ERT.yaml")]
    outside = folder.parent
    whole = outside / "aggregated_input.yaml"
    for mapping in ([outside / "map.yaml"], []):
        yield [whole, *mapping, outside / "ERT.yaml"]
    names = {part for parent in folder.parents for part in re.split(r"output_|_", parent.name)}
    layer = next((name for name in names if re.fullmatch(r"L\d\d", name)), "")
    if layer:
        kind = "actual_data" if "actual_data" in folder.as_posix() else "uniform"
        designs = exercise / "hardware-specs"
        suite = "mobilenet0.5-sparse"
        yield [
            designs / "designs" / "arch.yaml",
            designs / "configurations" / "SI-SW.yaml",
            exercise / "mappings" / suite / f"{layer}-perfect_factor.yaml",
            exercise / "workload" / suite / kind / f"{layer}.yaml",
            exercise / "ert_art" / "ERT.yaml",
        ]
    if match := re.search(r"output_([\d.]+)_(\w+)", statistics.as_posix()):
        yield [
            exercise / "arch" / "arch.yaml",
            folder / "timeloop-mapper.map.yaml",
            exercise / "workload" / f"spmspm.prob.{match[1]}.yaml",
            exercise / "sparse-opt" / f"{match[2]}.yaml",
            exercise / "ert_art" / "ERT.yaml",
        ]


def evaluated(files: list[Path]) -> dict[Key, float]:
    """Our numbers of the files of a run."""
    texts = read(files, define={}).files
    if "mapping.yaml" not in texts:
        raise ValueError("no mapping was found")
    with tempfile.TemporaryDirectory() as folder:
        for name, text in texts.items():
            (Path(folder) / name).write_text(text)
        for path in files:
            for mask in path.parent.rglob("*_masks/*.txt"):
                shutil.copy(mask, folder)
        spec = load(*(Path(folder) / name for name in texts))
        spec.sparsity  # noqa: B018  masks are read while they are there
    workings = workings_of(spec, unlimited=True)
    (name,) = workings.order
    traffic = workings.traffic[name]
    sparsity = spec.sparsity.get(name, Sparsity({}))
    found: dict[Key, float] = {}
    zeros = EinsumZeros(sparsity, traffic)
    for passed in zeros.passed():
        _count(found, passed, sparsity)
    unit = traffic.path.compute.component
    for state, total in zip(STATES, zeros.operations().totals, strict=True):
        found[unit.name, "", f"{state} computes"] = total
        energy = unit.action("compute").energy if state == "actual" else 0.0
        key = unit.name, "", "energy"
        found[key] = found.get(key, 0.0) + total * (
            energy or sparsity.energies.get((unit.name, f"{state}_compute"), 0.0)
        )
    cycle = 1 / max(a.throughput for a in unit.actions)
    found["", "", "cycles"] = round(workings.cost.latency / cycle)
    return {key: n * 1e12 if key[2] == "energy" else n for key, n in found.items()}


def _count(found: dict[Key, float], passed: Passed, sparsity: Sparsity) -> None:
    kinds = {("read", "down"): "reads", ("write", "down"): "fills", ("write", "up"): "updates"}
    kind = kinds.get((passed.action, passed.way))
    if kind is None:
        return
    unit, tensor = passed.station.component, passed.tensor
    energy = unit.action(passed.action).energy * unit.action(passed.action).actions_per_value[tensor]
    joules = 0.0
    for state, total in zip(STATES, passed.values.totals, strict=True):
        key = unit.name, tensor, f"{state} {kind}"
        found[key] = found.get(key, 0.0) + total
        own = sparsity.energies.get((unit.name, f"{state}_{passed.action}"), 0.0)
        joules += total * (energy if state == "actual" else own * unit.action(passed.action).actions_per_value[tensor])
    actual, _, skipped = passed.metadata.totals if passed.metadata is not None else (0.0, 0.0, 0.0)
    metadata = actual + (skipped if sparsity.reads_skipped else 0.0)
    joules += metadata * sparsity.energies.get((unit.name, f"metadata_{passed.action}"), 0.0)
    found[unit.name, tensor, "energy"] = found.get((unit.name, tensor, "energy"), 0.0) + joules


def agrees(key: Key, theirs: float, ours: float) -> bool:
    """Whether two numbers agree: energies within 2 % or half a hundredth, others within 1 % or one value."""
    energy = key[2] == "energy"
    return abs(theirs - ours) <= max((ENERGIES if energy else COUNTS) * theirs, 0.02 if energy else 1.0)


def compared(statistics: Path) -> tuple[dict[Key, float], dict[Key, float]]:
    """The numbers of a run, and ours. Raises ValueError or EinmapError where none can be had."""
    theirs = read_statistics(statistics.read_text())
    problem: Exception = ValueError("no files that it was made from")
    for files in inputs_of(statistics):
        if not all(path.is_file() for path in files):
            continue
        try:
            return theirs, evaluated(files)
        except (EinmapError, ValueError) as error:
            problem = problem if isinstance(problem, EinmapError) else error
    raise problem


def row_of(statistics: Path, clone: Path) -> str:
    """A line of the table."""
    shown = statistics.relative_to(clone).parent.as_posix()
    try:
        theirs, ours = compared(statistics)
    except (EinmapError, ValueError) as error:
        return f"| {shown} | - | - | {str(error).splitlines()[0]} |"
    parts = []
    keys = [key for key in theirs if key[1] or key[2] in ("actual computes", "cycles", "energy")]
    for energy in (False, True):
        of_kind = [key for key in keys if (key[2] == "energy") == energy]
        good = [key for key in of_kind if agrees(key, theirs[key], ours.get(key, 0.0))]
        parts.append(f"{len(good)} of {len(of_kind)}")
    odd = [key for key in keys if not agrees(key, theirs[key], ours.get(key, 0.0))]
    told = "; ".join(f"{' '.join(filter(None, key))} {theirs[key]:g}, here {ours.get(key, 0.0):g}" for key in odd)
    return f"| {shown} | {parts[0]} | {parts[1]} | {told} |"


def main() -> None:
    """Print the table of a clone."""
    clone = Path(sys.argv[1])
    part = sys.argv[2] if len(sys.argv) > 2 else ""
    print("| reference output | counts that agree | energies | those that differ |\n|---|---|---|---|")
    for statistics in sorted(clone.rglob("*.stats.txt")):
        if part in statistics.as_posix():
            print(row_of(statistics, clone), flush=True)


if __name__ == "__main__":
    main()
