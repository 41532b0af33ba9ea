"""What an explanation says by hand, and that every number of it is what an execution counts."""

import dataclasses
import math
import random
from collections import Counter

import pytest
from tests.amounts import few_and_many
from tests.execute.test_pipelines import drawn as drawn_pipeline
from tests.execute.test_pipelines import is_even
from tests.machines import machine, workload
from tests.model.executed import PARTS, Executed, differences, differences_in
from tests.nests import nest
from tests.random_specs.cases import valid_case, valid_networks, valid_windows

import einmap
from einmap.model.explanation.explain import explain
from einmap.model.explanation.filters import only

ARCH = machine("""
    DRAM inf 10/10 @64 {tensors: {keep: All}} / GLB 2000 1/1 @1000 {tensors: {keep: All}} / PE: X 4 {may_reuse: All}
    MAC 1 @1
""")
MATMUL = workload("M: 16, K: 24, N: 32", "Z[m, n] = A[m, k] * B[k, n]") + nest(
    "DRAM: A B Z / n 8 / m 5 / GLB: A Z / k 4 / GLB: B / n 2 @ PE.X / m 1 / n 1 / k 1 / Z @ MAC"
)


@pytest.fixture(scope="module")
def matmul():
    return explain(einmap.loads(ARCH + MATMUL))


def node(explanation, tensor, component):
    (found,) = [n for n in explanation.cases if (n.tensor, n.component) == (tensor, component)]
    return found


def ordered(order):
    """Z[m, n] = A[m, k] * B[k, n] with these loops under storage nodes, which `|` stands for."""
    tiles = {"1": 4, "0": 1}
    words = ["GLB: A B Z" if word == "|" else f"{word[0]} {tiles[word[1:] or '0']}" for word in order.split()]
    workload = MATMUL.partition("mapping:")[0].replace("{M: 16, K: 24, N: 32}", "{M: 8, K: 8, N: 8}")
    return einmap.loads(ARCH + workload + nest(" / ".join(["DRAM: A B Z", *words, "Z @ MAC"])))


def test_loops_above_a_node_fetch_and_loops_below_it_reuse(matmul):
    a = node(matmul, "A", "GLB")
    assert [(u.variable, u.iterations, u.kind) for u in a.above] == [("n", 4, "irrelevant"), ("m", 4, "relevant")]
    assert (a.fetches, a.chunks, a.visits) == (4, 4, 16)  # n fetches each of the 4 chunks of m again
    assert (a.shape, a.smallest, a.bits) == ((5, 24), (1, 24), 5 * 24 * 8)  # m is cut into 5, 5, 5, 1
    assert (a.held, a.used, a.reuse) == (4 * 16 * 24, 3072, 2)  # one read serves the 4 lanes of n: 2 are left
    b = node(matmul, "B", "GLB")
    assert (b.fetches, b.chunks, b.shape, b.reuse) == (4, 4 * 6, (4, 8), 4)  # rows 5, 5, 5, 1: 4 on average


def test_the_outermost_holder_fetches_nothing(matmul):
    z = node(matmul, "Z", "DRAM")
    assert (z.backing, z.fetches, z.reads, z.chunks, z.shape) == (True, 1, 0, 1, (16, 32))


def test_windows_that_slide_overlap():
    spec = einmap.loads(
        ARCH
        + """
workload: {rank_sizes: {P: 4, R: 3}, bits_per_value: {All: 8}, einsums: ["O[p] = I[H: p + r] * F[r]"]}
"""
        + nest("DRAM: I F O / p 1 / GLB: I F O / r 1 / O @ MAC")
    )
    window = node(explain(spec), "I", "GLB")
    assert (window.positions, window.chunks, window.shape) == (4, 4, (3,))
    assert (window.values, window.elements, window.overlap) == (12, 6, 6)


LINES = """
workload: {rank_sizes: {P: 8, R: 3}, bits_per_value: {All: 8}, einsums: ["O[p] = I[H: p + r] * F[r]"]}
""" + nest(
    "DRAM: I F O / p 2 / !Storage {component: GLB, tensors: [I], sliding_window: true} / GLB: F O / p 1 / r 1 / O @ MAC"
)


