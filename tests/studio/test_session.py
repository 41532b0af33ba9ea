"""The session of the studio: moves end in the mapping that the command gives, and bad ones change nothing."""

import json
import shlex
import sys

import pytest
from tests.studio.serving import near  # noqa: F401

from einmap import Spec, evaluate, load, map_workload
from einmap.cli.main import main
from einmap.errors import MappingError, SpecError
from einmap.mapping.mapping import Mapping
from einmap.mapping.nodes import Compute, PerEinsum, Sequential, Storage, Temporal
from einmap.mapping.pretty import pretty
from einmap.mapping.rewrite.text import USAGE
from einmap.studio.folders import Folders
from einmap.studio.session import Session

MATMUL = ("simple", "matmul", "simple_matmul")
FUSED = ("simple", "two_matvecs", "simple_two_matvecs_fused")


def session(*files, folders=()):
    files = files or MATMUL
    return Session(load(*files), files, Folders.of(folders))


def ask(of, do, **fields):
    return of.handle(json.dumps({"do": do, **fields}))


def by_name(state):
    return {row["name"]: row["value"] for row in state["numbers"]}


MOVES = [
    ("sink B@GlobalBuffer",),
    ("split k 8", "sink B@GlobalBuffer below k#1"),
    ("interchange nodes[6]", "reshape nodes[1] 8"),
    ("bypass A@GlobalBuffer", "keep A@GlobalBuffer above nodes[1]"),
    ("hoist nodes[2] above nodes[1]",),
]


@pytest.mark.parametrize("steps", MOVES)
def test_moves_end_in_the_yaml_and_the_numbers_of_the_command(steps, tmp_path, capsys):
    of = session()
    for step in steps:
        state = ask(of, "move", text=step)
        assert state["kind"] == "state"
    command = ask(of, "text")["command"]
    assert command == shlex.join(["einmap", "rewrite", *MATMUL, *(w for step in steps for w in ("--do", step))])
    with pytest.raises(SystemExit):
        main([*shlex.split(command)[1:], "-o", str(tmp_path / "after.yaml")])
    capsys.readouterr()
    written = (tmp_path / "after.yaml").read_text()
    assert "".join(f"{line}\n" for line in written.splitlines() if line[:1] != "#") == ask(of, "text")["yaml"]
    cost = evaluate(load("simple", "matmul", tmp_path / "after.yaml"))
    assert by_name(state) == {"energy": cost.energy, "latency": cost.latency, "edp": cost.edp}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("bypass A@MainMemory", "outermost memory that holds the input 'A'"),
        ("interchange nodes[1]", "stands directly below this loop"),
        ("hoist nodes[4] above nodes[99]", "no node nodes[99]"),
        ("keep A@MAC above nodes[1]", "MAC"),
        ("split k", "cannot be read"),
    ],
)
def test_an_invalid_move_changes_nothing_and_says_why(text, words):
    of = session()
    before = pretty(of.mapping), of.revision
    answer = ask(of, "move", text=text)
    assert answer["kind"] == "error"
    assert words in answer["message"]
    assert (pretty(of.mapping), of.revision) == before


def test_a_move_that_does_not_fit_the_hardware_changes_nothing():
    of = Session(load(*MATMUL).set("arch.nodes.GlobalBuffer.size", 10_400))
    ask(of, "move", text="sink B@GlobalBuffer")
    before = pretty(of.mapping)
    answer = ask(of, "move", text="hoist B@GlobalBuffer above nodes[3]")
    assert answer["kind"] == "error"
    assert "memory 'GlobalBuffer' needs" in answer["message"]
    assert pretty(of.mapping) == before


