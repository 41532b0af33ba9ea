"""Formats that are left open: the mapper's choice is the best of all, and travels with the mapping."""

import itertools
import math
import random

import numpy as np
import pytest
from tests.sparse.problems import parted_format
from tests.sparse.test_mapper import NAMES, assert_front, chain, drawn_problem, value

import einmap
from einmap.errors import NoMappingError, NotSupportedError, SpecError
from einmap.execute.execute import execute
from einmap.frontends.yaml.spec import dump_mapping
from einmap.mapper.mapper import best_mappings
from einmap.mapper.result.result_cache import ResultCache
from einmap.mapper.zeros import by_tables
from einmap.spec.open_formats import open_formats

METRICS = ["energy", "latency", "energy_delay_product", "energy,latency"]


def opened(rng, spec, *, parted=False):
    """Some formats left open; what they may be, by memory and tensor. `parted`: with blocks and padding among them."""
    open_ones, written = {}, dict(spec.get("sparsity.formats"))
    for memory in ("Main", "Buffer"):
        written[memory] = dict(written.get(memory, {}))
        for tensor in rng.sample(["A", "B", "Z"], 2 if memory == "Main" else 1):
            if tensor not in spec.workload.tensors:
                continue
            names = rng.sample(NAMES, rng.choice([2, 3]))
            if rng.random() < 0.4:
                ranks = list(spec.bindings.rank_sizes[tensor])
                names[0] = [{"format": "B", "ranks": [rank]} for rank in ranks]
            if parted and rng.random() < 0.7:
                names[-1] = parted_format(rng, spec.bindings.rank_sizes[tensor])
            open_ones[memory, tensor] = written[memory][tensor] = names
    return spec.set("sparsity.formats", written), open_ones


def closed(spec, open_ones):
    """The specification with each choice of what is open."""
    for chosen in itertools.product(*open_ones.values()):
        written = spec
        for (memory, tensor), one in zip(open_ones, chosen, strict=True):
            written = written.set(f"sparsity.formats.{memory}.{tensor}", one)
        yield written


def best(spec, metric):
    """What the mapper finds; None where nothing fits."""
    try:
        return einmap.map_workload(spec, metrics=metric)
    except NoMappingError:
        return None


@pytest.mark.parametrize("seed", [pytest.param(n, marks=() if n == 1 else (pytest.mark.slow, pytest.mark.mapper))
                                  for n in range(90)])  # fmt: skip
def test_the_choice_is_the_best_of_each_alternative_by_itself(seed):
    rng = random.Random(seed)
    spec, open_ones = opened(rng, drawn_problem(rng)[0], parted=seed >= 60)
    metric = rng.choice(METRICS)
    try:
        every = [best(one, metric) for one in closed(spec, open_ones)]
    except SpecError:
        assert seed >= 60  # blocks of a structured density that do not lie in those of a format
        return
    except NotSupportedError as refused:
        with pytest.raises(NotSupportedError) as again:
            einmap.map_workload(spec, metrics=metric)
        assert again.value.message == refused.message
        return
    found = best(spec, metric)
    every = [one for one in every if one is not None]
    if not every:
        assert found is None
        return
    assert found.optimal == all(one.optimal for one in every)
    assert found.not_searched or "choices of formats were searched" in found.reason
    if metric == "energy,latency":
        points = [(p.cost.energy, p.cost.latency) for one in every for p in one.front]
        assert_front([(p.cost.energy, p.cost.latency) for p in found.front], np.array(points))
    else:
        costs = [value(metric, one.cost.energy, one.cost.latency) for one in every]
        assert math.isclose(value(metric, found.cost.energy, found.cost.latency), min(costs), rel_tol=2e-9)
    for point in found.front:
        assert {(m, t) for m, of_memory in point.formats.items() for t in of_memory} == open_ones.keys()
        assert all(point.formats[m][t] in names for (m, t), names in open_ones.items())
        text = "\n".join([dump_mapping(point.mapping, **point.made_for), einmap.dump(spec)])
        again = einmap.evaluate(einmap.loads(text))
        assert (again.energy, again.latency) == (point.cost.energy, point.cost.latency)