def test_a_line_buffer_says_what_it_keeps():
    explanation = explain(einmap.loads(ARCH + LINES))
    lines = node(explanation, "I", "GLB")
    assert (lines.held, lines.kept, lines.slides, lines.reuse) == (16, 6, "p", 2.4)  # 4 tiles of 4; 24 reads of 10
    (fill,) = [d for d in explanation.derivations if (d.component, d.tensor, d.action) == ("GLB", "I", "write")]
    assert (fill.pieces[0].gross, fill.pieces[0].kept, fill.values) == (16, 6, 10)
    (life,) = [one for one in explanation.lives if (one.tensor, one.memory) == ("I", "GLB")]
    assert (life.begins, life.ends, life.times) == ((1,), (1,), 1)  # as long as the loop that it slides along


NETWORK = ARCH.replace(
    "- !Container",
    """- !Network {name: Noc, leak_power: 0, area: 0, actions: [{name: hop, energy: 1, latency: 1, throughput: 1}]}
  - !Container""",
)


def test_hops_say_along_which_fanout_values_go_and_how():
    hops = {d.tensor: d for d in explain(einmap.loads(NETWORK + MATMUL)).derivations if d.component == "Noc"}
    (shared,) = hops["A"].pieces
    assert [(u.variable, u.iterations) for u in shared.merged] == [("n", 4)]
    assert shared.values == 3 * 3072  # one of 4 lanes has it already
    (own,) = hops["B"].pieces
    assert (own.merged, own.values) == ((), (1 + 2 + 3) * 3072)  # x steps to lane x


def test_a_node_that_a_copy_does_not_use_is_not_moved():
    text = """
workload:
  rank_sizes: {M: 2, K: 3}
  bits_per_value: {All: 8}
  einsums:
  - {name: B, tensor_accesses: [{name: A, projection: [m, k]}, {name: B, projection: [m, k], output: true}], is_copy_operation: true}
""" + nest("DRAM: A B / m 1 / k 1 / GLB: A / B @ MAC")
    explanation = explain(einmap.loads(ARCH.replace("keep: All", "may_keep: All") + text))
    assert [c for c in explanation.changes if c.kind == "capacity"] == []


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ("| m n k", [("Z", 1, 8)]), ("| m k n", [("A", 1, 8)]), ("| k n m", [("B", 1, 8)]),
        ("m1 n1 k1 | m0 n0 k0", [("Z", 16, 2), ("Z", 1, 4)]), ("m1 k1 n1 | m0 n0 k0", [("A", 16, 2), ("Z", 1, 4)]),
    ],
)  # fmt: skip
def test_what_the_innermost_loops_do_not_index_is_stationary(order, expected):
    assert [(s.tensor, s.values, s.iterations) for s in explain(ordered(order)).stationary] == expected


def test_pieces_add_up_to_each_count(matmul):
    (read,) = [d for d in matmul.derivations if (d.component, d.tensor, d.action) == ("GLB", "Z", "read")]
    down, up = read.pieces
    assert (down.tiles, down.skipped, down.values) == (16 * 24 * 32, 16 * 32, 11_776)  # first sums are not read
    assert (up.way, up.tiles, up.tile_values, up.gross) == ("up", 16, 40, 512)  # ragged: 16 x 40 is more
    assert read.count == (11_776 + 512) * 8
    (a,) = [d for d in matmul.derivations if (d.component, d.tensor, d.action) == ("GLB", "A", "read")]
    assert (a.pieces[0].gross, a.pieces[0].unmerged, a.pieces[0].multicast) == (3072, 12_288, 4)


def test_the_fullest_moment_says_what_is_live_and_what_is_free(matmul):
    (glb,) = [f for f in matmul.fullest if f.memory == "GLB"]
    assert (glb.bits, glb.free) == (1536, 464)
    assert glb.live == (("A", (3,), 960), ("Z", (3,), 320), ("B", (5,), 256))


