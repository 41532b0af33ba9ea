"""Writes cases.npz and networks.npz: small TFLite models, their numbers, and what LiteRT's interpreter gives for them.

Run by hand where `pip install ai-edge-litert==2.3.0` is: `python build_cases.py`. The tests need the files alone.
"""

from pathlib import Path

import numpy as np
from building import CASES, Net, case, feed, finished, floats


def convolution(kind, options, w, x=(1, 7, 6, 3), out=(1, 4, 3, 5), **fields):
    net = Net()
    a = net.input(*x)
    y = net.tensor(out)
    net.op(kind, [a, net.constant(w), net.constant(floats(out[-1]))], [y], options, **fields)
    return finished(net, y)


@case
def conv_same():
    return convolution("CONV_2D", "Conv2DOptions", floats(5, 4, 3, 3), strideH=2, strideW=2, fusedActivationFunction=1)


@case
def conv_valid_dilated():
    w = floats(5, 3, 2, 3)
    return convolution(
        "CONV_2D",
        "Conv2DOptions",
        w,
        out=(1, 3, 4, 5),
        padding=1,
        strideH=1,
        strideW=1,
        dilationHFactor=2,
        dilationWFactor=2,
    )


@case
def conv_groups():
    w = floats(4, 3, 3, 2)
    return convolution(
        "CONV_2D", "Conv2DOptions", w, x=(1, 5, 5, 4), out=(1, 5, 5, 4), strideH=1, strideW=1, fusedActivationFunction=3
    )


@case
def depthwise():
    w = floats(1, 3, 3, 6)
    return convolution(
        "DEPTHWISE_CONV_2D", "DepthwiseConv2DOptions", w, out=(1, 4, 3, 6), strideH=2, strideW=2, depthMultiplier=2
    )


def transposed(padding, out, stride):
    net = Net()
    x, y = net.input(1, 3, 4, 2), net.tensor(out)
    shape = net.constant(np.array(out, np.int32))
    net.op(
        "TRANSPOSE_CONV",
        [shape, net.constant(floats(out[-1], 3, 3, 2)), x],
        [y],
        "TransposeConvOptions",
        padding=padding,
        strideH=stride,
        strideW=stride,
    )
    return finished(net, y)


@case
def transposed_same():
    return transposed(0, (1, 6, 8, 3), 2)


@case
def transposed_valid():
    return transposed(1, (1, 7, 9, 3), 2)


@case
def dense_of_an_image():
    net = Net()
    x, y = net.input(2, 2, 2, 3), net.tensor((2, 5))
    net.op(
        "FULLY_CONNECTED",
        [x, net.constant(floats(5, 12)), net.constant(floats(5))],
        [y],
        "FullyConnectedOptions",
        fusedActivationFunction=1,
    )
    return finished(net, y)


@case
def dense_of_rows():
    net = Net()
    x, y = net.input(2, 3, 4), net.tensor((2, 3, 5))
    net.op("FULLY_CONNECTED", [x, net.constant(floats(5, 4)), -1], [y], "FullyConnectedOptions", keepNumDims=True)
    return finished(net, y)


@case
def products_of_batches():
    net = Net()
    a, b, y = net.input(2, 3, 4), net.input(2, 5, 4), net.tensor((2, 3, 5))
    net.op("BATCH_MATMUL", [a, b], [y], "BatchMatMulOptions", adjY=True)
    return finished(net, y)


def pooled(kind, **fields):
    net = Net()
    x, y = net.input(1, 7, 7, 2), net.tensor((1, 4, 4, 2))
    net.op(kind, [x], [y], "Pool2DOptions", filterHeight=3, filterWidth=2, strideH=2, strideW=2, **fields)
    return finished(net, y)


@case
def average_pool():
    return pooled("AVERAGE_POOL_2D")


@case
def max_pool():
    return pooled("MAX_POOL_2D", fusedActivationFunction=1)


@case
def arithmetic():
    net = Net()
    a, b = net.input(2, 3, 4), net.input(4)
    t, u, v, w = (net.tensor((2, 3, 4)) for _ in range(4))
    net.op("ADD", [a, b], [t], "AddOptions", fusedActivationFunction=1)
    net.op("MUL", [t, net.constant(floats(3, 1))], [u], "MulOptions")
    net.op("SUB", [u, a], [v], "SubOptions", fusedActivationFunction=2)
    net.op("SQUARED_DIFFERENCE", [v, b], [w])
    return finished(net, w)