@pytest.mark.parametrize("files", [MATMUL, FUSED, ("tpu_v4i", "matmul", "tpu_v4i_matmul")])
def test_what_is_offered_applies_and_what_is_barred_says_why(files):
    spec = load(*files, define={"M": 256, "K": 256, "N": 512} if "tpu_v4i" in files else {})
    of = Session(spec)
    kinds = set()
    for placed in of.mapping.placed:
        for option in ask(of, "moves", node=format_at(placed.address))["options"]:
            before = pretty(of.mapping)
            answer = ask(of, "move", text=option["text"])
            if option["why"] is None:
                kinds.add(option["kind"])
                if answer["kind"] == "state":
                    ask(of, "undo")
                else:  # what only an evaluation finds
                    assert any(words in answer["message"] for words in ("needs", "fanout", "exceeds", "in parts"))
            else:
                assert answer["kind"] == "error"
            assert pretty(of.mapping) == before
    assert kinds >= {"place", "split"}


def format_at(address):
    return ".".join(f"nodes[{step}]" for step in address)


def test_a_slider_is_one_step_however_far_it_goes():
    of = session()
    for shape in (8, 4, 2):
        ask(of, "move", text=f"reshape nodes[1] {shape}", instead=shape != 8)
    assert ask(of, "text")["command"].endswith("--do 'reshape nodes[1] 2'")
    state = ask(of, "undo")
    assert state["tree"][1]["shape"] == "16"
    ask(of, "move", text="reshape nodes[3] 8", instead=True)
    ask(of, "move", text="reshape nodes[1] 8", instead=True)
    assert ask(of, "look")["undo"] == 2


def test_steps_are_undone_and_done_again_and_an_end_is_an_error():
    of = session()
    first = pretty(of.mapping)
    ask(of, "move", text="split k 8")
    second = pretty(of.mapping)
    ask(of, "undo")
    assert pretty(of.mapping) == first
    assert ask(of, "undo")["message"] == "there is nothing to undo"
    ask(of, "redo")
    assert pretty(of.mapping) == second
    assert ask(of, "redo")["kind"] == "error"
    ask(of, "reset")
    assert pretty(of.mapping) == first
    ask(of, "undo")
    assert pretty(of.mapping) == second


def test_after_more_steps_than_are_kept_no_command_is_given_and_it_begins_again_from_the_first(monkeypatch):
    monkeypatch.setattr(sys.modules[Session.__module__], "LONGEST_HISTORY", 3)
    of = session()
    first = of.mapping
    for rows in (8, 16, 32, 8):
        ask(of, "move", text=f"reshape m#1 {rows}")
    assert (ask(of, "look")["undo"], ask(of, "text")["command"]) == (3, "")
    ask(of, "reset")
    assert of.mapping == first


def test_changes_are_against_the_last_step_and_bars_add_up_to_the_total():
    of = session()
    state = ask(of, "move", text="bypass B@GlobalBuffer")
    before, after = evaluate(load(*MATMUL)), evaluate(of.now.spec, of.mapping)
    assert [row["tone"] for row in state["numbers"]] == ["bad", "bad" if after.latency > before.latency else "", "bad"]
    bars = state["bars"]["energy"]
    assert sum(bar["value"] for bar in bars) == pytest.approx(after.energy)
    assert sum(bar["before"] for bar in bars) == pytest.approx(before.energy)
    assert all(sum(part["value"] for part in bar["parts"]) == pytest.approx(bar["value"]) for bar in bars)


def test_a_search_is_begun_stopped_and_kept_and_gives_the_gap(near):  # noqa: F811
    of = session()
    assert ask(of, "keep")["kind"] == "error"
    ask(of, "search", metric="edp", seconds=3000.0)
    of.search.wait()
    state = ask(of, "progress")
    assert state["search"]["optimal"]
    gap = {row["name"]: row["gap"] for row in state["numbers"]}
    assert gap == {"energy": "", "latency": "", "edp": "20%"}
    assert "LoopTree" in ask(of, "compare", other="found")["text"]
    state = ask(of, "keep")
    assert by_name(state)["edp"] == state["search"]["value"]
    assert next(row["gap"] for row in state["numbers"] if row["name"] == "edp") == "0%"
    assert ask(of, "text")["command"] == ""


