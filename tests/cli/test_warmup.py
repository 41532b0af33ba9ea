"""`einmap warmup`: all kernels are ready afterwards."""

import json
import signal
import subprocess
import sys
import time
from collections import deque
from contextlib import nullcontext
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
from numba import njit
from numba.core.caching import FunctionCache
from numba.core.errors import TypingError

import einmap
from einmap import compiled
from einmap.compiled import stable_order
from einmap.execute.kernel.kernels import run_leaf
from einmap.mapper import warm
from einmap.mapper.branch_and_bound import kernels, narrowed_plans
from einmap.mapper.cost_bounds import compute_path
from einmap.mapper.cost_bounds.before_plans import keeping, placement_kernels
from einmap.mapper.cost_bounds.cost_to_go import dense_kernels, sparse_kernels
from einmap.mapper.cost_bounds.networks import tree_kernels
from einmap.mapper.fusion.fronts.nests import nest_kernels
from einmap.mapper.fusion.paths import envelope_kernels, label_kernels, path_kernels, state_kernels
from einmap.mapper.objective import objective_kernels
from einmap.mapper.objective.objective_kernels import keep_least
from einmap.progress import Progress

OF_TABLES = ("with_gap_and_node", "moves_inside", "lead_out", "times_lanes", "over_lanes")
OF_EINSUMS = (
    "take",
    "value_at",
    "keep_least",
    "exceeds_cutoff",
    "many_exceed_cutoff",
    "many_objectives",
    "beyond",
    "objectives",
    "search",
)
OF_NESTS = ("outer_nests", "judged", "undominated")
OF_CASCADES = ("lower_corners", "least_products", "least_paths", "fitting_options", "edges_behind", "joined")
OF_LARGE = ("rows_above_gap", "outer_points", "take_least")
OF_PLACEMENTS = ("least_to_go", "with_loops", "with_node", "with_lanes", "least_value")
OF_TREES = ("links_to_groups",)
KERNELS = (
    "objectives",
    *OF_NESTS,
    "search",
    *OF_TABLES,
    *OF_EINSUMS[:-2],
    *OF_CASCADES,
    *OF_LARGE,
    *OF_PLACEMENTS,
    *OF_TREES,
)


def test_it_says_what_is_ready(run):
    done = run("warmup")
    assert done.status == 0
    *rows, last = done.out.splitlines()
    assert [row.split()[0] for row in rows] == [*KERNELS, "run_leaf"]
    assert last.startswith("ready: ")


def test_json_holds_each_kernel(run):
    document = json.loads(run("warmup", "--json").out)
    assert document["schema"] == 1
    assert [kernel["name"] for kernel in document["kernels"]] == [*KERNELS, "run_leaf"]
    assert all(kernel["seconds"] >= 0 for kernel in document["kernels"])


def signatures():
    """How many kinds of arguments each kernel is compiled for."""
    modules = dict.fromkeys(OF_TABLES, dense_kernels) | {
        name: kernels if hasattr(kernels, name) else objective_kernels for name in OF_EINSUMS
    }
    modules |= {
        name: module
        for module in (path_kernels, envelope_kernels, label_kernels, state_kernels)
        for name in OF_CASCADES
        if name in vars(module)
    } | dict.fromkeys(OF_LARGE, sparse_kernels)
    modules |= dict.fromkeys(OF_PLACEMENTS, placement_kernels)
    modules |= dict.fromkeys(OF_TREES, tree_kernels) | dict.fromkeys(OF_NESTS, nest_kernels)
    return {name: len(getattr(module, name).signatures) for name, module in modules.items()}