@case
def activations():
    net = Net()
    x, names = (
        net.input(3, 5, name="x"),
        ("LOGISTIC", "TANH", "HARD_SWISH", "ELU", "RELU6", "RELU_N1_TO_1", "RELU", "ABS", "EXP"),
    )
    ys = [net.op(name, [x], [net.tensor((3, 5))]) for name in names]
    ys.append(net.op("LEAKY_RELU", [x], [net.tensor((3, 5))], "LeakyReluOptions", alpha=0.25))
    ys.append(net.op("PRELU", [x, net.constant(floats(5))], [net.tensor((3, 5))]))
    return finished(net, *ys)


@case
def softmaxes():
    net = Net()
    x = net.input(3, 5)
    y = net.op("SOFTMAX", [x], [net.tensor((3, 5))], "SoftmaxOptions", beta=0.5)
    return finished(net, y, net.op("LOG_SOFTMAX", [x], [net.tensor((3, 5))], "LogSoftmaxOptions"))


@case
def layouts():
    net = Net()
    x = net.input(2, 3, 4)

    def ints(*values):
        return net.constant(np.array(values, np.int32))

    turned = net.op("TRANSPOSE", [x, ints(2, 0, 1)], [net.tensor((4, 2, 3))], "TransposeOptions")
    flat = net.op("RESHAPE", [turned, ints(8, 3)], [net.tensor((8, 3))], "ReshapeOptions", newShape=[8, 3])
    wide = net.op("PAD", [flat, net.constant(np.array([[1, 0], [0, 2]], np.int32))], [net.tensor((9, 5))], "PadOptions")
    cut = net.op(
        "STRIDED_SLICE",
        [wide, ints(1, 0), ints(9, -1), ints(2, 1)],
        [net.tensor((4, 5))],
        "StridedSliceOptions",
        endMask=2,
    )
    row = net.op(
        "STRIDED_SLICE",
        [wide, ints(-2, 1), ints(0, 4), ints(1, 1)],
        [net.tensor((3,))],
        "StridedSliceOptions",
        shrinkAxisMask=1,
    )
    part = net.op("SLICE", [cut, ints(1, 1), ints(-1, 3)], [net.tensor((3, 3))], "SliceOptions")
    both = net.op("CONCATENATION", [part, row_of(net, row)], [net.tensor((4, 3))], "ConcatenationOptions", axis=0)
    first, second = net.tensor((4, 1)), net.tensor((4, 2))
    net.op(
        "SPLIT_V",
        [both, ints(1, 2), net.constant(np.array(1, np.int32))],
        [first, second],
        "SplitVOptions",
        numSplits=2,
    )
    mean = net.op("MEAN", [both, ints(-1)], [net.tensor((4,))], "ReducerOptions")
    many = net.op("TILE", [second, ints(1, 2)], [net.tensor((4, 4))], "TileOptions")
    return finished(net, mean, many, first)


def row_of(net, row):
    return net.op("EXPAND_DIMS", [row, net.constant(np.array(0, np.int32))], [net.tensor((1, 3))], "ExpandDimsOptions")


def resized(kind, size, **fields):
    net = Net()
    x, y = net.input(1, 4, 5, 2), net.tensor((1, *size, 2))
    net.op(
        kind,
        [x, net.constant(np.array(size, np.int32))],
        [y],
        {"RESIZE_BILINEAR": "ResizeBilinearOptions"}.get(kind, "ResizeNearestNeighborOptions"),
        **fields,
    )
    return finished(net, y)


@case
def bilinear():
    return resized("RESIZE_BILINEAR", (7, 10), halfPixelCenters=True)


@case
def bilinear_corners():
    return resized("RESIZE_BILINEAR", (7, 3), alignCorners=True)


@case
def nearest():
    return resized("RESIZE_NEAREST_NEIGHBOR", (6, 10))


@case
def nearest_half():
    return resized("RESIZE_NEAREST_NEIGHBOR", (3, 8), halfPixelCenters=True)