def test_a_front_is_clicked_through(near):  # noqa: F811
    of = session()
    ask(of, "search", metric="front", seconds=3000.0)
    of.search.wait()
    front = ask(of, "progress")["search"]["front"]
    best = map_workload(load(*MATMUL), metrics="energy,latency").front
    assert [(one["energy"], one["latency"]) for one in front] == [(one.cost.energy, one.cost.latency) for one in best]
    for index, one in enumerate(front):
        state = ask(of, "keep", index=index)
        assert by_name(state)["energy"] == one["energy"]
    assert "has not found a mapping" in ask(of, "keep", index=len(front))["message"]


def test_many_einsums_are_offered_a_bounded_number_of_moves():
    ranks = {"M": 4} | {f"N{i}": 4 for i in range(41)}
    einsums = [f"T{i + 1}[m, n{i + 1}] = T{i}[m, n{i}] * W{i}[n{i}, n{i + 1}]" for i in range(40)]
    arch = load("simple").to_dict()["arch"]
    spec = Spec.from_dict(
        {"arch": arch, "workload": {"rank_sizes": ranks, "bits_per_value": {"All": 8}, "einsums": einsums}}
    )

    def branch(i):
        loops = (Temporal(PerEinsum(v), PerEinsum(1)) for v in ("m", f"n{i}", f"n{i + 1}"))
        return (Storage((f"T{i}", f"W{i}", f"T{i + 1}"), "GlobalBuffer"), *loops, Compute(f"T{i + 1}", "MAC"))

    tensors = (*(f"T{i}" for i in range(41)), *(f"W{i}" for i in range(40)))
    nodes = (Storage(tensors, "MainMemory"), Sequential(tuple(branch(i) for i in range(40))))
    of = Session(spec.with_mapping(Mapping(nodes)))
    for node in ("nodes[0]", "nodes[1]", "nodes[1].nodes[9].nodes[1]"):
        answer = ask(of, "moves", node=node)
        assert 0 < len(answer["options"]) <= 125
        assert len(json.dumps(answer)) < 200_000


def test_what_is_pinned_stays_in_what_a_search_completes(near):  # noqa: F811
    of = session()
    assert ask(of, "search", pinned=True)["message"] == "nothing is pinned"
    ask(of, "pin", node="nodes[3]")
    state = ask(of, "pin", node="nodes[4]")
    assert state["pins"] == 2
    ask(of, "search", metric="energy", pinned=True, seconds=3000.0)
    of.search.wait()
    assert ask(of, "progress")["search"]["optimal"]
    assert [row["gap"] for row in ask(of, "look")["numbers"]] == ["", "", ""]  # it is not the optimum of all
    ask(of, "keep")
    lines = [line.strip() for line in pretty(of.mapping).splitlines()]
    assert "for n by 16" in lines
    assert any(
        line.startswith("[GlobalBuffer holds") and {"B", "Z"} <= {*line[20:-1].replace(" ", "").split(",")}
        for line in lines
    )


def test_any_two_steps_are_compared_in_words():
    of = session()
    ask(of, "move", text="split k 8")
    state = ask(of, "move", text="reshape nodes[1] 8")
    assert state["steps"] == ["begin", "split k 8", "reshape nodes[1] 8"]
    assert "k by 8" in ask(of, "compare", other=0, step=1)["text"]
    assert "for m by 16  for m by 8" in ask(of, "compare", other=1, step=2)["text"]
    assert ask(of, "compare", other=2)["text"] == "no difference"
    assert ask(of, "compare", other="before") == ask(of, "compare", other=1, step=2)
    assert ask(of, "compare", other="first") == ask(of, "compare", other=0, step=2)
    assert ask(of, "compare", other=3)["message"] == "there is no step 3"
    assert ask(of, "compare", other=-1)["kind"] == "error"


def pinned(state):
    return [(node["at"], node["text"]) for node in state["tree"] if node.get("pinned")]


