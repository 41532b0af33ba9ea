"""Random mappings of Timeloop: what they move, against loops that are run, and through an export and back."""

import itertools
import math
import random

import pytest
from tests.frontends.timeloop.test_design import imported, spec_of

from einmap import evaluate
from einmap.frontends.timeloop.write import write

SPACES = {
    "matmul": ("MKN", {"A": ("M", "K"), "B": ("K", "N"), "Z": ("M", "N")}),
    "convolution": ("PRC", {"A": ("P + R", "C"), "B": ("R", "C"), "Z": ("P",)}),
    "strided": ("PRQ", {"A": ("2*P + R", "Q"), "B": ("R",), "Z": ("P", "Q")}),
}
LEVELS = ("Main", "Buf", "Reg")
COPIES = 4


def terms_of(index):
    """`2*P + R` as [(P, 2), (R, 1)]."""
    words = [term.split("*") for term in index.split(" + ")]
    return [(word[-1], int(word[0]) if len(word) > 1 else 1) for word in words]


def draw(rng, remainders):
    """Dimensions with sizes, tensors, factors and permutations by level, the factors over copies, remainders, and what
    is kept."""
    dimensions, tensors = SPACES[rng.choice([*SPACES])]
    temporal = {
        level: {d: rng.choice([1, 2, 3, 4] if remainders else [1, 1, 2, 3]) for d in dimensions} for level in LEVELS
    }
    spatial = dict.fromkeys(dimensions, 1)
    for d in rng.sample(dimensions, 2):
        spatial[d] = rng.choice([n for n in (1, 2) if n * math.prod(spatial.values()) <= COPIES])
    orders = {level: rng.sample(dimensions, len(dimensions)) for level in LEVELS}
    keep = {"Main": [*tensors], **{level: [t for t in tensors if rng.random() < 0.7] for level in LEVELS[1:]}}
    sizes, last = dict.fromkeys(dimensions, 1), {}
    for level, d in itertools.product((*LEVELS[:2], "PE", LEVELS[2]), dimensions):
        factor = spatial[d] if level == "PE" else temporal[level][d]
        # iterations where the loops further out come to their last one; a single one leaves tiles in place that the
        # LoopTree fetches again
        last[level, d] = rng.randint(min(2, factor), factor) if remainders and sizes[d] > 1 else factor
        sizes[d] = (sizes[d] - 1) * factor + last[level, d]
    return sizes, tensors, temporal, spatial, orders, last, keep


def factors_of(level, factors, last):
    """`M=3 K=2,1`, where the second number is there if it is another one."""
    written = (f"{d}={n}" + (f",{last[level, d]}" if last[level, d] != n else "") for d, n in factors.items())
    return '"' + " ".join(written) + '"'


def text_of(sizes, tensors, temporal, spatial, orders, last, keep):
    spaces = []
    for name, indices in tensors.items():
        ranks = [[[d] if a == 1 else [d, "two"] for d, a in terms_of(index)] for index in indices]
        projection = str(ranks).replace("'", "")
        spaces.append(f"{{name: {name}, projection: {projection}, read_write: {str(name == 'Z').lower()}}}")
    lines = [
        "problem: {version: 0.4, shape: {dimensions: [" + ", ".join(sizes) + "],",
        "  coefficients: [{name: two, default: 2}], data_spaces: [" + ", ".join(spaces) + "]},",
        "  instance: {" + ", ".join(f"{d}: {n}" for d, n in sizes.items()) + "}}",
        "architecture: {version: 0.4, nodes: [",
        "  !Component {name: Main, class: dummy_storage, attributes: {width: 8, datawidth: 8}},",
        "  !Component {name: Buf, class: dummy_storage, attributes: {width: 8, datawidth: 8}},",
        f"  !Container {{name: PE, spatial: {{meshX: {COPIES}}}}},",
        "  !Component {name: Reg, class: dummy_storage, attributes: {width: 8, datawidth: 8}},",
        "  !Component {name: MAC, class: intmac, attributes: {datawidth: 8}}]}",
        "mapping:",
    ]
    for level in LEVELS:
        factors = factors_of(level, temporal[level], last)
        lines.append(
            f"- {{target: {level}, type: temporal, factors: {factors}, permutation: [{', '.join(orders[level])}]}}"
        )
        bypass = ", ".join(t for t in tensors if t not in keep[level])
        lines.append(f"- {{target: {level}, type: dataspace, keep: [{', '.join(keep[level])}], bypass: [{bypass}]}}")
    lines.append(f"- {{target: PE, type: spatial, factors: {factors_of('PE', spatial, last)}}}")
    return "\n".join(lines) + "\n"


