#!/bin/bash
# SCALE-Sim 3.0.0 (PyPI `scalesim`): a convolution whose name contains "DP" is taken for a depth-wise one: each input
# channel becomes a layer of its own, "<name>Channel_<i>", with one channel and all filters of the line. So a usual layer
# of a dual-path network ("DPN98_conv") is split, and costs more cycles than the same line under another name; and a true
# depth-wise layer with C channels must be written with one filter, not with C.
#
# 10 x 10 inputs, 3 x 3 kernels, 4 channels, 8 filters on 8 x 8 units, output-stationary, seen ("Total Cycles"):
#   named stem  one layer of 399 cycles
#   named DPN   four layers of 183 cycles each, 732 in all
# Exit status 1 if that changes.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install -q "scalesim==3.0.0" "numpy<2.4"
printf 'Layer, IH, IW, FH, FW, C, N, S, Sparsity,\nstem, 10, 10, 3, 3, 4, 8, 1, 1:1,\nDPN, 10, 10, 3, 3, 4, 8, 1, 1:1,\n' > conv.csv
printf 'Layer, a, b, c, d, e, f, g, h,\nstem, 1, 1, 1, 1, 4, 1, 1, 1,\nDPN, 1, 1, 1, 1, 4, 1, 1, 1,\n' > layout.csv
BANDWIDTH=100 BANK=10 MODE=CALC
cat > run.cfg <<END
[general]
run_name = run
[architecture_presets]
ArrayHeight: 8
ArrayWidth: 8
IfmapSramSzkB: 64
FilterSramSzkB: 64
OfmapSramSzkB: 64
IfmapOffset: 0
FilterOffset: 10000000
OfmapOffset: 20000000
Bandwidth: $BANDWIDTH
Dataflow: os
MemoryBanks: 1
ReadRequestBuffer: 32
WriteRequestBuffer: 32
[layout]
IfmapCustomLayout: False
IfmapSRAMBankBandwidth: $BANK
IfmapSRAMBankNum: 10
IfmapSRAMBankPort: 2
FilterCustomLayout: False
FilterSRAMBankBandwidth: $BANK
FilterSRAMBankNum: 10
FilterSRAMBankPort: 2
[sparsity]
SparsitySupport: false
SparseRep: ellpack_block
OptimizedMapping: false
BlockSize: 8
RandomNumberGeneratorSeed: 40
[run_presets]
InterfaceBandwidth: $MODE
UseRamulatorTrace: False
END
venv/bin/python -m scalesim.scale -c run.cfg -t conv.csv -l layout.csv -i conv -s N -p out > log 2>&1
found=$(tail -n +2 out/run/COMPUTE_REPORT.csv | cut -d, -f3 | tr -s ' \n' ' ')
echo "cycles of the layers:$found"
[ "$(echo $found)" = "399 183 183 183 183" ]
