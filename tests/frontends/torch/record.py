"""Records programs of PyTorch for the tests, which need no PyTorch: `python record.py` with torch 2.13 writes them anew.

Each file NAME.pt2 is what torch.export.save writes, its graph alone; programs.json has what PyTorch computes from
numbers that follow from the names of the inputs and parameters, and how many products and parameters there are.
"""

import io
import json
import sys
import tempfile
import zipfile
import zlib
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent


def numbers(name, shape, kind="float", high=2):
    """Numbers that follow from a name: fractions, places below `high`, or truth values."""
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    if kind == "int":
        return rng.integers(0, high, shape)
    return rng.uniform(-1, 1, shape) if not name.endswith("running_var") else rng.uniform(0.5, 2, shape)


def some(values):
    """Forty values of a result, evenly spaced, or all."""
    return values[:: max(1, len(values) // 40)].tolist()


def lean(data):
    """The JSON of a graph without what no reader asks for."""
    if isinstance(data, dict):
        dropped = ("metadata", "strides", "storage_offset", "layout", "device", "requires_grad", "hint", "guards_code")
        return {key: lean(value) for key, value in data.items() if key not in dropped}
    return [lean(entry) for entry in data] if isinstance(data, list) else data


def record(torch, name, module, inputs, records, decomposed=False, dynamic_shapes=None):
    """Write one program, and what it computes."""
    module = module.eval()
    state = {}
    with torch.no_grad():
        for key, tensor in [*module.named_parameters(), *module.named_buffers()]:
            if tensor.is_floating_point() and tensor.numel() and "inv_freq" not in key:
                tensor.copy_(torch.from_numpy(numbers(key, tuple(tensor.shape))))
            else:
                state[key] = tensor.tolist()
    by_name = {} if "args_0" in inputs else inputs
    in_order = () if by_name else tuple(inputs.values())
    program = torch.export.export(module, in_order, by_name, strict=False, dynamic_shapes=dynamic_shapes)
    constants = {key: tensor.tolist() for key, tensor in program.constants.items() if isinstance(tensor, torch.Tensor)}
    if decomposed:
        program = program.run_decompositions()
    with tempfile.TemporaryDirectory() as folder:
        torch.export.save(program, f"{folder}/program.pt2")
        with zipfile.ZipFile(f"{folder}/program.pt2") as archive:
            graph = json.loads(archive.read(next(n for n in archive.namelist() if n.endswith("models/model.json"))))
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        entry = zipfile.ZipInfo(f"{name}/models/model.json")
        entry.compress_type = zipfile.ZIP_DEFLATED
        archive.writestr(entry, json.dumps(lean(graph), separators=(",", ":")))
    (HERE / f"{name}.pt2").write_bytes(content.getvalue())
    with torch.no_grad():
        given = {key: tensor.tolist() for key, tensor in inputs.items() if not tensor.is_floating_point()}
        copies = {key: tensor.clone() for key, tensor in inputs.items()}
        given_back = module(**copies) if by_name else module(*copies.values())
        results = [t for t in torch.utils._pytree.tree_leaves(given_back) if isinstance(t, torch.Tensor)]
    records[name] = {
        "inputs": {key: [*tensor.shape] for key, tensor in inputs.items() if tensor.is_floating_point()},
        "given": {**given, **state, **constants},
        "parameters": sum(p.numel() for p in module.parameters()),
        "outputs": [[float(f"{v:.7g}") for v in some(t.double().reshape(-1).numpy())] for t in results],
    }


def main():
    import torch

    sys.path.insert(0, str(HERE))
    import programs

    only, place = sys.argv[1:], HERE / "programs.json"
    records = json.loads(place.read_text()) if only else {}
    for name, module, shapes, *how in programs.every(torch):
        inputs = {
            key: given if isinstance(given, torch.Tensor) else torch.from_numpy(np.asarray(numbers(key, given))).float()
            for key, given in shapes.items()
        }
        for suffix, decomposed in (("", False), ("_core", True)):
            if only and name not in only:
                continue
            record(torch, f"{name}{suffix}", module(), inputs, records, decomposed, *how)
    text = ",\n".join(f"{json.dumps(name)}: {json.dumps(entry)}" for name, entry in records.items())
    place.write_text(f"{{\n{text}\n}}\n")


if __name__ == "__main__":
    main()
