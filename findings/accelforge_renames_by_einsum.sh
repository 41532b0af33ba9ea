#!/bin/bash
# AccelForge 1.0.467 (PyPI `accelforge`): top-level `renames` of one Einsum have no effect. Its reference says that they
# are applied to the Einsum of that name and override those of "default", but only "default" is ever asked for. So an
# override is passed over without a word, and another tensor is kept; a name that no default has is then unknown.
#
# One product Z = A * B (M 8, K 4, N 2), `keep: weight` at L1, energy of L1 in the best mapping, seen:
#   default: weight is A                    768
#   default: weight is B                    576
#   default: weight is A, for Z it is B     768
# Exit status 1 if that changes.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q "accelforge==1.0.467"
cd "$folder"
cat > spec.yaml <<'END'
arch:
  nodes:
    - !Memory
      name: Main
      size: inf
      leak_power: 0
      area: 0
      tensors: {keep: All}
      actions: [{name: read, energy: 1, throughput: 1}, {name: write, energy: 1, throughput: 1}]
    - !Memory
      name: L1
      size: inf
      leak_power: 0
      area: 0
      tensors: {keep: weight}
      actions: [{name: read, energy: 1, throughput: 1}, {name: write, energy: 1, throughput: 1}]
    - !Compute
      name: MAC
      leak_power: 0
      area: 0
      actions: [{name: compute, energy: 1, throughput: 1}]
workload:
  rank_sizes: {M: 8, N: 2, K: 4}
  bits_per_value: {All: 8}
  einsums:
    - name: Z
      tensor_accesses:
        - {name: A, projection: [m, k]}
        - {name: B, projection: [k, n]}
        - {name: Z, projection: [m, n], output: true}
renames:
  einsums:
END
venv/bin/python - > log 2>&1 <<'END' || { tail -20 log; exit 1; }
from pathlib import Path

import accelforge

START = Path("spec.yaml").read_text()


def energy(**tensor_of):
    """Energy of L1 in the best mapping where `weight` is, for each Einsum named, the tensor given."""
    rename = "    - name: {}\n      tensor_accesses: [{{name: weight, source: {}, expected_count: 1}}]\n"
    Path("case.yaml").write_text(START + "".join(rename.format(*pair) for pair in tensor_of.items()))
    spec = accelforge.Spec.from_yaml("case.yaml")
    spec.mapper.metrics = accelforge.Metrics.ENERGY
    return float(spec.map_workload_to_arch().energy(per_component=True)["L1"])


a, b, override = energy(default="A"), energy(default="B"), energy(default="A", Z="B")
print(f"weight is A: {a:g}, B: {b:g}, A but B for Z: {override:g}")
raise SystemExit(0 if (a, b, override) == (768, 576, 768) else 1)
END
tail -1 log
