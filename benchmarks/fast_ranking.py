"""Whether the mapping that the model likes best runs fastest: mappings from all over the mapspace as fast C, timed.

    einmap machine --this-cpu -o cpu.yaml
    python benchmarks/fast_ranking.py cpu.yaml [NAME ...] [--mappings 200] [--keep times.json]
    python benchmarks/fast_ranking.py cpu.yaml [NAME ...] --kept times.json [--again]

Valid mappings of a workload are drawn uniformly; of these some are taken at even steps of the logarithm of predicted
time, from the fastest to the slowest, and with them the one that `einmap bench` would run. All are compiled, checked
exactly, and run in turn on one core, each twice on the same arrays, of which the second, warm run counts, in processor
time of the thread, medians. Spearman's rank correlation of the model
(waits, and the busiest component alone), and of the time that is predicted from the emitted nest (`bench.predict`),
with what was measured, also without the waits of each component; regret: the measured time of the mapping that is put
first, above the least measured. `--keep` writes mappings and their times; `--kept` judges such a file with what the
predictors say now, without measuring. `--again` measures regrets alone, in turn and often: of what the time from the
nest puts first of the kept mappings, and of the mapping that `einmap bench` finds now, above the fastest of both and of
the six that were fastest when they were kept.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import einmap
from einmap.bench.compiler import Library, aligned, compiler_at_hand
from einmap.bench.predict import core_of, predicted
from einmap.bench.search import mapped
from einmap.bench.timing import pinned
from einmap.bench.values import by_numpy, inputs_of
from einmap.emit.fast.fast_c import fast_nest, text_of
from einmap.errors import EinmapError
from einmap.mapping.pretty import pretty
from einmap.progress import Progress
from einmap.search.problem import problem_of
from einmap.spec.spec import Spec

MATMUL = "Z[m, n] = A[m, k] * B[k, n]"
IMAGE = "O[p, q, c] = I[H: p + r, W: q + s, e] * F[r, s, e, c]"
WORKLOADS = {
    "square": (MATMUL, {"M": 256, "K": 256, "N": 256}, 32),
    "double": (MATMUL, {"M": 192, "K": 192, "N": 192}, 64),
    "long": (MATMUL, {"M": 64, "K": 4096, "N": 64}, 32),
    "flat": (MATMUL, {"M": 768, "K": 16, "N": 768}, 32),
    "batch": ("Z[b, m, n] = A[b, m, k] * B[b, k, n]", {"B": 16, "M": 96, "K": 96, "N": 96}, 32),
    "conv": (IMAGE, {"P": 28, "Q": 28, "R": 3, "S": 3, "E": 32, "C": 64, "H": 30, "W": 30}, 32),
    "pointwise": ("O[p, q, c] = I[p, q, e] * F[e, c]", {"P": 28, "Q": 28, "E": 128, "C": 128}, 32),
    "depthwise": (
        "O[p, q, c] = I[H: p + r, W: q + s, c] * F[r, s, c]",
        {"P": 56, "Q": 56, "R": 3, "S": 3, "C": 128, "H": 58, "W": 58},
        32,
    ),
}
DRAWN = 20_000
"""Points that are drawn, of which those that fit are kept."""
ROUNDS = 5
AGAIN = 25, 6
"""Rounds, and how many of the fastest mappings, where regrets alone are measured."""
CUT = 1.0
"""Seconds of a first run above which a mapping is left out."""


def spec_of(cpu: Path, name: str) -> Spec:
    einsum, sizes, bits = WORKLOADS[name]
    workload = {"einsums": [einsum], "rank_sizes": sizes, "bits_per_value": {"All": bits}}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, f"{name}.yaml")
        file.write_text(json.dumps({"workload": workload}))
        return einmap.load([cpu, file])


def sampled(spec: Spec, count: int) -> Iterator[tuple[Spec, float, float]]:
    """Mappings that fast code can be emitted for, with predicted s: all waits, and the busiest component alone."""
    problem = problem_of(spec, metrics="energy")
    points = problem.space.draw(np.random.default_rng(0), DRAWN)
    costs = problem.costs(points)
    rows = np.flatnonzero(costs.fits)
    rows = rows[np.argsort(costs.energy[rows], kind="stable")]
    times = np.log(costs.energy[rows])
    print(f"  {len(rows)} of {DRAWN} draws fit, {np.exp(times[0]):.3g} to {np.exp(times[-1]):.3g} s predicted")
    free, found = np.ones(len(rows), dtype=bool), 0
    for goal in np.random.default_rng(1).permutation(np.linspace(times[0], times[-1], 2 * count)):
        nearest = np.flatnonzero(free)[np.abs(times[free] - goal).argmin()] if free.any() else None
        if nearest is None or found == count:
            return
        free[nearest] = False
        row = rows[nearest]
        mapped = spec.with_mapping(problem.space.decode(points[row]))
        try:
            fast_nest(mapped)
        except EinmapError:
            continue
        found += 1
        yield mapped, float(costs.energy[row]), float(costs.latency[row])


def best_of(spec: Spec) -> Spec:
    """The mapping that `einmap bench` runs."""
    return mapped(spec, 10, {}, Progress())


def ranks(values: np.ndarray) -> np.ndarray:
    """Ranks, the mean of them where values are equal."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    return ((ends - counts + ends - 1) / 2)[inverse]