TEXT = """
arch:
  nodes:
  - !Memory {name: Main, size: inf, leak_power: 0, area: 0, tensors: {keep: All},
      actions: [{name: read, energy: 8, throughput: 2}, {name: write, energy: 8, throughput: 2}]}
  - !Memory {name: Buffer, size: SIZE, leak_power: 0, area: 0, tensors: {keep: All},
      actions: [{name: read, energy: 1, throughput: 2}, {name: write, energy: 1, throughput: 2}]}
  - !Compute {name: MAC, leak_power: 0, area: 0, actions: [{name: compute, energy: 1, throughput: 1}]}
workload: {rank_sizes: {M: 4, K: 4}, bits_per_value: {All: 8}, einsums: ["Z[m] = A[m, k] * B[k]"]}
sparsity:
  densities: {A: 0.25}
  formats:
    Main:
      A: [csr, {name: coo}, [{format: B, ranks: [M]}, {format: CP, ranks: [K]}]]
    Buffer: {A: [uncompressed, bitmask]}
"""
MAPPING = """
mapping:
  FORMATS
  nodes: [!Storage {tensors: [A, B, Z], component: Main}, !Temporal {rank_variable: m, tile_shape: 1},
          !Storage {tensors: [A, B, Z], component: Buffer}, !Temporal {rank_variable: k, tile_shape: 1}, !Compute {einsum: Z, component: MAC}]
"""


def text(size="inf", formats=""):
    mapping = MAPPING.replace("FORMATS", f"formats: {formats}" if formats else "title: any")
    return TEXT.replace("SIZE", size) + mapping


def test_alternatives_are_names_named_formats_and_levels():
    main, buffer = open_formats(einmap.loads(TEXT))
    assert (main.memory, main.tensor) == ("Main", "A")
    assert main.alternatives == (
        "csr", {"name": "coo"}, [{"format": "B", "ranks": ["M"]}, {"format": "CP", "ranks": ["K"]}]
    )  # fmt: skip
    assert buffer.alternatives == ("uncompressed", "bitmask")
    one = einmap.loads(TEXT.replace("[csr, {name: coo}, [", "[").replace("[K]}]]", "[K]}]"))
    assert [choice.memory for choice in open_formats(one)] == ["Buffer"]
    named = einmap.loads(TEXT.replace("[csr, {name: coo}, [{format: B, ranks: [M]}, {format: CP, ranks: [K]}]]",
                                      "[{name: coo}, {name: coo}, {name: csr, block: {M: 2, K: 2}}]"))  # fmt: skip
    assert len(open_formats(named)[0].alternatives) == 2


@pytest.mark.parametrize(
    ("formats", "path", "message"),
    [
        ("[[[csr]]]", "A[0][0]", "expected a dictionary with the fields of"),
        ("[csr, 5]", "A[1]", "expected text, found 5"),
        ("[{name: csr, blok: {M: 2}}]", 'A[0] "csr".blok', "unknown field 'blok' of NamedFormat"),
        ("[csr, crs]", "A", "unknown format 'crs'"),
    ],
)
def test_alternatives_that_are_no_formats_are_told_with_their_place(formats, path, message):
    spec = einmap.loads(TEXT.replace("SIZE", "inf").replace("[uncompressed, bitmask]", formats))
    with pytest.raises(SpecError, match=message) as refused:
        einmap.map_workload(spec)
    assert refused.value.at.path == f"sparsity.formats.Buffer.{path}"


def test_what_fits_with_some_formats_alone_is_found_and_proven():
    # a row of four values and nothing else: 32 bits of values as they are, 4 bits of a mask and at most 4 values
    spec = einmap.loads(TEXT.replace("SIZE", "24").replace("[uncompressed, bitmask]", "[bitmask, uncompressed]"))
    narrow = einmap.map_workload(spec)
    assert narrow.optimal and narrow.front[0].formats["Buffer"] == {"A": "uncompressed"}
    assert "all 6 choices of formats were searched or ruled out by a bound" in narrow.reason
    with pytest.raises(NoMappingError, match="with none of 6 choices of formats: no mapping of Einsum 'Z'"):
        einmap.map_workload(einmap.loads(TEXT.replace("SIZE", "16")))