def test_pins_follow_their_nodes_through_moves_and_back():
    of = session()
    ask(of, "pin", node="nodes[3]")
    begun = pinned(ask(of, "pin", node="nodes[4]"))
    assert begun == [("nodes[3]", "for n by 16"), ("nodes[4]", "[GlobalBuffer holds B, Z]")]
    assert pinned(ask(of, "move", text="split nodes[1] 32")) == [
        ("nodes[4]", "for n by 16"), ("nodes[5]", "[GlobalBuffer holds B, Z]"),
    ]  # fmt: skip
    state = ask(of, "move", text="hoist B@nodes[5] above nodes[1]")  # the node is taken apart
    held = [text for _, text in pinned(state) if "Global" in text]
    assert held == ["[GlobalBuffer holds B]", "[GlobalBuffer holds Z]"]
    ask(of, "undo")
    ask(of, "undo")
    assert ("nodes[3]", "for n by 16") in pinned(ask(of, "look"))
    state = ask(of, "move", text="reshape nodes[3] 8")
    assert ("nodes[3]", "for n by 8") in pinned(state)
    of = session()
    ask(of, "pin", node="nodes[5]")
    assert pinned(ask(of, "move", text="interchange nodes[6] nodes[5]"))[0][0] == "nodes[6]"


def test_a_number_of_the_architecture_is_changed_and_undone():
    of = session()
    fields = {
        f["name"]: f for one in ask(of, "look")["architecture"] if one["name"] == "GlobalBuffer" for f in one["fields"]
    }
    state = ask(of, "set", path=fields["read energy"]["path"], value="1e-12")
    expected = evaluate(load(*MATMUL).set("arch.nodes.GlobalBuffer.actions.read.energy", 1e-12))
    assert by_name(state)["energy"] == expected.energy
    assert ask(of, "set", path=fields["size"]["path"], value="8")["kind"] == "error"
    assert ask(of, "set", path="workload.rank_sizes.M", value="8")["kind"] == "error"
    assert ask(of, "set", path="arch.nodes.Nothing.size", value="8")["kind"] == "error"
    assert by_name(ask(of, "undo"))["energy"] == evaluate(load(*MATMUL)).energy


@pytest.mark.parametrize(
    ("name", "text", "value", "shown"),
    [
        ("size", "128 KiB", 128 * 1024 * 8, "128 KiB"),
        ("size", "524,288", 524288, "64 KiB"),
        ("read energy", "1.5 pJ", 1.5e-12, "1.5 pJ"),
        ("leak_power", "2 mW", 2e-3, "2 mW"),
    ],
)
def test_a_number_is_changed_with_its_unit(name, text, value, shown):
    def field(state):
        (unit,) = (one for one in state["architecture"] if one["name"] == "GlobalBuffer")
        return next(f for f in unit["fields"] if f["name"] == name)

    of = session()
    path = field(ask(of, "look"))["path"]
    state = ask(of, "set", path=path, value=text)
    assert by_name(state)["energy"] == evaluate(load(*MATMUL).set(path, value)).energy
    assert (float(field(state)["value"]), field(state)["shown"]) == (value, shown)


@pytest.mark.parametrize(
    ("field", "text", "words"),
    [
        ("size", "128 parsecs", ["'128 parsecs' is not in bits", "128 KiB"]),
        ("size", "1 KB", ["is not in bits"]),
        ("size", "3 pJ", ["is not in bits"]),
        ("size", "1,5", ["size"]),
        ("size", "1e999", ["too large a number"]),
        ("size", "-8", ["size"]),
        ("size", "nan", ["size"]),
        ("actions[0].energy", "1.5 pW", ["is not in J", "1.5 pJ"]),
        ("name", "X", ["only numbers"]),
    ],
)
def test_a_number_of_another_unit_is_refused_with_the_reason(field, text, words):
    of = session()
    before = of.now
    answer = ask(of, "set", path=f"arch.nodes[1].{field}", value=text)
    assert answer["kind"] == "error"
    assert [word for word in words if word not in answer["message"]] == []
    assert of.now is before