def tile(indices, first, extent):
    """The box of a tensor that iterations `first` to `first + extent - 1` of each dimension touch: (start, end) by rank."""
    box = []
    for index in indices:
        terms = terms_of(index)
        start = sum(a * first[d] for d, a in terms)
        box.append((start, start + sum(a * (extent[d] - 1) for d, a in terms) + 1))
    return tuple(box)


def size(box):
    return math.prod(max(end - start, 0) for start, end in box)


def common(box, other):
    return tuple((max(a, c), min(b, d)) for (a, b), (c, d) in zip(box, other, strict=True))


def fills_by_running(case, tensor, level):
    """Values that all copies of a level take in, by running the loops above it one by one.

    A tile that stays, as no loop that moves it has gone on, is not brought in again. Where the innermost loop alone has
    gone on, only what is new is.
    """
    sizes, tensors, temporal, spatial, orders, *_ = case
    above = LEVELS[: LEVELS.index(level)]
    inner = {d: math.prod(temporal[other][d] for other in LEVELS if other not in above) for d in sizes}
    lanes = spatial if level == "Reg" else dict.fromkeys(sizes, 1)
    if level != "Reg":
        inner = {d: inner[d] * spatial[d] for d in sizes}
    loops = [
        (other, d, temporal[other][d]) for other in above for d in reversed(orders[other]) if temporal[other][d] > 1
    ]
    own = {d for index in tensors[tensor] for d, _ in terms_of(index)}
    total = 0
    for lane in itertools.product(*(range(n) for n in lanes.values())):
        before, steps_before = None, None
        for steps in itertools.product(*(range(n) for _, _, n in loops)):
            first = {d: place * inner[d] for d, place in zip(lanes, lane, strict=True)}
            stride = {d: inner[d] * (lanes[d] if level == "Reg" else 1) for d in sizes}
            # from the inside out; the copies stand inside of the loops of Main and Buf
            for (_, d, n), step in reversed([*zip(loops, steps, strict=True)]):
                first[d] += step * stride[d]
                stride[d] *= n
            extent = {d: min(n, sizes[d] - first[d]) for d, n in inner.items()}
            if min(extent.values()) < 1:
                continue
            box = tile(tensors[tensor], first, extent)
            if before is None or steps_before is None:
                total += size(box)
            elif any(a != b and d in own for (_, d, _), a, b in zip(loops, steps, steps_before, strict=True)):
                went_on = steps[:-1] == steps_before[:-1]
                total += size(box) - (size(common(box, before)) if went_on else 0)
            before, steps_before = box, steps
    return total


@pytest.mark.parametrize("seed", range(8))
def test_what_a_random_mapping_moves(tmp_path, seed):
    check_moves(tmp_path, seed, remainders=seed % 2 == 1)


@pytest.mark.slow
@pytest.mark.simulator
def test_what_many_random_mappings_move(tmp_path):
    for seed in range(8, 600):
        check_moves(tmp_path, seed, remainders=seed % 3 == 0)


def check_moves(tmp_path, seed, *, remainders):
    """Compare what a mapping moves with loops that are run, then export it and read it again."""
    case = draw(random.Random(seed), remainders)
    keep = case[-1]
    spec = spec_of(imported(tmp_path, text_of(*case)))
    cost = evaluate(spec)
    counts = cost.count_by("action", "component", "tensor")
    assert counts["compute", "MAC", None] == math.prod(case[0].values())
    for level, tensor in itertools.product(LEVELS[1:], "AB"):
        if tensor in keep[level]:
            assert counts["write", level, tensor] == fills_by_running(case, tensor, level), (level, tensor)
    written = write(spec)
    named = {entry.key for entry in written.left_out} - {"MAC: energies"}
    again = evaluate(spec_of(imported(tmp_path, "\n".join(written.files.values()))))
    if not named:
        assert again.count_by("action", "component", "tensor") == counts
    assert all(key.endswith(": windows") for key in named)
    assert again.memory_usage == cost.memory_usage
