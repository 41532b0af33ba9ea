"""Tables and Python files of component models that `config.component_models` names, or that stand among the files."""

import pickle

import pytest

from einmap.errors import SpecError
from einmap.frontends.yaml.spec import load, loads

SPEC = """
arch:
  nodes:
  - !Memory {name: Main, size: inf, component_class: Dummy}
  - !Memory {name: Buffer, component_class: spad, size: 2**18, bits_per_action: 16}
  - !Compute {name: MAC, component_class: unit}
workload: {rank_sizes: {M: 4}, bits_per_value: {All: 8}, einsums: ["Z[m] = A[m]"]}
"""
ERT = """
ERT:
  version: 0.3
  tables:
  - name: system.PE[0..13].spad
    actions:
    - {name: read, arguments: null, energy: 5}
    - {name: write, arguments: null, energy: 6}
"""
ART = "ART: {version: 0.3, tables: [{name: 'system.PE[0..13].spad', area: 100}]}"
COSTS = "component_class, action, energy [pJ], latency [ns]\nunit, compute, 2, 4\n"
MODEL = """
class Unit:
    area = leak_power = 0

    def compute(self):
        return 3e-12, 1e-9
"""
FILES = {"parts/a.ERT.yaml": ERT, "parts/a.ART.yaml": ART, "costs.csv": COSTS, "model.py": MODEL}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "home" / "parts").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "home")

    def write(entries=(), **more):
        (tmp_path / "home" / "spec.yaml").write_text(f"{SPEC}config: {{component_models: {list(entries)}}}\n")
        for name, text in {**FILES, **more}.items():
            (tmp_path / "home" / name).write_text(text)
        return tmp_path / "home"

    return write


def costs(spec):
    parts = spec.arch("Z").components
    return parts["Buffer"].area, [a.energy for a in parts["Buffer"].actions], parts["MAC"].actions[0]


def test_tables_are_models_named_by_the_specification_or_beside_it(folder):
    folder(["parts/*.yaml", "costs.csv"])
    spec = load("spec.yaml")
    area, energies, compute = costs(spec)
    assert (area, energies) == (pytest.approx(100e-12), pytest.approx([5e-12, 6e-12]))
    assert (compute.energy, compute.throughput) == pytest.approx((2e-12, 1 / 4e-9))
    assert not spec.runs_code and pickle.loads(pickle.dumps(spec)) == spec
    folder()
    beside = load("*.yaml", ["parts/a.ERT.yaml", "parts/a.ART.yaml"], "costs.csv")
    assert costs(beside) == costs(spec)
    assert beside.models.fingerprint == spec.models.fingerprint != load("spec.yaml").models.fingerprint


def test_python_files_with_models_run_only_when_they_are_allowed(folder):
    folder(["model.py", "parts/*.yaml"])
    with pytest.raises(SpecError, match=r"component_models\[0\]: code in 'model.py' runs only when you allow it"):
        load("spec.yaml")
    spec = load("spec.yaml", allow_code=["model.py"])
    assert costs(spec)[2].energy == 3e-12
    assert spec.runs_code and not spec.functions
    assert costs(pickle.loads(pickle.dumps(spec)))[2].energy == 3e-12
    folder(["parts/*.yaml"])
    assert costs(load("spec.yaml", "costs.csv", allow_code=["model.py"]))[2].energy == 3e-12  # code before tables


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ("../secret.csv", ["spec.yaml:8:", "config.component_models[0]", "leads out of"]),
        ("/etc/hosts", ["config.component_models[0]", "leads out of"]),
        ("link.csv", ["leads out of"]),
        ("cost.csv", ["no file matches 'cost.csv'", "did you mean 'costs.csv'"]),
        ("other.txt", ["'other.txt' is not a table of component costs", "*.csv"]),
        ("spec.yaml", ["spec.yaml: expected the key ERT or ART"]),
        ("parts/a.ART.yaml", ["a.ART.yaml: an area table without an energy table"]),
    ],
)
def test_files_outside_and_files_that_are_not_tables_are_refused(folder, entry, words):
    home = folder([entry], **{"other.txt": "x"})
    (home.parent / "secret.csv").write_text(COSTS)
    (home / "link.csv").symlink_to(home.parent / "secret.csv")
    with pytest.raises(SpecError) as error:
        load("spec.yaml")
    assert [word for word in words if word not in str(error.value)] == []


def test_a_wrong_cell_of_a_table_is_placed(folder):
    folder(["parts/*.yaml"], **{"parts/a.ERT.yaml": ERT.replace("energy: 6", "energy: much")})
    with pytest.raises(SpecError, match=r"a.ERT.yaml:8:46: ERT.tables\[0\].actions\[1\].energy: energy is 'much'"):
        load("spec.yaml")


def test_two_tables_with_one_component_are_an_error(folder):
    folder(["costs.csv", "more.csv"], **{"more.csv": COSTS})
    with pytest.raises(SpecError, match=r"the component 'unit' is in costs.csv and in more.csv"):
        load("spec.yaml")


def test_a_text_names_no_files(folder):
    folder()
    with pytest.raises(SpecError, match="not read from a file"):
        loads(SPEC + "config: {component_models: [costs.csv]}")
    with pytest.raises(SpecError, match="names files, which only load"):
        load("spec.yaml").set("config.component_models", ["costs.csv"]).arch("Z")
