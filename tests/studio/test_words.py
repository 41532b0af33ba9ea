"""Words of the page: names that deceive are shown with escapes, files by their names, advice that can be followed."""

import json

from tests.studio.serving import near  # noqa: F401

from einmap import Spec, load
from einmap.mapping.nodes import format_address
from einmap.studio.folders import Folders
from einmap.studio.session import Session
from einmap.visible import visible

MATMUL = ("simple", "matmul", "simple_matmul")
DATA = {"id", "yaml", "command", "path"}
"""Fields that are sent back, or are to be copied, as they are."""
LOOK_ALIKE = "\N{CYRILLIC SMALL LETTER A}"


def ask(of, do, **fields):
    return of.handle(json.dumps({"do": do, **fields}))


def deceiving():
    """A specification each of whose names has a letter that looks like another one."""
    text = json.dumps(
        {
            "arch": {
                "nodes": [
                    {"type": "Memory", "name": "M$", "size": "inf", "component_class": "Dummy"},
                    {"type": "Memory", "name": "B$", "size": 8192, "component_class": "Dummy", "actions": [{"name": "read", "energy": 1}]},
                    {"type": "Container", "name": "C$", "spatial": [{"name": "X$", "fanout": 4}]},
                    {"type": "Compute", "name": "P$", "component_class": "Dummy"},
                ]
            },
            "workload": {
                "rank_sizes": {"V$": 4, "W$": 4},
                "bits_per_value": {"All": 8},
                "einsums": ["Z$[V$:v$] = A$[V$:v$, W$:w$] * D$[W$:w$]", "Y$[V$:v$] = Z$[V$:v$]"],
            },
            "mapping": {
                "nodes": [
                    {"type": "Storage", "component": "M$", "tensors": ["A$", "D$", "Z$", "Y$"]},
                    {"type": "Temporal", "rank_variable": "v$", "tile_shape": 2},
                    {"type": "Storage", "component": "B$", "tensors": ["A$", "D$"]},
                    {"type": "Sequential", "nodes": [
                        {"type": "Nested", "nodes": [
                            {"type": "Temporal", "rank_variable": "v$", "tile_shape": 1},
                            {"type": "Temporal", "rank_variable": "w$", "tile_shape": 1},
                            {"type": "Compute", "einsum": "Z$", "component": "P$"},
                        ]},
                        {"type": "Nested", "nodes": [
                            {"type": "Temporal", "rank_variable": "v$", "tile_shape": 1},
                            {"type": "Compute", "einsum": "Y$", "component": "P$"},
                        ]},
                    ]},
                ]
            },
        }
    )  # fmt: skip
    return Spec.from_dict(json.loads(text.replace("$", LOOK_ALIKE)))


def shown(value, key=""):
    """Every text of an answer but data."""
    match value:
        case dict():
            for name, one in value.items():
                is_move = name == "text" and "shown" in value  # a move as it is sent back, beside how it is shown
                yield from () if name in DATA or is_move else shown(one, name)
        case list():
            for one in value:
                yield from shown(one, key)
        case str():
            yield value


def test_no_name_is_shown_that_looks_like_another_one():
    of = Session(deceiving())
    answers = [ask(of, do) for do in ("look", "details", "notes", "play", "files")]
    answers += [ask(of, "draw", what=what) for what in ("arch", "workload")]
    for placed in of.mapping.placed:
        answers.append(ask(of, "moves", node=format_address(placed.address)))
    options = [one["text"] for answer in answers if answer["kind"] == "moves" for one in answer["options"]]
    assert any(LOOK_ALIKE in text for text in options)
    answers += [ask(of, "move", text=text) for text in options]
    answers += [ask(of, "explain", component=f"B{LOOK_ALIKE}"), ask(of, "compare", other="first")]
    assert {answer["kind"] for answer in answers} >= {"state", "moves", "error", "run", "drawing", "difference"}
    texts = [text.replace("\N{NO-BREAK SPACE}", " ") for answer in answers for text in shown(answer)]
    assert [text for text in texts if text != visible(text)] == []


def test_an_opened_file_is_named_where_it_is_wrong(tmp_path):
    of = Session(load(*MATMUL), MATMUL, Folders.of([tmp_path]))
    (tmp_path / "mine.yaml").write_text("\n" + ask(of, "text")["yaml"].replace("tile_shape: 16", "tile_shape: x", 1))
    assert ask(of, "open", file="mine.yaml")["message"].startswith("mine.yaml:")
    (tmp_path / "mine.yaml").write_text("mapping: [")
    assert ask(of, "open", file="mine.yaml")["message"].startswith("mine.yaml:1")
    assert "<text>" not in ask(of, "open", text="mapping: [")["message"]


def test_the_advice_for_a_run_that_is_too_large_names_sizes_and_no_option():
    of = Session(load(*MATMUL).set("workload.rank_sizes.M", 4096))
    answer = ask(of, "play")
    assert "Einsum Z has m 4,096, k 64, n 64" in answer["hint"]
    assert "-D" not in answer["hint"]


def test_what_a_search_has_found_of_another_specification_is_neither_shown_nor_kept(near):  # noqa: F811
    of = Session(load(*MATMUL))
    ask(of, "search", metric="edp", seconds=3000.0)
    of.search.wait()
    state = ask(of, "progress")
    assert (state["search"]["optimal"], state["search"]["other"]) == (True, False)
    assert state["numbers"][2]["gap"]
    smaller = ask(Session(load(*MATMUL).set("workload.rank_sizes.N", 32)), "export", what="spec")["text"]
    for do, fields in (
        ("lesson", {"name": "stationary"}),
        ("set", {"path": "arch.nodes[1].actions[0].energy", "value": "1 pJ"}),
        ("open", {"text": smaller}),
    ):
        other = ask(of, do, **fields)
        assert other["kind"] == "state"
        assert other["search"] is None
        assert [row["gap"] for row in other["numbers"]] == ["", "", ""]
        before = of.now
        for answer in (ask(of, "keep"), ask(of, "compare", other="found")):
            assert answer["message"] == "the search was of another architecture or workload"
        assert of.now is before
        ask(of, "lesson")
        state = ask(of, "undo")
        assert state["search"]["optimal"]
        assert state["numbers"][2]["gap"]
    assert ask(of, "keep")["numbers"][2]["gap"] == "0%"
