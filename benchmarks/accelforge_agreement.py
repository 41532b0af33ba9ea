"""Export shipped examples for AccelForge, evaluate them there, and compare energy, latency and every count.

    python3.12 -m venv .venv-peer && .venv-peer/bin/pip install accelforge==1.0.467
    python benchmarks/accelforge_agreement.py --peer .venv-peer/bin/python

The peer wants Graphviz's `dot` on the PATH. Numbers of einmap are those under `--semantics accelforge`; the peer keeps
some of its own in single precision, so equal means to six digits. Prints a table, with both numbers where they differ.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from math import isclose
from pathlib import Path
from typing import Any

import einmap
from einmap.frontends.accelforge.write import write

HERE = Path(__file__).parent
CLOSE = 2e-6
CASES: dict[str, tuple[tuple[str, ...], dict[str, Any]]] = {
    "matmul": (("simple", "matmul", "simple_matmul"), {}),
    "two products, unfused": (("simple", "matmul_chain", "simple_matmul_chain_unfused"), {}),
    "two products, fused": (("simple", "matmul_chain", "simple_matmul_chain_fused"), {}),
    "two products by a vector, fused": (("simple", "two_matvecs", "simple_two_matvecs_fused"), {}),
    "attention, fused": (("simple", "attention_core", "simple_attention_fused"), {}),
    "MobileNet pair, unfused": (("edge", "mobilenet_pair", "edge_mobilenet_pair_unfused"), {}),
    "MobileNet pair, fused": (("edge", "mobilenet_pair", "edge_mobilenet_pair_fused"), {}),
    "conv2_2 of ResNet-50": (("eyeriss", "resnet50_layer", "eyeriss_conv"), {"LAYER": "conv2_2", "BITS": 16}),
    "conv4_2 of ResNet-50": (("simba", "resnet50_layer", "simba_conv"), {"LAYER": "conv4_2"}),
    "matmul of 512": (("tpu_v4i", "matmul", "tpu_v4i_matmul"), {"M": 512, "K": 512, "N": 512}),
}
"""Names of shipped examples, with values of their templates."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer", required=True, help="the interpreter of an environment with accelforge 1.0.467")
    args = parser.parse_args()
    print("| architecture | what | energy, J | latency, s | equal counts |")
    print("|---|---|---|---|---|")
    all_equal = True
    for what, (names, define) in CASES.items():
        spec = einmap.load(*names, define=define)
        exported = write(spec)
        cost = einmap.evaluate(einmap.Spec.from_dict({**spec.to_dict(), "model": {"semantics": "accelforge"}}))
        theirs = evaluated(args.peer, exported.files)
        counts = {
            f"{r.einsum}/{r.component}/{r.tensor}/{r.action}": r.count for r in cost.actions if r.action != "leak"
        }
        equal = sum(isclose(n, theirs["actions"].get(key, 0), rel_tol=CLOSE) for key, n in counts.items())
        same = equal == len(counts) and all(
            isclose(a, b, rel_tol=CLOSE)
            for a, b in ((cost.energy, theirs["energy"]), (cost.latency, theirs["latency"]))
        )
        all_equal &= same
        pairs = (cost.energy, theirs["energy"]), (cost.latency, theirs["latency"])
        numbers = [" / ".join(dict.fromkeys(f"{value:.6g}" for value in pair)) for pair in pairs]
        row = [names[0], what, *numbers, f"{equal} of {len(counts)}"]
        print("| " + " | ".join(map(str, row)) + " |", flush=True)
        if not same:
            for key, n in counts.items():
                if not isclose(n, theirs["actions"].get(key, 0), rel_tol=CLOSE):
                    print(f"  {key}: {n} here, {theirs['actions'].get(key)} there", file=sys.stderr)
    sys.exit(not all_equal)


def evaluated(peer: str, files: Any) -> dict[str, Any]:
    """Energy, latency and actions by `Einsum/component/tensor/action` that AccelForge gives."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / name for name in files]
        for path in paths:
            path.write_text(files[path.name])
        command = [peer, str(HERE / "peer" / "evaluate_one.py"), *map(str, paths)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"AccelForge: {done.stderr[-2000:]}")
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


if __name__ == "__main__":
    main()
