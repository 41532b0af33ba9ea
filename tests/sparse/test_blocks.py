"""Formats of blocks (BCSR, blocked ELLPACK) and with padding: by hand, against plain Python, and on all masks."""

import random
from itertools import combinations, product

import numpy as np
import pytest
from tests.machines import machine, workload
from tests.nests import nest
from tests.sparse.encoded import Written
from tests.sparse.problems import differences, draw_sparse, modelled, run, simulated
from tests.sparse.test_counts import MOST_POINTS, check_busiest, check_busiest_memories, judge, takes_over
from tests.sparse.test_means import far_off

import einmap
from einmap.errors import CapacityError, NotSupportedError, SpecError
from einmap.execute.execute import execute
from einmap.execute.zeros.parted import PartedTile
from einmap.sparse.blocks import fitting, most_stored, stored
from einmap.sparse.densities import Even, Structured, Uniform
from einmap.sparse.formats import format_of, named_format
from einmap.sparse.known import Known


def spec_of(*args, **options):
    return einmap.loads(text_of(*args, **options))


def text_of(formats, densities="{A: 0.25}", more="", tiles="Main: A B Z / m 4 / Buffer: A / n 1 / m 1 / k 1 / Z @ MAC"):
    return (
        machine("Main inf 1/1 @8 / Buffer 4096 1/1 @8 / MAC 1 @2")
        + workload("M: 8, N: 2, K: 8", "Z[m, n] = A[m, k] * B[n, k]")
        + nest(tiles)
        + f"\nsparsity:\n  densities: {densities}\n  formats: {formats}\n{more}"
    )


def counts(cost):
    return {(r.component, r.tensor, r.action): r.count for r in cost.actions if r.tensor == "A"}


# by hand


def example():
    """8 x 8 values in blocks of 4 x 4: both blocks of the first row of blocks have nonzeros, one of the second."""
    mask = np.zeros((8, 8), dtype=bool)
    mask[0, 1] = mask[3, 2] = mask[2, 7] = mask[5, 4] = True
    return mask


def test_formats_of_blocks_by_hand():
    takes = {}
    for name in ("coo", "csr", "csc", "bitmask", "ellpack", "uncompressed"):
        known = Known(example())
        fmt = fitting(named_format(name, (8, 8), (4, 4)), known, "A")
        found = stored(fmt, known, [0, 0], [8, 8])
        takes[name] = found.values, found.metadata
    assert takes == {
        "coo": (3 * 16, 3 * 2),  # three blocks, of which one is told by 1 + 1 bits
        "csr": (3 * 16, 3 * 3 + 3 * 1),  # BCSR: 3 offsets up to 4 blocks, and 1 bit which block of a row
        "csc": (3 * 16, 3 * 3 + 3 * 1),
        "bitmask": (3 * 16, 4),
        "ellpack": (4 * 16, 4 * 1),  # blocked ELLPACK: two blocks in each row, of which one is padding
        "uncompressed": (64, 0),
    }


def test_ellpack_by_hand():
    """Rows of 2, 0, 1 and 1 nonzeros of 8: two coordinates of 3 bits in each row."""
    mask = np.zeros((4, 8), dtype=bool)
    mask[0, [1, 5]] = mask[2, 0] = mask[3, 7] = True
    fmt = fitting(named_format("ellpack", mask.shape), Known(mask), "A")
    assert fmt.levels[1].entries == 2
    whole = stored(fmt, Known(mask), [0, 0], [4, 8])
    assert (whole.values, whole.metadata) == (8, 8 * 3)
    # of rows in halves: nonzeros of the first half, and those of the second with the padding
    halves = [stored(fmt, Known(mask), [0, k], [4, 4], ([0, 0], [4, 8])).values for k in (0, 4)]
    assert halves == [2, 2 + 4]
    # a tile of a single column has one slot in each row
    assert stored(fmt, Known(mask), [0, 1], [4, 1]).values == 4


