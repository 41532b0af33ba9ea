"""Sweep files: what is read from them, and where their errors are."""

import pytest

from einmap import SpecError, sweep
from einmap.sweep.definition.read import read_sweep

FILE = """
sweep:
  specs: [simple]
  axes:
  - {path: arch.GlobalBuffer.size, powers_of_two: {least: 32 * 8, most: 1024}}
  - {name: rows, variable: M, range: {least: 8, most: 24, step: 8}}
  - {name: columns, variable: N, values: [1, 2, 3], linked_with: rows}
  - {name: mode, path: variables.mode, values: ["4 * 2", slow, true, 0.5]}
  where: rows * columns < 40
  workloads:
  - {name: one, files: [matmul], weight: 1 / 4}
  objectives: [edp, area]
  time_limit: 2
"""


def test_a_file_is_read(tmp_path):
    path = tmp_path / "sizes.yaml"
    path.write_text(FILE)
    definition = read_sweep(path)
    grid = definition.grid
    assert [axis.name for axis in grid.axes] == ["GlobalBuffer_size", "rows", "columns", "mode"]
    assert grid.axes[0].values == (256, 512, 1024)
    assert [(axis.values) for axis in grid.axes[1:]] == [(8, 16, 24), (1, 2, 3), (8, "slow", True, 0.5)]
    assert (grid.shape, grid.size) == ((3, 3, 4), 36)
    assert grid.point(17).values == {"GlobalBuffer_size": 512, "rows": 16, "columns": 2, "mode": "slow"}
    assert list(grid.numbers())[:5] == [0, 1, 2, 3, 4]
    assert len(grid.numbers()) == 3 * 2 * 4  # rows * columns: 8, 32, 72
    assert (definition.name, definition.objectives) == ("sizes", ("energy_delay_product", "area"))
    assert (definition.workloads[0].weight, definition.asked.time_limit) == (0.25, 2)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"axs": []}, "axs: unknown field 'axs' of Sweep\n  hint: did you mean 'axes'"),
        ({"specs": ["simpel"]}, "sweep.specs[0]: there is no file 'simpel' here.*\n  hint: did you mean 'simple'"),
        ({"action": "mapp"}, "sweep.action: unknown action 'mapp'\n  hint: did you mean 'map'"),
        ({"objectives": ["enrgy"]}, "sweep.objectives[0]: unknown objective 'enrgy'\n  hint: did you mean 'energy'"),
        ({"metric": "energy,latency"}, "sweep.metric: a mapping is searched for one metric"),
        ({"options": {"max_fusd_loops": 1}}, "has no option 'max_fusd_loops'\n  hint: did you mean 'max_fused_loops'"),
        ({"axes": []}, "sweep.axes: a sweep without axes has no points"),
        ({"axes": [{"values": [1]}]}, "sweep.axes[0]: an axis has either a path or a variable"),
        ({"axes": [{"variable": "M"}]}, "sweep.axes[0]: an axis has one of values, range, powers_of_two, geometric, found none"),
        ({"axes": [{"variable": "M", "values": [1, "2 - 1"]}]}, "sweep.axes[0].values: a value stands there twice"),
        ({"axes": [{"variable": "M", "range": {"least": 3, "most": 2}}]}, "an axis without a value"),
        ({"axes": [{"variable": "M", "range": {"least": 0, "most": 9e9}}]}, "9,000,000,001 values, more than"),
        ({"axes": [{"variable": "M", "geometric": {"least": 0, "most": 8, "count": 3}}]}, "geometric.least: least must be"),
        ({"axes": [{"variable": "M", "geometric": {"least": 8, "most": 8, "count": 3}}]}, "most must be above least"),
        ({"axes": [{"variable": "M", "geometric": {"least": 1, "most": 8, "count": 1}}]}, "an integer of at least 2"),
        ({"mesh": {"x": 2}}, "sweep.mesh: a mesh is for the action plan"),
        ({"action": "plan", "mesh": {"x": 0}}, "sweep.mesh.x: mesh axis x must be >= 1, found 0"),
        ({"action": "plan", "metric": "tme"}, "sweep.metric: unknown metric 'tme' of plans\n  hint: did you mean 'time'"),
        ({"action": "plan"}, "has no distribution\n  hint: give `mesh`"),
        ({"objectives": ["sent_bytes"]}, "sweep.objectives[0]: the action evaluate gives no sent_bytes"),
        ({"action": "plan", "objectives": ["area"]}, "sweep.objectives[0]: the action plan gives no area"),
        ({"axes": [{"variable": "M", "values": [1]}] * 2}, "sweep.axes[1]: two axes are called 'M'"),
        (
            {"axes": [{"variable": "M", "values": [1]}, {"variable": "N", "values": [1], "linked_with": "m"}]},
            "sweep.axes[1].linked_with: there is no axis 'm' above\n  hint: did you mean 'M'",
        ),
        (
            {"axes": [{"variable": "M", "values": [1]}, {"variable": "N", "values": [1, 2], "linked_with": "M"}]},
            "linked axes need equally many values: N has 2 values, M has 1",
        ),
        ({"where": "bufer > 2"}, "sweep.where: name 'bufer' is not defined\n.*did you mean 'buffer'"),
        ({"where": "buffer > 1e9"}, "sweep.where: the conditions leave no point: buffer > 1e9"),
        ({"time_limit": -1}, "sweep.time_limit: time_limit must be >= 0"),
        ({"define": {"MM": 1}}, "define MM: no file has a template variable MM\n  hint: did you mean 'M'"),
        ({"axes": [{"variable": "KK", "values": [1]}]}, "no file has a template variable KK\n  hint: did you mean 'K'"),
        (
            {"axes": [{"path": "arch.GlobalBufer.size", "values": [1]}]},
            "the architecture has no 'GlobalBufer'\n  hint: did you mean 'GlobalBuffer'",
        ),
        ({"axes": [{"path": "arch.GlobalBuffer.sizze", "values": [1]}]}, "unknown field 'sizze'.*\n.*did you mean 'size'"),
        ({"axes": [{"path": "workload.rank_sizes.X", "values": [1]}]}, "workload.rank_sizes.X does not exist"),
        ({"axes": [{"path": "mapper.max_fusd_loops", "values": [1]}]}, "did you mean 'max_fused_loops'"),
        ({"specs": ["simple", "matmul"]}, "there is no mapping to evaluate for workload 'workload'"),
        ({"workloads": [{"name": "a"}] * 2}, "sweep.workloads[1] \"a\".name: two workloads are called 'a'"),
    ],
)  # fmt: skip
def test_errors_say_where_and_what_was_meant(small, change, message):
    pattern = (
        message.replace("[", r"\[").replace("]", r"\]").replace("(", r"\(").replace("*", ".*").replace("..*", ".*")
    )
    with pytest.raises(SpecError, match=pattern):
        sweep({**small, **change}, workers=0)


