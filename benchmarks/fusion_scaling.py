"""The fused mapper on cascades that grow: chains of matrix products of all different sizes, and repeated GPT-3 layers.

Chains of 2 to 64 matrix products, no two of them alike, on three levels: seconds of the search for each Einsum, for
energy and for EDP. Some products are harder than others, so that the same 64 products are searched for each length: as
one chain of 64, two chains of 32, ...; the mean counts. Limit: linear, as an exponent of at most 1.1, of the time and
of the choices that the search looks at, which no machine changes. The first and the last product of a chain have one
neighbour instead of two and take less time, which makes short chains cheap. So what a chain of two takes is subtracted,
and what the products between the ends take is compared with their number; the exponent over the length is printed too.

A GPT-3 6.7B layer 1 to 32 times, each layer's output the next one's input, on the shipped `simple` and on an
Eyeriss-like architecture, for EDP: seconds of loading, search and reporting. Limits: 32 layers take less than 1.5 times
as long to search as one, and loading and reporting 30 ms more for each layer. At most one fused loop in an
Einsum of a layer (--max-fused-loops), no limit for the chains.

What grows is judged by processor time of the search, all threads: other users of a machine count less in it than in
the wall time, which stands beside it. Lengths take turns in small pieces: no machine is equally fast all the time.

Writes docs/images/fusion_scaling.svg if matplotlib is there (the extra `plots`) and nothing was left out.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from functools import partial
from itertools import count, islice
from pathlib import Path
from typing import Any

import einmap
from einmap.errors import NoMappingError
from einmap.frontends.yaml.spec import dump_mapping
from einmap.report.costs.cost_report import map_report

HERE = Path(__file__).parent
SPECS = HERE / "specs"
PICTURE = HERE.parent / "docs" / "images" / "fusion_scaling.svg"
LENGTHS = (2, 4, 8, 16, 32, 64)
LAYERS = (1, 2, 4, 8, 16, 32)
METRICS = {"energy": "energy", "EDP": "energy_delay_product"}
LEVELS = str(SPECS / "arch_3_levels.yaml")
DESIGNS = {"simple": "simple", "Eyeriss-like": str(SPECS / "eyeriss_like.yaml")}
PATIENCE = 120.0
"""Seconds after which a search is stopped."""
EXPONENT = 1.1
SEARCH = 1.5
PER_LAYER = 0.03
"""Seconds of loading and reporting."""


@dataclass(frozen=True)
class Times:
    """Seconds of the steps, `cpu`: processor time of the search; choices looked at; whether the result is proven."""

    load: float
    search: float
    cpu: float
    report: float
    looked: float = 0.0
    proven: bool = True


def chain(length: int, begin: int = 0) -> str:
    """Some of 64 matrix products in a row. All sizes differ, and have 16 divisors each."""
    with_16 = (n for n in count(64, 8) if sum(n % d == 0 for d in range(1, n + 1)) == 16)
    known = list(islice(with_16, LENGTHS[-1] + 1))
    sizes = [known[(begin + i) * 29 % len(known)] for i in range(length + 1)]
    ranks = ", ".join(f"N{i}: {size}" for i, size in enumerate(sizes))
    einsums = [
        (f"T{i + 1}[m, n{i + 1}] = T{i}[m, n{i}] * W{i}[n{i}, n{i + 1}]", f"T{i}", f"W{i}", f"T{i + 1}")
        for i in range(length)
    ]
    return workload(f"M: 512, {ranks}", einsums)


def begins(length: int) -> list[int]:
    """Where chains of a length begin that have all products between them."""
    return list(range(0, LENGTHS[-1] - length + 1, length))


def layers(n: int) -> str:
    """GPT-3 6.7B layers in a row, 9 Einsums each; their own weights."""
    einsums = []
    for i in range(n):
        x, y = f"X{i}", f"X{i + 1}"
        einsums += [
            (f"V{i}[p, h, f] = {x}[M: p, d] * WV{i}[d, h, f]", x, f"WV{i}", f"V{i}"),
            (f"K{i}[p, h, e] = {x}[M: p, d] * WK{i}[d, h, e]", x, f"WK{i}", f"K{i}"),
            (f"Q{i}[m, h, e] = {x}[m, d] * WQ{i}[d, h, e]", x, f"WQ{i}", f"Q{i}"),
            (f"QK{i}[m, p, h] = Q{i}[m, h, e] * K{i}[p, h, e]", f"Q{i}", f"K{i}", f"QK{i}"),
            (f"S{i}[m, p, h] = QK{i}[m, p, h]", f"QK{i}", "Nothing", f"S{i}"),
            (f"AV{i}[m, h, f] = S{i}[m, p, h] * V{i}[p, h, f]", f"S{i}", f"V{i}", f"AV{i}"),
            (f"Z{i}[m, g] = AV{i}[m, h, f] * WZ{i}[h, f, g]", f"AV{i}", f"WZ{i}", f"Z{i}"),
            (f"A{i}[m, s] = Z{i}[m, g] * WA{i}[g, s]", f"Z{i}", f"WA{i}", f"A{i}"),
            (f"{y}[m, d] = A{i}[m, s] * WB{i}[s, d]", f"A{i}", f"WB{i}", y),
        ]
    return workload("M: 2048, P: 2048, H: 32, E: 128, F: 128, D: 4096, G: 4096, S: 16384", einsums)


def workload(rank_sizes: str, einsums: Sequence[tuple[str, str, str, str]]) -> str:
    """YAML of Einsums, each with what plays the part of its input, weight and output; 8-bit values."""
    lines = ["workload:", f"  rank_sizes: {{{rank_sizes}}}", "  bits_per_value: {All: 8}", "  einsums:"]
    for text, *parts in einsums:
        names = ", ".join(
            f"{name}: {tensor}" for name, tensor in zip(("input", "weight", "output"), parts, strict=True)
        )
        lines += [f'  - einsum: "{text}"', f"    renames: {{{names}}}"]
    return "\n".join(lines) + "\n"


def together(all_times: Sequence[Times], how: Callable[[Iterator[float]], float]) -> Times:
    """Means or least values of several runs; proven if all are."""
    steps = (how(getattr(times, f.name) for times in all_times) for f in fields(Times)[:5])
    return Times(*steps, proven=all(times.proven for times in all_times))


def once(arch: str, text: str, metric: str, options: dict[str, Any]) -> Times:
    """One run in this process."""
    with tempfile.TemporaryDirectory() as scratch:
        file = Path(scratch) / "workload.yaml"
        file.write_text(text)
        return timed(arch, file, metric, options)


def timed(arch: str, file: Path, metric: str, options: dict[str, Any]) -> Times:
    """One run of files that are there."""
    start = time.perf_counter()
    spec = einmap.load(arch, file, define={"INSIDE": 1})
    assert spec.bound
    loaded, cpu = time.perf_counter(), time.process_time()
    try:
        # a limit of time has each Einsum mapped by itself first, which is not to be measured where none is needed
        limit = None if "max_fused_loops" in options else PATIENCE
        result = einmap.map_workload(spec, metrics=metric, time_limit_s=limit, **options)
    except NoMappingError:  # nothing in time
        return Times(loaded - start, time.perf_counter() - loaded, time.process_time() - cpu, 0.0, proven=False)
    found, cpu = time.perf_counter(), time.process_time() - cpu
    map_report(result, spec, 120)
    dump_mapping(result.mapping)
    end = time.perf_counter()
    return Times(loaded - start, found - loaded, cpu, end - found, result.stats.evaluated, result.optimal)


def rows(
    what: str, problems: dict[int, list[Callable[[], Times]]], each: Callable[[int], int], repeats: int
) -> dict[int, Times]:
    """Measure and print one series: for each size the mean of its problems. `each`: Einsums of a size.

    All sizes take turns, and the best run of each problem counts: a machine is not equally fast all the time.
    """
    runs: dict[int, list[list[Times]]] = {size: [[] for _ in own] for size, own in problems.items()}
    turns = sorted((i / len(own), size, i) for size, own in problems.items() for i in range(len(own)))
    for _ in range(repeats):
        for _, size, i in turns:
            runs[size][i].append(problems[size][i]())
    titles = "load, s", "search, s", "cpu, s", "report, s", "ms/Einsum", "choices"
    print(f"\n{what:34}" + "".join(f"{title:>10}" for title in titles))
    series = {}
    for size, own in runs.items():
        times = series[size] = together([together(of_one, min) for of_one in own], statistics.fmean)
        per = times.cpu / each(size) * 1e3
        proven = "" if times.proven else "  NOT PROVEN"
        print(f"{f'{size:3}, {each(size)} Einsums':34} {times.load:9.3f} {times.search:9.3f} {times.cpu:9.3f} "
              f"{times.report:9.3f} {per:9.1f} {times.looked / each(size):9,.0f}{proven}", flush=True)  # fmt: skip
    return series


def exponent(values: dict[int, float]) -> float:
    """Slope of something over the size where both are logarithms, by least squares."""
    points = [(math.log(n), math.log(value)) for n, value in values.items()]
    return statistics.linear_regression(*zip(*points, strict=True)).slope


def chain_failures(name: str, series: dict[int, Times]) -> list[str]:
    long = {n: times for n, times in series.items() if n >= 4}
    if len(long) < 2 or 2 not in series:
        return []
    ends, found = series[2], []
    for what in ("cpu", "looked"):
        whole = exponent({n: getattr(times, what) for n, times in long.items()})
        own = exponent({n - 2: getattr(times, what) - getattr(ends, what) for n, times in long.items()})
        print(f"{'time' if what == 'cpu' else 'choices'}: with the length to the power of {whole:.2f}, "
              f"between the ends {own:.2f} (limit {EXPONENT})")  # fmt: skip
        found += [f"{name}: not linear, {what} {own:.2f}"] if own > EXPONENT else []
    return found


def layer_failures(name: str, series: dict[int, Times]) -> list[str]:
    (least, first), (most, last) = min(series.items()), max(series.items())
    if least == most:
        return []
    ratio, more = last.cpu / first.cpu, most - least
    around = (last.load + last.report - first.load - first.report) / more
    print(f"search: {most} layers {ratio:.2f} times as long as {least} (limit {SEARCH}); "
          f"loading and reporting {around * 1e3:.0f} ms a layer (limit {PER_LAYER * 1e3:.0f})")  # fmt: skip
    found = [f"{name}: search of {most} layers {ratio:.2f} times as long"] if ratio >= SEARCH else []
    return found + ([f"{name}: loading and reporting {around * 1e3:.0f} ms a layer"] if around > PER_LAYER else [])


def plot(chains: dict[str, dict[int, Times]], repeated: dict[str, dict[int, Times]]) -> None:
    """Both figures side by side."""
    try:
        import matplotlib
    except ImportError:
        print("no picture: matplotlib is not installed")
        return
    matplotlib.use("svg")
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(10, 4), layout="constrained")
    for name, series in chains.items():
        left.plot(list(series), [t.cpu for t in series.values()], "o-", label=f"search for {name}")
    sizes = list(next(iter(chains.values())))
    begin = min(series[sizes[0]].cpu for series in chains.values())
    left.plot(sizes, [begin * n / sizes[0] for n in sizes], ":", color="grey", label="linear")
    left.set(title="Matrix products in a row, all different", xlabel="Einsums", ylabel="processor seconds")
    for name, series in repeated.items():
        around = [t.load + t.report for t in series.values()]
        (line,) = right.plot(list(series), [t.cpu for t in series.values()], "o-", label=f"search, {name}")
        right.plot(list(series), around, "s--", color=line.get_color(), label=f"loading and reporting, {name}")
    right.set(title="GPT-3 6.7B layers, 9 Einsums each", xlabel="layers", ylabel="processor seconds")
    for axes in (left, right):
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.xaxis.set_major_formatter("{x:.0f}")
        axes.grid(alpha=0.3)
        axes.legend(fontsize="small", loc="upper left" if axes is left else "lower right")
    right.set_ylim(bottom=0.01)  # room for what the lines are
    PICTURE.parent.mkdir(exist_ok=True)
    figure.savefig(PICTURE, metadata={"Date": None})
    print(f"wrote {PICTURE.relative_to(HERE.parent)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lengths", type=int, nargs="*", default=LENGTHS, metavar="N", help="of the chains")
    parser.add_argument("--layers", type=int, nargs="*", default=LAYERS, metavar="N", help="how often layers repeat")
    parser.add_argument("--designs", nargs="*", default=list(DESIGNS), choices=DESIGNS, help="for the layers")
    parser.add_argument("--metrics", nargs="*", default=list(METRICS), choices=METRICS, help="for the chains")
    parser.add_argument("--max-fused-loops", type=int, default=1, metavar="N", help="for the layers")
    parser.add_argument("--repeats", type=int, default=3, metavar="N", help="runs of each")
    parser.add_argument("--workers", type=int, metavar="N", help="threads; default: as many as there are processors")
    args = parser.parse_args()
    threads = {} if args.workers is None else {"workers": args.workers}
    options = {"max_fused_loops": args.max_fused_loops, **threads}
    print(f"# load averages {', '.join(f'{x:.1f}' for x in os.getloadavg())}")
    einmap.map_workload(einmap.load("simple", "matmul_chain"))  # from here on the kernels are loaded
    failures, chains, repeated = [], {}, {}
    for name in args.metrics if args.lengths else ():
        metric = METRICS[name]
        products = {
            n: [partial(once, LEVELS, chain(n, begin), metric, threads) for begin in begins(n)] for n in args.lengths
        }
        chains[name] = rows(f"matrix products, {name}", products, lambda n: n, args.repeats)
        failures += chain_failures(name, chains[name])
    for name in args.designs if args.layers else ():
        networks = {n: [partial(once, DESIGNS[name], layers(n), METRICS["EDP"], options)] for n in args.layers}
        repeated[name] = rows(f"GPT-3 6.7B layers, {name}, EDP", networks, lambda n: 9 * n, args.repeats)
        failures += layer_failures(name, repeated[name])
    everything = {**chains, **repeated}
    failures += [
        f"{name}: not proven" for name, series in everything.items() if not all(t.proven for t in series.values())
    ]
    for failure in failures:
        print(f"FAILED {failure}")
    if (tuple(args.lengths), tuple(args.layers), len(everything)) == (LENGTHS, LAYERS, len(METRICS) + len(DESIGNS)):
        plot(chains, repeated)
    print(f"# load averages {', '.join(f'{x:.1f}' for x in os.getloadavg())}")
    raise SystemExit(bool(failures))


if __name__ == "__main__":
    main()
