"""Programs of PyTorch: modules that `torch.export` traces, and files that it saves.

- `program`: a program as plain values: operators of ATen, shapes, names.
- `archive`: the graph in a file, without what else is there.
- `graph`: the JSON of a graph as a program.
- `trace`: a module as a program, by PyTorch.
- `sizes`: sizes that a program leaves open.
- `operators`: what each operator becomes.
- `translate`: a program as a model of ONNX in memory.
- `read`: `from_torch`, files of a specification.
"""
