"""Searches of arrays below a network, by topology and number of lanes: processor time and proof, a process for each.

A matrix product or a convolution on `DRAM - buffer - network - registers of N x N lanes - MAC`, tensors shared by the
lanes of both fanouts; hops take energy, time and a link each. With `--units N` the buffer is in the array: N x N units.

    python benchmarks/mapper_topologies.py [--seconds 60] [--lanes 8 16 32] [--units 4]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys

ARCH = """
arch:
  nodes:
  - !Memory {{name: DRAM, size: inf, leak_power: 0, area: 0, tensors: {{keep: All}},
             actions: [{{name: read, energy: 100, throughput: 16}}, {{name: write, energy: 100, throughput: 16}}]}}
  - !Memory {{name: Buffer, size: 1000000, leak_power: 0, area: 0, tensors: {{keep: All}},
             actions: [{{name: read, energy: 6, throughput: 64}}, {{name: write, energy: 6, throughput: 64}}]}}
  - !Network {{name: Noc, topology: {topology}, leak_power: 0, area: 0,
              actions: [{{name: hop, energy: 0.5, latency: 1, throughput: 4}}]}}
  - !Memory {{name: Registers, size: 512, leak_power: 0, area: 0, tensors: {{keep: All}},
             spatial: [{{name: X, fanout: {lanes}, may_reuse: All}}, {{name: Y, fanout: {lanes}, may_reuse: All}}],
             actions: [{{name: read, energy: 1, throughput: inf}}, {{name: write, energy: 1, throughput: inf}}]}}
  - !Compute {{name: MAC, leak_power: 0, area: 0, actions: [{{name: compute, energy: 1, throughput: 1}}]}}
workload:
  bits_per_value: {{All: 8}}
"""
OF_UNITS = """
arch:
  nodes:
  - !Memory {{name: DRAM, size: inf, leak_power: 0, area: 0, tensors: {{keep: All}},
             actions: [{{name: read, energy: 100, throughput: 16}}, {{name: write, energy: 100, throughput: 16}}]}}
  - !Array
    name: PEs
    spatial: [{{name: X, fanout: {lanes}, may_reuse: All}}, {{name: Y, fanout: {lanes}, may_reuse: All}}]
    nodes:
    - !Memory {{name: Banks, size: 65536, leak_power: 0, area: 0, tensors: {{keep: All}},
               spatial: [{{name: X, fanout: {units}}}, {{name: Y, fanout: {units}}}],
               actions: [{{name: read, energy: 6, throughput: 64}}, {{name: write, energy: 6, throughput: 64}}]}}
    - !Network {{name: Noc, topology: {topology}, leak_power: 0, area: 0,
                actions: [{{name: hop, energy: 0.5, latency: 1, throughput: 4}}]}}
  - !Memory {{name: Registers, size: 512, leak_power: 0, area: 0, tensors: {{keep: All}},
             actions: [{{name: read, energy: 1, throughput: inf}}, {{name: write, energy: 1, throughput: inf}}]}}
  - !Compute {{name: MAC, leak_power: 0, area: 0, actions: [{{name: compute, energy: 1, throughput: 1}}]}}
workload:
  bits_per_value: {{All: 8}}
"""
WORKLOADS = {
    "matmul": """
  iteration_space_shape: {m: 0 <= m < 256, n: 0 <= n < 256, k: 0 <= k < 256}
  einsums: ["Z[m, n] = A[m, k] * B[k, n]"]
""",
    "conv": """
  iteration_space_shape: {m: 0 <= m < 64, c: 0 <= c < 64, p: 0 <= p < 28, q: 0 <= q < 28, r: 0 <= r < 3, s: 0 <= s < 3}
  einsums: ["Z[m, p, q] = A[c, H: p + r, W: q + s] * B[m, c, r, s]"]
""",
}
CHILD = """
import json, sys, time
import einmap
from einmap.mapper.warm import warm
text, metric, seconds = json.load(sys.stdin)
spec = einmap.loads(text)
warm()
cpu = time.process_time()
found = einmap.map_workload(spec, metrics=metric, time_limit_s=seconds)
stats = found.stats.by_einsum["Z"]
print(json.dumps([time.process_time() - cpu, found.optimal, found.gap, stats["lanes"]]))
"""
TOPOLOGIES = ("mesh", "all_to_all", "bus", "torus", "ring", "systolic", "tree")


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--lanes", type=int, nargs="+", default=[8, 16])
    parser.add_argument("--topologies", nargs="+", default=list(TOPOLOGIES))
    parser.add_argument("--workloads", nargs="+", default=["matmul"])
    parser.add_argument("--units", type=int)
    given = parser.parse_args()
    arch = ARCH if given.units is None else OF_UNITS
    units = "" if given.units is None else f", {given.units} x {given.units} units"
    print("| workload, lanes, topology | uses of fanouts | energy, processor s | latency, processor s |")
    print("|---|---|---|---|")
    for workload in given.workloads:
        for lanes in given.lanes:
            for topology in given.topologies:
                text = arch.format(lanes=lanes, topology=topology, units=given.units) + WORKLOADS[workload]
                (uses, energy), (_, latency) = (searched(text, goal, given.seconds) for goal in ("energy", "latency"))
                name = f"{workload}, {lanes} x {lanes}{units}, {topology}"
                print(f"| {name} | {uses} | {energy} | {latency} |", flush=True)


def searched(text: str, goal: str, seconds: float) -> tuple[int, str]:
    """Uses of fanouts of one search, and its processor seconds, with the gap where nothing is proven."""
    asked = json.dumps([text, goal, seconds])
    done = subprocess.run([sys.executable, "-c", CHILD], input=asked, capture_output=True, text=True, check=True)
    cpu, optimal, gap, uses = json.loads(done.stdout)
    return uses, f"{cpu:.1f}" if optimal else f"{cpu:.1f}, gap {'unknown' if gap is None else f'{gap:.1%}'}"


if __name__ == "__main__":
    main()
