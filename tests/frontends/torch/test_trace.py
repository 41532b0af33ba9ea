"""Modules that PyTorch traces, where it is installed: the graph and its values are those of the recorded programs."""

import numpy as np
import pytest

from einmap import from_torch
from einmap.errors import SpecError

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore")


def encoder(device):
    with torch.device(device):
        return torch.nn.TransformerEncoderLayer(16, 4, 24, batch_first=True).eval()


def test_values_of_a_module_are_those_of_pytorch():
    layer, x = encoder("cpu"), torch.randn(2, 5, 16)
    model = from_torch(layer, (x,))
    weights = {name: p.detach().numpy() for name, p in layer.named_parameters()}
    found = model.run({"src": x.numpy(), **weights})["out"]
    np.testing.assert_allclose(found, layer(x).detach().numpy(), atol=1e-5)


def test_a_module_without_weights_is_the_same_cascade():
    here, nowhere = (from_torch(encoder(d), (torch.empty(2, 5, 16, device=d),)) for d in ("cpu", "meta"))
    assert here.workload == nowhere.workload
    assert nowhere.n_multiply_accumulates == 2 * 5 * (4 * 16 * 16 + 2 * 16 * 24) + 2 * 4 * 5 * 5 * 4 * 2


def test_dimensions_are_called_as_they_are_in_pytorch():
    batch = torch.export.Dim("batch", max=64)
    x = torch.empty(2, 5, 16, device="meta")
    model = from_torch(encoder("meta"), (x,), dynamic_shapes=({0: batch},), dimensions={"batch": 7})
    assert model.n_multiply_accumulates == 7 * (5 * (4 * 16 * 16 + 2 * 16 * 24) + 4 * 5 * 5 * 4 * 2)
    with pytest.raises(SpecError, match=r"the size of dimension 0 of src is open \(batch\)"):
        from_torch(encoder("meta"), {"src": x}, dynamic_shapes={"src": {0: batch}})


def test_a_module_that_cannot_be_exported_is_an_error():
    class Module(torch.nn.Module):
        def forward(self, x):
            return x if x.sum() > 0 else -x

    with pytest.raises(SpecError, match="PyTorch cannot export the module"):
        from_torch(Module(), (torch.randn(3),))