def spearman(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.corrcoef(ranks(a), ranks(b))[0, 1])


def timed(cpu: Path, name: str, count: int) -> list[dict]:
    """Mappings with predicted and measured s: first the one that `einmap bench` runs, then those that are drawn."""
    spec = spec_of(cpu, name)
    best = best_of(spec)
    cost = einmap.evaluate(best)
    rows = [(best, cost.energy, cost.latency), *sampled(spec, count)]
    with tempfile.TemporaryDirectory() as folder, pinned(1):
        nest = fast_nest(best)
        dtype = np.dtype({"float": np.float32, "double": np.float64}[nest.real])
        # the same arrays for all: caches hold them from run to run
        inputs, out = inputs_of(nest.einsum, nest.shapes, dtype), aligned(nest.shapes[nest.output], dtype)
        arrays, expected = [*inputs.values(), out], by_numpy(nest.einsum, inputs)
        runs = []
        for number, (mapped, waits, busiest) in enumerate(rows):
            nest = fast_nest(mapped)
            place = Path(folder, str(number))
            place.mkdir()
            library = Library(text_of(nest), place, compiler_at_hand())
            out[...] = np.nan
            first = once(library, arrays)
            if not np.array_equal(out, expected):
                raise SystemExit(f"{name}: wrong values of\n{mapped.mapping}")
            if first < CUT:
                known = {"mapping": mapped.to_dict()["mapping"], "waits": waits, "busiest": busiest}
                runs.append((library, known))
        found = np.array([[warm(library, arrays) for library, _ in runs] for _ in range(ROUNDS)])
    medians = np.median(found, axis=0)
    return [run[1] | {"measured": float(seconds)} for run, seconds in zip(runs, medians, strict=True)]


def judged(cpu: Path, name: str, kept: list[dict]) -> None:
    spec = spec_of(cpu, name)
    runs = [(row["waits"], row["busiest"], spec.set("mapping", row["mapping"])) for row in kept]
    report(runs, np.array([row["measured"] for row in kept]))


def again(cpu: Path, name: str, kept: list[dict]) -> None:
    """Regrets of few mappings by the medians of many runs in turn."""
    spec, (rounds, count) = spec_of(cpu, name), AGAIN
    specs = [spec.set("mapping", row["mapping"]) for row in kept]
    nests = [fast_nest(mapped) for mapped in specs]
    core = core_of(specs[0], nests[0])
    by_nest = [predicted(nest, core).seconds for nest in nests]
    fastest = sorted(range(len(kept)), key=lambda row: kept[row]["measured"])[:count]
    few = [best_of(spec), specs[int(np.argmin(by_nest))], *(specs[row] for row in fastest)]
    with tempfile.TemporaryDirectory() as folder, pinned(1):
        dtype = np.dtype({"float": np.float32, "double": np.float64}[nests[0].real])
        inputs, out = (
            inputs_of(nests[0].einsum, nests[0].shapes, dtype),
            aligned(nests[0].shapes[nests[0].output], dtype),
        )
        arrays, expected, libraries = [*inputs.values(), out], by_numpy(nests[0].einsum, inputs), []
        for number, mapped_spec in enumerate(few):
            place = Path(folder, str(number))
            place.mkdir()
            libraries.append(Library(text_of(fast_nest(mapped_spec)), place, compiler_at_hand()))
            out[...] = np.nan
            libraries[-1](arrays)
            if not np.array_equal(out, expected):
                raise SystemExit(f"{name}: wrong values of\n{mapped_spec.mapping}")
        found = np.median([[warm(library, arrays) for library in libraries] for _ in range(rounds)], axis=0)
    mappers, first = found[:2] / found.min() - 1
    shown = ", ".join(f"{1e6 * seconds:.1f}" for seconds in found)
    print(f"  regret of the mapper's {mappers:.1%}, of the first from the nest {first:.1%}; us: {shown}", flush=True)


