"""Garbage collection in a process that has few objects: to look at all those of thousands of tests takes seconds."""

import os
import subprocess
import sys
from pathlib import Path


def test_what_is_set_aside_is_taken_back_and_garbage_is_collected():
    cases = Path(__file__).with_name("heap_cases.py")
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", str(cases)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(words, cwd=cases.parents[1], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