class Kept(dict):
    """A store of texts."""

    read = dict.get
    write = dict.__setitem__


def test_a_result_that_is_kept_has_its_formats():
    cache = ResultCache(Kept(), "code")
    spec = einmap.loads(TEXT.replace("SIZE", "24").replace("[uncompressed, bitmask]", "[bitmask, uncompressed]"))
    first, again = (best_mappings(spec, metrics="energy", cache=cache) for _ in range(2))
    assert (first.cached, again.cached) == (False, True)
    assert again.front[0].formats == first.front[0].formats and again.cost == first.cost
    chosen = best_mappings(spec.with_formats(first.front[0].formats), metrics="energy", cache=cache)
    assert not chosen.cached and chosen.cost == first.cost


def test_a_search_that_is_stopped_claims_no_optimum():
    spec = einmap.loads(TEXT.replace("SIZE", "inf"))
    result = einmap.map_workload(spec, metrics="energy", max_evaluations=1)
    assert result.stopped and not result.optimal
    assert "6 choices of formats are left open" in result.reason
    full = einmap.map_workload(spec, metrics="energy")
    assert (result.lower_bound or 0) <= full.cost.energy * (1 + 1e-9)


@pytest.mark.parametrize("call", [einmap.evaluate, execute])
def test_evaluation_needs_formats_that_are_chosen(call):
    spec = einmap.loads(text())
    with pytest.raises(SpecError, match="the format of 'A' in 'Main' is left open: expected one format, found 3") as e:
        call(spec)
    assert e.value.at.path == "sparsity.formats.Main.A" and e.value.at.line == 14
    assert "such as csr" in e.value.hint


def test_the_mapping_says_which_formats_it_is_made_for():
    formats = "{Main: {A: [{format: B, ranks: [M]}, {format: CP, ranks: [K]}]}, Buffer: {A: bitmask}}"
    spec = einmap.loads(text(formats=formats))
    assert spec.formats == spec.get("sparsity.chosen")
    written = (
        TEXT.replace("[csr, {name: coo}, [", "[")
        .replace("[K]}]]", "[K]}]")
        .replace("[uncompressed, bitmask]", "bitmask")
    )
    plain = einmap.loads(written.replace("SIZE", "inf") + MAPPING.replace("FORMATS", "title: any"))
    assert einmap.evaluate(spec).energy == einmap.evaluate(plain).energy
    assert execute(spec, seed=1).actions == execute(plain, seed=1).actions


@pytest.mark.parametrize(
    ("formats", "match"),
    [
        ("{Main: {A: csc}, Buffer: {A: bitmask}}", "sparsity.chosen.Main.A: csc is none of the alternatives of 'A'"),
        ("{Main: {A: csr}, Buffr: {A: bitmask}}", "sparsity.chosen.Buffr: 'Buffr' has no formats to choose from"),
        ("{Main: {A: csr, C: csr}, Buffer: {A: bitmask}}", "sparsity.chosen.Main.C: no tensor 'C'"),
        ("{Main: {A: csr, B: csr}, Buffer: {A: bitmask}}", "Main.B: 'B' has no formats in 'Main' to choose from"),
        ("{Main: {A: csr}, Buffer: {A: 3}}", "sparsity.chosen.Buffer.A: expected text, found 3"),
        ("[csr]", "mapping.formats: expected formats by memory and tensor"),
    ],
)
def test_chosen_formats_that_cannot_be_are_told_with_their_place(formats, match):
    with pytest.raises(SpecError, match=match):
        einmap.evaluate(einmap.loads(text(formats=formats)))


def test_chosen_formats_need_something_open():
    spec = einmap.loads(
        text(formats="{Main: {A: csr}, Buffer: {A: bitmask}}").replace("[uncompressed, bitmask]", "bitmask")
    )
    with pytest.raises(SpecError, match="the format of 'A' in 'Buffer' is not left open"):
        einmap.evaluate(spec)
    dense = text(formats="{Main: {A: csr}}").split("sparsity:")
    with pytest.raises(SpecError, match=r"mapping\.formats: .* no key sparsity"):
        einmap.loads(dense[0] + "mapping:" + dense[1].split("mapping:")[1])


