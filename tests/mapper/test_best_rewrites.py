"""A softmax in blocks of keys: what the mapper, the model, the simulator and emitted code make of it."""

from dataclasses import replace

import numpy as np
import pytest
from tests.einsum.test_key_blocks import values
from tests.execute.agreement import differences

from einmap import emit, evaluate, execute, load, loads, map_workload
from einmap.einsum.numeric import run
from einmap.einsum.rewrites.steps import SoftmaxBlocks, partition
from einmap.errors import NoMappingError, SpecError
from einmap.frontends.yaml.spec import dump_mapping
from einmap.mapper.compose.left_open.best_rewrites import SECONDS_WITHOUT_LIMIT, alternatives, best_rewrites
from einmap.mapper.problem.options import read_options

STEPS = {
    "GM_before": "m", "QK": "m p0 e", "GM_block": "m p0", "GM": "m", "GM_factor": "m", "SN": "m p0", "SD_block": "m p0",
    "AN_block": "m p0 f", "SD_before": "m", "AN_before": "m f", "SD": "m", "AN": "m f",
}  # fmt: skip


def branch(einsum, variables):
    """A branch that computes an Einsum value by value."""
    loops = "".join(f"- !Temporal {{rank_variable: {v}, tile_shape: 1}}\n" for v in variables.split())
    return f"- !Nested\n  nodes:\n{indented(loops)}  - !Compute {{einsum: {einsum}, component: MAC}}\n"


def indented(text, by=2):
    return "".join(" " * by + line + "\n" for line in text.splitlines())


def flash_attention(queries, *, causal=False):
    """Heads and tiles of queries outside of the loop over blocks of keys, whose states stay in the buffer."""
    computed = dict(STEPS)
    if causal:
        computed = {
            k: v
            for name in STEPS
            for k, v in ([("GM_seen", "m"), ("GM_after", "m")] if name == "GM" else []) + [(name, STEPS[name])]
        }
    held = ", ".join(["GM", "K", "V", *(name for name in computed if name not in ("GM", "SD", "AN"))])
    steps = "".join(branch(name, variables) for name, variables in computed.items())
    return f"""
mapping:
  nodes:
  - !Storage {{component: MainMemory, tensors: [Q, K, V, AV]}}
  - !Temporal {{rank_variable: h, tile_shape: 1}}
  - !Temporal {{rank_variable: m, tile_shape: {queries}}}
  - !Storage {{component: GlobalBuffer, tensors: [Q, SD, AN, AV]}}
  - !Sequential
    nodes:
    - !Nested
      nodes:
      - !Temporal {{rank_variable: p1, tile_shape: 1}}
      - !Storage {{component: GlobalBuffer, tensors: [{held}]}}
      - !Sequential
        nodes:
{indented(steps, 8)}
{indented(branch("AV", "m f"), 4)}"""


def one_pass(heads=2, queries=8, keys=32, features=4, block=8, tile=4):
    """attention_core on `simple` in one pass, with that mapping."""
    sizes = {"HEADS": heads, "N_TOKENS": queries, "N_CACHED": keys, "D_HEAD": features}
    plain = load("simple", "attention_core", define=sizes)
    done = partition(plain.workload, [SoftmaxBlocks(("P",), block)])
    return plain, done, plain.with_workload(done.workload).set("mapping", loads(flash_attention(tile)).get("mapping"))


@pytest.mark.parametrize(("queries", "keys", "tile", "block"), [(8, 32, 4, 8), (8, 32, 8, 4), (6, 20, 2, 10)])
def test_one_pass_reads_queries_once_and_keys_once_for_each_tile_of_queries(queries, keys, tile, block):
    _, _, spec = one_pass(queries=queries, keys=keys, tile=tile, block=block)
    counts = evaluate(spec).count_by("component", "tensor", "action")
    heads, features, bits = 2, 4, 8
    moved = {t: sum(counts.get(("MainMemory", t, a), 0) for a in ("read", "write")) for t in spec.workload.tensors}
    passes = queries // tile
    expected = {
        "Q": heads * queries * features * bits,
        "K": passes * heads * keys * features * bits,
        "V": passes * heads * keys * features * bits,
        "AV": heads * queries * features * bits,
    }
    assert {tensor: bits for tensor, bits in moved.items() if bits} == expected


def test_one_pass_is_executed_and_emitted_with_the_values_of_the_safe_softmax():
    plain, done, spec = one_pass()
    inputs = values(plain, np.random.default_rng(5))
    right = run(plain.workload, inputs)["AV"]
    placed = done.place_inputs(inputs)
    ran = execute(spec, placed)
    np.testing.assert_allclose(ran.tensors["AV"], right, rtol=1e-12)
    assert list(differences(spec, evaluate(spec), ran)) == []
    code = {}
    exec(compile(emit(spec, lang="python"), "emitted.py", "exec"), code)  # the text under test
    outputs, _ = code["nest"](*placed.values())
    np.testing.assert_allclose(outputs["AV"], right, rtol=1e-12)


