#!/bin/bash
# SCALE-Sim 3.0.0 (PyPI `scalesim`): with `InterfaceBandwidth: USER` the configured `Bandwidth` limits writes of outputs to
# DRAM alone. Reads of inputs and filters from DRAM have the bandwidth of one bank of their SRAM (`IfmapSRAMBankBandwidth`,
# `FilterSRAMBankBandwidth`), whatever `Bandwidth` says. A sweep over `Bandwidth` says nothing of reads.
#
# One convolution on 8 x 8 units, output-stationary, seen (words a cycle of BANDWIDTH_REPORT.csv, inputs filters outputs):
#   Bandwidth 1,    banks of 10   10.0  10.0  1.0
#   Bandwidth 1000, banks of 10   10.0  10.0  512.0
#   Bandwidth 1000, banks of 5     5.0   5.0  512.0
# Exit status 1 if that changes.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install -q "scalesim==3.0.0" "numpy<2.4"
printf 'Layer, IH, IW, FH, FW, C, N, S, Sparsity,\nstem, 10, 10, 3, 3, 4, 8, 1, 1:1,\n' > conv.csv
printf 'Layer, a, b, c, d, e, f, g, h,\nstem, 1, 1, 1, 1, 4, 1, 1, 1,\n' > layout.csv
status=0
for case in "1 10 10.0 10.0 1.0" "1000 10 10.0 10.0 512.0" "1000 5 5.0 5.0 512.0"; do
read -r BANDWIDTH BANK wanted <<< "$case"
MODE=USER
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
rm -rf out
venv/bin/python -m scalesim.scale -c run.cfg -t conv.csv -l layout.csv -i conv -s N -p out > log 2>&1
found=$(tail -1 out/run/BANDWIDTH_REPORT.csv | cut -d, -f5-7 | tr -d ',')
echo "Bandwidth $BANDWIDTH, banks of $BANK:" $found
[ "$(echo $found)" = "$wanted" ] || status=1
done
exit $status
