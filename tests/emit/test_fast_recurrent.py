"""Fast C of recurrences: the online softmax has the values of the simulator; states that need several places are refused."""

import ctypes
import subprocess

import numpy as np
import pytest
from tests.emit.running import COMPILER, needs_compiler
from tests.emit.test_fast import machine, run_fast
from tests.emit.test_fast_cascade import SOFTMAX, tree

import einmap
from einmap.emit.emit import emit
from einmap.errors import NotSupportedError

SIZES = {"h": 2, "m": 7, "p": 11, "e": 3, "f": 10}
STEPS = [
    "m by 1\nGM_before on FMA",
    "L2 holds Q\nm by 2\np0 by 4\nRegisters holds QK\ne by 1\nm by 1\np0 by 1\nQK on FMA",
    "m by 1\np0 by 1\nGM_block on FMA",
    "m by 1\nGM on FMA",
    "m by 1\nGM_factor on FMA",
    "m by 1\np0 by 1\nSN on FMA",
    "m by 1\np0 by 1\nSD_block on FMA",
    "m by 2\nf by 8\nRegisters holds AN_block\np0 by 1\nm by 1\nf by 1\nAN_block on FMA",
    "m by 1\nSD_before on FMA",
    "m by 1\nf by 1\nAN_before on FMA",
    "m by 1\nSD on FMA",
    "m by 1\nf by 1\nAN on FMA",
]
WITHIN = "L2 holds GM_before QK GM_block GM_factor SN SD_block AN_block SD_before AN_before"
QUERIES = "Main holds Q K V AV\nh by 1\nL3 holds K V\nm by 5\nL2 holds GM SD AN"
OUTSIDE = [QUERIES, [[f"p1 by 1\n{WITHIN}", STEPS], "m by 1\nf by 1\nAV on FMA"]]
KEYS = [
    "Main holds Q K V AV\nL2 holds GM SD AN",
    [
        [f"p1 by 1\nL2 holds K V\n{WITHIN}", [f"h by 1\n{step}" for step in STEPS]],
        "h by 1\nm by 1\nf by 1\nAV on FMA",
    ],
]
CORES = [QUERIES.replace("m by 5", "m by 3 on Cores.cores"), OUTSIDE[1]]
LINES = ["R[t, b] = H[S: t, b] * U[t]", "H[S: t + 1, b] = P[t, b] + R[t, b]"]
INPUTS = {"Q": (2, 7, 3), "K": (2, 12, 3), "V": (2, 12, 10)}


def online(nest, keys=12):
    """Attention in blocks of 4 keys."""
    ranks = {variable.upper(): size for variable, size in {**SIZES, "p": keys}.items()}
    workload = {"einsums": SOFTMAX, "rank_sizes": ranks, "bits_per_value": {"All": 32}}
    mapping = {"rewrites": ["online_softmax P=4"], "nodes": tree(nest)}
    return einmap.Spec.from_dict(arch=machine(32), workload=workload, mapping=mapping)


@needs_compiler
@pytest.mark.parametrize(
    "nest", [pytest.param(OUTSIDE, id="queries outside"), pytest.param(KEYS, marks=pytest.mark.slow, id="keys outside")]
)
def test_the_online_softmax_is_computed_in_place(nest, tmp_path):
    assert run_fast(online(nest), tmp_path) == "equal to the plain loops\n"


@needs_compiler
def test_a_library_on_cores_has_the_values_of_the_simulator(tmp_path):
    """Scores far below zero: what a state begins with is not a score of 0. Called twice: it begins anew."""
    spec, rng = online(CORES), np.random.default_rng(0)
    (tmp_path / "fast.c").write_text(emit(spec, fast=True))
    command = [COMPILER, "-O1", "-fopenmp", "-DNO_MAIN", "-shared", "-fPIC", "-Wno-psabi", "fast.c", "-o", "fast.so"]
    subprocess.run(command, cwd=tmp_path, timeout=120, check=True)
    inputs = {t: rng.normal(size=shape).astype(np.float32) * 3 for t, shape in INPUTS.items()}
    inputs["Q"], inputs["K"] = np.abs(inputs["Q"]) + 5, -np.abs(inputs["K"]) - 5
    found = np.full((2, 7, 10), np.nan, np.float32)
    nest = ctypes.CDLL(str(tmp_path / "fast.so")).nest
    for _ in range(2):
        nest(*(ctypes.c_void_p(x.ctypes.data) for x in (*inputs.values(), found)))
    inputs = {t: a.reshape(2, 3, 4, -1) if t in "KV" else a for t, a in inputs.items()}
    expected = einmap.execute(spec, inputs).tensors["AV"]
    assert np.allclose(found, expected, rtol=0, atol=1e-5)
    assert np.abs(expected).max() > 1


