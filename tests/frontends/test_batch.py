"""The first dimension of every input, as it is given for models of any format."""

from pathlib import Path

import pytest
from tests.frontends.tflite.test_values import NAMES, STORED

import einmap

MODEL = f"{NAMES[0]}/model"
PROGRAM = Path(__file__).parent / "torch" / "images.pt2"


@pytest.mark.parametrize("batch", [0, -1, 2.5, True, 10**30, "x"])
def test_what_is_not_a_batch_is_refused_for_models_of_every_format(batch, tmp_path):
    onnx = pytest.importorskip("onnx")
    x, y = (onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["n", 4]) for name in "xy")
    graph = onnx.helper.make_graph([onnx.helper.make_node("Exp", ["x"], ["y"])], "g", [x], [y])
    onnx.save(onnx.helper.make_model(graph), tmp_path / "model.onnx")
    (tmp_path / "model.tflite").write_bytes(STORED[MODEL].tobytes())
    for read, file in (
        (einmap.from_onnx, tmp_path / "model.onnx"),
        (einmap.from_tflite, tmp_path / "model.tflite"),
        (einmap.from_torch, PROGRAM),
    ):
        with pytest.raises(einmap.SpecError, match="batch must be an integer from 1 to") as caught:
            read(file, batch=batch)
        assert str(file) in str(caught.value)