def test_changes_say_what_they_need_and_what_they_save(matmul):
    found = {(c.kind, c.component, c.what.split(" above")[0]): c for c in matmul.changes}
    compute = found["throughput", "MAC", "compute"]
    assert (compute.latency_change, compute.energy_change) == (pytest.approx(-0.5), 0)
    # A is fetched once instead of 4 times when GLB holds all of it: 3 x 384 values less to read and write
    hold = found["capacity", "GLB", "A"]
    assert (hold.needs_bits, hold.fits) == (3 * 1024 + 320 + 256, False)
    assert matmul.cost.energy - hold.energy == 3 * 384 * 8 * (10 + 1)
    lanes = found["fanout", "PE", "X: half the tile shape of nodes[6]"]
    assert (lanes.used, lanes.sets, lanes.latency_change) == ((4, 4), (("arch.nodes.2.spatial.0.fanout", 8),), -0.5)


@pytest.mark.parametrize(
    ("costs", "change"),
    [
        ("actions: [{name: compute, energy: 1, latency: 1e-9}]", ("actions.0.throughput_scale", 2)),
        (
            "component_class: intmac, extra_attributes_for_component_model: {width: 8, tech_node: 45nm}",
            ("actions", [{"name": "compute", "throughput_scale": 2}]),
        ),
        (
            "component_class: intmac, extra_attributes_for_component_model: {width: 8, tech_node: 45nm}, "
            "actions: [{name: other, energy: 1, throughput: 1}]",
            (
                "actions",
                [{"name": "other", "energy": 1, "throughput": 1}, {"name": "compute", "throughput_scale": 2}],
            ),
        ),
    ],
    ids=["latency", "class", "class and another action"],
)
def test_twice_the_throughput_is_tried_wherever_it_is_from(costs, change):
    text = f"""
    arch:
      nodes:
      - !Memory {{name: Main, size: inf, component_class: Dummy}}
      - !Compute {{name: MAC, leak_power: 0, area: 0, {costs}}}
    workload: {{rank_sizes: {{M: 4}}, bits_per_value: {{All: 8}}, einsums: ["Z[m] = A[m]"]}}
    mapping:
      nodes:
      - !Storage {{component: Main, tensors: [A, Z]}}
      - !Temporal {{rank_variable: m, tile_shape: 1}}
      - !Compute {{einsum: Z, component: MAC}}
    """
    (faster,) = explain(einmap.loads(text)).changes
    assert faster.sets == ((f"arch.nodes.1.{change[0]}", change[1]),)
    assert (faster.latency_change, faster.energy_change) == (-0.5, 0)


def test_a_change_that_fits_changes_the_mapping_alone():
    text = (ARCH + MATMUL).replace("size: 2000", "size: 9000")
    hold = [c for c in explain(einmap.loads(text)).changes if c.kind == "capacity"]
    assert [(c.sets, c.capacity) for c in hold] == [((), 9000), ((), 9000)]
    after = einmap.evaluate(einmap.loads(text), mapping=hold[0].mapping)
    assert (after.energy, after.latency) == (hold[0].energy, hold[0].latency)


def test_a_part_can_be_asked_for(matmul):
    part = only(matmul, tensors=["A"], components=["GLB"])
    assert [(n.tensor, n.component) for n in part.cases] == [("A", "GLB")]
    assert {(d.tensor, d.component) for d in part.derivations} == {("A", "GLB")}
    assert part.stationary == ()


def wrong_numbers(seeds, drawn=valid_case):
    """(seed, first wrong number) of every random case whose explanation says what its execution does not do."""
    found = []
    for seed in seeds:
        spec, _ = drawn(random.Random(seed))
        try:
            wrong = [d for d in differences(spec, explain(spec)) if not is_upper_bound(spec, *d)]
        except einmap.SpecError as refused:
            # a tensor indexed below 0 can be counted but not stored
            assert "indexes rank" in str(refused), seed
            continue
        found += [(seed, *d) for d in wrong[:1]]
    return found


