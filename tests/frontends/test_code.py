import pickle

import pytest

from einmap.errors import SpecError
from einmap.frontends.code import functions_in
from einmap.frontends.yaml.spec import load, loads
from einmap.spec.spec import Spec

SPEC = """
variables: {N: double(2)}
arch:
  nodes:
  - !Memory
    name: Main
    size: inf
    leak_power: 0
    area: 0
    actions: [{name: read, energy: 1, latency: 0}, {name: write, energy: 1, latency: 0}]
  - !Compute {name: MAC, leak_power: 0, area: 0, actions: [{name: compute, energy: 1, latency: double(3)}]}
workload: {rank_sizes: {M: double(N)}, bits_per_value: {All: 8}, einsums: ["Z[m] = A[m]"]}
"""
CODE = "def double(x):\n    return 2 * x\n"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def write(files):
        for name, text in files.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text)
        return tmp_path

    return write


def failure(*args, **options):
    with pytest.raises(SpecError) as caught:
        load(*args, **options)
    return str(caught.value)


def listing(*paths):
    return f"{SPEC}\nconfig: {{expression_custom_functions: {list(paths)}}}\n"


def test_expressions_everywhere_call_functions_that_are_given():
    spec = loads(SPEC, functions={"double": lambda x: 2 * x})
    assert spec.variables.lookup("N") == 4
    assert spec.workload.einsums[0].bounds == (("m", 8),)
    assert spec.arch().components["MAC"].actions[0].throughput == 1 / 6
    assert spec.set("variables.N", "double(5)").variables.lookup("N") == 10
    assert "double" not in spec.get("variables")


def test_specifications_from_python_take_functions_too():
    spec = Spec.from_dict({"variables": {"N": "double(2)"}}, functions={"double": lambda x: 2 * x})
    assert spec.variables.lookup("N") == 4


def test_functions_do_not_stand_in_the_specification():
    with pytest.raises(SpecError, match=r"cannot hold a function(.|\n)*Spec\.from_dict\(\.\.\., functions="):
        Spec.from_dict({"config": {"expression_custom_functions": [lambda: 1]}})


def test_without_the_function_its_name_is_not_defined():
    with pytest.raises(SpecError, match=r":2:16: variables\.N: name 'double' is not defined"):
        loads(SPEC).variables.lookup("N")


def test_a_misspelt_function_gets_a_suggestion():
    with pytest.raises(SpecError, match="did you mean 'double'"):
        loads("variables: {N: duoble(2)}", functions={"double": abs}).variables.lookup("N")


def test_what_a_function_raises_is_placed_where_it_is_called(folder):
    folder({"a.yaml": SPEC, "code.py": "\n\ndef double(x):\n    return x / 0\n"})
    with pytest.raises(SpecError) as caught:
        load("a.yaml", allow_code=["code.py"]).variables.lookup("N")
    assert str(caught.value).startswith(
        "a.yaml:2:16: variables.N: the function double failed (code.py:4): ZeroDivisionError: division by zero"
    )


def test_a_function_in_place_of_a_built_in_one_is_noted():
    notes = loads("variables: {}", functions={"ceil": abs}).load_notes
    assert [str(note) for note in notes] == ["the function ceil takes the place of the built-in one"]


def test_a_file_gives_the_functions_that_it_defines(folder):
    text = "from math import sqrt\nimport os\nLIMIT = 3\ndef f(x): return _g(x)\ndef _g(x): return x + LIMIT\nh = lambda: 1\n"
    folder({"code.py": text})
    found = functions_in(["code.py"])
    assert list(found) == ["f", "h"]
    assert found["f"](4) == 7


def test_a_file_may_say_which_functions_it_gives(folder):
    folder({"code.py": "from math import sqrt\ndef f(): pass\ndef g(): pass\n__all__ = ['sqrt', 'g']"})
    assert list(functions_in(["code.py"])) == ["sqrt", "g"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("x = 1\ndef f(:", "code.py:2: not valid Python: "),
        ("x = 1\n\nx / 0", "code.py:3: the file failed: ZeroDivisionError: division by zero"),
        ("import gone_module", "code.py:1: the file failed: ModuleNotFoundError"),
        ("import sys\nsys.exit()", "code.py:2: the file failed: SystemExit"),
    ],
)
def test_a_file_that_fails_is_placed(folder, text, problem):
    home = folder({"a.yaml": SPEC, "code.py": text})
    assert problem in failure("a.yaml", allow_code=["code.py"])
    assert failure("a.yaml", allow_code=["code.py"]).startswith(str(home))


def test_a_missing_code_file_is_named(folder):
    folder({"a.yaml": SPEC})
    assert "gone.py: there is no such file" in failure("a.yaml", allow_code="gone.py")


def test_one_name_has_one_function(folder):
    folder({"a.yaml": SPEC, "code.py": CODE, "more.py": CODE})
    assert "the function double is defined in" in failure("a.yaml", allow_code=["code.py", "more.py"])
    assert "double is given, and defined in a file" in failure(
        "a.yaml", allow_code=["code.py"], functions={"double": abs}
    )
    assert load("a.yaml", allow_code=["code.py", "./code.py"]).variables.lookup("N") == 4


