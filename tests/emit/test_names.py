"""Names of specifications in emitted code: ASCII, unique, and none that the language or its library has."""

import ast
import shutil
import subprocess

import pytest
from tests.machines import machine
from tests.nests import nest

import einmap

TEXT = (
    """
workload:
  rank_sizes: {V: 4}
  bits_per_value: {All: 8}
  einsums:
  - name: E
    tensor_accesses: [{name: T1, projection: {V: VAR}}, {name: T2, projection: {V: VAR}}, {name: OUT, projection: {V: VAR}, output: true}]
"""
    + nest("printf: T1 T2 OUT / VAR 2 / L1: T1 T2 OUT / VAR 1 / E @ main")
    + machine("printf inf 1/1 @1 / L1 inf 1/1 @1 / main 1 @1")
)
NAMES = [
    ("y1", "read", "random", "j"), ("M_PI", "EXIT_FAILURE", "double_t", "y"), ("select", "linux", "L_tmpnam", "bool_"), ("main", "nest", "mvin", "i"),
    ("Mα", "Mβ", "M_", "ñ"), ("float_t", "NAN", "WNOHANG", "exp"), ("int_", "value", "np", "printf"), ("EOF", "be16toh", "FP_NAN", "x"),
]  # fmt: skip


@pytest.mark.parametrize("names", NAMES, ids=str)
def test_emitted_code_compiles_whatever_things_are_called(names, tmp_path):
    text = TEXT
    for mark, name in zip(("T1", "T2", "OUT", "VAR"), names, strict=True):
        text = text.replace(mark, name)
    spec = einmap.loads(text)
    python, c = (einmap.emit(spec, lang) for lang in ("python", "c"))
    names = [node.id for node in ast.walk(ast.parse(python)) if isinstance(node, ast.Name)]
    lines = [line.split("/*")[0] for line in c.splitlines() if not line.startswith((" *", "/*"))]
    assert "".join((*names, *lines)).isascii()
    compiler = shutil.which("cc")
    if compiler is not None:
        (tmp_path / "a.c").write_text(c, encoding="utf-8")
        for standard in ("c99", "gnu17"):
            words = [
                compiler,
                f"-std={standard}",
                "-fsyntax-only",
                "-Wall",
                "-Wno-unused",
                "-Werror",
                "-x",
                "c",
                str(tmp_path / "a.c"),
            ]
            assert subprocess.run(words, capture_output=True, text=True, check=False).stderr == ""
