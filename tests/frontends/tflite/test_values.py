"""TFLite models whose values are those that LiteRT's interpreter gave (build_cases.py)."""

from pathlib import Path

import numpy as np
import pytest

import einmap

STORED = np.load(Path(__file__).with_name("cases.npz"))
NETWORKS = np.load(Path(__file__).with_name("networks.npz"))
NAMES = sorted({key.partition("/")[0] for key in STORED.files})


def arrays(name, kind):
    start = f"{name}/{kind}/"
    return {key.removeprefix(start): STORED[key] for key in STORED.files if key.startswith(start)}


def saved(folder, name):
    path = folder / f"{name}.tflite"
    path.write_bytes(STORED[f"{name}/model"].tobytes())
    return path


@pytest.mark.parametrize("name", NAMES)
def test_values_are_those_of_the_interpreter_to_one_step_of_the_integers(tmp_path, name):
    found = einmap.from_tflite(saved(tmp_path, name), strict=True).run(arrays(name, "in"))
    for output, expected in arrays(name, "out").items():
        # an integer is rounded once here and in steps there; a fraction of the last case is one of 0.2 times an integer
        step = 1 if expected.dtype.kind in "iu" else 0.2 if name == "int8_layout" else 1e-5
        assert found[output].shape == expected.shape
        np.testing.assert_allclose(found[output], expected.astype(float), atol=step * 1.0001, rtol=0)


def test_nearly_all_integers_are_equal(tmp_path):
    names = [name for name in NAMES if "int" in name]
    equal = []
    for name in names:
        found = einmap.from_tflite(saved(tmp_path, name)).run(arrays(name, "in"))
        equal += [np.isclose(found[o], e.astype(float)) for o, e in arrays(name, "out").items()]
    assert len(names) == 4
    assert np.concatenate([one.reshape(-1) for one in equal]).mean() > 0.9


def test_an_int8_network_counts_products_of_8_bits_with_sums_of_32(tmp_path):
    model = einmap.from_tflite(saved(tmp_path, "int8_network"), strict=True)
    # 6 x 6 places: a convolution of 3 x 3 x 3 to 4 channels, 3 x 3 by channel; 4 x 5
    assert model.n_multiply_accumulates == 36 * 4 * 27 + 36 * 4 * 9 + 20
    bits = {a.tensor: a.bits_per_value for e in model.spec.workload.einsums for a in e.accesses}
    assert (bits["t3"], bits["t3_sum"], bits["t1"], bits["t2"]) == (8, 32, 8, 32)
    assert model.operators["DEPTHWISE_CONV_2D"] == 1
    int4 = einmap.from_tflite(saved(tmp_path, "int4_convolution")).spec.workload
    assert {a.bits_per_value for e in int4.einsums for a in e.accesses if a.tensor == "t1"} == {4}


@pytest.mark.parametrize(("name", "products"), [("mobilenet_v1", 569e6), ("mobilenet_v2", 300e6)])
def test_an_int8_mobilenet_has_the_published_number_of_products(tmp_path, name, products):
    """Howard et al. (2017), table 4; Sandler et al. (2018), table 4; at 224 x 224."""
    path = tmp_path / "net.tflite"
    path.write_bytes(NETWORKS[name].tobytes())
    model = einmap.from_tflite(path, strict=True)
    assert model.n_multiply_accumulates == pytest.approx(products, rel=0.005)


def test_a_batch_is_the_first_dimension_of_inputs_and_of_all_that_follows(tmp_path):
    path = saved(tmp_path, "int8_network")
    assert einmap.from_tflite(path, batch=4).n_multiply_accumulates == 4 * 5204
    assert einmap.load(path, define={"batch": 4}).workload == einmap.from_tflite(path, batch=4).spec.workload


def test_an_operator_without_einsum_form_is_a_barrier_with_its_reason(tmp_path):
    path = saved(tmp_path, "softmaxes")
    content = bytearray(path.read_bytes())
    # the number of the older field of SOFTMAX, 25, and of the newer one become those of TOPK_V2, 48
    for place in [i for i, byte in enumerate(content) if byte == 25]:
        content[place] = 48
    path.write_bytes(content)
    model = einmap.from_tflite(path)
    assert model.barrier_counts == {"TOPK_V2": 1}
    assert "einmap does not import this operator" in model.barriers[0].reason
    with pytest.raises(einmap.SpecError, match=r"operator 0 \(TOPK_V2\).*without Einsum form"):
        einmap.from_tflite(path, strict=True)