def test_a_specification_does_not_run_code(folder):
    folder({"a.yaml": listing("code.py"), "code.py": "open('ran', 'w').close()"})
    text = failure("a.yaml")
    assert "config.expression_custom_functions[0]: code in 'code.py' runs only when you allow it" in text
    assert text.startswith("a.yaml:")
    assert "--allow-code code.py" in text
    folder({"other.py": CODE})
    failure("a.yaml", allow_code=["other.py"])
    assert not (folder({}) / "ran").exists()


def test_listed_code_is_found_beside_the_file_first(folder):
    home = folder({"sub/a.yaml": listing("code.py"), "sub/code.py": CODE, "code.py": "def double(x): return 0"})
    spec = load("sub/a.yaml", allow_code=["sub/code.py"])
    assert spec.bound["Z"].einsum is not None
    assert spec.variables.lookup("N") == 4
    assert "runs only when you allow it" in failure("sub/a.yaml", allow_code=["code.py"])
    (home / "sub" / "code.py").unlink()
    assert load("sub/a.yaml", allow_code=["code.py"]).variables.lookup("N") == 0


def test_listed_code_that_is_not_there_names_the_directories(folder):
    home = folder({"sub/a.yaml": listing("gone.py")})
    assert f"file 'gone.py' not found, searched in {home}/sub, {home}" in failure("sub/a.yaml")


def test_listed_code_of_a_specification_from_python_is_refused(folder):
    folder({"code.py": CODE})
    spec = loads(SPEC).set("config.expression_custom_functions", ["code.py"])
    with pytest.raises(SpecError, match=r"which a specification may not bring along\n  hint: give the functions"):
        assert spec.dialect


def test_functions_of_files_reach_other_processes(folder):
    folder({"a.yaml": SPEC, "code.py": CODE})
    spec = load("a.yaml", allow_code=["code.py"])
    copy = pickle.loads(pickle.dumps(spec))
    assert copy == spec
    assert copy.variables.lookup("N") == 4
    assert copy != loads(SPEC)


FANOUTS = """
from typing import NamedTuple

class Leaf:
    pass

class Memory:
    pass

class Pair(NamedTuple):
    first: int
    second: int

def columns(spec):
    spatial = [one for leaf in spec.arch.get_nodes_of_type(Leaf) for one in leaf.spatial]
    return sum(one.fanout for one in spatial if str(one.reuse) == "A" or str(one.may_reuse) == "A")

def names(spec):
    return [leaf.name for leaf in spec.arch.get_nodes_of_type(Memory)] + sorted(spec.arch.variables)

def sizes(spec):
    return spec.workload["rank_sizes"]["M"] + spec["workload"]["rank_sizes"]["M"]

def pair(x):
    return Pair(x, 2 * x)

def second(pair):
    return pair.second

def applied(function, x):
    return function(x)
"""


def test_functions_ask_for_fanouts_as_those_in_circulation_do(folder):
    text = SPEC.replace("nodes:", "variables: {n: 3, late: columns(spec), of_tensors: len(All)}\n  nodes:")
    spatial = "spatial: [{name: X, fanout: n * 2, may_reuse: A}, {name: Y, fanout: 5, reuse: Z}, {name: Q, fanout: 7}]"
    text = text.replace("!Compute {name: MAC,", f"!Compute {{name: MAC, {spatial},").replace(
        "leak_power: 0", "leak_power: late", 1
    )
    folder(
        {
            "a.yaml": text.replace("double(3)", "1").replace("double(2)", "2").replace("double(N)", "4"),
            "code.py": FANOUTS,
        }
    )
    spec = load("a.yaml", allow_code=["code.py"])
    main = "arch.nodes.Main.leak_power"
    assert spec.arch().components["Main"].leak_power == 6
    for expression, value in {
        "len(names(spec))": 2,  # Main, and of the variables n alone: the others need functions of the Einsum
        "sizes(spec)": 8,
        "second(pair(3))": 6,
        "second(applied(pair, 5))": 10,
    }.items():
        assert spec.set(main, expression).arch().components["Main"].leak_power == value
    with pytest.raises(SpecError, match="has no key 'arch'"):
        spec.set(main, "spec.arch").arch()


def test_fanouts_of_components_below_are_known_and_nothing_else_of_them():
    spec = loads(SPEC, functions={"double": lambda x: 2 * x})
    spec = spec.set("arch.nodes.MAC.spatial", [{"name": "X", "fanout": 6}, {"name": "Y", "fanout": 2}])
    sized = spec.set("arch.nodes.Main.leak_power", "MAC.get_fanout() + MAC.get_fanout_along('X')")
    assert sized.arch().components["Main"].leak_power == 18
    with pytest.raises(SpecError, match="MAC is not above; only components above can be referenced"):
        spec.set("arch.nodes.Main.leak_power", "MAC.area").arch()
