#!/bin/bash
# SCALE-Sim 3.0.0 (PyPI `scalesim`, numpy 2.3): a fold of an output-stationary systolic array takes R + C + T - 2 cycles,
# where its paper (Samajdar et al., arXiv 1811.02883, equation 3) has 2R + C + T - 2: the R cycles in which results leave are
# not counted. Weight- and input-stationary folds do take 2R + C + T - 2. A layer takes one cycle less than the sum of
# its folds.
#
# GEMM with M = 256, N = 128, K = 256 on 32 x 32 units, seen ("Total Cycles" of COMPUTE_REPORT.csv):
#   os  32 folds of 32 + 32 + 256 - 2 = 318, less 1: 10175   (by the paper 32 * 350 - 1 = 11199)
#   ws  32 folds of 64 + 32 + 256 - 2 = 350, less 1: 11199
#   is  64 folds of 64 + 32 + 128 - 2 = 222, less 1: 14207
# Exit status 1 if that changes.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install -q "scalesim==3.0.0" "numpy<2.4"
printf 'Layer, M, N, K,\ngemm, 256, 128, 256,\n' > gemm.csv
printf 'Layer, IH, IW, C, N,\ngemm, 1, 1, 1, 1,\n' > layout.csv
status=0
for pair in os:10175 ws:11199 is:14207; do
  flow=${pair%:*}; wanted=${pair#*:}
  cat > "$flow.cfg" <<END
[general]
run_name = $flow
[architecture_presets]
ArrayHeight: 32
ArrayWidth: 32
IfmapSramSzkB: 1024
FilterSramSzkB: 1024
OfmapSramSzkB: 1024
IfmapOffset: 0
FilterOffset: 10000000
OfmapOffset: 20000000
Bandwidth: 100
Dataflow: $flow
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
END
  venv/bin/python -m scalesim.scale -c "$flow.cfg" -t gemm.csv -l layout.csv -i gemm -s N -p out > "$flow.log" 2>&1
  found=$(tail -1 "out/$flow/COMPUTE_REPORT.csv" | cut -d, -f3 | tr -d ' ')
  echo "$flow: $found cycles"
  [ "$found" = "$wanted" ] || status=1
done
exit $status
