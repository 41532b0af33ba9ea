"""ONNX models: bytes -> nodes -> a cascade of Einsums. Weights are never loaded, and nothing is executed.

- `wire`: the bytes of a file without the numbers of large tensors.
- `model`: nodes, initialisers and inputs as plain values; dimensions that are open get their sizes.
- `operators`: what each operator becomes.
- `read`: a whole model, operator by operator; what has no Einsum form becomes a barrier.
"""