def test_too_many_combinations_are_refused_before_any_search():
    many = [{"name": "coo"}, "bitmask", "rle", "csf", "uncompressed", "coo"]
    spec = einmap.loads(TEXT.replace("SIZE", "inf"))
    spec = spec.set("sparsity.formats", {memory: {"All": many} for memory in ("Main", "Buffer")})
    with pytest.raises(
        SpecError, match="46,656 combinations of formats are left open; the mapper searches at most 1,000"
    ):
        einmap.map_workload(spec)


def test_a_tensor_has_the_same_alternatives_in_all_einsums():
    cascade = TEXT.replace('"Z[m] = A[m, k] * B[k]"', '"Y[m] = A[m, k] * B[k]", "Z[m] = Y[m] * A[m, k]"')
    spec = einmap.loads(cascade.replace("SIZE", "inf"))
    spec = spec.set("sparsity.formats", {"Main": {"Inputs": ["coo", "rle"], "Outputs": ["coo", "bitmask"]}})
    with pytest.raises(SpecError, match="'Y' has other alternatives in 'Main' for other Einsums"):
        einmap.map_workload(spec)
    # B is of one Einsum, whose search chooses for it
    spec = spec.set("sparsity.formats", {"Main": {"Y": ["coo", "bitmask"], "A": ["coo", "uncompressed"]},
                                         "Buffer": {"B": ["coo", "uncompressed"]}})  # fmt: skip
    result = einmap.map_workload(spec, fuse=False)
    every = [
        einmap.map_workload(spec.set("sparsity.formats", {"Main": {"Y": y, "A": a}, "Buffer": {"B": b}}), fuse=False).cost
        for y in ("coo", "bitmask") for a in ("coo", "uncompressed") for b in ("coo", "uncompressed")
    ]  # fmt: skip
    assert result.optimal and result.cost.edp == pytest.approx(min(cost.edp for cost in every), rel=1e-9)
    assert {name: set(one) for name, one in result.front[0].formats.items()} == {"Main": {"A", "Y"}, "Buffer": {"B"}}


@pytest.mark.parametrize("fuse", [True, False])
def test_of_formats_that_several_einsums_share_each_choice_is_proven_and_bounded_by_the_others(fuse, monkeypatch):
    spec = chain().set(
        "arch.nodes[0].tensors", {"keep": "~Intermediates", "may_keep": "All"} if fuse else {"keep": "All"}
    )
    spec = spec.set("sparsity.densities", {"A": 0.2, "B": 0.3, "C": 0.4}).set("sparsity.formats", {})
    open_ones = {("Buffer", "T"): ["rle", "coo"], ("Buffer", "A"): ["bitmask", "coo"]}
    spec = spec.set("workload.rank_sizes", dict.fromkeys("MNKP", 2))
    written = spec.set("sparsity.formats", {"Buffer": {tensor: names for (_, tensor), names in open_ones.items()}})
    searched = []

    def plan(self, einsum, token, _plan=by_tables._Cascade.plan):
        searched.append(einsum.name)
        return _plan(self, einsum, token)

    monkeypatch.setattr(by_tables._Cascade, "plan", plan)
    found = einmap.map_workload(written, metrics="energy", fuse=fuse)
    # fused mappings of other choices are bounded by the first one; the second Einsum has two choices of its own
    assert sorted(searched) == (["T", "Z"] if fuse else ["T", "T", "Z", "Z"])
    every = [einmap.map_workload(one, metrics="energy", fuse=fuse) for one in closed(spec, open_ones)]
    assert found.optimal and all(one.optimal for one in every) and len(every) == 4
    assert found.cost.energy == pytest.approx(min(one.cost.energy for one in every), rel=1e-9)
    assert {place: set(chosen) for place, chosen in found.front[0].formats.items()} == {"Buffer": {"A", "T"}}