def test_many_places_are_judged_when_a_block_is_held_over_them(monkeypatch):
    monkeypatch.setattr(sys.modules["einmap.studio.moves"], "MOST_JUDGED", 1)
    of = session()
    places = [o for o in ask(of, "moves", node="nodes[0]")["options"] if o["kind"] == "place"]
    assert [option["judged"] for option in places] == [True] + [False] * (len(places) - 1)
    for option in places:
        judged = ask(of, "judge", text=option["text"])
        answer = ask(of, "move", text=option["text"])
        assert (judged["why"] is None) == (answer["kind"] == "state")
        if answer["kind"] == "state":
            ask(of, "undo")


def test_notes_are_those_of_evaluate():
    of = session()
    ask(of, "move", text="hoist B@GlobalBuffer above nodes[3]")
    notes = ask(of, "notes")["notes"]
    assert notes == [str(note) for note in evaluate(of.now.spec, of.mapping).notes]
    assert "would need" in notes[0]


def offered(of, at):
    return [one["text"] for one in ask(of, "moves", node=at)["options"] if one["why"] is None]


def test_all_rewrites_but_one_are_offered_somewhere():
    found = set()
    for files in (MATMUL, FUSED, ("edge_vector", "attention_core", "edge_vector_attention_pipeline")):
        of = session(*files)
        for step in (None, "group nodes[4].nodes[0].nodes[3] 0 1"):
            if step is None or ask(of, "move", text=step)["kind"] == "state":
                for placed in of.mapping.placed:
                    answer = ask(of, "moves", node=format_at(placed.address))
                    found |= {option["text"].split()[0] for option in answer["options"]}
    assert {*USAGE} - found == {"tile"}  # which splits and then interchanges; it can be written


def test_one_tensor_of_a_node_is_moved_past_its_memory_or_held_above_a_loop():
    of = session()
    assert "bypass B@nodes[4]" in offered(of, "nodes[4]")
    assert "keep Z@GlobalBuffer above nodes[1]" not in offered(of, "nodes[1]")
    ask(of, "move", text="bypass B@nodes[4]")
    assert "keep B@GlobalBuffer above nodes[1]" in offered(of, "nodes[1]")
    assert "keep B@GlobalBuffer above nodes[6]" not in offered(of, "nodes[6]")  # directly below a loop: the same place


def test_a_pipeline_is_shown_in_stages_and_what_does_not_apply_to_it_says_why():
    of = session("edge_vector", "attention_core", "edge_vector_attention_pipeline")
    tree = ask(of, "look")["tree"]
    (pipeline,) = (n for n in tree[-1]["branches"][0] if n["kind"] == "split")
    assert (pipeline["text"], pipeline["stages"]) == ("pipeline side by side on Array.columns", True)
    options = ask(of, "moves", node=pipeline["at"])["options"]
    why = {option["text"].split()[0]: option["why"] for option in options}
    assert "Pipeline" in why.pop("merge")
    assert why == {"group": None, "sequence": None}
    for text in (f"sequence {pipeline['at']}", f"group {pipeline['at']} 0 1"):
        assert ask(of, "move", text=text)["kind"] == "state"
        assert f"pipeline {pipeline['at']} Array.columns" in offered(of, pipeline["at"])
    ask(of, "undo"), ask(of, "undo")
    state = ask(of, "move", text=f"interchange {pipeline['at']}.nodes[0].nodes[0]")
    assert state["kind"] in ("state", "error")
    assert "Traceback" not in json.dumps(state)


