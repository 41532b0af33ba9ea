"""Networks of integers: small ones with values, and MobileNets with weights of zeros."""

import numpy as np
from building import RNG, Net, case, finished, integers


@case
def int8_network():
    """Convolution, depthwise convolution, sum with rescaling, pooling, dense layer, softmax, as MobileNet has them."""
    net = Net()
    x = net.input(1, 6, 6, 3, kind="int8", scale=1 / 64, zero=3, name="x")
    w = net.constant(integers(4, 3, 3, 3), scale=RNG.uniform(0.004, 0.01, 4), axis=0)
    bias = net.constant(
        integers(4, low=-500, high=500, kind=np.int32), scale=net.graph.tensors[w].quantization.scale / 64, axis=0
    )
    a = net.op(
        "CONV_2D",
        [x, w, bias],
        [net.tensor((1, 6, 6, 4), "int8", 0.024, -128)],
        "Conv2DOptions",
        strideH=1,
        strideW=1,
        fusedActivationFunction=3,
        version=3,
    )
    d = net.constant(integers(1, 3, 3, 4), scale=RNG.uniform(0.004, 0.01, 4), axis=3)
    zeros = net.constant(
        np.zeros(4, np.int32), scale=net.graph.tensors[d].quantization.scale * np.float32(0.024), axis=0
    )
    b = net.op(
        "DEPTHWISE_CONV_2D",
        [a, d, zeros],
        [net.tensor((1, 6, 6, 4), "int8", 0.05, 10)],
        "DepthwiseConv2DOptions",
        strideH=1,
        strideW=1,
        depthMultiplier=1,
        version=3,
    )
    c = net.op("ADD", [a, b], [net.tensor((1, 6, 6, 4), "int8", 0.06, 5)], "AddOptions", version=2)
    m = net.op(
        "MEAN",
        [c, net.constant(np.array([1, 2], np.int32))],
        [net.tensor((1, 4), "int8", 0.03, 1)],
        "ReducerOptions",
        version=2,
    )
    f = net.constant(integers(5, 4), scale=0.01)
    e = net.op(
        "FULLY_CONNECTED", [m, f, -1], [net.tensor((1, 5), "int8", 0.05, -3)], "FullyConnectedOptions", version=4
    )
    y = net.op("SOFTMAX", [e], [net.tensor((1, 5), "int8", 1 / 256, -128)], "SoftmaxOptions", beta=1.0, version=2)
    return finished(net, c, e, y)


@case
def int8_layout():
    net = Net()
    x = net.input(1, 4, 4, 2, kind="int8", scale=0.1, zero=-7)
    p = net.op(
        "MAX_POOL_2D",
        [x],
        [net.tensor((1, 2, 2, 2), "int8", 0.1, -7)],
        "Pool2DOptions",
        filterHeight=2,
        filterWidth=2,
        strideH=2,
        strideW=2,
        padding=1,
        version=2,
    )
    r = net.op(
        "RESHAPE",
        [p, net.constant(np.array([1, 8], np.int32))],
        [net.tensor((1, 8), "int8", 0.1, -7)],
        "ReshapeOptions",
        newShape=[1, 8],
    )
    other = net.input(1, 3, kind="int8", scale=0.1, zero=-7)
    c = net.op(
        "CONCATENATION", [r, other], [net.tensor((1, 11), "int8", 0.1, -7)], "ConcatenationOptions", axis=1, version=2
    )
    q = net.op("QUANTIZE", [c], [net.tensor((1, 11), "int8", 0.2, 4)], "QuantizeOptions", version=2)
    d = net.op("DEQUANTIZE", [q], [net.tensor((1, 11))], "DequantizeOptions", version=2)
    s_ = net.op("LOGISTIC", [c], [net.tensor((1, 11), "int8", 1 / 256, -128)], version=2)
    return finished(net, c, d, s_)


@case
def uint8_dense():
    net = Net()
    x = net.input(2, 6, kind="uint8", scale=0.02, zero=120)
    w = net.constant(integers(4, 6, low=0, high=256, kind=np.uint8), scale=0.01, zero=131)
    b = net.constant(integers(4, low=-900, high=900, kind=np.int32), scale=0.0002)
    y = net.op(
        "FULLY_CONNECTED",
        [x, w, b],
        [net.tensor((2, 4), "uint8", 0.03, 117)],
        "FullyConnectedOptions",
        fusedActivationFunction=1,
    )
    return finished(net, y)


