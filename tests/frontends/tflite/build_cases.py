"""Writes cases.npz and networks.npz: small TFLite models, their numbers, and what LiteRT's interpreter gives for them.

Run by hand where `pip install ai-edge-litert==2.3.0` is: `python build_cases.py`. The tests need the file alone.
"""

from pathlib import Path

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as s
from ai_edge_litert.interpreter import Interpreter, OpResolverType

RNG = np.random.default_rng(7)
KINDS = {"float32": 0, "float16": 1, "int32": 2, "uint8": 3, "int64": 4, "bool": 6, "int16": 7, "int8": 9}


def floats(*shape, low=-1.0, high=1.0):
    return RNG.uniform(low, high, shape).astype(np.float32)


class Net:
    """A model of one graph while it is built; tensors are known by their numbers."""

    def __init__(self):
        self.model, self.graph = s.ModelT(), s.SubGraphT()
        self.model.version, self.model.subgraphs, self.model.operatorCodes = 3, [self.graph], []
        self.model.buffers = [s.BufferT()]
        self.graph.tensors, self.graph.operators, self.graph.inputs, self.graph.outputs = [], [], [], []
        self.constants = {}

    def tensor(
        self, shape, kind="float32", scale=None, zero=0, axis=0, data=None, name=None, variable=False, code=None
    ):
        one = s.TensorT()
        one.shape, one.type = [*shape], KINDS[kind] if code is None else code
        one.name, one.buffer, one.isVariable, one.hasRank = name or f"t{len(self.graph.tensors)}", 0, variable, True
        if scale is not None:
            one.quantization = s.QuantizationParametersT()
            scales = np.atleast_1d(np.asarray(scale, np.float32))
            one.quantization.scale = scales
            one.quantization.zeroPoint = np.broadcast_to(np.asarray(zero, np.int64), scales.shape)
            one.quantization.quantizedDimension = axis
        if data is not None:
            buffer = s.BufferT()
            buffer.data = np.frombuffer(data.tobytes(), np.uint8)
            self.model.buffers.append(buffer)
            one.buffer = len(self.model.buffers) - 1
        self.graph.tensors.append(one)
        return len(self.graph.tensors) - 1

    def input(self, *shape, **given):
        place = self.tensor(shape, **given)
        self.graph.inputs.append(place)
        return place

    def constant(self, array, **given):
        array = np.asarray(array)
        place = self.tensor(array.shape, str(array.dtype), data=array, **given)
        self.constants[self.graph.tensors[place].name] = array
        return place

    def int4(self, array, **given):
        flat = np.append(array.reshape(-1), np.zeros(array.size % 2, np.int8)) & 15
        packed = (flat[::2] | flat[1::2] << 4).astype(np.uint8)
        place = self.tensor(array.shape, data=packed, code=17, **given)
        self.constants[self.graph.tensors[place].name] = array
        return place

    def op(self, name, inputs, outputs, options=None, version=1, **fields):
        code = s.OperatorCodeT()
        code.builtinCode = getattr(s.BuiltinOperator, name)
        code.deprecatedBuiltinCode, code.version = min(127, code.builtinCode), version
        self.model.operatorCodes.append(code)
        one = s.OperatorT()
        one.opcodeIndex, one.inputs, one.outputs = len(self.model.operatorCodes) - 1, [*inputs], [*outputs]
        if options:
            one.builtinOptionsType = getattr(s.BuiltinOptions, options)
            one.builtinOptions = getattr(s, f"{options}T")()
            for key, value in fields.items():
                setattr(one.builtinOptions, key, value)
        self.graph.operators.append(one)
        return outputs[0]

    def packed(self):
        builder = flatbuffers.Builder(1024)
        builder.Finish(self.model.Pack(builder), b"TFL3")
        return bytes(builder.Output())

    def answer(self, feeds):
        content = self.packed()
        run = Interpreter(
            model_content=content, experimental_op_resolver_type=OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
        )
        run.allocate_tensors()
        for place, values in feeds.items():
            run.set_tensor(place, values)
        run.invoke()
        return content, {place: run.get_tensor(place) for place in self.graph.outputs}


CASES = {}


def case(build):
    CASES[build.__name__] = build
    return build


def finished(net, *outputs):
    net.graph.outputs = [*outputs]
    return net


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


def lstm_net(time_major):
    net = Net()
    steps, batch, features, hidden = 4, 2, 3, 5
    lead = (steps, batch) if time_major else (batch, steps)
    x, y = net.input(*lead, features), net.tensor((*lead, hidden), name="y")
    w = [net.constant(floats(hidden, features)) for _ in range(4)]
    r = [net.constant(floats(hidden, hidden)) for _ in range(4)]
    b = [net.constant(floats(hidden)) for _ in range(4)]
    state = [net.tensor((batch, hidden), variable=True) for _ in range(2)]
    operands = [x, *w, *r, -1, -1, -1, *b, -1, -1, *state, -1, -1, -1, -1]
    net.op(
        "UNIDIRECTIONAL_SEQUENCE_LSTM",
        operands,
        [y],
        "UnidirectionalSequenceLSTMOptions",
        fusedActivationFunction=4,
        timeMajor=time_major,
    )
    names = [net.graph.tensors[i].name for i in (*w, *r, *b)]
    gates = [np.concatenate([net.constants[names[4 * k + i]] for i in (0, 3, 1, 2)]) for k in range(3)]
    net.constants = {"y_W": gates[0], "y_R": gates[1], "y_B": np.concatenate([gates[2], 0 * gates[2]])}
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


def integers(*shape, low=-127, high=128, kind=np.int8):
    return RNG.integers(low, high, shape).astype(kind)


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


def feed(tensor):
    shape = tuple(tensor.shape)
    if tensor.type == 0:
        return floats(*shape, low=-2, high=2)
    return integers(*shape) if tensor.type == 9 else integers(*shape, low=0, high=256, kind=np.uint8)


def main():
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
