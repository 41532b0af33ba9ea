"""The guides are true, the house is tidy: every module is in its room's guide, links lead somewhere, nothing is too long."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "einmap"
FILES = sorted(SOURCE.rglob("*.py"))
ROOMS = sorted({file.parent for file in FILES if (file.parent / "__init__.py").exists()} - {SOURCE})
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])

LONG_FILES: dict[str, str] = {
    "model/evaluate.py": "the steps of an evaluation on one page",
}
"""Files of more than 450 lines, with the reason."""
LONG_FUNCTIONS: dict[str, str] = {
    "execute/kernel/kernels.py:run_leaf": "a compiled kernel: calls between kernels cost time to compile",
    "mapper/branch_and_bound/kernels.py:search": "a compiled kernel: calls between kernels cost time to compile",
    "mapper/fusion/fronts/nests/nest_kernels.py:outer_nests": "a compiled kernel: one state machine, so that it can pause",
}
"""Functions of more than 60 lines, with the reason."""
MANY_ARGUMENTS: dict[str, str] = {
    "distribute/derive.py:distribute_workload": "a parameter for each field of a distribution",
    "execute/kernel/kernels.py:run_leaf": "a compiled kernel: calls between kernels cost time to compile",
    "mapper/branch_and_bound/kernels.py:search": "a compiled kernel: records of arrays take 10 % longer",
    "mapper/cost_bounds/before_plans/placement_kernels.py:least_to_go": "a compiled kernel: records of arrays take longer to call",
    "mapper/cost_bounds/cost_to_go/dense_kernels.py:over_lanes": "a compiled kernel: calls between kernels cost time to compile",
    "mapper/cost_bounds/cost_to_go/dense_kernels.py:with_gap_and_node": "a compiled kernel: calls between kernels cost time to compile",
    "mapper/cost_bounds/cost_to_go/sparse_kernels.py:rows_above_gap": "a compiled kernel: calls between kernels cost time to compile",
    "mapper/fusion/fronts/nests/nest_kernels.py:judged": "a compiled kernel: records of arrays take longer to call",
    "mapper/fusion/fronts/nests/nest_kernels.py:outer_nests": "a compiled kernel: records of arrays take longer to call",
    "facade.py:map_workload": "public: a keyword for each option",
    "matmul/machine/machine.py:of": "public: a keyword for each field",
    "matmul/measured/registers.py:add_tile": "an intrinsic: the compiler passes values one by one",
    "matmul/plan.py:plan_matmul": "public: a keyword for each option",
    "sweep/sweep.py:sweep": "public: a keyword for each option",
}
"""Functions of more than 8 arguments, with the reason."""
FULL_ROOMS: dict[str, str] = {}
"""Packages of more than 10 modules beside their rooms, or of more than 15 in all, with the reason."""


def name_of(path):
    return path.relative_to(SOURCE).as_posix()


def members(room):
    """Modules and rooms in a room."""
    files = {file.stem for file in room.glob("*.py")} - {"__init__"}
    return files | {folder.name for folder in room.iterdir() if any(folder.glob("*.py"))}


@pytest.mark.parametrize("room", ROOMS, ids=name_of)
def test_the_guide_of_a_room_names_its_modules_and_no_others(room):
    guide = ast.get_docstring(ast.parse((room / "__init__.py").read_text()))
    assert guide is not None
    named = set(re.findall(r"^- `(\w+)`", guide, re.MULTILINE))
    assert named == members(room)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_of_a_page_lead_to_files_of_the_repository(page):
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    targets = [target for target in re.findall(r"\]\(([^)#\s]+)", text) if "://" not in target]
    files = re.findall(r"`((?:src|tests|benchmarks|docs)/[\w./]+\.(?:py|md|yaml))`", text)
    missing = [t for t in targets if not (page.parent / t).exists()] + [f for f in files if not (ROOT / f).exists()]
    assert missing == []


def test_pages_that_code_speaks_of_exist():
    places = [(file, page) for file in FILES for page in re.findall(r"\bdocs/[\w-]+\.md\b", file.read_text())]
    assert [(name_of(file), page) for file, page in places if not (ROOT / page).exists()] == []


def test_decisions_have_numbers_of_their_own_and_a_status():
    heads = re.findall(r"^(\d+)\. (\*\S+, \w+)?", (ROOT / "docs" / "decisions.md").read_text(), re.MULTILINE)
    numbers = [number for number, _ in heads]
    assert [number for number in numbers if numbers.count(number) > 1] == []
    assert [number for number, status in heads if not status] == []


@cache
def nodes():
    """All classes, functions and modules of the package with their files."""
    kinds = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    return [(file, n) for file in FILES for n in statements(ast.parse(file.read_text())) if isinstance(n, kinds)]


def statements(node):
    """A node with all statements in it; expressions, most of what `ast.walk` goes through, are left out."""
    yield node
    for name in ("body", "orelse", "finalbody", "handlers", "cases"):
        for inner in getattr(node, name, ()):
            yield from statements(inner)


def functions():
    """All functions of the package: (name, lines, arguments)."""
    for file, node in nodes():
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            arguments = [a.arg for a in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
            n = len(arguments) - (arguments[:1] in (["self"], ["cls"]))
            assert node.end_lineno is not None
            yield f"{name_of(file)}:{node.name}", node.end_lineno - node.lineno + 1, n


def test_what_is_long_has_a_reason():
    files = {name_of(file): file.read_text().count("\n") for file in FILES}
    assert {name for name, lines in files.items() if lines > 450} == set(LONG_FILES)
    every = list(functions())
    assert {name for name, lines, _ in every if lines > 60} == set(LONG_FUNCTIONS)
    assert {name for name, _, n in every if n > 8} == set(MANY_ARGUMENTS)
    most = {room: 10 if any(room.glob("*/__init__.py")) else 15 for room in ROOMS}
    full = {name_of(room) for room in ROOMS if len(list(room.glob("*.py"))) - 1 > most[room]}
    assert full == set(FULL_ROOMS)


RELATIVE = re.compile(r"(The same|That of|Those|All of|Of all|As given|As above|Its |Of it\b|Same )")


def test_docstrings_stand_alone():
    """A reader meets them in a tooltip, without their neighbours."""
    relative = [
        name_of(file) for file in FILES if re.search(r'^ *"""(?:The same|What)\b', file.read_text(), re.MULTILINE)
    ]
    for file, node in nodes():
        text = ast.get_docstring(node) or ""
        relative += [f"{name_of(file)}: {text[:60]}"] if RELATIVE.match(text) else []
    assert relative == []