def is_upper_bound(spec, what, said, counted):
    """Space where Einsums use different parts of one input: the largest common tile need not meet the other tiles'."""
    workload = spec.workload
    shared = [t for t, users in workload.users.items() if t not in workload.producers and len(users) > 1]
    is_space = what.split(":")[0] in ("fullest", "occupied")
    return is_space and bool(shared) and (counted is None or said > counted)


def test_every_number_of_the_hand_made_examples_is_what_execution_counts():
    fused = einmap.load("simple", "two_matvecs", "simple_two_matvecs_fused", define={"NI": 16, "NA": 12, "NB": 8})
    assert list(differences(fused, explain(fused))) == []


SMALL = MATMUL.replace("{M: 16, K: 24, N: 32}", "{M: 6, K: 8, N: 16}")
NO_NUMBERS = {"address", "child_address", "station", "begins", "ends", "sets", "mapping"}
"""Fields that say where something is, or how it is changed."""


def altered(value):
    """(path of a number, the same value with another number there) for every number in a row of an explanation."""
    if dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            if field.name not in NO_NUMBERS:
                for path, other in altered(getattr(value, field.name)):
                    yield f".{field.name}{path}", dataclasses.replace(value, **{field.name: other})
    elif isinstance(value, tuple):
        for i, inner in enumerate(value):
            for path, other in altered(inner):
                yield f"[{i}]{path}", (*value[:i], other, *value[i + 1 :])
    elif isinstance(value, bool):
        yield "", not value
    elif isinstance(value, int | float):
        yield "", 0.0 if math.isinf(value) else value + 1 if isinstance(value, int) else 1.5 * value + 1


def is_noticed(part, executed, explanation):
    try:
        return next(differences_in(part, executed, explanation), None) is not None
    except (LookupError, AttributeError, StopIteration):
        return True


@pytest.mark.parametrize("part", [part for part in PARTS if part != "cost"])
@pytest.mark.parametrize("text", [ARCH + SMALL, ARCH + LINES, NETWORK + SMALL], ids=["lanes", "lines", "network"])
def test_no_number_of_an_explanation_is_left_unchecked(text, part):
    spec = einmap.loads(text)
    explanation, executed = explain(spec), Executed(spec)
    assert list(differences_in(part, executed, explanation)) == []
    rows, noticed = getattr(explanation, part), {}
    for i, row in enumerate(rows):
        for path, other in altered(row):
            wrong = dataclasses.replace(explanation, **{part: (*rows[:i], other, *rows[i + 1 :])})
            noticed[path] = noticed.get(path, True) and is_noticed(part, executed, wrong)
    assert noticed
    assert [path for path, found in noticed.items() if not found] == []


LANES_ABOVE = """
workload: {rank_sizes: {M: 6, K: 8, N: 16}, bits_per_value: {All: 8}, einsums: ["Z[m, n] = A[m, k] * B[k, n]"]}
""" + nest("DRAM: A B Z / m 3 / n 4 @ PE.X / GLB: A B Z / n 1 / m 1 / k 1 / Z @ MAC")


def test_a_spatial_loop_written_above_a_memory_outside_its_fanout_makes_up_the_tile():
    spec = einmap.loads(ARCH + LANES_ABOVE)
    explanation = explain(spec)
    count = next(d for d in explanation.derivations if (d.component, d.tensor, d.action) == ("GLB", "B", "write"))
    (fill,) = count.pieces
    # one GLB serves the four lanes, so its tile of B is 8 x (4 lanes x 4) values, fetched in each of 2 iterations of m
    assert [(u.variable, u.iterations, u.dimension) for u in fill.below] == [
        ("n", 4, "PE.X"), ("n", 4, None), ("k", 8, None),
    ]  # fmt: skip
    assert (fill.tiles, fill.tile_values, count.values) == (2, 128, 256)
    assert list(differences(spec, explanation)) == []


SMALL_REST = """
workload: {rank_sizes: {M: 3, K: 2, N: 2}, bits_per_value: {All: 8}, einsums: ["Z[m, n] = A[m, k] * B[k, n]"]}
""" + nest(
    "DRAM: A B Z / !Temporal {rank_variable: m, tile_shape: 3, initial_tile_shape: 2} / n 1 / GLB: A B Z / m 1 / "
    "k 1 / Z @ MAC"
)