@case
def int4_convolution():
    net = Net()
    x = net.input(1, 5, 5, 3, kind="int8", scale=1 / 64, zero=3)
    w = net.int4(integers(3, 3, 3, 3, low=-7, high=8), scale=[0.05, 0.06, 0.07], axis=0)
    bias = net.constant(np.zeros(3, np.int32), scale=np.float32([0.05, 0.06, 0.07]) / 64, axis=0)
    y = net.op(
        "CONV_2D",
        [x, w, bias],
        [net.tensor((1, 3, 3, 3), "int8", 0.05, 0)],
        "Conv2DOptions",
        padding=1,
        strideH=1,
        strideW=1,
        version=7,
    )
    return finished(net, y)


def quantised(net, shape):
    return net.tensor(shape, "int8", 0.05, -3)


def layer(net, x, k, out, stride, activation=3):
    """A convolution, by channel where `out` is 0, with weights of zeros."""
    n, h, w, c = net.graph.tensors[x].shape
    channels, by_channel = out or c, not out
    shape = (1, k, k, c) if by_channel else (out, k, k, c)
    weights = net.constant(np.zeros(shape, np.int8), scale=np.full(channels, 0.01), axis=3 if by_channel else 0)
    bias = net.constant(np.zeros(channels, np.int32), scale=np.full(channels, 0.0005), axis=0)
    y = quantised(net, (n, -(-h // stride), -(-w // stride), channels))
    kind, options = ("DEPTHWISE_CONV_2D", "DepthwiseConv2DOptions") if by_channel else ("CONV_2D", "Conv2DOptions")
    more = {"depthMultiplier": 1} if by_channel else {}
    fields = {"strideH": stride, "strideW": stride, "fusedActivationFunction": activation, **more}
    return net.op(kind, [x, weights, bias], [y], options, **fields)


def softmax(net, x, classes=1001):
    y = net.tensor((1, classes), "int8", 1 / 256, -128)
    return finished(net, net.op("SOFTMAX", [x], [y], "SoftmaxOptions", beta=1.0))


def mobilenet_v1():
    net = Net()
    x = layer(net, net.input(1, 224, 224, 3, kind="int8", scale=1 / 128), 3, 32, 2)
    for out, stride in [
        (64, 1),
        (128, 2),
        (128, 1),
        (256, 2),
        (256, 1),
        (512, 2),
        *[(512, 1)] * 5,
        (1024, 2),
        (1024, 1),
    ]:
        x = layer(net, layer(net, x, 3, 0, stride), 1, out, 1)
    window = {"filterHeight": 7, "filterWidth": 7, "strideH": 7, "strideW": 7, "padding": 1}
    x = net.op("AVERAGE_POOL_2D", [x], [quantised(net, (1, 1, 1, 1024))], "Pool2DOptions", **window)
    x = layer(net, x, 1, 1001, 1, 0)
    shape = net.constant(np.array([1, 1001], np.int32))
    return softmax(
        net, net.op("RESHAPE", [x, shape], [quantised(net, (1, 1001))], "ReshapeOptions", newShape=[1, 1001])
    )


def mobilenet_v2():
    net = Net()
    x = layer(net, net.input(1, 224, 224, 3, kind="int8", scale=1 / 128), 3, 32, 2)
    blocks = [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)]
    for wider, out, times, stride in blocks:
        for i in range(times):
            given = net.graph.tensors[x].shape[3]
            y = layer(net, x, 1, given * wider, 1) if wider > 1 else x
            y = layer(net, layer(net, y, 3, 0, 1 if i else stride), 1, out, 1, 0)
            x = net.op("ADD", [x, y], [quantised(net, net.graph.tensors[y].shape)], "AddOptions") if i else y
    x = layer(net, x, 1, 1280, 1)
    mean = [x, net.constant(np.array([1, 2], np.int32))]
    x = net.op("MEAN", mean, [quantised(net, (1, 1280))], "ReducerOptions")
    w = net.constant(np.zeros((1001, 1280), np.int8), scale=0.01)
    b = net.constant(np.zeros(1001, np.int32), scale=0.0005)
    return softmax(net, net.op("FULLY_CONNECTED", [x, w, b], [quantised(net, (1, 1001))], "FullyConnectedOptions"))
