"""The operators of ONNX: what each becomes.

- `call`: one operator while it is imported: operands, attributes, the builder.
- `constants`: numbers that are known before the model runs.
- `elementwise`: map expressions.
- `contractions`: convolutions and matrix products.
- `windows`: windows over spatial axes, and pooling.
- `normalisation`: reductions, softmax and normalisations.
- `quantised`: operators on integers that stand for fractions.
- `layout`: operators on shapes alone, which become projections.
- `resizing`: Resize and Upsample, axis by axis.
- `choice`: the largest values, and rows of experts.
- `fused`: operators of ONNX Runtime that stand for several of ONNX: with an activation, a sum, between integers.
- `packed`: those of its operators whose weights have a few bits.
- `concatenation`: operators on concatenated values, part by part.
- `table`: all of them by name.
"""
