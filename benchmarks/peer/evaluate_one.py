"""Run by accelforge_agreement.py with the peer's interpreter: evaluate one specification, print one line of JSON.

Usage: evaluate_one.py FILE...; public API of AccelForge 1.0.467 only.
"""

import json
import os
import sys
import tempfile
from pathlib import Path

paths = [str(Path(file).resolve()) for file in sys.argv[1:]]

import accelforge  # noqa: E402

with tempfile.TemporaryDirectory() as scratch:
    os.chdir(scratch)  # it leaves a drawing where it runs
    found = accelforge.Spec.from_yaml(*paths).evaluate_mapping()
    counted = found.actions(per_einsum=True, per_component=True, per_tensor=True)
    actions = {
        f"{einsum}/{component}/{None if tensor == 'None' else tensor}/{action}": float(count)
        for (einsum, component, tensor, action), count in counted.items()
    }
    print(json.dumps({"energy": float(found.energy()), "latency": float(found.latency()), "actions": actions}))
    os.chdir("/")