def test_the_steps_of_the_mapping_can_be_recognised():
    nest = emit(online(OUTSIDE), fast=True).split("void nest(")[1].split("#ifndef")[0]
    found = [line.split("/* ")[1].split(" */")[0] for line in nest.splitlines() if "/* " in line]
    found = [line for line in found if "holds" not in line]
    assert found == [
        "for h by 1",
        "for m by 5",
        *("SD before the first step", "GM before the first step", "AN before the first step"),
        "for p1 by 1",
        *("GM_before", "QK", "for m by 2"),
        *("GM_block", "GM", "GM_factor", "SN, SD_block"),
        *("AN_block", "for m by 2", "for f by 8"),
        *("SD_before", "AN_before", "SD", "AN", "AV"),
    ]


def stepping(einsums, nest, **fields):
    sizes = {"rank_sizes": {"B": 8}, "iteration_space_shape": {"t": "0 <= t < 4"}, "bits_per_value": {"All": 32}}
    workload = {"einsums": einsums, **sizes, **fields}
    return einmap.Spec.from_dict(arch=machine(32), workload=workload, mapping={"nodes": tree(nest)})


TWO = ["b by 1\nR on FMA", "b by 1\nH on FMA"]
LAST = "b by 1\nY on FMA"


@needs_compiler
def test_a_recurrence_of_maps_is_computed_in_place(tmp_path):
    einsums = [*LINES, "Y[b] = H[S: 4, b] + V[b]"]
    spec = stepping(einsums, ["Main holds U P V Y\nL2 holds H", [["t by 1\nL2 holds R", TWO], LAST]])
    assert run_fast(spec, tmp_path) == "equal to the plain loops\n"


@pytest.mark.parametrize(
    ("einsums", "nest", "text"),
    [
        pytest.param(LINES, ["Main holds U P H\nt by 1\nL2 holds R", TWO], "has no results but states", id="no result"),
        pytest.param(
            [*LINES, "Y[t, b] = H[S: t + 1, b] * V[b]"],
            ["Main holds U P V Y\nL2 holds H", [["t by 1\nL2 holds R", TWO], "t by 1\nb by 1\nY on FMA"]],
            "others read more than the last step",
            id="all steps are read",
        ),
        pytest.param(
            ["R[t, b] = H[S: t, b] * U[t]", "H[S: t + 2, b] = P[t, b] + R[t, b]", "Y[b] = H[S: 5, b] + V[b]"],
            ["Main holds U P V Y\nL2 holds H", [["t by 1\nL2 holds R", TWO], LAST]],
            "reads 'H' of a step that the next one has overwritten",
            id="two steps earlier",
        ),
        pytest.param(
            ["R[t, B: b] = H[S: t, B: c] * U[c, b]", "H[S: t + 1, B: b] = R[t, B: c] * P[c, b]", "Y[b] = H[S: 4, b] + V[b]"],
            [
                "Main holds U P V Y\nL2 holds H",
                [
                    ["t by 1\nL2 holds R", [f"b by 4\nRegisters holds {t}\nc by 1\nb by 1\n{t} on FMA" for t in "RH"]],
                    LAST,
                ],
            ],
            "is a product that writes 'H', which steps through time",
            id="product",
        ),
    ],
)  # fmt: skip
def test_what_one_place_is_not_enough_for_is_refused(einsums, nest, text):
    with pytest.raises(NotSupportedError, match=text):
        emit(stepping(einsums, nest), fast=True)