def assigned(function):
    """Names of attributes of self that a method assigns."""
    for node in ast.walk(function):
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        for target in targets:
            for part in target.elts if isinstance(target, ast.Tuple) else [target]:
                if isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name) and part.value.id == "self":
                    yield part.attr


def classes():
    """All classes of the package: (name, names of bases, names declared or made with an object, other assignments)."""
    for file, node in nodes():
        if not isinstance(node, ast.ClassDef):
            continue
        made = {s.target.id for s in node.body if isinstance(s, ast.AnnAssign) and isinstance(s.target, ast.Name)}
        made |= {t.id for s in node.body if isinstance(s, ast.Assign) for t in s.targets if isinstance(t, ast.Name)}
        later = set()
        for method in (m for m in node.body if isinstance(m, ast.FunctionDef)):
            is_maker = method.name in ("__init__", "__post_init__", "__new__")
            (made if is_maker else later).update(assigned(method))
        yield (file, node.name), [base.id for base in node.bases if isinstance(base, ast.Name)], made, later


def test_objects_have_all_their_attributes_when_they_are_made():
    found = list(classes())
    made = {name: names for name, _, names, _ in found}
    bases = {name: own for name, own, _, _ in found}

    def inherited(key):
        above = [other for other in made for base in bases[key] if other[1] == base and other != key]
        return made[key].union(*map(inherited, above))

    assert {name_of(name[0]): later - inherited(name) for name, _, _, later in found if later - inherited(name)} == {}


IDENTITIES = {
    "mapper/cost_bounds/cost_to_go/supports.py": "equal sets of points are one array there; arrays cannot be hashed",
    "mapper/mapspace/dataplacement.py": "what holders may keep is told by expressions, which take long to compare",
    "mapper/fusion/paths/stage_edges.py": "equal sets of keys are one object there; the pairs that are united are the same again and again",
    "spec/forms/loop_tree.py": "nodes compare by content; a node that several chains share is looked at once",
    "spec/binding/workload/bind_workload.py": "written values compare by content; those of another specification are known again",
    "spec/binding/workload/read_workload.py": "written values, as above",
    "frontends/yaml/parsing/parse.py": "written values, as above; aliases make one value stand in many places",
    "distribute/search/bounds.py": "equal arrays are one object there, and arrays cannot be hashed",
    "distribute/selection/elimination.py": "tables that many edges share are looked at once; arrays cannot be hashed",
    "distribute/selection/problem.py": "tables of limits, as above",
    "frontends/yaml/template/statements.py": "nodes of Jinja2 compare by content",
}
"""Files in which `id()` is a key, each with its reason."""

NAMESPACES = {
    "spec/spec.py": "whether the mapping was read already",
    "frontends/code.py": "the names that a file of functions defines",
    "model/explanation/values.py": "all fields of a change, for its text",
}
"""Files that look into `__dict__`, each with its reason."""


def test_identity_and_namespaces_of_objects_are_used_for_a_reason_only():
    texts = {name_of(file): file.read_text() for file in FILES}
    assert {name for name, text in texts.items() if re.search(r"(?<![.\w])id\(|map\(id,", text)} == set(IDENTITIES)
    assert {name for name, text in texts.items() if re.search(r"__dict__|\bvars\(", text)} == set(NAMESPACES)
