"""What `import einmap` gives, and what it must not bring along."""

import ast
import json
import pickle
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import einmap

PACKAGE = Path(einmap.__file__).parent


def imports_for_type_checkers() -> list[ast.ImportFrom]:
    """The imports below `if TYPE_CHECKING:` of einmap/__init__.py."""
    body = ast.parse((PACKAGE / "__init__.py").read_text(encoding="utf-8")).body
    checked = next(s for s in body if isinstance(s, ast.If) and ast.unparse(s.test) == "TYPE_CHECKING")
    return [s for s in checked.body if isinstance(s, ast.ImportFrom)]


def in_a_new_process(code: str) -> object:
    """What the code prints, as JSON."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def test_all_type_checkers_and_the_table_of_homes_have_the_same_names():
    public = {alias.asname: line.module for line in imports_for_type_checkers() for alias in line.names}
    assert sorted(einmap.__all__) == sorted(public)
    assert public == einmap._HOMES
    assert [ast.unparse(s) for s in imports_for_type_checkers() if any(a.asname != a.name for a in s.names)] == []


def test_every_public_name_is_that_of_its_module():
    for name, home in einmap._HOMES.items():
        assert getattr(einmap, name) is getattr(import_module(home), name)


def test_names_are_there_for_dir_stars_and_pickles_and_others_are_not():
    assert {*einmap.__all__, "__version__"} <= {*dir(einmap)}
    code = (
        "import json; from einmap import *; print(json.dumps(sorted(n for n in dir() if n[0] != '_' and n != 'json')))"
    )
    assert in_a_new_process(code) == sorted(einmap.__all__)
    assert pickle.loads(pickle.dumps(einmap.Level)) is einmap.Level
    with pytest.raises(AttributeError, match="module 'einmap' has no attribute 'evalute'"):
        einmap.evalute  # noqa: B018
    with pytest.raises(ImportError, match="cannot import name 'evalute'"):
        from einmap import evalute  # noqa: F401
    assert not hasattr(einmap, "a.b")


def test_sub_packages_are_attributes_and_do_not_take_the_place_of_functions():
    code = (
        "import json, einmap; parts = [einmap.errors.SpecError.__name__, einmap.mapping.__name__];"
        "import einmap.emit.printers.print_c, einmap.execute.execute, einmap.sweep.sweep;"
        "print(json.dumps([*parts, *(callable(f) for f in (einmap.emit, einmap.execute, einmap.sweep))]))"
    )
    assert in_a_new_process(code) == ["SpecError", "einmap.mapping", True, True, True]


def test_distribute_is_the_package_alone_and_the_function_has_a_name_of_its_own():
    for first in ("einmap.distribute", "einmap.distribute_workload"):
        code = (
            f"import json, einmap; {first}; import einmap.distribute.placements.mesh as mesh;"
            "found = einmap.distribute; from einmap import distribute;"
            "print(json.dumps([found is distribute, distribute.__name__, found.placements.mesh is mesh,"
            " callable(einmap.distribute_workload), 'distribute' in einmap.__all__]))"
        )
        assert in_a_new_process(code) == [True, "einmap.distribute", True, True, False]


def test_files_in_place_of_a_specification_are_an_error_that_says_how_to_load_them():
    for function in (einmap.evaluate, einmap.map_workload):
        with pytest.raises(TypeError, match=r"takes a specification, found a str; einmap.load"):
            function("arch.yaml")


def test_the_version_is_that_of_the_project():
    project = PACKAGE.parents[1] / "pyproject.toml"
    written = [line for line in project.read_text().splitlines() if line.startswith("version = ")]
    assert written == [f'version = "{einmap.__version__}"']


MODULES = (
    "print(json.dumps([len([m for m in sys.modules if m.startswith('einmap')]), sorted(HEAVY & sys.modules.keys())]))"
)
HEAVY = {
    "numba", "numpy", "jax", "matplotlib", "pydantic", "ruamel.yaml", "jinja2", "typer", "rich", "pyarrow", "pandas",
    "IPython", "psutil",
}  # fmt: skip
HELP = "from einmap.cli.main import main\ntry: main(sys.argv[1:])\nexcept SystemExit: pass"


@pytest.mark.parametrize(
    ("code", "words", "most", "needed"),
    [
        ("import einmap", [], 5, set()),
        ("import einmap; einmap.__version__", [], 5, set()),
        ("import einmap; einmap.SpecError", [], 9, set()),
        ("import einmap.cli.main", [], 12, {"typer"}),
        (HELP, ["--help"], 12, {"typer", "rich"}),
        (HELP, ["--version"], 12, {"typer"}),
        (HELP, ["schema", "-o", "/"], 146, {"typer", "rich", "pydantic", "ruamel.yaml", "numpy"}),
    ],
    ids=["import", "version", "one class", "command line", "--help", "--version", "schema"],
)
def test_what_starts_brings_along_only_what_it_needs(code, words, most, needed):
    whole = f"import json, sys\nHEAVY = {HEAVY!r}\n{code}\n{MODULES}"
    done = subprocess.run([sys.executable, "-c", whole, *words], capture_output=True, text=True, check=True)
    count, loaded = json.loads(done.stdout.splitlines()[-1])
    assert count <= most
    assert {*loaded} <= needed


def test_the_help_of_the_whole_says_of_each_command_what_its_own_help_begins_with():
    from einmap.cli.registry import Commands, summary_of

    for name, command in Commands().items():
        assert summary_of(name) == " ".join(command.help.partition("\n\n")[0].split())


def test_init_files_of_sub_packages_hold_a_docstring_and_nothing_else():
    for file in PACKAGE.glob("*/**/__init__.py"):
        module = ast.parse(file.read_text(encoding="utf-8"))
        assert ast.get_docstring(module), f"{file} has no docstring"
        assert len(module.body) == 1, f"{file} holds more than a docstring"


def test_every_directory_of_modules_is_a_package():
    # A directory without __init__.py would be unseen by the check of the layers.
    folders = {file.parent for file in PACKAGE.rglob("*.py")}
    assert [folder for folder in folders if not (folder / "__init__.py").is_file()] == []
