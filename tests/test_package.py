"""What `import einmap` gives, and what it must not bring along."""

import ast
import subprocess
import sys
from pathlib import Path

import einmap

PACKAGE = Path(einmap.__file__).parent


def statements_of_the_package() -> list[ast.stmt]:
    """The statements of einmap/__init__.py after its docstring."""
    docstring, *rest = ast.parse((PACKAGE / "__init__.py").read_text(encoding="utf-8")).body
    assert isinstance(docstring, ast.Expr)
    return rest


def public_imports() -> list[ast.ImportFrom]:
    return [s for s in statements_of_the_package() if isinstance(s, ast.ImportFrom)]


def test_all_lists_the_public_names():
    public = {alias.asname or alias.name for line in public_imports() for alias in line.names}
    assert sorted(einmap.__all__) == sorted(public)
    assert [name for name in einmap.__all__ if not hasattr(einmap, name)] == []


def test_every_public_name_is_imported_as_itself_from_a_module_of_einmap():
    imports = public_imports()
    assert [ast.unparse(s) for s in imports if not (s.module or "").startswith("einmap.")] == []
    assert [ast.unparse(s) for s in imports if any(a.asname != a.name for a in s.names)] == []


def test_the_package_holds_its_imports_and_all_and_nothing_else():
    others = [s for s in statements_of_the_package() if not isinstance(s, ast.ImportFrom)]
    assert [ast.unparse(s).split(" = ")[0] for s in others] == ["__all__"]


def test_init_files_of_sub_packages_hold_a_docstring_and_nothing_else():
    for file in PACKAGE.glob("*/**/__init__.py"):
        module = ast.parse(file.read_text(encoding="utf-8"))
        assert ast.get_docstring(module), f"{file} has no docstring"
        assert len(module.body) == 1, f"{file} holds more than a docstring"


def test_every_directory_of_modules_is_a_package():
    # A directory without __init__.py would be unseen by the check of the layers.
    folders = {file.parent for file in PACKAGE.rglob("*.py")}
    assert [folder for folder in folders if not (folder / "__init__.py").is_file()] == []


def test_import_einmap_does_not_import_heavy_libraries():
    code = "import sys, einmap; print(sorted({'numba', 'typer', 'rich'} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
