"""What nests look like, by hand-computed examples: places of moves, sizes, names."""

import re

import numpy as np
import pytest
from tests.emit.running import needs_compiler, problems, problems_in_c, run_c, run_python

import einmap
from einmap.errors import NotSupportedError

M, N, K = 12, 8, 5
M1, N1 = 3, 2
"""Tile shapes; `partitioning` calls the counts of tiles M2 and N2."""


def memory(name, size="inf", **more):
    return {"type": "Memory", "name": name, "size": size, "component_class": "Dummy", **more}


def storage(component, *tensors):
    return {"type": "Storage", "component": component, "tensors": list(tensors)}


def loop(variable, shape, **more):
    return {"type": "Temporal", "rank_variable": variable, "tile_shape": shape, **more}


def lanes(variable, shape, name="X", component="Array"):
    return {"type": "Spatial", "rank_variable": variable, "tile_shape": shape, "component": component, "name": name}


def compute(einsum="Z"):
    return {"type": "Compute", "einsum": einsum, "component": "MAC"}


def spec_of(einsums, sizes, nodes, memories=None, **workload):
    arch = [
        *(memories or [memory("DRAM"), memory("GLB")]),
        {"type": "Compute", "name": "MAC", "component_class": "Dummy"},
    ]
    return einmap.Spec.from_dict(
        {
            "workload": {"rank_sizes": sizes, "bits_per_value": {"All": 8}, "einsums": einsums, **workload},
            "arch": {"nodes": arch},
            "mapping": {"nodes": nodes},
        }
    )


def matmul(*nodes, memories=None, **sizes):
    return spec_of(["Z[m,n] = A[m,k] * B[k,n]"], {"M": M, "N": N, "K": K, **sizes}, [*nodes], memories)


OUTER = {"m": loop("m", M1), "n": loop("n", N1)}
INNER = [loop("m", 1), loop("n", 1), loop("k", 1), compute()]


