"""The processor at hand as a machine, from facts that are given, and `plan-matmul --machine this-cpu`."""

import json
import sys
from types import SimpleNamespace

import pytest

from einmap.errors import SpecError
from einmap.matmul.measured import measure, this_cpu
from einmap.matmul.measured.this_cpu import Cache, Processor, assumed_rates, described, detect, machine_of
from einmap.matmul.plan import plan_matmul

FOUR = Processor((Cache(1, 32768, 64, 1), Cache(2, 2**20, 64, 2), Cache(3, 2**25, 64, 4)), 4, 2e9)
CACHES = [
    {"level": "1", "type": "Data", "size": "48K", "coherency_line_size": "64", "shared_cpu_list": "0,4"},
    {"level": "1", "type": "Instruction", "size": "32K", "coherency_line_size": "64", "shared_cpu_list": "0,4"},
    {"level": "2", "type": "Unified", "size": "2048K", "coherency_line_size": "64", "shared_cpu_list": "0,4"},
    {"level": "3", "type": "Unified", "size": "32M", "coherency_line_size": "64", "shared_cpu_list": "0-7"},
]


def described_system(tmp_path, caches):
    """Files like those of Linux: four cores of two threads each."""
    for number, facts in enumerate(caches):
        folder = tmp_path / "cpu0" / "cache" / f"index{number}"
        folder.mkdir(parents=True)
        for name, text in facts.items():
            (folder / name).write_text(text + "\n")
    for processor in range(8):
        folder = tmp_path / f"cpu{processor}" / "topology"
        folder.mkdir(parents=True)
        (folder / "thread_siblings_list").write_text(f"{processor % 4},{processor % 4 + 4}\n")
    return tmp_path


@pytest.fixture
def psutil(monkeypatch):
    """Four cores of 3.5 GHz at most."""
    fake = SimpleNamespace(
        cpu_count=lambda logical: 8 if logical else 4, cpu_freq=lambda: SimpleNamespace(max=3500.0, current=2000.0)
    )
    monkeypatch.setitem(sys.modules, "psutil", fake)
    return fake


def test_the_caches_of_linux_are_read(tmp_path, psutil):
    found = detect("linux", described_system(tmp_path, CACHES))
    caches = Cache(1, 48 * 1024, 64, 1), Cache(2, 2**21, 64, 1), Cache(3, 2**25, 64, 4)
    assert found == Processor(caches, 4, 3.5e9)


def test_what_lacks_a_size_is_left_out(tmp_path, psutil):
    caches = [CACHES[0], {**CACHES[2], "size": "unknown"}, CACHES[3]]
    assert [cache.level for cache in detect("linux", described_system(tmp_path, caches)).caches] == [1, 3]


@pytest.mark.parametrize("platform", ["linux", "win32"])
def test_a_system_that_tells_no_caches_is_an_error(tmp_path, psutil, platform):
    with pytest.raises(SpecError, match=r"does not tell the sizes of its caches\n.*YAML file"):
        detect(platform, tmp_path)


def test_a_clock_that_is_not_told_is_assumed(tmp_path, psutil):
    psutil.cpu_freq = lambda: None
    found = detect("linux", described_system(tmp_path, CACHES))
    assert found.clock is None
    assert "3 GHz, assumed" in described(found, assumed_rates(found), "fp32")


def test_a_missing_library_is_an_error_with_its_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "psutil", None)
    with pytest.raises(SpecError, match=r"needs psutil.*\n.*einmap\[cpu\]"):
        detect("linux", described_system(tmp_path, CACHES))


def test_one_core_has_every_cache_for_itself():
    machine = machine_of(FOUR, assumed_rates(FOUR), "fp32")
    assert [(level.name, level.workers) for level in machine.levels] == [("L3", 1), ("L2", 1), ("L1", 1)]
    assert [level.size_bits for level in machine.levels] == [2**27, 2**22, 2**17]
    assert machine.rate("fp32") == 2 * machine.rate("fp64")


def test_cores_share_caches_as_the_processor_says():
    machine = machine_of(FOUR, assumed_rates(FOUR), "fp64", cores=4)
    assert [(level.name, level.workers) for level in machine.levels] == [("L3", 1), ("L2", 2), ("L1", 2)]
    assert plan_matmul(256, 256, 256, machine, dtype="fp64", candidates=4).feasible
    with pytest.raises(SpecError, match="1 to 4 cores to plan for, found 5"):
        machine_of(FOUR, assumed_rates(FOUR), "fp64", cores=5)


@pytest.fixture
def run(capsys, monkeypatch):
    from einmap.cli.main import main

    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(this_cpu, "detect", lambda: FOUR)
    monkeypatch.setattr(measure, "SHORT", 1e-3)
    monkeypatch.setattr(measure, "MOST_COPIED", 2**20)

    def command(*words):
        with pytest.raises(SystemExit) as ended:
            given = [("--machine", "this-cpu"), ("--dtype", "fp32")]
            main(
                ["plan-matmul", "96", "70", "150", *(w for pair in given if pair[0] not in words for w in pair), *words]
            )
        captured = capsys.readouterr()
        return int(ended.value.code or 0), captured.out, captured.err

    return command


def test_the_plan_alone_says_that_rates_are_assumed(run):
    status, out, err = run()
    assert status == 0
    assert "in fp32 on this_cpu" in out
    assert "measured" not in out
    assert "assumed for a clock of 2 GHz; --measure measures them" in " ".join(err.split())


def test_a_measured_plan_shows_all_contenders(run):
    status, out, err = run("--measure")
    assert status == 0
    for row in ("plain loops mkn", "plain loops nkm", "the plan", "NumPy's BLAS", "roofline", "correct: largest"):
        assert row in out
    assert "into L3: measured" in " ".join(err.split())
    status, out, _ = run("--measure", "--json")
    measured = json.loads(out)["measured"]
    assert measured["correct"]
    assert len(measured["runs"]) == 8
    assert all(entry["flops_per_s"] > 0 for entry in measured["runs"])


def test_a_wrong_result_is_reported_and_the_status_is_1(run, monkeypatch):
    right = measure.multiply
    monkeypatch.setattr(measure, "multiply", lambda plan, a, b: right(plan, a, b) + 1)
    status, out, _ = run("--measure")
    assert status == 1
    assert "WRONG" in out


def test_a_stopped_measurement_leaves_the_plan(run, monkeypatch):
    def stopped(*_):
        raise measure.Stopped

    monkeypatch.setattr(measure, "measure", stopped)
    status, out, err = run("--measure")
    assert status == 130
    assert "in fp32 on this_cpu" in out
    assert "stopped before there was anything measured" in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--cores", "9"), "1 to 4 cores"),
        (("--measure", "--cores", "2"), "the kernel runs on one core"),
        (("-D", "X=1"), "this-cpu has no variables"),
        (("--machine", "cpu_core", "--measure"), "only for --machine this-cpu"),
        (("--dtype", "fp8"), "gives no flops for fp8"),
        (("--measure", "--accumulator", "fp64"), "fp32 or fp64, sums of the same type"),
    ],
)
def test_what_does_not_go_together_is_refused(run, words, message):
    status, out, err = run(*words)
    assert (status, out) == (2, "")
    assert message in " ".join(err.replace("│", " ").split())
