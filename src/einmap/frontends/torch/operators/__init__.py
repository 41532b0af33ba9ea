"""The operators of ATen: which of ONNX's each of them is, on what operands.

- `call`: one operator while it is translated: its arguments, what it becomes.
- `pointwise`: element-wise operators.
- `layout`: operators on shapes alone.
- `lookups`: rows that are looked up, values in order.
- `states`: values written into a part of a tensor.
- `creation`: numbers that are known.
- `contractions`: matrix products, convolutions, attention.
- `reductions`: sums, softmax, normalisations.
- `recurrent`: RNN, GRU and LSTM.
- `windows`: pooling, resizing.
- `table`: all of them by name.
"""
