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


def test_the_program_sets_aside_what_it_has_imported():
    code = (
        "import gc; from einmap import gc_pause; from einmap.__main__ import main\n"
        "try: main()\n"
        "except SystemExit: print(gc_pause._UNCOLLECTED.imported, gc.get_freeze_count() > gc_pause.FEW, gc.isenabled())"
    )
    words = [sys.executable, "-c", code, "examples"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines()[-1:] == ["True True True"], done.stdout + done.stderr


def test_what_is_imported_later_is_set_aside_too_but_not_in_programs_of_others():
    code = (
        "import gc; from einmap import gc_pause; counts = []\n"
        "def look(): counts.append(gc.get_freeze_count())\n"
        "with gc_pause.importing(): import wave\n"
        "look(); gc_pause.set_imported_aside(); look()\n"
        "with gc_pause.importing(): import numpy\n"
        "look(); held = [[] for _ in range(1000)]\n"
        "with gc_pause.importing(): pass\n"
        "look(); print(*counts)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    of_others, first, later, same = map(int, done.stdout.split())
    assert of_others < first < later == same