@pytest.mark.parametrize("size", [60, pytest.param(2520, marks=[pytest.mark.slow, pytest.mark.mapper])])
def test_searches_and_simulations_compile_nothing_more(run, monkeypatch, size):
    run("warmup")
    made = signatures()
    assert set(made.values()) == {1}
    einmap.map_workload(einmap.load("edge", "matmul", define={"M": 8, "K": 8, "N": 8}), metrics="energy,latency")
    with monkeypatch.context() as large:
        rows_above_gap = Mock(wraps=sparse_kernels.rows_above_gap)
        large.setattr(sparse_kernels, "rows_above_gap", rows_above_gap)
        large.setattr(compute_path, "LARGE", min(size**3 // 1000, compute_path.LARGE))
        einmap.map_workload(einmap.load("edge", "matmul", define=dict.fromkeys("MKN", size)), metrics="energy")
    assert rows_above_gap.called
    with monkeypatch.context() as free:
        free.setattr(keeping, "FEW_NODES", 0)
        free.setattr(narrowed_plans, "FEW_PLACEMENTS", 0)
        free.setattr(narrowed_plans, "OF_LISTING", 10**9)
        least_to_go = Mock(wraps=placement_kernels.least_to_go)
        free.setattr(placement_kernels, "least_to_go", least_to_go)
        einmap.map_workload(einmap.load("edge", "matmul", define={"M": 8, "K": 8, "N": 8}), metrics="edp")
    assert least_to_go.called
    cascade = einmap.load("simple", "matmul_chain")
    for metrics in ("energy", "edp", "energy,latency"):
        einmap.map_workload(cascade, metrics=metrics)
    einmap.execute(einmap.load("simple", "matmul", "simple_matmul", define=dict.fromkeys("MKN", 16)))
    assert signatures() == made
    assert len(run_leaf.signatures) == 1


def test_progress_says_which_kernel_is_being_made(monkeypatch):
    monkeypatch.setattr(warm, "_ready", {})
    reports = []
    warm.warm(Progress(reports.append))
    assert [(r.what.rsplit(" ", 1)[1], r.done, r.total) for r in reports] == [
        (name, i, len(KERNELS)) for i, name in enumerate(KERNELS)
    ]
    reports.clear()
    warm.warm(Progress(reports.append))
    assert reports == []


def test_first_calls_do_not_depend_on_each_other():
    made = warm._kernels()
    for _, call in [*made.values(), *reversed(made.values())]:
        call()


def test_the_second_process_starts_with_the_first_kernel_that_is_compiled(monkeypatch):
    monkeypatch.setattr(warm, "_ready", {})
    monkeypatch.setattr(warm, "made_ready", lambda name, *_: warm.Warmed(name, name == "search", 0.0))
    started = []
    helped = lambda missing: started.append(missing[0]) or nullcontext({})  # noqa: E731 - in place of a function
    monkeypatch.setattr(warm, "_helped", helped)
    warm.warm()
    assert started == [KERNELS[KERNELS.index("search") + 1]]


def test_a_second_process_makes_the_last_ones_first(monkeypatch):
    monkeypatch.setattr(warm.os, "sched_getaffinity", lambda _: {0, 1}, raising=False)
    missing = deque(["objectives", "many_objectives", "exceeds_cutoff"])
    with warm._helped(missing) as made:
        while missing:
            time.sleep(0.01)
    assert list(made) == ["exceeds_cutoff", "many_objectives", "objectives"]
    assert made["exceeds_cutoff"].name == "exceeds_cutoff"


def test_a_second_process_that_fails_leaves_everything_to_this_one(monkeypatch):
    monkeypatch.setattr(warm.os, "sched_getaffinity", lambda _: {0, 1}, raising=False)
    monkeypatch.setattr(warm, "_HELPER", "raise SystemExit(3)")
    monkeypatch.setattr(warm, "_ready", {})
    monkeypatch.setattr(warm, "made_ready", lambda name, *_: warm.Warmed(name, True, 0.0))
    assert [kernel.name for kernel in warm.warm()] == [*KERNELS]


def test_with_one_core_there_is_no_second_process(monkeypatch):
    monkeypatch.setattr(warm.os, "sched_getaffinity", lambda _: {0}, raising=False)
    monkeypatch.setattr(warm.subprocess, "Popen", Mock(side_effect=AssertionError))
    with warm._helped(deque(KERNELS)) as made:
        assert made == {}


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="asks Linux which processes there are")
@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGINT])
def test_the_second_process_ends_with_this_one(end):
    script = (
        "import os, signal, time; from collections import deque; from einmap.mapper import warm\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have it ignored\n"
        "os.sched_getaffinity = lambda _: {0, 1}\n"
        "with warm._helped(deque()) as made:\n    print(flush=True); time.sleep(60)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True
    ) as ended:
        ended.stdout.readline()
        (child,) = Path(f"/proc/{ended.pid}/task/{ended.pid}/children").read_text().split()
        ended.send_signal(end)
        ended.wait(30)
    for _ in range(1000):
        if (
            not Path("/proc", child).exists()
            or Path("/proc", child, "stat").read_text().split(")")[1].split()[0] == "Z"
        ):
            break
        time.sleep(0.01)
    else:
        pytest.fail(f"process {child} is still there")


