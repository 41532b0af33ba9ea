"""Decoders as exporters write them, of any size and without weights: ONNX Runtime GenAI's builder, Hugging Face optimum."""

from dataclasses import dataclass

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FLOAT16, INT64 = TensorProto.FLOAT16, TensorProto.INT64


@dataclass(frozen=True)
class Sizes:
    layers: int = 32
    hidden: int = 4096
    heads: int = 32
    key_heads: int = 8
    inner: int = 14336
    vocabulary: int = 128256
    positions: int = 8192
    bits: int = 16

    @property
    def size(self):
        return self.hidden // self.heads

    def config(self):
        return {
            "model_type": "llama", "hidden_size": self.hidden, "intermediate_size": self.inner,
            "num_hidden_layers": self.layers, "num_attention_heads": self.heads, "vocab_size": self.vocabulary,
            "num_key_value_heads": self.key_heads, "max_position_embeddings": self.positions, "rms_norm_eps": 1e-5,
            "hidden_act": "silu", "tie_word_embeddings": False, "torch_dtype": "float16",
        }  # fmt: skip


class Writer:
    """Nodes and initialisers; large weights have a shape alone."""

    def __init__(self, sizes):
        self.sizes, self.nodes, self.weights = sizes, [], []

    def op(self, kind, inputs, outputs=None, domain="", **attributes):
        outputs = outputs or [f"{kind}_{len(self.nodes)}"]
        name = f"/{outputs[0].removesuffix('_output')}"
        self.nodes.append(helper.make_node(kind, inputs, outputs, name=name, domain=domain, **attributes))
        return outputs[0]

    def runtime(self, kind, inputs, outputs=None, **attributes):
        return self.op(kind, inputs, outputs, domain="com.microsoft", **attributes)

    def weight(self, name, *shape, kind=FLOAT16):
        tensor = TensorProto(name=name, data_type=kind, dims=shape, data_location=TensorProto.EXTERNAL)
        tensor.external_data.add(key="location", value="model.onnx.data")
        self.weights.append(tensor)
        return name

    def known(self, value, kind=np.int64):
        name = f"constant_{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.array(value, kind), name))
        return name

    def linear(self, x, name, n, k):
        bits = self.sizes.bits
        if bits == 16:
            return self.op("MatMul", [x, self.weight(f"{name}.weight", n, k)])
        weight = self.weight(f"{name}.qweight", k, n // 32, 32 * bits // 8, kind=TensorProto.UINT8)
        scales = self.weight(f"{name}.scales", k, n // 32)
        return self.runtime("MatMulNBits", [x, weight, scales], K=n, N=k, bits=bits, block_size=32)

    def saved(self, path, inputs, outputs):
        info = [helper.make_tensor_value_info(name, kind, shape) for name, kind, shape in inputs]
        results = [helper.make_tensor_value_info(name, FLOAT16, None) for name in outputs]
        graph = helper.make_graph(self.nodes, "main_graph", info, results, self.weights)
        sets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
        onnx.save(helper.make_model(graph, opset_imports=sets), path)
        return path


def caches(s):
    """Names of cached keys and values, as inputs and as outputs."""
    each = [(layer, what) for layer in range(s.layers) for what in ("key", "value")]
    past = [(f"past_key_values.{layer}.{what}", FLOAT16, ["batch_size", s.key_heads, "past_sequence_length", s.size])
            for layer, what in each]  # fmt: skip
    return past, [f"present.{layer}.{what}" for layer, what in each]


def genai(path, s):
    """As ONNX Runtime GenAI's builder writes it (`GroupQueryAttention` with rotary embeddings inside)."""
    w = Writer(s)
    lengths = w.op("ReduceSum", ["attention_mask", w.known([1])], keepdims=0)
    lengths = w.op("Cast", [w.op("Sub", [lengths, w.known([1])])], to=TensorProto.INT32)
    total = w.op("Gather", [w.op("Shape", ["attention_mask"]), w.known(1)])
    total = w.op("Cast", [total], to=TensorProto.INT32)
    angles = [w.weight(name, s.positions, s.size // 2) for name in ("cos_cache", "sin_cache")]
    x = w.op("Gather", [w.weight("model.embed_tokens.weight", s.vocabulary, s.hidden), "input_ids"])
    gain = w.weight("model.layers.0.input_layernorm.weight", s.hidden)
    before = x
    n = w.op("SimplifiedLayerNormalization", [x, gain], axis=-1, epsilon=1e-5, stash_type=1)
    for i in range(s.layers):
        name = f"model.layers.{i}"
        q = w.linear(n, f"{name}.attn.q_proj", s.hidden, s.hidden)
        k, v = (w.linear(n, f"{name}.attn.{p}_proj", s.hidden, s.key_heads * s.size) for p in "kv")
        past = [f"past_key_values.{i}.{what}" for what in ("key", "value")]
        a = w.runtime(
            "GroupQueryAttention", [q, k, v, *past, lengths, total, *angles],
            [f"{name}.attn_output", f"present.{i}.key", f"present.{i}.value"],
            num_heads=s.heads, kv_num_heads=s.key_heads, scale=s.size**-0.5, do_rotary=1, rotary_interleaved=0,
            local_window_size=-1,
        )  # fmt: skip
        o = w.linear(a, f"{name}.attn.o_proj", s.hidden, s.hidden)
        gain = w.weight(f"{name}.post_attention_layernorm.weight", s.hidden)
        n, x = f"{name}.post_output", f"{name}.residual"
        w.runtime("SkipSimplifiedLayerNormalization", [before, o, gain], [n, "", "", x], epsilon=1e-5)
        gate, up = (w.linear(n, f"{name}.mlp.{p}_proj", s.hidden, s.inner) for p in ("gate", "up"))
        act = w.op("Mul", [gate, w.op("Sigmoid", [gate])])
        down = w.linear(w.op("Mul", [act, up]), f"{name}.mlp.down_proj", s.inner, s.hidden)
        following = f"model.layers.{i + 1}"
        gain = w.weight(f"{following}.input_layernorm.weight", s.hidden)
        n, before = f"{following}.norm_output", f"{following}.input"
        last = [] if i == s.layers - 1 else ["", "", before]
        w.runtime("SkipSimplifiedLayerNormalization", [x, down, gain], [n, *last], epsilon=1e-5)
    row = w.op("Gather", [n, w.known([-1])], axis=1)
    w.op("MatMul", [row, w.weight("lm_head.MatMul.weight", s.hidden, s.vocabulary)], ["logits"])
    past, present = caches(s)
    inputs = [("input_ids", INT64, ["batch_size", "sequence_length"]),
              ("attention_mask", INT64, ["batch_size", "total_sequence_length"]), *past]  # fmt: skip
    return w.saved(path, inputs, ["logits", *present])


def optimum(path, s):  # noqa: PLR0915
    """As Hugging Face optimum exports it (torch.onnx: operators of ONNX alone, caches joined with new rows)."""
    w = Writer(s)
    one, two = w.known(1.0, np.float16), w.known(2.0, np.float16)
    shape = w.op("Shape", ["input_ids"])
    batch, tokens = (w.op("Gather", [shape, w.known([i])]) for i in range(2))
    past_rows = w.op("Gather", [w.op("Shape", ["past_key_values.0.key"]), w.known([2])])
    total = w.op("Add", [past_rows, tokens])
    scalars = [w.op("Squeeze", [value]) for value in (past_rows, total)]
    rows = w.op("Range", [*scalars, w.known(1)])
    columns = w.op("Range", [w.known(0), scalars[1], w.known(1)])
    later = w.op("Greater", [columns, w.op("Reshape", [rows, w.known([-1, 1])])])
    mask = w.op("Where", [later, w.known(-65504.0, np.float16), w.known(0.0, np.float16)])
    mask = w.op("Unsqueeze", [mask, w.known([0, 1])])
    positions = w.op("Cast", [w.op("Unsqueeze", ["position_ids", w.known([1])])], to=FLOAT16)
    frequencies = w.weight("model.rotary_emb.inv_freq", 1, s.size // 2, 1)
    angles = w.op("Transpose", [w.op("Mul", [frequencies, positions])], perm=[0, 2, 1])
    angles = w.op("Concat", [angles, angles], axis=-1)
    angles = [w.op("Unsqueeze", [w.op(kind, [angles]), w.known([1])]) for kind in ("Cos", "Sin")]

    def normalised(x, name):
        square = w.op("ReduceMean", [w.op("Pow", [x, two]), w.known([-1])], keepdims=1)
        root = w.op("Sqrt", [w.op("Add", [square, w.known(1e-5, np.float16)])])
        return w.op("Mul", [w.weight(f"{name}.weight", s.hidden), w.op("Mul", [x, w.op("Div", [one, root])])])

    def heads(x, name, count):
        y = w.linear(x, f"{name}_proj", s.hidden, count * s.size)
        wide = w.op("Concat", [batch, tokens, w.known([-1]), w.known([s.size])], axis=0)
        return w.op("Transpose", [w.op("Reshape", [y, wide])], perm=[0, 2, 1, 3])

    def turned(x):
        half, axis = w.known([s.size // 2]), w.known([3])
        low = w.op("Slice", [x, w.known([0]), half, axis])
        high = w.op("Slice", [x, half, w.known([2**63 - 1]), axis])
        other = w.op("Concat", [w.op("Neg", [high]), low], axis=-1)
        return w.op("Add", [w.op("Mul", [x, angles[0]]), w.op("Mul", [other, angles[1]])])

    def repeated(x):
        n = s.heads // s.key_heads
        wide = w.op("Concat", [batch, *(w.known([i]) for i in (s.key_heads, n)), total, w.known([s.size])], axis=0)
        y = w.op("Expand", [w.op("Unsqueeze", [x, w.known([2])]), wide])
        return w.op("Reshape", [y, w.op("Concat", [batch, w.known([s.heads]), total, w.known([s.size])], axis=0)])

    x = w.op("Gather", [w.weight("model.embed_tokens.weight", s.vocabulary, s.hidden), "input_ids"])
    for i in range(s.layers):
        name = f"model.layers.{i}"
        n = normalised(x, f"{name}.input_layernorm")
        q = turned(heads(n, f"{name}.self_attn.q", s.heads))
        k = turned(heads(n, f"{name}.self_attn.k", s.key_heads))
        v = heads(n, f"{name}.self_attn.v", s.key_heads)
        k, v = (w.op("Concat", [f"past_key_values.{i}.{what}", new], [f"present.{i}.{what}"], axis=2)
                for what, new in (("key", k), ("value", v)))  # fmt: skip
        scores = w.op("MatMul", [q, w.op("Transpose", [repeated(k)], perm=[0, 1, 3, 2])])
        scores = w.op("Add", [w.op("Mul", [scores, w.known(s.size**-0.5, np.float16)]), mask])
        a = w.op("MatMul", [w.op("Softmax", [scores], axis=-1), repeated(v)])
        a = w.op("Transpose", [a], perm=[0, 2, 1, 3])
        a = w.op("Reshape", [a, w.op("Concat", [batch, tokens, w.known([-1])], axis=0)])
        x = w.op("Add", [x, w.linear(a, f"{name}.self_attn.o_proj", s.hidden, s.hidden)])
        n = normalised(x, f"{name}.post_attention_layernorm")
        gate, up = (w.linear(n, f"{name}.mlp.{p}_proj", s.hidden, s.inner) for p in ("gate", "up"))
        inner = w.op("Mul", [w.op("Mul", [gate, w.op("Sigmoid", [gate])]), up])
        x = w.op("Add", [x, w.linear(inner, f"{name}.mlp.down_proj", s.inner, s.hidden)])
    row = w.op("Slice", [x, w.known([-1]), w.known([2**63 - 1]), w.known([1])])
    w.op("MatMul", [normalised(row, "model.norm"), w.weight("lm_head", s.hidden, s.vocabulary)], ["logits"])
    past, present = caches(s)
    inputs = [("input_ids", INT64, ["batch_size", "sequence_length"]),
              ("attention_mask", INT64, ["batch_size", "past_sequence_length + sequence_length"]),
              ("position_ids", INT64, ["batch_size", "sequence_length"]), *past]  # fmt: skip
    return w.saved(path, inputs, ["logits", *present])
