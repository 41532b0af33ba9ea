"""Full-size networks in ONNX without weights: built with onnx's helper, as the usual exporters write them.

Shapes and structure are those of the publications: AlexNet (one tower, Krizhevsky, arXiv 1404.5997), MobileNetV2
(Sandler et al., CVPR 2018), ResNet-18 and -50 (He et al., CVPR 2016; stride in the 3 x 3 convolution), U-Net
(Ronneberger et al., MICCAI 2015), BERT-base (Devlin et al., NAACL 2019), GPT-2 (Radford et al., 2019, 124 million
parameters), a layer of Llama 3 8B (arXiv 2407.21783) with rotary embedding and grouped queries, a mixture of experts
as in Mixtral 8x7B (arXiv 2401.04088) with all experts computed and weighted.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper


class Network:
    """Operators and initialisers of one model; large weights are said to be in a file that is not there."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.initialisers: list[Any] = []
        self.count = 0

    def weight(self, *shape: int) -> str:
        """A weight of this shape without numbers."""
        name = f"w{len(self.initialisers)}"
        tensor = TensorProto(name=name, dims=shape, data_type=1, data_location=1)
        tensor.external_data.add(key="location", value="weights.bin")
        self.initialisers.append(tensor)
        return name

    def constant(self, values: Any, kind: Any = np.int64) -> str:
        """Numbers that the model holds."""
        name = f"c{len(self.initialisers)}"
        self.initialisers.append(numpy_helper.from_array(np.asarray(values, kind), name))
        return name

    def add(self, kind: str, *operands: str, outputs: int = 1, name: str = "", **attributes: Any) -> Any:
        """An operator; gives the name of its result, or a list of names."""
        self.count += 1
        label = name or f"{kind}_{self.count}"
        results = [f"{label}.{i}" if outputs > 1 else label for i in range(outputs)]
        self.nodes.append(helper.make_node(kind, operands, results, name=label, **attributes))
        return results if outputs > 1 else results[0]

    def save(self, path: Path, inputs: dict[str, tuple[Any, ...]], output: str, kind: int = 1) -> Path:
        """Write the model."""
        given = [helper.make_tensor_value_info(n, kind, shape) for n, shape in inputs.items()]
        result = [helper.make_tensor_value_info(output, 1, None)]
        graph = helper.make_graph(self.nodes, path.stem, given, result, self.initialisers)
        path.write_bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)]).SerializeToString())
        return path

    # parts that several networks have

    def conv(self, x: str, c: int, m: int, r: int, stride: int = 1, *, group: int = 1, pad: int | None = None) -> str:
        """A convolution with bias, batch normalisation folded into it as exporters do."""
        pads = [r // 2 if pad is None else pad] * 4
        w, b = self.weight(m, c // group, r, r), self.weight(m)
        return str(self.add("Conv", x, w, b, kernel_shape=[r, r], strides=[stride] * 2, pads=pads, group=group))

    def linear(self, x: str, k: int, n: int) -> str:
        """A matrix product with bias over the last axis."""
        return str(self.add("Add", self.add("MatMul", x, self.weight(k, n)), self.weight(n)))


def alexnet(path: Path) -> Path:
    """One tower, 224 x 224, with the pooling that makes features of any size 6 x 6."""
    net = Network()
    x = "image"
    layers = [(3, 64, 11, 4, 2, True), (64, 192, 5, 1, 2, True), (192, 384, 3, 1, 1, False),
              (384, 256, 3, 1, 1, False), (256, 256, 3, 1, 1, True)]  # fmt: skip
    for c, m, r, stride, pad, pooled in layers:
        x = net.add("Relu", net.conv(x, c, m, r, stride, pad=pad))
        if pooled:
            x = net.add("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2])
    x = net.add("Flatten", x)
    for k, n, last in [(9216, 4096, False), (4096, 4096, False), (4096, 1000, True)]:
        x = net.add("Gemm", x, net.weight(n, k), net.weight(n), transB=1)
        x = x if last else net.add("Relu", x)
    return net.save(path, {"image": ("batch", 3, 224, 224)}, x)


def mobilenet_v2(path: Path) -> Path:
    """Width 1, 224 x 224: inverted residuals (expansion, channels, repeats, stride) of Table 2."""
    net = Network()

    def clipped(x: str) -> str:
        return str(net.add("Clip", x, low, high))

    low, high = net.constant(0, np.float32), net.constant(6, np.float32)
    x, c = clipped(net.conv("image", 3, 32, 3, 2)), 32
    for t, m, n, s in [
        (1, 16, 1, 1),
        (6, 24, 2, 2),
        (6, 32, 3, 2),
        (6, 64, 4, 2),
        (6, 96, 3, 1),
        (6, 160, 3, 2),
        (6, 320, 1, 1),
    ]:
        for i in range(n):
            stride = s if i == 0 else 1
            y = x if t == 1 else clipped(net.conv(x, c, c * t, 1))
            y = clipped(net.conv(y, c * t, c * t, 3, stride, group=c * t))
            y = net.conv(y, c * t, m, 1)
            x, c = (net.add("Add", x, y) if stride == 1 and c == m else y), m
    x = net.add("Flatten", net.add("GlobalAveragePool", clipped(net.conv(x, 320, 1280, 1))))
    return net.save(
        path, {"image": ("batch", 3, 224, 224)}, net.add("Gemm", x, net.weight(1000, 1280), net.weight(1000), transB=1)
    )


def resnet(path: Path, blocks: list[int], bottleneck: bool) -> Path:
    """ResNet, 224 x 224."""
    net = Network()
    x = net.add("Relu", net.conv("image", 3, 64, 7, 2))
    x = net.add("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    c = 64
    for stage, n in enumerate(blocks):
        width = 64 * 2**stage
        out = width * (4 if bottleneck else 1)
        for i in range(n):
            stride = 2 if stage and i == 0 else 1
            if bottleneck:
                y = net.add("Relu", net.conv(x, c, width, 1))
                y = net.conv(net.add("Relu", net.conv(y, width, width, 3, stride)), width, out, 1)
            else:
                y = net.conv(net.add("Relu", net.conv(x, c, width, 3, stride)), width, width, 3)
            shortcut = x if c == out and stride == 1 else net.conv(x, c, out, 1, stride, pad=0)
            x, c = net.add("Relu", net.add("Add", y, shortcut)), out
    x = net.add("Flatten", net.add("GlobalAveragePool", x))
    return net.save(
        path, {"image": ("batch", 3, 224, 224)}, net.add("Gemm", x, net.weight(1000, c), net.weight(1000), transB=1)
    )


def unet(path: Path, size: int = 572, width: int = 64, *, colours: int = 1, padded: bool = False) -> Path:
    """572 x 572 in, 388 x 388 out: valid convolutions, skips cropped and concatenated.

    `width`: channels of the first level; `padded`: with zeros around, so that the result is as large as the image.
    """
    net = Network()
    lost, image = 0 if padded else 4, ("batch", colours, size, size)

    def double(x: str, c: int, m: int) -> str:
        for k in (c, m):
            x = net.add("Relu", net.conv(x, k, m, 3, pad=1 if padded else 0))
        return x

    x, c = "image", colours
    skips = []
    for m in (width, 2 * width, 4 * width, 8 * width):
        x, size, c = double(x, c, m), size - lost, m
        skips.append((x, size))
        x, size = net.add("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2]), size // 2
    x, size, c = double(x, c, 16 * width), size - lost, 16 * width
    for m in (8 * width, 4 * width, 2 * width, width):
        x, size = net.add("ConvTranspose", x, net.weight(c, m, 2, 2), net.weight(m), strides=[2, 2]), size * 2
        skip, wide = skips.pop()
        at = (wide - size) // 2
        ends = net.constant([at, at]), net.constant([at + size, at + size]), net.constant([2, 3])
        x = double(net.add("Concat", net.add("Slice", skip, *ends) if at else skip, x, axis=1), 2 * m, m)
        size, c = size - lost, m
    return net.save(path, {"image": image}, net.conv(x, width, 2, 1))


def heads(net: Network, x: str, n: int, e: int) -> str:
    """[b, s, n * e] as [b, n, s, e]."""
    return str(net.add("Transpose", net.add("Reshape", x, net.constant([0, 0, n, e])), perm=[0, 2, 1, 3]))


def attend(net: Network, q: str, k: str, v: str, e: int, mask: str) -> str:
    """Scores, softmax, and their use, joined to [b, s, heads * e]."""
    scores = net.add("MatMul", q, net.add("Transpose", k, perm=[0, 1, 3, 2]))
    scores = net.add("Add", net.add("Div", scores, net.constant(e**0.5, np.float32)), mask)
    out = net.add("Transpose", net.add("MatMul", net.add("Softmax", scores, axis=-1), v), perm=[0, 2, 1, 3])
    return str(net.add("Reshape", out, net.constant([0, 0, -1])))


def norm(net: Network, x: str, d: int) -> str:
    """Layer normalisation."""
    return str(net.add("LayerNormalization", x, net.weight(d), net.weight(d), epsilon=1e-12))


def bert_base(path: Path, layers: int = 12) -> Path:
    """Encoder of 12 layers, 768 wide, with word, position and segment embeddings, and the pooler."""
    net = Network()
    d, n = 768, 12
    words = net.add("Gather", net.weight(30522, d), "ids")
    segments = net.add("Gather", net.weight(2, d), "segments")
    places = net.add("Slice", net.weight(512, d), net.constant([0]), net.constant([128]), net.constant([0]))
    x = norm(net, net.add("Add", net.add("Add", words, segments), places), d)
    wide = net.add("Cast", net.add("Unsqueeze", "mask", net.constant([1, 2])), to=1)
    big = net.constant(np.finfo(np.float32).min, np.float32)
    mask = net.add("Mul", net.add("Sub", net.constant(1, np.float32), wide), big)
    for _ in range(layers):
        q, k, v = (heads(net, net.linear(x, d, d), n, d // n) for _ in range(3))
        x = norm(net, net.add("Add", net.linear(attend(net, q, k, v, d // n, mask), d, d), x), d)
        h = net.linear(x, d, 4 * d)
        half = net.add("Erf", net.add("Div", h, net.constant(2**0.5, np.float32)))
        half = net.add("Mul", h, net.add("Add", half, net.constant(1, np.float32)))
        h = net.add("Mul", half, net.constant(0.5, np.float32))
        x = norm(net, net.add("Add", net.linear(h, 4 * d, d), x), d)
    first = net.add("Gather", x, net.constant(0), axis=1)
    pooled = net.add("Tanh", net.add("Gemm", first, net.weight(d, d), net.weight(d), transB=1))
    both = dict.fromkeys(("ids", "segments", "mask"), ("batch", 128))
    return net.save(path, both, pooled, kind=7)


def gpt2(path: Path, layers: int = 12, tokens: int = 1024) -> Path:
    """Decoder of 12 layers, 768 wide, with one product for queries, keys and values, a causal mask, and the logits."""
    net = Network()
    d, n = 768, 12
    words = net.weight(50257, d)
    places = net.add("Slice", net.weight(1024, d), net.constant([0]), net.constant([tokens]), net.constant([0]))
    x = net.add("Add", net.add("Gather", words, "ids"), places)
    causal = net.add("Trilu", net.add("ConstantOfShape", net.constant([tokens, tokens]),
                                      value=numpy_helper.from_array(np.ones(1, np.float32))), upper=0)  # fmt: skip
    mask = net.add("Mul", net.add("Sub", causal, net.constant(1, np.float32)), net.constant(1e4, np.float32))
    for _ in range(layers):
        qkv = net.linear(norm(net, x, d), d, 3 * d)
        q, k, v = (heads(net, part, n, d // n) for part in net.add("Split", qkv, outputs=3, axis=2, num_outputs=3))
        x = net.add("Add", net.linear(attend(net, q, k, v, d // n, mask), d, d), x)
        h = net.linear(norm(net, x, d), d, 4 * d)
        x = net.add("Add", net.linear(net.add("Gelu", h, approximate="tanh"), 4 * d, d), x)
    x = norm(net, x, d)
    return net.save(
        path, {"ids": ("batch", tokens)}, net.add("MatMul", x, net.add("Transpose", words, perm=[1, 0])), kind=7
    )


def llama_block(path: Path, tokens: int = 2048, *, n: int = 32, groups: int = 8, e: int = 128) -> Path:
    """A layer of Llama 3 8B: 32 query heads and 8 of keys and values, of 128 each; 14336 hidden features."""
    net = Network()
    d = n * e
    hidden = d * 7 // 2
    angle = np.outer(np.arange(tokens), 5e5 ** (-np.arange(0, e, 2) / e))
    angle = np.concatenate([angle, angle], axis=1).astype(np.float32)
    cos, sin = net.constant(np.cos(angle), np.float32), net.constant(np.sin(angle), np.float32)
    half, end, axis, zero = (net.constant([v]) for v in (e // 2, e, 3, 0))

    def rotated(x: str) -> str:
        second = net.add("Neg", net.add("Slice", x, half, end, axis))
        turned = net.add("Concat", second, net.add("Slice", x, zero, half, axis), axis=3)
        return str(net.add("Add", net.add("Mul", x, cos), net.add("Mul", turned, sin)))

    def repeated(x: str) -> str:
        wide = net.add(
            "Expand", net.add("Unsqueeze", x, net.constant([2])), net.constant([1, groups, n // groups, tokens, e])
        )
        return str(net.add("Reshape", wide, net.constant([0, n, tokens, e])))

    def rms(x: str) -> str:
        return str(net.add("RMSNormalization", x, net.weight(d), epsilon=1e-5))

    x = "x"
    y = rms(x)
    q, k, v = (heads(net, net.add("MatMul", y, net.weight(d, m * e)), m, e) for m in (n, groups, groups))
    mask = net.constant(np.zeros((1, 1), np.float32), np.float32)
    z = attend(net, rotated(q), repeated(rotated(k)), repeated(v), e, mask)
    x = net.add("Add", net.add("MatMul", z, net.weight(d, d)), x)
    y = rms(x)
    gate, up = net.add("MatMul", y, net.weight(d, hidden)), net.add("MatMul", y, net.weight(d, hidden))
    gate = net.add("Mul", gate, net.add("Sigmoid", gate))
    x = net.add("Add", net.add("MatMul", net.add("Mul", gate, up), net.weight(hidden, d)), x)
    return net.save(path, {"x": (1, tokens, d)}, x)


def mixture(path: Path, tokens: int = 2048, d: int = 4096) -> Path:
    """Experts of Mixtral 8x7B, all of them computed and weighted by the router's softmax."""
    net = Network()
    hidden, experts = d * 7 // 2, 8
    weights = net.add("Softmax", net.add("MatMul", "x", net.weight(d, experts)), axis=-1)
    gate = net.add("Einsum", "x", net.weight(experts, d, hidden), equation="td,edh->eth")
    up = net.add("Einsum", "x", net.weight(experts, d, hidden), equation="td,edh->eth")
    h = net.add("Mul", net.add("Mul", gate, net.add("Sigmoid", gate)), up)
    down = net.add("Einsum", h, net.weight(experts, hidden, d), equation="eth,ehd->etd")
    return net.save(path, {"x": (tokens, d)}, net.add("Einsum", down, weights, equation="etd,te->td"))


GPT2 = 12 * 12 * 1024 * 768**2 + 2 * 12 * 1024**2 * 768 + 1024 * 768 * 50257
"""Half the floating-point operations of a forward pass that the formula gives."""
LLAMA = 2048 * (8.03e9 - 2 * 128256 * 4096) / 32 + 2 * 2048**2 * 4096
"""Parameters without the embeddings in and out, and attention."""
MIXTRAL = 2048 * (46.7e9 - 12.9e9) / 6 * 8 / 32
"""All 8 experts of one of 32 layers."""

NETWORKS: dict[str, tuple[Callable[[Path], Path], float, str]] = {
    "AlexNet": (alexnet, 714.2e6, "torchvision: 0.71 G"),
    "MobileNetV2": (mobilenet_v2, 300e6, "paper, Table 4: 300 M"),
    "ResNet-18": (lambda path: resnet(path, [2, 2, 2, 2], False), 1.814e9, "torchvision: 1.81 G"),
    "ResNet-50": (lambda path: resnet(path, [3, 4, 6, 3], True), 4.089e9, "torchvision: 4.09 G"),
    "U-Net, 572 x 572": (unet, 0.0, ""),
    "U-Net, padded, 256 x 256": (
        lambda path: unet(path, 256, colours=3, padded=True), 48.30e9,
        "tables with 31.04 M parameters, as that of IPS-Seg: 48.30 G",
    ),
    "BERT-base, 128 tokens": (bert_base, 11.25e9, "TinyBERT, Table 1: 22.5 GFLOPs, two for a product"),
    "GPT-2, 1024 tokens": (gpt2, GPT2, "Narayanan et al., SC 2021: 12 l s h^2 + 2 l s^2 h + s h V, V 50257"),
    "Llama 3 8B, a layer, 2048 tokens": (
        llama_block, LLAMA, "8.03 G parameters of the model card, 32 layers: s N + 2 s^2 d (PaLM, appendix B)",
    ),
    "Mixtral 8x7B, experts, 2048 tokens": (
        mixture, MIXTRAL, "its announcement: 46.7 G parameters, 12.9 G for a token, without 6 of 8 experts",
    ),
}  # fmt: skip
"""Networks: who builds them, and products as published, with the source; 0 where none is published for these shapes."""
