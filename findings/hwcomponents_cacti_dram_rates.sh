#!/bin/bash
# hwcomponents-cacti 1.0.40 (with hwcomponents 1.0.114): the throughput of its DRAM classes is bits a second of one
# data pin, taken as actions of `width` bits a second, in numbers that mix MiB, Mbit and bytes. So of six classes one
# has a rate of the memory that it is called after:
#
#   class    bit/s of a pin    the standard has               a bit takes, on the class's default bus
#   LPDDR      0.00655e9       0.2 to 0.533e9 (JESD209)       2.38 ns     31 times too slow
#   LPDDR4     0.0524e9        1.6 to 4.27e9 (JESD209-4)      298 ps      31 times too slow
#   DDR3       0.0349e9        0.8 to 2.13e9 (JESD79-3)       447 ps      23 times too slow
#   HBM2       2.58e9          2.4e9 (JESD235)                0.19 ps     right
#   HBM3       55.0e9          6.4e9 (JESD238)                8.9 fs      8.6 times too fast
#   HBM4       68.7e9          8e9 (JESD270-4)                3.6 fs      8.6 times too fast
# Energies are as published. Exit status 1 if that changes.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.12}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q "hwcomponents==1.0.114" "hwcomponents-cacti==1.0.40"
"$folder/venv/bin/python" - <<'END'
import hwcomponents_cacti

seen = {"LPDDR": 0.00655e9, "LPDDR4": 0.0524e9, "DDR3": 0.0349e9, "HBM2": 2.58e9, "HBM3": 55.0e9, "HBM4": 68.7e9}
changed = []
for name, rate in seen.items():
    memory = getattr(hwcomponents_cacti, name)()
    action = memory.read()
    print(f"{name:7} {action.throughput:.3g} bit/s of a pin, {1 / action.throughput / memory.width:.3g} s a bit of {memory.width}")
    if abs(action.throughput / rate - 1) > 0.01:
        changed.append(name)
raise SystemExit(bool(changed))
END
