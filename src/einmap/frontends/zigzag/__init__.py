"""ZigZag's YAML files: layers with equations, hardware, mappings.

Read `read` (files in), then one module for each kind of file.

- `equation`: the equation of a layer, and the relations of its dimensions.
- `hardware`: the hardware -> the section `arch`.
- `hierarchy`: memories and dimensions of the array in one order.
- `layers`: the layers of a workload.
- `mapping`: mappings -> limits on spatial loops.
- `memories`: the memories of the hardware.
- `onnx_layers`: convolutions and matrix products of an ONNX model as layers.
- `ordering`: temporal orderings -> partly given mappings.
- `read`: files -> workload.yaml, architecture.yaml and given.yaml.
- `roles`: how tensors are called.
- `workload`: layers -> Einsums.
"""
