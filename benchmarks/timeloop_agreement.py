"""Reference outputs of `timeloop-accelergy-exercises` (a clone of yours) beside einmap's counts of the same mappings.

    python benchmarks/timeloop_agreement.py CLONE [PART_OF_A_PATH]

Each `*.stats.txt` below CLONE is compared with an evaluation of the files that it came from: what Timeloop read
(`inputs/input.yaml`, `parsed-processed-input.yaml`), or the architecture and problem of the exercise, with the mapping
beside it (`*.map.yaml`, `*.map.txt`), else that of the exercise whose loops the statistics print. Prints a table in
markdown: how many numbers agree, and the first that do not.
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from einmap import loads
from einmap.errors import EinmapError
from einmap.frontends.timeloop.names import identifier
from einmap.frontends.timeloop.read import read
from einmap.model.evaluate import Workings, workings_of
from einmap.model.explanation.counts import derivations_of

COUNTS = ("reads", "fills", "updates")
_TENSOR = re.compile(r" {4}(\w[\w -]*):$")
_FIELD = re.compile(r" {8}Scalar (reads|fills|updates) \(per-instance\) *: (\d+)")
_LOOP = re.compile(r"for (\w+) in \[0:(\d+)(?:,(\d+))?\)(?: \((Spatial-[XY])\))?")


@dataclass
class Level:
    """What the statistics say of one level: loops, and counts of each instance by data space."""

    name: str
    loops: list[tuple[str, int, str]] = field(default_factory=list)
    counts: dict[tuple[str, str], int] = field(default_factory=dict)


@dataclass
class Reference:
    """The statistics of one run. `utilisation`: of the compute units."""

    levels: list[Level]
    computes: int
    cycles: int
    utilisation: float


@dataclass(frozen=True)
class Difference:
    """One number that differs."""

    what: str
    theirs: float
    ours: float


def read_statistics(text: str) -> Reference:
    """The numbers of a `stats.txt`, of any version."""
    levels: list[Level] = []
    tensor = ""
    for line in text.splitlines():
        if heading := re.fullmatch(r"=== (.+?) ===\s*", line):
            levels.append(Level(heading[1].rsplit(".", 1)[-1].split("[")[0]))
        elif line.startswith("Networks"):
            break
        elif levels and (loop := _LOOP.search(line)):
            levels[-1].loops.append((loop[1], int(loop[2]), loop[4] or ""))
        elif section := _TENSOR.match(line):
            tensor = section[1]
        elif levels and (count := _FIELD.match(line)):
            levels[-1].counts[tensor, count[1]] = int(count[2])
    return Reference(levels, *_summary(text))


def _summary(text: str) -> tuple[int, int, float]:
    computes = re.search(r"^(?:Computes|MACCs) = (\d+)", text, re.MULTILINE)
    cycles = re.findall(r"^Cycles: (\d+)", text, re.MULTILINE)
    utilisation = re.findall(r"^Utilization: ([\d.]+)(%?)", text, re.MULTILINE)
    if not (computes and cycles and utilisation):
        raise ValueError("these are not complete statistics")
    share = float(utilisation[-1][0]) / (100 if utilisation[-1][1] else 1)
    return int(computes[1]), int(cycles[-1]), share


def mapping_of_text(text: str) -> str:
    """The mapping of a `map.txt` as Timeloop's YAML: directives for each level."""
    levels: list[tuple[str, list[str], list[tuple[str, int, str]]]] = []
    for line in text.splitlines():
        if heading := re.match(r"(\S+) \[ (.*)\] *$", line):
            levels.append((heading[1], re.findall(r"(\S+?):\d+", heading[2]), []))
        elif loop := _LOOP.search(line):
            if loop[3]:
                raise ValueError("the mapping has remainders")
            levels[-1][2].append((loop[1], int(loop[2]), loop[4] or ""))
    spaces = {space for _, kept, _ in levels for space in kept}
    entries: list[str] = []
    for level, kept, loops in levels:
        bypassed = ", ".join(sorted(spaces - set(kept)))
        entries.append(f"- {{target: {level}, type: dataspace, keep: [{', '.join(kept)}], bypass: [{bypassed}]}}")
        for kind in ("temporal", "spatial"):
            own = [loop for loop in reversed(loops) if (loop[2] != "") == (kind == "spatial")]
            own.sort(key=lambda loop: loop[2])  # X stands before Y, where `split` parts them
            factors = ", ".join(f"{name}={n}" for name, n, _ in own)
            order = ", ".join(name for name, _, _ in own)
            split = f", split: {sum(loop[2] == 'Spatial-X' for loop in own)}" if kind == "spatial" else ""
            entries.append(f"- {{target: {level}, type: {kind}, factors: [{factors}], permutation: [{order}]{split}}}")
    return "mapping:\n" + "\n".join(entries) + "\n"


def inputs_of(statistics: Path) -> Iterator[list[Path]]:
    """Files that the run of a `stats.txt` may have read, the likeliest first: architecture, problem and mapping."""
    folder = statistics.parent
    written = sorted(folder.glob("*.map.yaml")) + sorted(folder.glob("*.map.txt"))
    for name in ("inputs/input.yaml", "parsed-processed-input.yaml"):
        if (whole := folder / name).exists():
            yield from ([whole, mapping] for mapping in written)
            yield [whole]
    exercise = next((parent.parent for parent in (folder, *folder.parents) if parent.name.startswith("ref")), folder)
    known = [path for path in sorted(exercise.rglob("*.yaml")) if not any(p.startswith("ref") for p in path.parts)]
    machines, problems, mappings = (
        [path for path in known if word in path.relative_to(exercise).as_posix().replace("mapper", "")]
        for word in ("arch", "prob", "map")
    )
    for machine in machines:
        for problem in problems:
            yield from ([machine, problem, mapping] for mapping in written or mappings)