def test_two_of_four_values_take_two_bits_each():
    """What NVIDIA's sparse tensor cores and SCALE-Sim's `ellpack_block` store: 2 of 4, and where in the 4 they are."""
    density = Structured((8, 16), 1, 2, 4)
    levels = [("U", (0, 1), None, None), ("ELL", (2,), None, None)]
    fmt = fitting(format_of(levels, density.shape, (1, 4)), density, "A")
    assert fmt.levels[1].entries == 2
    found = stored(fmt, density, [0, 0], [8, 16])
    assert (found.values, found.metadata) == (64, 64 * 2)
    assert most_stored(fmt, density, [8, 16]) == found


def test_a_blocked_ellpack_buffer_by_hand():
    """A has 16 nonzeros of 64, and 2 x 2 blocks of 4 x 4; each tile of the buffer is a row of two blocks.

    The tile takes 32 values of 8 bits, and two coordinates of one bit. It is filled twice, and read by the MAC once for
    each of two n, value by value: every value of its two blocks, each with its coordinate. Counts are of bits.
    """
    spec = spec_of("{Buffer: {A: {name: ellpack, block: {M: 4, K: 4}}}}")
    cost = einmap.evaluate(spec)
    (row,) = cost.tiles
    assert (row.dense, row.expected, row.worst) == (256, 258, 258)
    found = counts(cost)
    assert found["Buffer", "A", "write"] == 2 * 32 * 8
    assert found["Buffer", "A", "metadata_write"] == 2 * 2
    # a block that is empty is left out, and there is one of padding behind the last one
    assert found["Buffer", "A", "read"] == pytest.approx(2 * 64 * 8)
    assert found["Buffer", "A", "metadata_read"] == pytest.approx(2 * 64)
    assert einmap.evaluate(spec.set("arch.nodes[1].size", 258)).tiles == cost.tiles
    with pytest.raises(CapacityError, match="needs 258 bits"):
        einmap.evaluate(spec.set("arch.nodes[1].size", 257))


def test_few_entries_by_hand(tmp_path):
    """One entry in each row of blocks: half of the values, and one coordinate of a bit for each row of blocks."""
    mask = np.zeros((8, 8))
    mask[1, 5] = mask[6, 2] = 1
    np.save(tmp_path / "a.npy", mask)
    text = text_of("{Buffer: {A: {name: ellpack, block: {M: 4, K: 4}, entries: 1}}}", "{A: {file: a.npy}}")
    (tmp_path / "spec.yaml").write_text(text)
    spec = einmap.load(tmp_path / "spec.yaml")
    cost = einmap.evaluate(spec)
    (row,) = cost.tiles
    assert row.worst == 16 * 8 + 1
    found = counts(cost)
    assert found["Buffer", "A", "write"] == 2 * 16 * 8
    # for each n the 16 values of a block in each row of blocks
    assert found["Buffer", "A", "read"] == 2 * 2 * 16 * 8
    assert differences(modelled(spec, cost), simulated(spec, run(spec))) == {}


# against what is written out in plain Python


def random_format(rng, shape, density):
    blocks = tuple(int(rng.choice([d for d in range(1, n + 1) if n % d == 0])) for n in shape)
    rest, n = [], 0
    for block in blocks:
        rest.append([n] if block == 1 else [n, n + 1])
        n += len(rest[-1])
    order = []
    while any(rest):
        order.append(rest[int(rng.choice([i for i, parts in enumerate(rest) if parts]))].pop(0))
    levels, is_padded = [], bool(rng.random() < 0.5)
    while order:
        n = int(rng.integers(1, len(order) + 1))
        kind = str(rng.choice(["U", "ELL"] if is_padded else ["U", "CP", "B", "RLE", "UOP"]))
        levels.append([kind, tuple(order[:n]), None, None])
        order = order[n:]
    told = [i for i, level in enumerate(levels) if level[0] == "ELL"]
    for i in told[:-1]:
        levels[i][0] = "U"
    if levels[-1][0] == "UOP":
        levels[-1][0] = "CP"
    return fitting(
        format_of([tuple(level) for level in levels], shape, blocks if max(blocks) > 1 else ()), density, "A"
    )