def test_a_sweep_that_is_not_there_is_an_error_with_a_suggestion(tmp_path):
    with pytest.raises(SpecError, match="no file 'eyeriss_bufer', and no shipped sweep of that name"):
        sweep("eyeriss_bufer")
    path = tmp_path / "a.yaml"
    path.write_text("swep: {}\n")
    with pytest.raises(SpecError, match=r"a\.yaml.*: the key 'sweep' is missing\n  hint: did you mean 'swep'"):
        sweep(path)
    path.write_text("sweep:\n  specs: [simple]\n  axes: [{variable: M, values: 3}]\n")
    with pytest.raises(SpecError, match=r"a.yaml:3:\d+: sweep.axes\[0\].values: expected a list, found 3"):
        sweep(path)


def test_a_file_names_what_lies_beside_it_or_where_it_is_allowed(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "out").mkdir()
    other = tmp_path / "out" / "other.yaml"
    other.write_text("secret: 1\n")
    path = tmp_path / "in" / "a.yaml"
    for name in ("../out/other.yaml", str(other), "../out/none.yaml"):
        path.write_text(f"sweep:\n  specs: [{name}]\n  axes: [{{variable: M, values: [3]}}]\n")
        with pytest.raises(SpecError, match=r"a\.yaml:2:\d+: sweep.specs\[0\]: the path .* leads out of") as refused:
            sweep(path)
        assert "secret" not in str(refused.value)
    path.write_text("sweep:\n  specs: [../out/other.yaml]\n  axes: [{variable: M, values: [3]}]\n")
    with pytest.raises(SpecError, match="unknown top-level key 'secret'"):
        sweep(path, root=tmp_path / "out")


def test_a_sample_is_a_latin_hypercube(small):
    axes = [{"name": n, "path": "arch.GlobalBuffer.size", "range": {"least": 1, "most": 20}} for n in ("a", "b")]
    grid = read_sweep({**small, "axes": axes}).grid
    points = [grid.point(number).values for number in grid.sample(20, seed=3)]
    assert sorted(p["a"] for p in points) == sorted(p["b"] for p in points) == list(range(1, 21))
    assert grid.sample(20, seed=3) == grid.sample(20, seed=3) != grid.sample(20, seed=4)
    assert len(grid.sample(10**6, seed=0)) == 400
    kept = read_sweep({**small, "axes": axes, "where": "a + b < 6"}).grid
    assert set(kept.sample(4, seed=0)) < set(kept.numbers())
    assert len(kept.sample(4, seed=0)) == 4


def test_equal_ratios_have_the_ends_that_were_written_and_integers_between_integers(small):
    def values(**fields):
        axes = [{"name": "a", "path": "arch.GlobalBuffer.size", "geometric": fields}]
        return read_sweep({**small, "axes": axes}).grid.axes[0].values

    assert values(least=256, most=2**25, count=18) == tuple(256 * 2**i for i in range(18))
    assert values(least=10, most=100, count=3) == (10, 32, 100)
    assert values(least=0.1, most=0.9, count=3) == (0.1, pytest.approx(0.3), 0.9)
