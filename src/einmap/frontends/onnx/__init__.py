"""ONNX models: bytes -> nodes -> a cascade of Einsums. Large weights are never loaded, and nothing is executed.

- `wire`: the bytes of a file without the numbers of large tensors.
- `functions`: functions of the model are put in place of their calls, as are operators that ONNX defines by others.
- `model`: nodes, initialisers and inputs as plain values; dimensions that are open get their sizes.
- `dimensions`: sums of dimensions follow from the others.
- `external`: small tensors in files beside the model.
- `values`: values of inputs that are given, by which control flow is known.
- `kinds`: the types of values: integers are divided in another way than fractions.
- `operators`: what each operator becomes.
- `composed`: operators that stand for many others, as attention does.
- `recurrent`: recurrent layers and linear attention.
- `barriers`: shapes of results of operators without Einsum form, and the products that they hide.
- `read`: a whole model, operator by operator; what has no Einsum form becomes a barrier.
"""