def test_the_tile_that_stays_is_the_largest_also_where_the_rest_is_smaller_than_the_first_tile():
    spec = einmap.loads(ARCH + SMALL_REST)
    explanation = explain(spec)
    (a,) = [s for s in explanation.stationary if (s.tensor, s.level) == ("A", 0)]
    # m in tiles of 2 and then, of the tile shape 3, the one value that is left: 2 x 2 values stay for both n
    assert (a.stays_for, a.iterations, a.shape, a.values) == (1, 2, (2, 2), 4)
    assert list(differences(spec, explanation)) == []


@few_and_many("seeds", (range(3),), ((3, 4, *range(1_000, 1_500)),), parts=5, part="simulator")
def test_every_number_of_an_explanation_is_what_execution_counts(seeds):
    assert wrong_numbers(seeds) == []


@pytest.mark.parametrize("drawn", [valid_windows, valid_networks])
@few_and_many("seeds", (range(2),), ((2, 3, *range(1_000, 1_250)),), parts=5, part="simulator")
def test_every_number_about_windows_and_networks_is_what_execution_counts(seeds, drawn):
    assert wrong_numbers(seeds, drawn) == []


def wrong_of_pipelines(seeds):
    """Numbers of explained Pipelines that the simulator, which runs their stages turn by turn, does not count."""
    wrong, held_twice = [], 0
    for seed in seeds:
        case = drawn_pipeline(random.Random(seed))
        if case is None or not is_even(case[0]):
            continue
        explanation, executed = explain(case[0]), Executed(case[0])
        parts = ("cases", "stationary", "derivations", "bottlenecks", "fanouts")
        wrong += [(seed, *row) for part in parts for row in differences_in(part, executed, explanation)]
        stages = {name for pipeline in explanation.cost.pipelines for s in pipeline.stages for name in s.einsums}
        most, said = {}, {}
        for (einsum, memory), bits in executed.run.fullest.items():
            key = ("stages" if einsum in stages else einsum), memory
            most[key] = max(most.get(key, 0), bits)
        for row in explanation.occupied:
            key = ("stages" if row.einsum in stages else row.einsum), row.memory
            said[key] = max(said.get(key, 0), row.bits)
        wrong += [(seed, key, bits, most.get(key)) for key, bits in said.items() if bits != most.get(key)]
        times = Counter()
        for row in executed.run.lives:
            times[row.tensor, row.address] += row.times
        lives = {(life.tensor, life.address): life.times for life in explanation.lives}
        wrong += [(seed, key, n, times[key]) for key, n in lives.items() if n != times[key]]
        together = Counter()
        for moment in executed.run.moments.values():
            together |= Counter((tensor, address) for tensor, address, _ in moment)
        copies = {(life.tensor, life.address): life.copies for life in explanation.lives}
        spread = Counter({(case.tensor, case.address) for case in explanation.cases if case.backing})
        spread = {t for t, n in Counter(tensor for tensor, _ in spread).items() if n > 1}
        seen = {key: together[key] for key in copies if key[0] not in spread and max(copies[key], together[key]) > 1}
        wrong += [(seed, key, copies[key], n) for key, n in seen.items() if copies[key] != n]
        for one in explanation.fullest:
            held = executed.run.fullest
            counted = max(bits for (_, memory), bits in held.items() if memory == one.memory)
            wrong += [] if one.bits == counted == sum(row[2] for row in one.live) else [(seed, one, counted)]
        held_twice += any(life.copies > 1 for life in explanation.lives)
    return wrong, held_twice


# in the last one of a few both stages have a node of their own for one input in one memory
@few_and_many("seeds", ((*range(12), 323),), (range(100, 700),), part="simulator")
def test_every_number_about_pipelines_is_what_execution_counts(seeds):
    wrong, held_twice = wrong_of_pipelines(seeds)
    assert wrong == []
    assert held_twice >= 1