def random_boxes(rng, fmt, shape):
    """A tile, and a part of it, that are whole blocks or lie in one."""
    found = []
    within = [(0, n) for n in shape]
    for _ in range(2):
        box = []
        for (low, high), block in zip(within, fmt.blocks or [1] * len(shape), strict=True):
            if low % block or (high - low) % block or rng.random() < 0.4:
                at = low + int(rng.integers(0, high - low))
                box.append((at, int(rng.integers(at + 1, min(high, at // block * block + block) + 1))))
            else:
                ends = sorted(int(n) for n in rng.choice(np.arange(low, high + 1, block), 2, replace=False))
                box.append((ends[0], ends[1]))
        found.append(tuple(box))
        within = box
    return found


def written(fmt, mask, tile, part):
    inside, asked = (list(product(*(range(a, b) for a, b in box))) for box in (tile, part))
    found = Written(fmt, [e for e in inside if mask[e]], inside, asked)
    return found.values, found.bits


def edges(box):
    return [a for a, _ in box], [b - a for a, b in box]


@pytest.mark.parametrize("seed", range(60))
def test_parts_of_tiles_take_what_is_written_of_them(seed):
    rng = np.random.default_rng(seed)
    shape = tuple(int(n) for n in rng.choice([1, 2, 4, 6], size=rng.integers(1, 4)))
    mask = rng.random(shape) < rng.choice([0, 0.1, 0.5, 1])
    fmt = random_format(rng, shape, Known(mask))
    if fmt.is_plain:
        return
    tile, part = random_boxes(rng, fmt, shape)
    right = written(fmt, mask, tile, part)
    found = stored(fmt, Known(mask), *edges(part), edges(tile))
    assert (found.values, found.metadata) == right
    held = PartedTile(fmt, mask[tuple(slice(a, b) for a, b in tile)], tile)
    assert held.taken(part) == right
    values, bits = held.singles
    single = tuple((int(a), int(a) + 1) for a, _ in part)
    at = tuple(a - low for (a, _), (low, _) in zip(single, tile, strict=True))
    assert (values[at], bits[at]) == written(fmt, mask, tile, single)
    whole, most = stored(fmt, Known(mask), *edges(tile)), most_stored(fmt, Known(mask), edges(tile)[1])
    assert most.values >= whole.values
    assert most.metadata >= whole.metadata


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize(
    "density", [Uniform((2, 4), 3), Structured((2, 4), 1, 1, 2), Structured((4, 2), 0, 2, 4)], ids=str
)
def test_expected_parts_are_means_over_all_masks(density, seed):
    rng = np.random.default_rng(seed)
    try:
        fmt = random_format(rng, density.shape, density)
    except SpecError as problem:
        assert "blocks of" in str(problem)
        return
    if fmt.is_plain:
        return
    tile, part = random_boxes(rng, fmt, density.shape)
    masks = []
    for chosen in combinations(range(8), round(8 * density.part)):
        mask = np.zeros(8, dtype=bool)
        mask[list(chosen)] = True
        mask = mask.reshape(density.shape)
        if isinstance(density, Structured):
            moved = np.moveaxis(mask, density.rank, -1).reshape(-1, density.m)
            if (moved.sum(axis=1) != density.n).any():
                continue
        masks.append(mask)
    right = np.mean([written(fmt, mask, tile, part) for mask in masks], axis=0)
    found = stored(fmt, density, *edges(part), edges(tile))
    assert (found.values, found.metadata) == pytest.approx(tuple(right))
    most = most_stored(fmt, density, edges(tile)[1])
    assert most.values >= max(written(fmt, mask, tile, tile)[0] for mask in masks)


@pytest.mark.parametrize(
    "seed",
    [pytest.param(n, marks=() if n in (2, 3) else (pytest.mark.slow, pytest.mark.simulator)) for n in range(300)],
)
def test_model_simulator_and_definition_agree(seed):
    rng = random.Random(seed)
    spec, cost = draw_sparse(rng, known=True, parted=True)
    while not all(s.formats for s in spec.sparsity.values()):
        spec, cost = draw_sparse(rng, known=True, parted=True)
    zeros = run(spec)
    assert differences(modelled(spec, cost), simulated(spec, zeros)) == {}
    for name in spec.workload.by_name:
        if spec.workload.by_name[name].n_computes <= MOST_POINTS and not takes_over(spec, name):
            judge(spec, name, zeros)
    check_busiest(spec, cost, zeros)
    check_busiest_memories(spec, zeros)
    for row in cost.tiles:
        held = zeros.held.get((row.einsum, row.component, row.tensor))
        if held is not None:
            width = spec.archs[row.einsum].components[row.component].bits[row.tensor]
            assert row.worst >= held.values * width + held.metadata


def test_expected_counts_of_blocks_are_means_over_all_masks():
    base = machine("Main inf 1/1 @8 / Buffer inf 1/1 @8 / MAC 1 @2") + workload(
        "M: 2, N: 2, K: 4", "Z[m, n] = A[m, k] * B[n, k]"
    )
    formats = "{Main: {A: {name: csr, block: {K: 2}}}, Buffer: {A: {name: ellpack, block: {K: 2}}}}"
    spec = einmap.loads(
        base
        + nest("Main: A B Z / k 2 / Buffer: A / n 1 / m 1 / k 1 / Z @ MAC")
        + f"\nsparsity:\n  densities: {{A: 0.375}}\n  formats: {formats}\n"
        + "  savings: [{at: Buffer, do: skip, tensors: Z, on: A}]\n"
    )
    runs = []
    for chosen in combinations(range(8), 3):
        a = np.zeros(8)
        a[list(chosen)] = 1
        zeros = execute(spec, {"A": a.reshape(2, 4), "B": np.ones((2, 4))}).zeros
        runs.append(simulated(spec, zeros))
    keys = {key for one in runs for key in one}
    means = {key: np.mean([one.get(key, 0) for one in runs]) for key in keys}
    assert differences(modelled(spec, einmap.evaluate(spec)), means) == {}


@pytest.mark.parametrize("seed", [pytest.param(n, marks=(pytest.mark.slow, pytest.mark.simulator)) for n in range(40)])
def test_expected_counts_are_means_over_masks(seed):
    rng = random.Random(seed)
    while True:
        spec, cost = draw_sparse(rng, known=False, parted=True)
        is_small = max(e.n_computes for e in spec.workload.einsums) < 400
        if is_small and any(s.saves and s.is_mean for s in spec.sparsity.values()):
            break
    expected = modelled(spec, cost)
    doubtful = far_off(spec, expected, range(200))
    again = far_off(spec, expected, range(10_000, 12_000)) if doubtful else {}
    assert not {key: again[key] for key in doubtful if key in again}


# at other places


def test_offsets_of_ragged_tiles_are_counted():
    """Two tiles of rows, of 3 and 1: each has an offset more than it has rows."""
    mask = np.eye(4, 6, dtype=bool)
    fmt = named_format("csr", mask.shape)
    low, size = [np.array([[0], [3]]), np.array([[0, 4]])], [np.array([[3], [1]]), np.array([[4, 2]])]
    found = stored(fmt, Known(mask), low, size).metadata
    offsets = np.array([[4], [2]]) * 5
    assert (found == offsets + np.array([[3, 0], [1, 0]]) * 3).all()


def test_the_mapper_holds_whole_blocks_or_parts_of_one():
    spec = spec_of("{Main: {A: {name: csr, block: {M: 2, K: 2}}}}")
    assert "blocks of formats" not in einmap.map_workload(spec, metrics="energy").reason
    spec = spec.set("workload.rank_sizes.K", 12).set("sparsity.formats.Main.A.block.K", 4)
    result = einmap.map_workload(spec, metrics="energy")
    assert result.optimal
    assert "every mapping of the Einsum with tiles that cut no blocks of formats was evaluated" in result.reason


def test_an_even_density_fills_blocks_in_part():
    fmt = named_format("csr", (8, 8), (2, 2))
    found = stored(fmt, Even((8, 8), 0.125), [0, 0], [8, 8])
    assert found.values == pytest.approx(16 * 0.5 * 4)


REFUSED = {
    "divide": ("{name: csr, block: {M: 3}}", "blocks of 3 do not divide the 8 places of 'A' along M"),
    "one": ("{name: csr, block: {M: 1}}", "blocks of 1 along M cut nothing"),
    "rank": ("{name: csr, block: {Q: 2}}", "no rank 'Q'"),
    "name": ("{name: blocked_ellpack, block: {M: 2}}", "unknown format 'blocked_ellpack'"),
    "entries": ("{name: csr, entries: 2}", "csr has no fixed number of entries"),
    "none": ("{name: ellpack, entries: 0}", "entries must be >= 1"),
    "few": ("{name: ellpack, entries: 1}", "an average fiber of 'A' has 2 places that are not empty, and 1 entry"),
    "level": ("[{format: CP, ranks: [M, K], entries: 2}]", "a level of CP has no fixed number of entries"),
    "parts": ("[{format: CP, ranks: [M / 2, K]}]", "each of its ranks once, found \\[M / 2, K\\]"),
    "order": ("[{format: CP, ranks: [M % 2]}, {format: U, ranks: [M / 2, K]}]", "M % 2 stands before M / 2"),
    "two": ("[{format: CP, ranks: [M / 2, K]}, {format: U, ranks: [M % 4]}]", "M is cut by 2 and by 4"),
    "text": ("[{format: CP, ranks: ['M +', K]}]", "is not a rank"),
    "below": ("[{format: CP, ranks: [M]}, {format: ELL, ranks: [K]}]", "above ELL all levels are U"),
    "size": ("[{format: CP, ranks: [M / x, K]}, {format: U, ranks: [M % x]}]", "'x'"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_wrong_is_said_at_its_place(name):
    text, message = REFUSED[name]
    with pytest.raises(SpecError, match=message) as caught:
        einmap.evaluate(spec_of(f"{{Buffer: {{A: {text}}}}}"))
    assert "sparsity.formats.Buffer.A" in str(caught.value.at)


def test_blocks_that_cut_those_of_a_density_are_refused():
    with pytest.raises(SpecError, match="blocks of 2 cut them"):
        einmap.evaluate(spec_of("{Buffer: {A: {name: csr, block: {K: 2}}}}", "{A: {structured: [2, 4], along: K}}"))


def test_tiles_that_cut_blocks_are_refused():
    tiles = "Main: A B Z / m 2 / k 3 / Buffer: A / n 1 / m 1 / k 1 / Z @ MAC"
    with pytest.raises(NotSupportedError, match="cut blocks of 4"):
        einmap.evaluate(spec_of("{Buffer: {A: {name: csr, block: {K: 4}}}}", tiles=tiles))


def test_a_mask_whose_rows_are_too_full_is_refused():
    spec = spec_of("{Buffer: {A: {name: ellpack, entries: 2}}}")
    data = {"A": np.eye(8), "B": np.ones((2, 8))}
    assert execute(spec, data).zeros is not None
    data["A"][3] = 1
    with pytest.raises(SpecError, match="8 entries that are not empty does not fit into the 2"):
        execute(spec, data)
