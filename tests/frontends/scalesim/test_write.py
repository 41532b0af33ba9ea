"""Specifications as SCALE-Sim's topology and configuration."""

import re

import pytest
from tests.frontends.scalesim.test_read import CONFIG, PRODUCTS, REPORTED, imported, spec_of

from einmap import EinmapError, SpecError, loads
from einmap.frontends.scalesim.write import write


def topology(*einsums, sizes="", instances=1):
    lines = "\n".join(f'  - "{einsum}"' for einsum in einsums)
    text = f"workload:\n  rank_sizes: {{{sizes}}}\n  bits_per_value: {{All: 8}}\n  n_instances: {instances}\n"
    result = write(loads(f"{text}  einsums:\n{lines}\n"))
    return result.files["net.csv"].splitlines()[1:], [entry.key for entry in result.left_out]


@pytest.mark.parametrize("dataflow", REPORTED)
def test_what_was_imported_is_written_again(tmp_path, dataflow):
    config = CONFIG.replace("Height: 8", "Height: 4").replace("FilterSramSzkB: 1", "FilterSramSzkB: 2")
    result = write(spec_of(imported(tmp_path, config.replace("ws", dataflow), PRODUCTS)))
    assert result.files["net.csv"] == PRODUCTS
    wanted = ["ArrayHeight: 4\nArrayWidth: 8\nIfmapSramSzkB: 1\nFilterSramSzkB: 2\n", f"Dataflow: {dataflow}\n"]
    assert all(text in result.files["run.cfg"] for text in wanted)


def test_a_product_has_all_ranks_of_a_kind_together():
    rows, left = topology("Z[a, b, n] = A[a, b, k, l] * B[k, l, n]", sizes="A: 2, B: 3, N: 5, K: 7, L: 11")
    assert (rows, left) == (["Z, 6, 5, 77,"], [])


def test_a_convolution_keeps_its_window():
    # 2 * (5 - 1) + 3 = 11 rows, 2 * (4 - 1) + 2 = 8 columns
    einsum = "Z[n, p, q] = I[c, H: 2*p + r, W: 2*q + s] * W[n, c, r, s]"
    rows, _ = topology(einsum, sizes="N: 6, C: 3, P: 5, Q: 4, R: 3, S: 2")
    assert rows == ["Z, 11, 8, 3, 2, 3, 6, 2,"]


def test_what_is_there_several_times_is_depth_wise():
    sizes = "H: 4, M: 8, N: 5, K: 3, P: 6, R: 3"
    assert topology("Z[h, m, n] = A[h, m, k] * B[h, k, n]", sizes=sizes)[0] == ["DP_Z, 8, 3, 1, 3, 4, 5, 1,"]
    assert topology("Z[h, p] = A[h, X: p + r] * B[h, r]", sizes=sizes)[0] == ["DP_Z, 8, 1, 3, 1, 4, 1, 1,"]
    assert topology("Z[m, n] = A[m, k] * B[k, n]", sizes=sizes, instances=2)[0] == ["DP_Z, 8, 3, 1, 3, 2, 5, 1,"]
    # SCALE-Sim would take any other layer with DP in its name apart
    assert topology("DPN[m, n] = A[m, k] * B[k, n]", sizes=sizes)[0] == ["DpN, 8, 5, 3,"]


def test_other_einsums_are_left_out_by_name():
    sizes = "M: 8, N: 5, K: 3"
    rows, left = topology("Z[m, n] = A[m, k] * B[k, n]", "Y[m, n] = relu(Z[m, n])", sizes=sizes)
    assert (rows, left) == (["Z, 8, 5, 3,"], ["Y"])
    with pytest.raises(SpecError, match="no Einsum of the workload is one of its layers"):
        topology("Y[m, n] = relu(Z[m, n])", sizes=sizes)


def changed(folder, pattern, text):
    """Files of SCALE-Sim, imported, with another mapping."""
    files = dict(imported(folder, CONFIG, PRODUCTS).files)
    files["mapping.yaml"], times = re.subn(pattern, text, files["mapping.yaml"])
    assert times
    return loads("\n".join(files.values()))


@pytest.mark.parametrize("wrong", [("name: rows", "name: rowz"), ("einsum: b", "einsum: a"), ("Array,", "Arrey,")])
def test_a_mapping_that_does_not_fit_is_told_with_its_place(tmp_path, wrong):
    with pytest.raises(EinmapError, match="mapping"):
        write(changed(tmp_path, *wrong))


def test_a_mapping_without_an_array_has_no_configuration(tmp_path):
    result = write(changed(tmp_path, r"!Spatial {(.*), component: Array, name: columns}", r"!Temporal {\1}"))
    assert list(result.files) == ["net.csv"]
    assert [entry.key for entry in result.left_out] == ["mapping"]
