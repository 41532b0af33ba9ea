"""Small models of TFLite while they are built, and what LiteRT's interpreter gives for them."""

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


def integers(*shape, low=-127, high=128, kind=np.int8):
    return RNG.integers(low, high, shape).astype(kind)


def feed(tensor):
    shape = tuple(tensor.shape)
    if tensor.type == 0:
        return floats(*shape, low=-2, high=2)
    return integers(*shape) if tensor.type == 9 else integers(*shape, low=0, high=256, kind=np.uint8)
