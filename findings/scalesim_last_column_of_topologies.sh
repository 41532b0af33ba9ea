#!/bin/bash
# SCALE-Sim 3.0.0 (PyPI `scalesim`): a line of a topology has to end in a comma. What stands behind the last comma is
# thrown away without a word, so a sparsity ratio at the end of a line that does not ("a, 16, 8, 32, 2:4") is not read,
# and the layer is simulated as dense, with the same report files and status.
#
# GEMM with M = 16, N = 8, K = 32 and weights 2:4 on 8 x 8 units, weight-stationary, SparsitySupport true, seen
# ("Total Cycles" of COMPUTE_REPORT.csv, filter storage of SPARSE_REPORT.csv):
#   with the comma     75 cycles, 136.0
#   without it        151 cycles, 256.0 (as dense: 4 folds of 16 + 8 + 16 - 2 = 38, less 1)
# Exit status 1 if that changes.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
cd "$folder"
"${PYTHON:-python3}" -m venv venv
venv/bin/pip install -q "scalesim==3.0.0" "numpy<2.4"
printf 'Layer, IH, IW, C, N,\na, 1, 1, 1, 1,\n' > layout.csv
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
Bandwidth: 100
Dataflow: ws
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
SparsitySupport: true
SparseRep: ellpack_block
OptimizedMapping: false
BlockSize: 8
RandomNumberGeneratorSeed: 40
[run_presets]
InterfaceBandwidth: CALC
UseRamulatorTrace: False
END
status=0
for case in "2:4,|75|136.0" "2:4|151|256.0"; do
  IFS='|' read -r ratio cycles storage <<< "$case"
  printf 'Layer, M, N, K, Sparsity,\na, 16, 8, 32, %s\n' "$ratio" > gemm.csv
  venv/bin/python -m scalesim.scale -c run.cfg -t gemm.csv -l layout.csv -i gemm -s N -p out > log 2>&1
  found=$(tail -1 out/run/COMPUTE_REPORT.csv | cut -d, -f3 | tr -d ' ')
  held=$(tail -1 out/run/SPARSE_REPORT.csv | cut -d, -f4 | tr -d ' ')
  echo "ends in '$ratio': $found cycles, filter storage $held"
  [ "$found" = "$cycles" ] && [ "$held" = "$storage" ] || status=1
done
exit $status