@pytest.mark.parametrize(
    ("first", "second", "above", "below", "a", "b"),
    [("m", "n", "A", "B", M * K, (M // M1) * N * K), ("n", "m", "B", "A", (N // N1) * M * K, N * K)],
)
def test_the_outer_of_two_loops_decides_which_operand_moves_once(first, second, above, below, a, b):
    spec = matmul(
        storage("DRAM", "A", "B", "Z"), OUTER[first], storage("GLB", above), OUTER[second], storage("GLB", below, "Z"),
        *INNER,
    )  # fmt: skip
    text = einmap.emit(spec, "python")
    assert problems(text, spec) == []
    _, moved = run_python(text, spec)
    assert (moved["DRAM", "A", "read"], moved["DRAM", "B", "read"]) == (a, b)
    assert moved["DRAM", "Z", "write"] == M * N


def body(spec):
    """The nest without its declarations."""
    return einmap.emit(spec, "pseudo").split("\n\n")[-1]


def declarations(spec):
    """Head and comment of each tensor and buffer."""
    lines = einmap.emit(spec, "pseudo").splitlines()
    return [tuple(re.split(r" +# ", line)) for line in lines if re.match("tensor|buffer", line)]


def test_moves_stand_where_the_storage_nodes_are():
    spec = matmul(
        storage("DRAM", "A", "B", "Z"), OUTER["m"], storage("GLB", "A"), OUTER["n"], storage("GLB", "B", "Z"), *INNER
    )
    assert (
        body(spec)
        == """\
for m1 in 0:M1:
    mvin(GLB_A, A[m1*M0:(m1 + 1)*M0, :])
    for n1 in 0:N1:
        mvin(GLB_B, B[:, n1*N0:(n1 + 1)*N0])
        GLB_Z[...] = 0
        for m0 in 0:M0:
            for n0 in 0:N0:
                for k0 in 0:K0:
                    GLB_Z[m0, n0] += GLB_A[m0, k0] * GLB_B[k0, n0]
        mvout(Z[m1*M0:(m1 + 1)*M0, n1*N0:(n1 + 1)*N0], GLB_Z)
"""
    )
    assert declarations(spec)[1::2] == [
        ("buffer GLB_A[M0, K]", "GLB: 15 values (120 bits), A read by Z"),
        ("buffer GLB_B[K, N0]", "GLB: 10 values (80 bits), B read by Z"),
        ("buffer GLB_Z[M0, N0]", "GLB: 6 values (48 bits), Z written by Z"),
    ]


def test_partial_results_come_back_when_there_are_some():
    spec = matmul(storage("DRAM", "A", "B", "Z"), loop("k", 2), storage("GLB", "Z"), *INNER, K=6)
    assert (
        body(spec)
        == """\
for k1 in 0:K1:
    if k1 > 0:
        mvin(GLB_Z, Z[:, :])
    else:
        GLB_Z[...] = 0
    for m0 in 0:M0:
        for n0 in 0:N0:
            for k0 in 0:K0:
                GLB_Z[m0, n0] += A[m0, k1*K0 + k0] * B[k1*K0 + k0, n0]
    mvout(Z[:, :], GLB_Z)
"""
    )


def test_short_last_tiles_have_sizes_of_their_own():
    spec = matmul(storage("DRAM", "A", "B", "Z"), loop("m", 5), storage("GLB", "A"), *INNER)
    assert (
        body(spec)
        == """\
for m1 in 0:3:
    m1_n = min(5, -5*m1 + 12)
    mvin(GLB_A, A[5*m1:5*m1 + m1_n, :])
    for m0 in 0:m1_n:
        for n0 in 0:N0:
            for k0 in 0:K0:
                Z[5*m1 + m0, n0] += GLB_A[m0, k0] * B[k0, n0]
"""
    )


ARRAY = [
    memory("DRAM"),
    {"type": "Container", "name": "Array", "spatial": [{"name": "X", "fanout": 4}, {"name": "Y", "fanout": 5}]},
    memory("Reg"),
]


def test_lanes_share_what_they_do_not_index_and_add_up_what_they_reduce():
    spec = matmul(
        storage("DRAM", "A", "B", "Z"), lanes("n", 2), lanes("k", 1, "Y"), storage("Reg", "A", "Z"), *INNER,
        memories=ARRAY,
    )  # fmt: skip
    assert (
        body(spec)
        == """\
parallel_for n1 in 0:N1, k0 in 0:K0:  # Array.X, Array.Y
    mvin(Reg_A[n1, k0], A[:, k0])  # multicast along n1
parallel_for n1 in 0:N1, k0 in 0:K0:  # Array.X, Array.Y
    Reg_Z[n1, k0][...] = 0
parallel_for n1 in 0:N1, k0 in 0:K0:  # Array.X, Array.Y
    for m0 in 0:M0:
        for n0 in 0:N0:
            Reg_Z[n1, k0, m0, n0] += Reg_A[n1, k0, m0, 0] * B[k0, n1*N0 + n0]
parallel_for n1 in 0:N1, k0 in 0:K0:  # Array.X, Array.Y
    if k0 == 0:
        mvout(Z[:, n1*N0:(n1 + 1)*N0], Reg_Z[n1, k0])
    else:
        mvout_add(Z[:, n1*N0:(n1 + 1)*N0], Reg_Z[n1, k0])
"""
    )
    text = einmap.emit(spec, "python")
    assert problems(text, spec) == []
    moved = run_python(text, spec)[1]
    assert (moved["DRAM", "A", "read"], moved["Reg", "A", "write"]) == (M * K, 4 * M * K)
    assert (moved["DRAM", "Z", "write"], moved["Reg", "Z", "read"]) == (M * N, 5 * M * N)


HALO = {"T": {"h": 2}, "Z": {"p": 2}}


def fused(**node):
    """Producer and consumer of rows under one loop; the consumer's window is 3 rows long."""
    first = loop({"T": "h", "Z": "p"}, {"T": 2, "Z": 2}, initial_tile_shape={"T": 4, "Z": 2})
    branches = [
        {"type": "Nested", "nodes": [loop("h", 1), loop("c", 1), compute("T")]},
        {"type": "Nested", "nodes": [loop("p", 1), loop("r", 1), compute("Z")]},
    ]
    nodes = [
        storage("DRAM", "I", "T", "F", "Z"),
        first,
        storage("GLB", "T") | node,
        {"type": "Sequential", "nodes": branches},
    ]
    return spec_of(["T[h] = I[h,c]", "Z[p] = T[H: p + r] * F[r]"], {"H": 10, "P": 8, "R": 3, "C": 2}, nodes)


def test_rows_of_the_tile_before_are_fetched_and_others_are_not():
    spec = fused()
    text = einmap.emit(spec, "python")
    assert problems(text, spec) == []
    assert run_python(text, spec)[1]["DRAM", "T", "read"] == 3 * 2


def test_line_buffers_are_refused_by_name():
    nodes = [storage("DRAM", "I", "F", "O"), loop("p", 2), storage("GLB", "I") | {"sliding_window": True},
             loop("p", 1), loop("r", 1), compute("O")]  # fmt: skip
    spec = spec_of(["O[p] = I[H: p + r] * F[r]"], {"P": 8, "R": 3}, nodes)
    with pytest.raises(NotSupportedError, match=r"'I' is held in a line buffer that slides along nodes\[1\]"):
        einmap.emit(spec)


def holes(reduction, **more):
    """Every other row of Z is written; GLB holds a third of what is written at a time."""
    einsum = {"einsum": "Z[M: 2*m + 1] = -A[m, k]", "reduction": reduction}
    nodes = [storage("DRAM", "A", "Z"), loop("k", 2), loop("m", 2), storage("GLB", "Z"), loop("m", 1), loop("k", 1)]
    return spec_of([einsum], {"M": 12, "K": 4}, [*nodes, compute()], iteration_space_shape={"m": "0 <= m < 6"}, **more)


@pytest.mark.parametrize("reduction", ["max", "min", "sum"])
def test_elements_that_nothing_writes_stay_0(reduction):
    spec = holes(reduction)
    text = einmap.emit(spec, "python")
    assert problems(text, spec) == []
    (z,) = run_python(text, spec)[0].values()
    assert (z[::2] == 0).all()
    assert (z[1::2] < 0).all()


MAPS = (
    "exp(A[m,k]) + log(B[m,k]) * sqrt(C[m,k]) - rsqrt(D[m,k]) / abs(E[m,k]) + tanh(F[m,k]) - sigmoid(G[m,k])"
    " + relu(H[m,k] - 1) + max(I[m,k], 1) * min(J[m,k], 1) - (-L[m,k]) ** 2 - (O[m,k] - (P[m,k] - 2))"
    " + erf(A[m,k]) * gelu(B[m,k]) - sin(C[m,k]) * cos(D[m,k]) + floor(E[m,k]) * ceil(F[m,k]) - round(2.5 * G[m,k])"
    " + sign(H[m,k] - 1) * select(less(I[m,k], J[m,k]), L[m,k], 2) + equal(O[m,k], O[m,k])"
)


def maps():
    """Every function of a map."""
    nodes = [storage("DRAM", *"ABCDEFGHIJLOPZ"), loop("m", 1), loop("k", 1), compute()]
    return spec_of([f"Z[m] = {MAPS}"], {"M": 3, "K": 4}, nodes)


def test_python_knows_every_operation():
    assert problems(einmap.emit(maps(), "python"), maps()) == []


@needs_compiler
@pytest.mark.parametrize("spec", [maps(), holes("max"), holes("min"), fused()], ids=["maps", "max", "min", "fused"])
def test_c_does_the_same(spec, tmp_path):
    assert problems_in_c(einmap.emit(spec, "c"), spec, tmp_path) == []


# names

ODD = ("np", "i", "double", "größe")
"""Names of tensors that a language keeps for itself, or that the code uses."""


def odd():
    a, b, z, y = ODD
    einsums = [
        {
            "name": "first",
            "tensor_accesses": [access(a, "int", "print"), access(b, "print"), access(z, "int", output=True)],
        },
        {"name": "main", "tensor_accesses": [access(z, "int"), access(y, "int", output=True)]},
    ]
    nodes = [
        storage("DRAM", *ODD),
        {
            "type": "Sequential",
            "nodes": [
                {"type": "Nested", "nodes": [storage("GLB", b, z), loop("int", 1), loop("print", 1), compute("first")]},
                {"type": "Nested", "nodes": [storage("GLB", z), loop("int", 1), compute("main")]},
            ],
        },
    ]
    return spec_of(einsums, {"INT": 3, "PRINT": 2}, nodes)


def access(tensor, *variables, output=False):
    return {"name": tensor, "projection": list(variables), "output": output}


def test_words_of_python_are_renamed_with_a_comment():
    text = einmap.emit(odd(), "python")
    assert "Renamed: 'np' is np_ here." in text
    assert "Renamed: 'größe' is gr__e here." in text
    assert problems(text, odd()) == []


@needs_compiler
def test_words_of_c_are_renamed_with_a_comment(tmp_path):
    text = einmap.emit(odd(), "c")
    assert " * Renamed: 'double' is double_ here.\n" in text
    assert problems_in_c(text, odd(), tmp_path) == []


# rows that are looked up


LOOK_UP = "Y[t, d] = Table[V: Ids[t], d]"
SIZES = {"V": 10, "T": 6, "D": 4}
EACH = [loop("t", 1), loop("d", 1), compute("Y")]


def test_rows_are_fetched_by_position_as_their_indices_say():
    spec = spec_of(
        [LOOK_UP], SIZES, [storage("DRAM", "Table", "Ids", "Y"), loop("t", 2), storage("GLB", "Table"), *EACH]
    )
    fill = "    mvin(GLB_Table, Table[Ids[t1*T0:(t1 + 1)*T0], :])"
    assert body(spec).splitlines()[:2] == ["for t1 in 0:T1:", fill]
    named = {}
    exec(einmap.emit(spec, "python"), named)  # the text under test
    table = np.arange(1.0, 41.0).reshape(10, 4)
    outputs, moved = named["nest"](table, np.array([3.0, -1, 9, 0, -1, 3]))
    assert (outputs["Y"] == [table[3], [0] * 4, table[9], table[0], [0] * 4, table[3]]).all()
    # a row of zeros is fetched as any other
    assert moved["DRAM", "Table", "read"] == moved["GLB", "Table", "write"] == 6 * 4
    for wrong in (10, -2, 0.5, np.nan):
        with pytest.raises(ValueError, match=r"Ids has the value .*; indices are from 0 to 9, or -1 "):
            named["nest"](table, np.array([0, 0, 0, 0, 0, wrong]))


@needs_compiler
def test_rows_that_are_not_there_end_the_c_program(tmp_path):
    spec = spec_of([LOOK_UP], SIZES, [storage("DRAM", "Table", "Ids", "Y"), *EACH])
    text = einmap.emit(spec, "c")
    status, printed, _ = run_c(text.replace("= next_index(10)", "= 11 + next_index(1)"), tmp_path)
    assert (status, printed) == (2, "Ids has the value 10; indices are from 0 to 9, or -1 for a row of zeros\n")


def made_in_lanes(*above):
    """Indices that an Einsum makes in each of four lanes; `above`: nodes below the main memory."""
    branches = [[compute("Ids")], [loop("d", 1), compute("Y")]]
    split = {"type": "Sequential", "nodes": [{"type": "Nested", "nodes": nest} for nest in branches]}
    nodes = [storage("DRAM", "A", "Y", "Table"), *above, storage("Reg", "Ids"), split]
    memories = [memory("DRAM"), memory("GLB"), *ARRAY[1:]]
    return spec_of(["Ids[t] = floor(A[t] / 2)", LOOK_UP], {**SIZES, "T": 4}, nodes, memories)


def test_rows_wait_for_their_indices_and_find_them_in_their_own_lane():
    spec = made_in_lanes(lanes("t", 1), storage("Reg", "Table"))
    assert problems(einmap.emit(spec, "python"), spec) == []
    lines = [line.strip() for line in body(spec).splitlines()]
    assert lines[1::2][:2] == ["Reg_Ids[t0, 0] = floor(A[t0] / 2.0)", "mvin(Reg_Table[t0], Table[Ids[t0], :])"]


def test_indices_that_lie_in_lanes_of_their_own_are_refused():
    spec = made_in_lanes(storage("GLB", "Table"), lanes("t", 1))
    with pytest.raises(NotSupportedError, match=r"nodes\[1\].*'GLB' for several instances of 'Reg', each of which"):
        einmap.emit(spec)


# refusals


def test_partial_sums_that_are_read_are_an_error():
    branches = [
        {"type": "Nested", "nodes": [loop("m", 1), loop("k", 1), compute("T")]},
        {"type": "Nested", "nodes": [loop("m", 1), compute("Z")]},
    ]
    nodes = [
        storage("DRAM", "A", "T", "Z"),
        loop({"T": "k", "Z": "j"}, {"T": 2, "Z": 2}),
        {"type": "Sequential", "nodes": branches},
    ]
    spec = spec_of(["T[m] = A[m,k]", "Z[m,j] = T[m]"], {"M": 2, "K": 4, "J": 4}, nodes)
    with pytest.raises(einmap.MappingError):
        einmap.emit(spec)


def test_an_operation_that_is_no_arithmetic_is_refused_by_name():
    einsum = {
        "name": "Z",
        "tensor_accesses": [access("A", "m"), access("Z", "m", output=True)],
        "operation": "mystery(A)",
    }
    spec = spec_of([einsum], {"M": 2}, [storage("DRAM", "A", "Z"), loop("m", 1), compute()])
    with pytest.raises(einmap.SpecError, match=r"not arithmetic that einmap can execute: mystery\(A\)"):
        einmap.emit(spec)


def test_outputs_that_lanes_keep_to_themselves_are_refused():
    nodes = [storage("DRAM", "A"), lanes("k", 1), storage("Reg", "Z"), loop("m", 1), compute()]
    spec = spec_of(["Z[m] = A[m,k]"], {"M": 2, "K": 4}, nodes, ARRAY)
    with pytest.raises(einmap.EinmapError, match="'Z'"):
        einmap.emit(spec)


def test_an_unknown_language_is_refused_with_a_suggestion():
    with pytest.raises(einmap.SpecError, match="'pyton'") as refused:
        einmap.emit(odd(), "pyton")
    assert "python" in (refused.value.hint or "")