def test_the_compiler_is_loaded_without_scipy():
    script = "import sys; from einmap.compiled import load_compiler; load_compiler(); print(*sys.modules)"
    modules = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    assert "numba.np.arraymath" in modules
    assert "scipy.linalg" not in modules


def test_machine_code_on_disk_is_read_without_what_compiles_other_code():
    table = np.zeros((1, 2))
    keep_least(table.copy(), 0, table)  # from here on it is on disk
    script = (
        "import sys; import numpy as np; from einmap.mapper.objective.objective_kernels import keep_least\n"
        "table = np.ones((1, 2)); print(keep_least(table.copy(), 0, table), *sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    count, *modules = done.stdout.split()
    assert count == str(keep_least.py_func(np.ones((1, 2)), 0, np.ones((1, 2))))
    assert "numba" in modules
    assert "numba.np.arraymath" not in modules


def test_a_kernel_on_disk_is_loaded_without_a_call_or_what_its_functions_are_made_of():
    warm.warm(everything=False, cascades=False)  # from here on they are on disk
    script = (
        "import sys; from unittest.mock import Mock; from einmap.mapper.branch_and_bound import kernels; from einmap.mapper import warm\n"
        "call = Mock(); print(warm.made_ready('search', kernels.search, call).compiled, call.called, *sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    compiled_anew, called, *modules = done.stdout.split()
    assert (compiled_anew, called) == ("False", "False")
    assert "numba.np.arrayobj" not in modules


def test_a_kernel_that_is_not_on_disk_is_called(monkeypatch):
    call = Mock()
    warm.made_ready("own", lambda: None, call)
    monkeypatch.setattr(FunctionCache, "_index_key", Mock(side_effect=AttributeError))
    warm.made_ready("keep_least", keep_least, call)
    assert call.call_count == 2


def test_numba_is_imported_without_yaml_and_scipy(tmp_path):
    script = "import sys; from einmap.cli.progress_bar import import_numba; import_numba(); print(*sys.modules)"

    def read():
        command = [sys.executable, "-c", script]
        return subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path).stdout.split()

    modules = read()
    assert "numba" in modules
    assert not {"yaml", "scipy"} & {*modules}
    (tmp_path / ".numba_config.yaml").write_text("")
    assert "numba" not in read()


def test_where_machine_code_cannot_be_read_alone_it_is_read_as_numba_does(monkeypatch):
    whole = Mock(return_value="found")
    monkeypatch.setattr(FunctionCache, "load_overload", whole)
    for kept in (Mock(_load_overload=Mock(return_value=None)), Mock(_load_overload=Mock(side_effect=AttributeError))):
        assert compiled._load(kept, "signature", keep_least.targetctx) == "found"
        whole.assert_called_with(kept, "signature", keep_least.targetctx)


def test_functions_that_would_lose_count_of_arrays_do_not_compile():
    gives = compiled.inner(lambda values: values[:1])
    makes = compiled.maker(lambda values: np.zeros(len(values)))
    takes = compiled.inner(lambda values: len(makes(values)))
    for function in (gives, takes):
        with pytest.raises(TypingError, match="makes or gives arrays: decorate it with `maker`"):
            njit(**compiled._rules)(lambda values, called=function: called(values))(np.ones(3))
    whole = njit(**compiled._rules)(lambda values: len(makes(values)))
    assert whole(np.ones(3)) == 3


def test_functions_that_kernels_call_have_no_machine_code_of_their_own():
    inside = compiled.inner(lambda values, i: values[i] + 1)
    between = compiled.inner(lambda values, i: inside(values, i) * 2)
    whole = njit(**compiled._rules)(lambda values: between(values, 1) + inside(values, 0))
    assert whole(np.array([1.0, 4.0])) == 12
    for function in (inside, between):
        (made,) = function.overloads.values()
        assert made.library.get_pointer_to_function(made.fndesc.llvm_func_name) == 0


def test_keys_are_ordered_as_numpy_orders_them():
    rng = np.random.default_rng(0)
    for n in (0, 1, 2, 15, 16, 17, 31, 33, 100, 1000):
        keys = rng.integers(0, 20, n + 3).astype(float)
        assert stable_order.py_func(keys, n).tolist() == np.argsort(keys[:n], kind="stable").tolist()


def test_the_first_call_of_the_simulators_kernel_computes_something():
    from einmap.execute.kernel.warm import smallest_call

    smallest_call()
    assert run_leaf.signatures[0][0].dtype.name == np.dtype(np.int64).name
