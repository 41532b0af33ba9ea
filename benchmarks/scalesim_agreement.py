"""SCALE-Sim 3.0.0 on random layers, and einmap on the same files: cycles, and accesses of buffers and main memory.

`--python` is an interpreter that has SCALE-Sim (`pip install scalesim==3.0.0 'numpy<2.4'`) beside
nothing else.
"""

from __future__ import annotations

import argparse
import csv
import random
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import einmap
from einmap.frontends.scalesim.read import read

CONFIG = """[general]
run_name = run
[architecture_presets]
ArrayHeight: {rows}
ArrayWidth: {columns}
IfmapSramSzkB: {kilobytes}
FilterSramSzkB: {kilobytes}
OfmapSramSzkB: {kilobytes}
IfmapOffset: 0
FilterOffset: 10000000
OfmapOffset: 20000000
Bandwidth: 10
Dataflow: {dataflow}
MemoryBanks: 1
ReadRequestBuffer: 32
WriteRequestBuffer: 32
[layout]
IfmapCustomLayout: False
IfmapSRAMBankBandwidth: 10
IfmapSRAMBankNum: 10
IfmapSRAMBankPort: 2
FilterCustomLayout: False
FilterSRAMBankBandwidth: 10
FilterSRAMBankNum: 10
FilterSRAMBankPort: 2
[sparsity]
SparsitySupport: false
SparseRep: ellpack_block
OptimizedMapping: false
BlockSize: 8
RandomNumberGeneratorSeed: 40
[run_presets]
InterfaceBandwidth: CALC
UseRamulatorTrace: False
"""
COUNTS = {
    "SRAM IFMAP Reads": ("IfmapSram", "I_{}", "read"),
    "SRAM Filter Reads": ("FilterSram", "W_{}", "read"),
    "SRAM OFMAP Writes": ("OfmapSram", "{}", "write"),
    "DRAM IFMAP Reads": ("DRAM", "I_{}", "read"),
    "DRAM Filter Reads": ("DRAM", "W_{}", "read"),
    "DRAM OFMAP Writes": ("DRAM", "{}", "write"),
}
TRUE, CYCLES = "cycles, plus one a layer", "Total Cycles"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", required=True)
    parser.add_argument("--files", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    rng = random.Random(args.seed)
    equal: Counter[str] = Counter()
    layers = 0
    for _ in range(args.files):
        with tempfile.TemporaryDirectory() as name:
            for ours, theirs in compared(Path(name), rng, args.python):
                layers += 1
                equal.update(key for key in ours if ours[key] == theirs[key])
    print(f"of {layers} layers equal")
    for key in (CYCLES, *COUNTS):
        print(f"  {TRUE if key == CYCLES else key:<26} {equal[key]}")


def compared(folder: Path, rng: random.Random, python: str) -> Iterator[tuple[dict[str, float], dict[str, float]]]:
    """The figures of einmap and of SCALE-Sim for each layer of a random topology on a random array."""
    is_conv = rng.random() < 0.5
    rows = [[f"l{i}", *(convolution(rng) if is_conv else [rng.randint(1, 40) for _ in range(3)])] for i in range(3)]
    sizes = {"rows": rng.choice([1, 2, 3, 4, 8, 16]), "columns": rng.choice([1, 2, 5, 8, 16])}
    text = CONFIG.format(**sizes, kilobytes=rng.choice([1, 1, 2, 4]), dataflow=rng.choice(["os", "ws", "is"]))
    (folder / "run.cfg").write_text(text)
    (folder / "net.csv").write_text("header,\n" + "".join(f"{', '.join(map(str, row))},\n" for row in rows))
    (folder / "layout.csv").write_text("header,\n" + "".join(f"{row[0]}, 1, 1, 1, 1, 1, 1, 1, 1,\n" for row in rows))
    command = f"-m scalesim.scale -c run.cfg -t net.csv -l layout.csv -i {'conv' if is_conv else 'gemm'} -s N -p out"
    subprocess.run([python, *command.split()], cwd=folder, capture_output=True, check=True)
    reports = [table(folder / "out" / "run" / f"{name}_REPORT.csv") for name in ("COMPUTE", "DETAILED_ACCESS")]
    result = read([folder / "run.cfg", folder / "net.csv"], define={}, root=(), bits=None)
    cost = einmap.evaluate(einmap.loads("\n".join(result.files.values())))
    counts = cost.count_by("einsum", "component", "tensor", "action")
    for row, *reported in zip(rows, *reports, strict=True):
        layer = str(row[0])
        ours = {CYCLES: round(cost.latency_by_einsum[layer] * 1e9) - 1.0}
        for key, (component, tensor, action) in COUNTS.items():
            ours[key] = counts.get((layer, component, tensor.format(layer), action), 0) / 8
        yield ours, {key: figure for part in reported for key, figure in part.items()}


def convolution(rng: random.Random) -> list[int]:
    height, width = rng.randint(1, 3), rng.randint(1, 3)
    area = [rng.randint(height, 9), rng.randint(width, 9), height, width]
    return [*area, rng.randint(1, 5), rng.randint(1, 20), rng.randint(1, 2)]


def table(path: Path) -> list[dict[str, float]]:
    head, *rows = csv.reader(path.read_text().splitlines())
    names = [name.strip() for name in head]
    return [
        {name: float(cell) for name, cell in zip(names, row, strict=False) if name and cell.strip()} for row in rows
    ]


if __name__ == "__main__":
    main()
