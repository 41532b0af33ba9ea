"""Calls that are wrong in the way in which new users are: status 2, what is wrong and what to do, no traceback."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

A = ("simple", "matmul")
S = (*A, "simple_matmul")
P = ("plan-matmul", "128", "128", "128", "--machine", "chiplet_256", "--dtype", "fp8")
J = ("run", "matmul", "matmul_reduce_scatter", "--engine", "jax")
LONGEST = 4000
"""Characters of a message; a list of all examples is the longest part of one."""
CALLS = [
    (("evaluate", "empty.yaml"), "empty.yaml: the top level must be a dictionary, but it is empty"),
    (("evaluate", "list.yaml"), "list.yaml:1:1: the top level must be a dictionary, but it is a list"),
    (("evaluate", "word.yaml"), "but it is 'hello'"),
    (("evaluate", "binary.yaml"), "binary.yaml:2: the file is not UTF-8 text"),
    (("evaluate", "folder"), "this is a directory, not a file hint: name the files in it: folder/*.yaml"),
    (("evaluate", "circle.yaml"), "the link 'circle.yaml' leads to 'circle.yaml', where no file can be found"),
    (("evaluate", "dangling.yaml"), "the link 'dangling.yaml' leads to 'nowhere.yaml'"),
    (("evaluate", "fifo"), "fifo: this is not a regular file"),
    (("evaluate", ""), "a file name is empty"),
    (("evaluate", "*.nothing"), "no file matches '*.nothing'"),
    (("evaluate", "broken.json"), "broken.json:1:"),
    (("evaluate", *A), "call the mapper (einmap map)"),
    (("evaluate", *S, "--semantics", "exct"), "did you mean 'exact'?"),
    (("evaluate", *S, "--jsn"), "Possible options: --csv, --json"),
    (("evaluate", *S, "--strict=yes"), "'--strict' does not take a value"),
    (
        ("map", *A, "--rewrites", "--time-limit", "60"),
        "'--rewrites': a value is missing before '--time-limit', which is an",
    ),
    (("evaluate", *S, "-D", "M"), "write NAME=VALUE"),
    (("evaluate", *S, "-D", "M=abc"), "workload.rank_sizes.M: name 'abc' is not defined"),
    (("evaluate", *S, "-D", "M=0"), "the size of rank M must be >= 1, found 0"),
    (("evaluate", *S, "--allow-code", "syntax.py"), "syntax.py:1: not valid Python"),
    (("evaluate", *S, "--allow-code", "ends.py"), "ends.py:1: the file failed: SystemExit"),
    (("evaluate", *S, "--allow-code", "nope.py"), "nope.py: there is no such file"),
    (("evaluate", *S, "--root", "nope"), "a root is a folder, found 'nope'"),
    (("evaluate", *S, "--top-key", "nope"), "the key 'nope' (top_key) is not in"),
    (
        ("map", "simple"),
        "the specification has no key 'workload' hint: give a file with this key, or one of the workloads",
    ),
    (("map", "matmul"), "the specification has no key 'arch' hint: give a file with this key, or one of the arch"),
    (("map", *A, "--metrics", "speed"), "unknown metric 'speed'"),
    (("map", *A, "--metrics", ","), "unknown metric ''"),
    (("map", *A, "--time-limit", "nan"), "greater than or equal to 0"),
    (("map", *A, "--workers", "-1"), "greater than or equal to 1"),
    (("map", *A, "--given", "nope.yaml"), "there is no file 'nope.yaml'"),
    (("map", *A, "--given", "matmul"), "unknown key 'workload' of a given mapping"),
    (("map", *A, "--given", "eyeriss_conv"), "the workload has no Einsum 'O'"),
    (("map", *A, "--option", "metric=edp"), "the mapper has no option 'metric'; did you mean 'metrics'?"),
    (("map", *A, "--option", "max_fused_loops=abc"), "expected a number, found 'abc'"),
    (("map", *A, "--cache", "word.yaml"), "word.yaml: cannot keep results in this directory"),
    (("map", *A, "-o"), "'-o' requires an argument"),
    (("map", *A, "-o", "nope/x.yaml"), "does not exist hint: create it first"),
    (("map", *A, "-o", "folder"), "this is a directory, not a file hint: add a file name"),
    (("map", *A, "-o", ""), "this is not the name of a file hint: write a name after the option"),
    (("map", *A, "-o", "-"), "leave the option out to print"),
    (("map", *A, "-o", "word.yaml"), "word.yaml: the file exists"),
    (("map", *A, "-o", "a.yaml", "-o", "b.yaml"), "'--output' / '-o': it is given 2 times"),
    (("map", *A, "--fuse", "--no-fuse"), "'--fuse': it is given 2 times"),
    (("evaluate", *S, "-D", "M=2", "-D", "M=4"), "'M=4': M is given twice"),
    (("rewrite", *S), "name at least one rewrite"),
    (("rewrite", *S, "--do", "splt k 8"), "did you mean 'split'?"),
    (("rewrite", *S, "--do", "split q 8"), "the mapping has no loop over 'q' hint: loops over: k, m, n"),
    (("rewrite", *S, "--do", "sink Q@GlobalBuffer"), "no node holds 'Q' in 'GlobalBuffer'"),
    (("partition", "matmul", "--split", "Q=2"), "no tensor of the workload has a rank 'Q'"),
    (("partition", "matmul", "--print", "yamll"), "'yamll' is not one of 'einsums', 'loops', 'yaml'"),
    (("plan-matmul", "1", "2"), "Missing argument 'n'"),
    ((*P[:5], "chiplet", *P[6:]), "did you mean 'chiplet_256'?"),
    ((*P[:7], "fp9"), "no data type 'fp9' hint: did you mean 'fp8'?"),
    ((*P[:5], "empty.yaml", *P[6:]), "the key 'machine' is missing"),
    ((*P, "--candidates", "0"), "greater than or equal to 1"),
    ((*P, "--resident", "A@L9"), "has no level 'L9'"),
    (("plan-matmul", "9" * 50, *P[2:]), "M must be a whole number from 1 to 2**40"),
    (("simulate", *S, "--plot", "x.jpg"), "name it x.png"),
    (("simulate", *S, "--trace", "x.txt"), "events are written as .csv or .parquet"),
    (("simulate", *S, "--trace", "x.csv", "--component", "Globalbuffer"), "did you mean 'GlobalBuffer'?"),
    (("simulate", *S, "-D", "M=65536", "-D", "N=65536"), "choose smaller rank sizes"),
    (("emit", *S, "--lang", "rust"), "languages: c, pseudo, python"),
    (("run", "matmul"), "the specification has no key 'distribution'"),
    ((*J[:4], "jex"), "there is no engine 'jex' hint: did you mean 'jax'?"),
    ((*J, "--processes", "3"), "which 3 processes cannot share evenly"),
    ((*J, "--time-limit", "-1"), "expected a positive number of seconds"),
    (("dump", "simple", "--dialect", "oldest"), "did you mean 'older'?"),
    (("schema", "--section", "nope"), "no section 'nope'"),
    (("schema", "extra"), "unexpected extra argument"),
    (("schema", "\u202eabc"), r"unexpected extra argument(s) (\u202eabc)"),
    (("explain", *S, "--tensor", "Q"), "the workload has no such tensor hint: valid: A, B, Z"),
    (("diff", "simple"), "Missing argument 'B'"),
    (("show", *S, "--theme", "blue"), "themes: dark, light"),
    (("examples", "--copy", "word.yaml"), "cannot make the directory"),
    (("evaluat", *S), "Did you mean 'evaluate'?"),
    (("-D", "M=3"), "No such option: -D"),
]


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, text in {
        "empty.yaml": "",
        "list.yaml": "- 1\n",
        "word.yaml": "hello\n",
        "broken.json": '{"arch": {"nodes": [}',
        "syntax.py": "def f(:\n",
        "ends.py": "raise SystemExit(3)\n",
    }.items():
        Path(name).write_text(text)
    Path("binary.yaml").write_bytes(b"arch:\n\xf4\x00")
    Path("folder").mkdir()
    Path("circle.yaml").symlink_to("circle.yaml")
    Path("dangling.yaml").symlink_to("nowhere.yaml")
    os.mkfifo("fifo")


@pytest.mark.parametrize(
    ("words", "said"), CALLS, ids=lambda value: " ".join(value)[:60] if isinstance(value, tuple) else ""
)
def test_a_wrong_call_is_answered_with_what_is_wrong_and_what_to_do(run, words, said):
    before = {path.name for path in Path().iterdir()}
    done = run(*words)
    assert (done.status, done.out) == (2, "")
    message = " ".join(done.err.replace("│", " ").split())
    assert said in message
    assert "Traceback" not in message
    assert len(done.err) < LONGEST
    assert {path.name for path in Path().iterdir()} == before


def shell(command: str) -> subprocess.CompletedProcess[str]:
    """A command line of a shell in which `einmap` is the one that is tested."""
    main = f"{sys.executable} -c 'from einmap.cli.main import main; main()'"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.run(
        command.replace("einmap", main, 1), shell=True, env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_an_output_stream_that_is_full_is_an_error_and_no_traceback():
    done = shell("einmap schema > /dev/full")
    assert (done.returncode, done.stderr) == (2, "error: cannot print: No space left on device\n")


def test_a_closed_output_stream_is_no_traceback():
    done = shell("einmap schema >&-")
    assert (done.returncode, done.stderr) == (0, "")


def test_files_are_printed_in_utf_8_whatever_the_terminal_speaks():
    Path("words.yaml").write_text("variables: {x: '∑ é'}\n", encoding="utf-8")
    done = shell("PYTHONIOENCODING=ascii einmap dump words.yaml")
    assert (done.returncode, done.stdout, done.stderr) == (0, 'variables:\n  x: "∑ é"\n', "")


def test_memory_that_is_not_enough_is_an_error_without_a_traceback(run, monkeypatch):
    def search(*_args, **_options):
        raise MemoryError("Unable to allocate 159. MiB")

    monkeypatch.setattr("einmap.mapper.mapper.best_mappings", search)
    done = run("map", "simple", "matmul")
    assert done.status == 2
    assert done.err.startswith("error: there is not enough memory: Unable to allocate 159. MiB")
    assert "memory_limit" in done.err