def test_an_initial_tile_shape_is_shown_and_its_loop_keeps_it():
    text = """
workload: {rank_sizes: {H: 6}, bits_per_value: {All: 8}, iteration_space_shape: {r: 0 <= r < 3, p: 0 <= p < 4},
  einsums: ["T[H:h] = A[H:h]", "Y[P:p] = T[H:p+r] * F[R:r]"]}
mapping:
  nodes:
  - !Storage {component: MainMemory, tensors: [A, F, Y]}
  - !Storage {component: GlobalBuffer, tensors: [T]}
  - !Temporal {rank_variable: {T: h, Y: p}, tile_shape: {T: 2, Y: 2}, initial_tile_shape: {T: 4, Y: 2}}
  - !Sequential
    nodes:
    - !Nested {nodes: [!Temporal {rank_variable: h, tile_shape: 1}, !Compute {einsum: T, component: MAC}]}
    - !Nested
      nodes:
      - !Temporal {rank_variable: p, tile_shape: 1}
      - !Temporal {rank_variable: r, tile_shape: 1}
      - !Compute {einsum: Y, component: MAC}
"""
    of = session()
    state = ask(of, "open", text=text)
    assert (state["problem"], state["tree"][2]["first"]) == ("", "{T: 4, Y: 2}")
    options = [o for o in ask(of, "moves", node="nodes[2]")["options"] if o["kind"] in ("shape", "split")]
    assert options
    assert all("has an initial tile shape" in option["why"] for option in options)
    assert "as many iterations" in ask(of, "move", text="initial nodes[2] none")["message"]
    of = session()
    assert "initial nodes[1] 32" not in offered(of, "nodes[1]")
    state = ask(of, "move", text="initial nodes[1] 17")
    assert state["tree"][1]["first"] == "17"
    assert "initial nodes[1] none" in offered(of, "nodes[1]")


def test_numbers_that_are_whole_are_shown_without_a_fraction():
    fields = [f["value"] for one in ask(session(), "look")["architecture"] for f in one["fields"]]
    assert "64000000000" in fields
    assert [value for value in fields if value.endswith(".0")] == []


def test_a_reason_and_its_hint_are_told_apart():
    (why,) = (o["why"] for o in ask(session(), "moves", node="nodes[1]")["options"] if o["text"].startswith("fuse"))
    assert "not another loop; `hoist` or `sink` moves" in why


def test_details_are_those_of_the_reports():
    of = session()
    found = ask(of, "details")
    memory = next(one for one in found["occupancy"] if one["memory"] == "GlobalBuffer")
    assert memory["capacity"] == 64 * 1024 * 8
    assert memory["steps"][0]["bits"] == (16 * 64 + 64 * 16 + 16 * 16) * 8
    case = next(row for row in found["cases"] if (row["tensor"], row["component"]) == ("B", "GlobalBuffer"))
    assert (case["above_other"], case["above_own"], case["fetches"], case["chunks"]) == ("m 4", "n 4", 4, 4)
    assert {point["memory"] for point in found["roofline"]["points"]} == {"MainMemory", "GlobalBuffer"}
    text = ask(of, "explain", component="GlobalBuffer", tensor="B")["text"]
    assert "each chunk fetched 4 x" in text
    assert "simple.yaml" in text


def test_files_are_read_and_written_in_the_folders_alone(tmp_path):
    inside, outside = tmp_path / "in", tmp_path / "out"
    inside.mkdir(), outside.mkdir()
    (outside / "secret.yaml").write_text("mapping: {}")
    (inside / "link.yaml").symlink_to(outside / "secret.yaml")
    of = session(folders=[inside])
    first = ask(of, "text")["yaml"]
    assert ask(of, "save", file="mine.yaml") == {"kind": "saved", "file": "mine.yaml"}
    taken = ask(of, "save", file="mine.yaml")
    assert "there already" in taken["message"]
    assert taken["hint"] == "tick 'replace' to write over it"  # to save again alone would be refused again
    ask(of, "move", text="split k 8")
    assert ask(of, "save", file="mine.yaml", force=True)["kind"] == "saved"
    ask(of, "reset")
    assert ask(of, "open", file="mine.yaml")["kind"] == "state"
    assert ask(of, "text")["yaml"] != first
    for name in (
        "../out/secret.yaml",
        "link.yaml",
        str(outside / "secret.yaml"),
        "..",
        ".hidden.yaml",
        "a\\b.yaml",
        "a.txt",
        "",
        "\0.yaml",
        "x" * 300 + ".yaml",
    ):
        for answer in (ask(of, "open", file=name), ask(of, "save", file=name, force=True)):
            assert answer["kind"] == "error"
            assert "secret" not in answer["message"] or "secret" in name
    assert (outside / "secret.yaml").read_text() == "mapping: {}"
    assert sorted(p.name for p in inside.iterdir()) == ["link.yaml", "mine.yaml"]
    with pytest.raises(SpecError, match="not a folder"):
        Folders.of([tmp_path / "nowhere"])