def lstm_net(time_major, coupled=False):
    net = Net()
    steps, batch, features, hidden = 4, 2, 3, 5
    lead = (steps, batch) if time_major else (batch, steps)
    x, y = net.input(*lead, features), net.tensor((*lead, hidden), name="y")
    gates = (1, 2, 3) if coupled else (0, 1, 2, 3)
    w, r, b = ({gate: net.constant(floats(hidden, *inner)) for gate in gates} for inner in ((features,), (hidden,), ()))
    peepholes = [-1, *(net.constant(floats(hidden)) for _ in range(2))] if coupled else [-1, -1, -1]
    state = [net.tensor((batch, hidden), variable=True) for _ in range(2)]
    of_gates = ([part.get(gate, -1) for gate in range(4)] for part in (w, r, b))
    operands = [x, *next(of_gates), *next(of_gates), *peepholes, *next(of_gates), -1, -1, *state, -1, -1, -1, -1]
    net.op(
        "UNIDIRECTIONAL_SEQUENCE_LSTM",
        operands,
        [y],
        "UnidirectionalSequenceLSTMOptions",
        fusedActivationFunction=4,
        timeMajor=time_major,
    )

    def stacked(tensors):
        return np.concatenate([net.constants[net.graph.tensors[i].name] for i in tensors])

    order = [gate for gate in (0, 3, 1, 2) if gate in gates]
    rows = [stacked([part[gate] for gate in order]) for part in (w, r, b)]
    weights = {"y_W": rows[0], "y_R": rows[1], "y_B": np.concatenate([rows[2], 0 * rows[2]])}
    if coupled:
        weights["y_P"] = stacked([peepholes[1], peepholes[2], peepholes[1]])
    net.constants = weights
    return finished(net, y)


@case
def lstm():
    return lstm_net(False)


@case
def lstm_time_major():
    return lstm_net(True)


@case
def svdf():
    net = Net()
    x, y = net.input(2, 3), net.tensor((2, 4))
    state = net.tensor((2, 8 * 5), variable=True, name="state")
    net.op(
        "SVDF",
        [x, net.constant(floats(8, 3)), net.constant(floats(8, 5)), net.constant(floats(4)), state],
        [y],
        "SVDFOptions",
        rank=2,
        fusedActivationFunction=1,
    )
    net.constants["state"] = np.zeros((2, 40), np.float32)
    return finished(net, y)


@case
def normalised():
    net = Net()
    x = net.input(1, 2, 3, 6)
    y = net.op("L2_NORMALIZATION", [x], [net.tensor((1, 2, 3, 6))], "L2NormOptions")
    z = net.op(
        "LOCAL_RESPONSE_NORMALIZATION",
        [x],
        [net.tensor((1, 2, 3, 6))],
        "LocalResponseNormalizationOptions",
        radius=2,
        bias=1.0,
        alpha=0.5,
        beta=0.75,
    )
    d = net.op(
        "SPACE_TO_DEPTH", [net.input(1, 4, 6, 3)], [net.tensor((1, 2, 3, 12))], "SpaceToDepthOptions", blockSize=2
    )
    return finished(net, y, z, d)


@case
def rows():
    net = Net()
    table, places = net.input(6, 4), net.constant(np.array([5, 0, 3], np.int32))
    y = net.op("GATHER", [table, places], [net.tensor((3, 4))], "GatherOptions")
    return finished(net, y)


@case
def lstm_coupled():
    """Without weights of the input gate, with peepholes of the two others."""
    return lstm_net(False, coupled=True)


def main():
    from networks import mobilenet_v1, mobilenet_v2  # behind the cases above: numbers are drawn in this order

    stored = {}
    for name, build in CASES.items():
        net = build()
        feeds = {place: feed(net.graph.tensors[place]) for place in net.graph.inputs}
        try:
            content, answers = net.answer(feeds)
        except Exception as error:
            print("REFUSED", name, str(error)[:300])
            continue
        stored[f"{name}/model"] = np.frombuffer(content, np.uint8)
        for place, array in feeds.items():
            stored[f"{name}/in/{net.graph.tensors[place].name}"] = array
        for key, array in net.constants.items():
            stored[f"{name}/in/{key}"] = array
        for place, array in answers.items():
            stored[f"{name}/out/{net.graph.tensors[place].name}"] = array
    np.savez_compressed(Path(__file__).with_name("cases.npz"), **stored)
    networks = {build.__name__: np.frombuffer(build().packed(), np.uint8) for build in (mobilenet_v1, mobilenet_v2)}
    np.savez_compressed(Path(__file__).with_name("networks.npz"), **networks)


main()