def evaluated(files: Sequence[Path]) -> Workings:
    """The files of a run, imported and evaluated."""
    with tempfile.TemporaryDirectory() as folder:
        paths = []
        for path in files:
            if path.suffix != ".txt":
                paths.append(path)
                continue
            paths.append(Path(folder) / "mapping.yaml")
            paths[-1].write_text(mapping_of_text(path.read_text()))
        texts = _translated(paths)
    spec = loads("\n".join(texts.values()))
    return workings_of(spec, unlimited=True)


def _translated(paths: Sequence[Path]) -> Mapping[str, str]:
    files = read(paths, define={}).files
    if "mapping.yaml" not in files:
        raise ValueError("no mapping was found")
    return files


def differences(reference: Reference, workings: Workings) -> tuple[int, list[Difference]]:
    """How many numbers were compared, and those that differ."""
    spec = workings.spec
    numbers: list[tuple[str, float, float]] = []
    numbers.append(("computes", reference.computes, spec.workload.n_computes))
    cycle = 1 / max(a.throughput for c in spec.arch().computes for a in c.actions)
    numbers.append(("cycles", reference.cycles, round(workings.cost.latency / cycle)))
    ours, used = counts_of(workings), instances_of(workings)
    unit = spec.arch().computes[0].name
    share = used[unit] / spec.arch().instances[unit] * spec.workload.n_computes / used[unit]
    share /= workings.cost.latency / cycle
    numbers.append(("utilisation", round(reference.utilisation, 2), round(share, 2)))
    for level in reference.levels:
        for (space, kind), theirs in level.counts.items():
            component, tensor = identifier(level.name), identifier(space)
            total = ours.get((component, tensor, kind), 0)
            numbers.append((f"{component} {tensor} {kind}", theirs, total / used.get(component, 1)))
    return len(numbers), [Difference(*entry) for entry in numbers if entry[1] != entry[2]]


def counts_of(workings: Workings) -> dict[tuple[str, str, str], int]:
    """Values that move, by memory, tensor and kind, as Timeloop counts them.

    Reads are what a memory gives to those inside, fills what it takes from outside, updates the results that it takes
    from inside. What it gives back to the memory outside is a read here and none there.
    """
    counts: dict[tuple[str, str, str], int] = {}
    for derivation in derivations_of(workings):
        for piece in derivation.pieces:
            kind = ""
            if derivation.tensor is None:
                continue
            if piece.parent == derivation.component:
                kind = "reads" if piece.way == "down" else "updates"
            elif piece.child == derivation.component and piece.way == "down":
                kind = "fills"
            if kind:
                key = (derivation.component, derivation.tensor, kind)
                counts[key] = counts.get(key, 0) + piece.values
    return counts


def instances_of(workings: Workings) -> dict[str, int]:
    """Copies of each component that a mapping uses; the last one is the compute unit."""
    (name,) = workings.order
    path = workings.paths[name]
    used: dict[str, int] = {}
    for leaf, place in path.levels.items():
        used[leaf] = 1
        for index in path.spatial_loops:
            level = path.loops[index].level
            used[leaf] *= path.loops[index].iterations if level is not None and level <= place else 1
    return used


def compared(statistics: Path) -> tuple[list[Path], Reference, Workings]:
    """A run's files, its statistics, and our evaluation. Raises ValueError or EinmapError where there is none."""
    reference = read_statistics(statistics.read_text())
    problem: Exception = ValueError("no files that it was made from")
    best: tuple[list[Path], Reference, Workings] | None = None
    for files in inputs_of(statistics):
        try:
            found = files, reference, evaluated(files)
        except (EinmapError, ValueError) as error:
            problem = error
            continue
        if best is None or len(differences(reference, found[2])[1]) < len(differences(reference, best[2])[1]):
            best = found
        if _has_loops(reference, found[2]):
            return found
    if best is None or not _is_from_statistics(best[0]):
        raise problem if best is None else ValueError("no mapping has the loops of the statistics")
    return best


def _is_from_statistics(files: Sequence[Path]) -> bool:
    return any(path.name.endswith((".map.txt", ".map.yaml", "input.yaml")) for path in files)


def _has_loops(reference: Reference, workings: Workings) -> bool:
    """Whether the statistics print the loops in time that a mapping has."""
    (name,) = workings.order
    ours = [(loop.variable, loop.iterations) for loop in workings.paths[name].loops if not loop.is_spatial]
    theirs = [
        (d.lower(), n) for level in reversed(reference.levels) for d, n, axis in level.loops if not axis and n > 1
    ]
    return theirs == [loop for loop in ours if loop[1] > 1]


def row_of(statistics: Path, clone: Path) -> str:
    """A line of the table."""
    shown = statistics.relative_to(clone).parent.as_posix()
    try:
        _, reference, workings = compared(statistics)
        n, found = differences(reference, workings)
    except (EinmapError, ValueError) as error:
        return f"| {shown} | - | {str(error).splitlines()[0]} |"
    differing = "; ".join(f"{one.what} {one.theirs:g}, here {one.ours:g}" for one in found[:6])
    more = f"; and {len(found) - 6} more" if len(found) > 6 else ""
    return f"| {shown} | {n - len(found)} of {n} | {differing}{more} |"


def main() -> None:
    """Print the table of a clone."""
    clone = Path(sys.argv[1])
    part = sys.argv[2] if len(sys.argv) > 2 else ""
    print("| reference output | counts that agree | those that differ |\n|---|---|---|")
    for statistics in sorted(clone.rglob("*.stats.txt")):
        if part in statistics.as_posix():
            print(row_of(statistics, clone), flush=True)


if __name__ == "__main__":
    main()