def test_a_file_whose_name_is_shown_with_escapes_is_opened_by_what_is_shown(tmp_path):
    of = session(folders=[tmp_path])
    (tmp_path / "M\N{CYRILLIC SMALL LETTER A}in.yaml").write_text(ask(of, "text")["yaml"])
    (shown,) = ask(of, "files")["names"]
    assert shown == "M\\u0430in.yaml"
    assert ask(of, "open", file=shown)["kind"] == "state"


def test_a_text_is_opened_with_the_sections_that_it_has():
    of = session()
    assert ask(of, "open", text="workload: 3")["kind"] == "error"
    unfused = ask(session(), "text")["yaml"].replace("tile_shape: 16", "tile_shape: 32")
    state = ask(of, "open", text=unfused)
    assert state["tree"][1]["shape"] == "32"
    assert ask(of, "text")["command"] == ""
    assert ask(of, "open", text="!include /etc/passwd")["kind"] == "error"
    assert ask(of, "open", text="{% include '/etc/passwd' %}")["kind"] == "error"


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "3", "null", "{}", '{"do": "x"}', '{"do": "move"}', '{"do": "move", "text": 3}', '{"do": "look", "x": 1}',
     '{"do": "move", "text": "' + "a" * 3000 + '"}', "[" * 100_000, '{"do":"search","seconds":-1}', '{"do":"search","seconds":1e999}',
     '{"do": "open"}', '{"do": "open", "file": "a.yaml", "text": ""}', '{"do": "pin", "node": "nodes[1"}', '{"do": "moves", "node": "nodes[77]"}',
     '{"do": "explain", "component": "\\u0000"}', '{"do": "look"}' + " " * 1_000_001],
)  # fmt: skip
def test_no_message_raises(text):
    of = session()
    assert of.handle(text)["kind"] in ("error", "explanation")
    assert ask(of, "look")["kind"] == "state"


def test_every_state_is_json_and_a_mapping_that_does_not_fit_has_a_problem_and_can_be_mended():
    of = Session(load(*MATMUL).set("arch.nodes.GlobalBuffer.size", 10_400))
    state = ask(of, "look")
    json.dumps(state)
    assert "needs" in state["problem"]
    assert "numbers" not in state
    state = ask(of, "move", text="sink B@GlobalBuffer")
    assert state["problem"] == ""
    assert state["numbers"]


def test_a_mapping_of_another_workload_is_refused_and_one_that_is_too_large_can_be_moved():
    of = session()
    before = of.now
    other = ask(session(*FUSED), "text")["yaml"]
    assert "the workload has no Einsum" in ask(of, "open", text=other)["message"]
    renamed = ask(of, "text")["yaml"].replace("rank_variable: k", "rank_variable: x")
    assert ask(of, "open", text=renamed)["kind"] == "error"
    assert of.now is before
    with pytest.raises(MappingError, match="no Einsum"):
        Session(load("simple", "matmul", "simple_two_matvecs_fused"))
    wrong = Session(load(*MATMUL, define={"M": 8}))  # its loop over m has tiles of 16
    assert wrong.now.cost is None
    for placed in wrong.mapping.placed:
        for option in ask(wrong, "moves", node=format_at(placed.address))["options"]:
            assert (ask(wrong, "move", text=option["text"])["kind"] == "error") == (option["why"] is not None)
            if option["why"] is None:
                ask(wrong, "undo")


def test_without_a_mapping_it_begins_with_one_that_fits():
    of = session("simple", "matmul")
    assert ask(of, "look")["numbers"]
