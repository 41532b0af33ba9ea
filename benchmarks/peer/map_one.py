"""Run by compare.py with the peer's interpreter: map one specification with AccelForge, print one line of JSON.

Usage: map_one.py METRIC WORKERS DEFINITIONS(JSON) OPTIONS(JSON) FILE...; public API of AccelForge 1.0.467 only.
"""

import json
import os
import sys
import tempfile
import time
from pathlib import Path

metric, workers, definitions, options, *files = sys.argv[1:]
paths = [str(Path(file).resolve()) for file in files]

import accelforge  # noqa: E402
from accelforge.mapper import Metrics  # noqa: E402

accelforge.set_n_parallel_jobs(int(workers), print_message=False)
with tempfile.TemporaryDirectory() as scratch:
    os.chdir(scratch)  # it leaves a drawing where it runs
    spec = accelforge.Spec.from_yaml(*paths, jinja_parse_data=json.loads(definitions))
    spec.mapper.metrics = getattr(Metrics, metric.upper())
    for name, option in json.loads(options).items():
        assert hasattr(spec.mapper, name), name
        setattr(spec.mapper, name, option)
    start = time.perf_counter()
    found = spec.map_workload_to_arch(print_progress=False)
    seconds = time.perf_counter() - start
    value = min(found.data[f"Total<SEP>{metric}"])
    print(json.dumps({"seconds": seconds, "value": float(value)}))
    os.chdir("/")