def test_one_pass_behind_a_causal_mask_is_executed_and_emitted_with_the_values_of_the_safe_softmax():
    plain = load("simple", "attention_causal", define={"HEADS": 2, "N_TOKENS": 16, "D_HEAD": 4})
    done = partition(plain.workload, [SoftmaxBlocks(("P",), 4)])
    mapping = loads(flash_attention(8, causal=True)).get("mapping")
    spec = plain.with_workload(done.workload).set("mapping", mapping)
    inputs = values(plain, np.random.default_rng(5))
    right = run(plain.workload, inputs)["AV"]
    placed = done.place_inputs(inputs)
    ran = execute(spec, placed)
    np.testing.assert_allclose(ran.tensors["AV"], right, rtol=1e-12)
    assert list(differences(spec, evaluate(spec), ran)) == []
    code = {}
    exec(compile(emit(spec, lang="python"), "emitted.py", "exec"), code)  # the text under test
    outputs, _ = code["nest"](*placed.values())
    np.testing.assert_allclose(outputs["AV"], right, rtol=1e-12)


ONLINE, SPLIT = "online_softmax P=16", "split_softmax P=16"
MANY = pytest.param([ONLINE, SPLIT], marks=[pytest.mark.slow, pytest.mark.mapper])


@pytest.mark.parametrize("rewrites", [[SPLIT], MANY], ids=["one", "two"])
def test_the_mapper_chooses_a_rewrite_where_no_row_of_scores_fits(rewrites):
    """A row of 128 scores takes 1,024 bits of a buffer with 768: the maximum of a row waits for all of it."""
    sizes = {"HEADS": 1, "N_TOKENS": 2, "N_CACHED": 128, "D_HEAD": 2}
    spec = load("simple", "attention_core", define=sizes).set("arch.nodes.GlobalBuffer.size", 768)
    written = map_workload(spec, max_fused_loops=2)
    best = map_workload(spec, max_fused_loops=2, rewrites=rewrites)
    assert written.optimal
    assert best.optimal
    assert best.cost.edp < written.cost.edp
    (text,) = best.front[0].rewrites
    assert f"the best cascade of these is {text}: {', '.join(['as written', *rewrites])}" in best.reason
    again = loads(dump_mapping(best.mapping, **best.front[0].made_for))
    loaded = spec.set("mapping", again.get("mapping")).expanded()
    assert evaluate(loaded).edp == pytest.approx(best.cost.edp, rel=1e-12)
    assert list(differences(loaded, evaluate(loaded), execute(loaded))) == []


@pytest.mark.parametrize(
    "rewrites", [["split_softmax P=2"], pytest.param(["best"], marks=[pytest.mark.slow, pytest.mark.mapper])]
)
def test_what_is_written_is_kept_where_it_is_best(rewrites):
    spec = load("simple", "attention_core", define={"HEADS": 1, "N_TOKENS": 4, "D_HEAD": 1})
    plain = map_workload(spec, max_fused_loops=1)
    best = map_workload(spec, max_fused_loops=1, rewrites=rewrites)
    assert best.cost.edp <= plain.cost.edp
    assert "as written" in best.reason


def test_cascades_that_are_changed_have_a_limit_where_none_is_asked_for():
    spec = load("simple", "attention_core", define={"HEADS": 1, "N_TOKENS": 8, "D_HEAD": 2})
    asked, limits = read_options(spec), []

    def search(_cascade, *, time_limit_s, max_evaluations):
        limits.append((time_limit_s, max_evaluations))
        raise NoMappingError("nothing fits")

    def searched(options):
        limits.clear()
        with pytest.raises(NoMappingError):
            best_rewrites(spec, ["online_softmax P=4"], options, search)
        return list(limits)

    assert searched(asked) == [(np.inf, None), (SECONDS_WITHOUT_LIMIT, None)]
    assert searched(replace(asked, max_evaluations=10)) == [(np.inf, 5), (np.inf, 10)]
    (first, _), (second, _) = searched(replace(asked, time_limit=100.0))
    assert first == pytest.approx(50, abs=5)
    assert second == pytest.approx(100, abs=5)


def test_alternatives_are_blocks_that_divide_the_keys():
    spec = load("attention_core", define={"N_CACHED": 131072})
    sizes = (128, 512, 2048)
    assert alternatives(spec.workload) == [f"{kind}_softmax P={n}" for kind in ("online", "split") for n in sizes]
    assert alternatives(load("attention_core", define={"N_CACHED": 97}).workload) == []
    assert alternatives(load("matmul").workload) == []


def test_a_workload_without_a_softmax_is_mapped_as_it_is():
    result = map_workload(load("simple", "matmul"), rewrites=["best"])
    assert result.optimal
    assert result.reason.endswith("no rewrite of the cascade applies")


@pytest.mark.parametrize(
    ("rewrites", "message"),
    [
        (["online P=32"], "'online P=32' is not a change of a cascade"),
        (["online_softmax P=99"], "a tile shape of 99 is larger than rank P, which has 64 values"),
        (["online_softmax M=8"], "no softmax over rank M"),
        (["online_softmax"], "cannot be read"),
    ],
)
def test_changes_that_cannot_be_done_are_refused(rewrites, message):
    with pytest.raises(SpecError, match=message):
        map_workload(load("simple", "attention_core"), rewrites=rewrites)


def test_a_change_that_a_mapping_names_is_refused_at_its_place():
    spec = load("simple", "attention_core")
    for rewrites, message in (("online_softmax P=8", "expected a list of changes"), (["split P"], "cannot be read")):
        with pytest.raises(SpecError, match=message) as caught:
            spec.set("mapping", {"rewrites": rewrites, "nodes": []}).expanded()
        assert "mapping.rewrites" in str(caught.value)
