"""TFLite models (LiteRT): bytes -> tensors and operators -> nodes of ONNX -> a cascade of Einsums.

- `flatbuffer`: tables of a file, each place checked against its end.
- `schema`: numbers of fields, names of operators.
- `model`: tensors, operators, inputs and outputs as plain values; large weights are never loaded.
- `graph`: nodes of ONNX, written one operator at a time; integers are read as the fractions that they stand for.
- `layers`: operators over windows, channels last, matrix products, recurrent layers.
- `operators`: all others.
- `read`: a whole model.
"""