def once(library: Library, arrays: list) -> float:
    start = time.thread_time()
    library(arrays)
    return time.thread_time() - start


def warm(library: Library, arrays: list) -> float:
    """Seconds of a run straight after another one."""
    library(arrays)
    return once(library, arrays)


def report(runs: list, measured: np.ndarray) -> None:
    waits, busiest = (np.array([run[place] for run in runs]) for place in (0, 1))
    first, drawn = int(waits.argmin()), int(waits[1:].argmin()) + 1
    least, upper = measured.min(), measured <= np.median(measured)
    first_regret, mappers, of_drawn = (measured[row] / least - 1 for row in (first, 0, drawn))
    print(
        f"  {len(measured)} mappings, {least:.3g} to {measured.max():.3g} s measured; Spearman of waits "
        f"{spearman(waits, measured):.3f}, of the busiest component {spearman(busiest, measured):.3f}, "
        f"of waits in the faster half {spearman(waits[upper], measured[upper]):.3f}\n"
        f"  regret of the model's first {first_regret:.1%}, of the mapper's {mappers:.1%}, of the first that was drawn "
        f"{of_drawn:.1%}"
    )
    parts: dict[str, np.ndarray] = {}
    for row, run in enumerate(runs):
        for action in einmap.evaluate(run[2]).actions:
            parts.setdefault(action.component, np.zeros(len(runs)))[row] += action.energy
    for component, part in sorted(parts.items()):
        print(
            f"  {component}: {np.median(part / waits):.0%} of the waits at the median; Spearman without it "
            f"{spearman(waits - part, measured):.3f}"
        )
    nests = [fast_nest(run[2]) for run in runs]
    core = core_of(runs[0][2], nests[0])
    if core is None:
        raise SystemExit("the architecture lacks rates or sizes: write it with einmap machine --this-cpu")
    by_nest = np.array([predicted(nest, core).seconds for nest in nests])
    drawn = int(by_nest[1:].argmin()) + 1
    print(
        f"  predicted from the nest: Spearman {spearman(by_nest, measured):.3f}, in the faster half "
        f"{spearman(by_nest[upper], measured[upper]):.3f}; regret of its first "
        f"{measured[by_nest.argmin()] / least - 1:.1%}, of the first that was drawn {measured[drawn] / least - 1:.1%}; "
        f"measured / predicted: median {np.median(measured / by_nest):.2f}, quartiles "
        f"{np.quantile(measured / by_nest, 0.25):.2f} and {np.quantile(measured / by_nest, 0.75):.2f}"
    )
    ratio = measured / waits
    for title, row in (("fastest", measured.argmin()), ("slower than predicted", ratio.argmax())):
        print(f"  {title}: {measured[row]:.3g} s, predicted {waits[row]:.3g} s, factor {ratio[row]:.2f}")
        print("    " + pretty(runs[row][2].mapping).replace("\n", "\n    "))
    print(f"  measured / predicted: median {np.median(ratio):.2f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cpu", type=Path)
    parser.add_argument("names", nargs="*", default=list(WORKLOADS))
    parser.add_argument("--mappings", type=int, default=200)
    files = parser.add_mutually_exclusive_group()
    files.add_argument("--keep", type=Path, help="write mappings and times here")
    files.add_argument("--kept", type=Path, help="judge these instead of measuring")
    parser.add_argument("--again", action="store_true", help="measure regrets of the kept mappings alone")
    options = parser.parse_args()
    found = json.loads(options.kept.read_text()) if options.kept else {}
    for name in options.names:
        print(name, flush=True)
        begun = time.perf_counter()
        if not options.kept:
            found[name] = timed(options.cpu, name, options.mappings)
        (again if options.again and options.kept else judged)(options.cpu, name, found[name])
        print(f"  {time.perf_counter() - begun:.0f} s", flush=True)
        if options.keep:
            options.keep.write_text(json.dumps(found))


main()
