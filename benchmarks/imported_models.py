"""Ten kinds of models as people have them, built at full size without weights, imported by every way in that they have.

Modules of torchvision and transformers are built on the device `meta` and come in by `from_torch` and as files that
`torch.onnx` writes; Llama 3 8B also as Hugging Face optimum and ONNX Runtime GenAI write it, and as its `config.json`;
MobileNets of 8-bit integers as files of TFLite. Two numbers are compared of each: products that are summed, and
parameters. Beside them stands what others publish or, where nobody does for these sizes, what another counter finds:
PyTorch's `FlopCounterMode` while the module runs on `meta`, or a formula that is written here.

Needs packages that einmap does not: torch, torchvision, transformers, onnx, onnxscript. `python
benchmarks/imported_models.py [NAME ...]` runs all models or those whose name begins so. Exits with status 1 where a
number differs from its reference by more than 0.5 %, or ways in of one model from each other.
"""

from __future__ import annotations

import contextlib
import io
import json
import logging
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torchvision
import transformers as hf
from torch.utils.flop_counter import FlopCounterMode

import einmap

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))
from tests.frontends.onnx.language_models import Sizes, genai, optimum  # noqa: E402

MOST_DIFFERENCE = 0.005
INT64 = torch.int64


@dataclass(frozen=True)
class Reference:
    """A number to compare with, and where it is from."""

    value: float
    source: str


@dataclass(frozen=True)
class Case:
    """One model. `build`: the module on `meta` and its inputs, in order or by name; `files`: other forms, by writer.

    `products`, `parameters`: what others say; `counted`: whether PyTorch's counter sees all products; `torch_onnx`:
    why `torch.onnx` cannot write it, or nothing.
    """

    name: str
    products: Reference | None
    parameters: Reference | None
    build: Callable[[], tuple[torch.nn.Module, Any]] | None = None
    files: Mapping[str, Callable[[Path], tuple[einmap.Imported, int]]] = field(default_factory=dict)
    counted: bool = True
    torch_onnx: str = ""


class UNet(torch.nn.Module):
    """Ronneberger et al., MICCAI 2015, with zeros around, so that the result is as large as the image."""

    def __init__(self, colours: int = 3, classes: int = 2, width: int = 64) -> None:
        super().__init__()
        widths = [width * 2**i for i in range(5)]
        self.down = torch.nn.ModuleList(self.double(c, m) for c, m in zip([colours, *widths], widths, strict=False))
        self.up = torch.nn.ModuleList(torch.nn.ConvTranspose2d(2 * m, m, 2, 2) for m in reversed(widths[:-1]))
        self.joined = torch.nn.ModuleList(self.double(2 * m, m) for m in reversed(widths[:-1]))
        self.head = torch.nn.Conv2d(width, classes, 1)

    @staticmethod
    def double(c: int, m: int) -> torch.nn.Sequential:
        """Two convolutions, as that publication has them, without normalisation."""
        relu = torch.nn.ReLU
        return torch.nn.Sequential(
            torch.nn.Conv2d(c, m, 3, padding=1), relu(), torch.nn.Conv2d(m, m, 3, padding=1), relu()
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits of each pixel."""
        skips = []
        for i, block in enumerate(self.down):
            x = block(torch.nn.functional.max_pool2d(x, 2) if i else x)
            skips.append(x)
        for up, block, skip in zip(self.up, self.joined, reversed(skips[:-1]), strict=True):
            x = block(torch.cat([skip, up(x)], 1))
        return self.head(x)


class Decoder(torch.nn.Module):
    """A language model's step after cached keys and values: logits of the last token, and the caches after it."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: torch.Tensor, position_ids: torch.Tensor, *past: torch.Tensor) -> tuple[Any, ...]:
        """`past`: keys and values of each layer by turns."""
        cache = hf.DynamicCache(list(zip(past[::2], past[1::2], strict=True)))
        out = self.model(
            input_ids=input_ids, position_ids=position_ids, past_key_values=cache, use_cache=True, logits_to_keep=1
        )
        layers = out.past_key_values.layers
        return (out.logits, *(x for layer in layers for x in (layer.keys, layer.values)))


def meta(build: Callable[[], Any]) -> Any:
    """A module without weights, as it is used after training."""
    with torch.device("meta"):
        return build().eval()


def empty(*shape: int, dtype: Any = torch.float32) -> torch.Tensor:
    """An input of a shape."""
    return torch.zeros(shape, dtype=dtype, device="meta")


def image(build: Callable[[], Any], size: int = 224) -> Any:
    """A network and one image."""
    return lambda: (meta(build), (empty(1, 3, size, size),))


def vision(name: str) -> Any:
    """A network of torchvision and one image."""
    return image(getattr(torchvision.models, name))


def bert() -> Any:
    """BERT-base with its pooler."""
    module = meta(lambda: hf.BertModel(hf.BertConfig()))
    return module, {name: empty(1, 128, dtype=INT64) for name in ("input_ids", "token_type_ids")}


LLAMA = Sizes()


def llama() -> Any:
    """Llama 3 8B."""
    config = hf.LlamaConfig(
        hidden_size=4096, intermediate_size=14336, num_hidden_layers=32, num_attention_heads=32, num_key_value_heads=8,
        vocab_size=128256, max_position_embeddings=8192, rms_norm_eps=1e-5, rope_theta=5e5,
    )  # fmt: skip
    return meta(lambda: hf.LlamaForCausalLM(config))


def llama_step(tokens: int, context: int) -> Any:
    """Llama 3 8B on new tokens after cached ones."""

    def build() -> Any:
        past = [empty(1, 8, context, 128) for _ in range(64 if context else 0)]
        return Decoder(llama()).eval(), (empty(1, tokens, dtype=INT64), empty(1, tokens, dtype=INT64), *past)

    return build


def written(form: Any, tokens: int, context: int) -> Any:
    """Llama 3 8B as a file of GenAI's or optimum's form, and its parameters."""

    def read(folder: Path) -> tuple[einmap.Imported, int]:
        sizes = {"batch_size": 1, "sequence_length": tokens, "past_sequence_length": context}
        if form is genai:
            sizes["total_sequence_length"] = tokens + context
        found = einmap.from_onnx(form(folder / "model.onnx", LLAMA), dimensions=sizes)
        derived = ("cos_cache", "sin_cache", "model_rotary_emb_inv_freq")  # computed from positions, none of the model
        kept = [t for name, t in found.inputs.items() if t.weight and isinstance(t.source, str) and name not in derived]
        return found, sum(prod(t.sizes) for t in kept)

    return read


def configured(tokens: int, context: int) -> Any:
    """Llama 3 8B by its `config.json`."""

    def read(folder: Path) -> tuple[Any, int]:
        path = folder / "config.json"
        path.write_text(json.dumps(LLAMA.config()))
        found = einmap.from_huggingface(path, batch=1, tokens=tokens, context=context)
        return found, found.n_parameters

    return read


def mixtral() -> Any:
    """Mixtral 8x7B on a prompt of 128 tokens, logits of all."""
    config = hf.MixtralConfig(use_cache=False)
    return meta(lambda: hf.MixtralForCausalLM(config)), {"input_ids": empty(1, 128, dtype=INT64)}


def whisper() -> Any:
    """Whisper large v3: 30 s of sound and 448 tokens."""
    config = hf.WhisperConfig(
        d_model=1280, encoder_layers=32, decoder_layers=32, encoder_attention_heads=20, decoder_attention_heads=20,
        encoder_ffn_dim=5120, decoder_ffn_dim=5120, vocab_size=51866, num_mel_bins=128, use_cache=False,
    )  # fmt: skip
    module = meta(lambda: hf.WhisperForConditionalGeneration(config))
    return module, {"input_features": empty(1, 128, 3000), "decoder_input_ids": empty(1, 448, dtype=INT64)}


def whisper_products(frames: int = 1500, tokens: int = 448) -> int:
    """Products of Whisper large v3: two convolutions, 32 layers of the encoder and 32 of the decoder, logits; `frames`:
    of the encoder, half of those of the sound.
    """
    d, layers, words = 1280, 32, 51866
    convolutions = 3 * 2 * frames * 128 * d + 3 * frames * d * d
    encoder = 12 * frames * d**2 + 2 * frames**2 * d
    across = 2 * (tokens + frames) * d**2 + 2 * tokens * frames * d
    decoder = 12 * tokens * d**2 + 2 * tokens**2 * d + across
    return convolutions + layers * (encoder + decoder) + tokens * d * words


def mamba() -> Any:
    """Mamba-Codestral 7B on a prompt of 512 tokens, two chunks."""
    config = hf.Mamba2Config(
        hidden_size=4096, num_hidden_layers=64, num_heads=128, head_dim=64, n_groups=8, state_size=128,
        vocab_size=32768, tie_word_embeddings=False, use_cache=False,
    )  # fmt: skip
    return meta(lambda: hf.Mamba2ForCausalLM(config)), {"input_ids": empty(1, 512, dtype=INT64)}


def mamba_products(tokens: int = 512, chunk: int = 256) -> int:
    """Products of Mamba-Codestral 7B: linear layers, convolutions of width 4, and the state space in chunks (Dao and
    Gu, arXiv 2405.21060, listing 1): within a chunk C B^T and its product with the values for each head, states of
    chunks, what passes from chunk to chunk (from zeros on), and what is read from these.
    """
    hidden, inner, heads, head, groups, state, layers, words = 4096, 8192, 128, 64, 8, 128, 64, 32768
    chunks = tokens // chunk
    linear = hidden * (2 * inner + 2 * groups * state + heads) + inner * hidden
    convolution = 4 * (inner + 2 * groups * state)
    within = heads * chunk * (state + head)
    states = 2 * heads * state * head
    between = heads * state * head * (chunks + 1) ** 2
    return layers * (tokens * (linear + convolution + within + states) + between) + tokens * hidden * words


def tflite(name: str) -> Any:
    """A MobileNet of 8-bit integers, and its weights and biases."""

    def read(folder: Path) -> tuple[einmap.Imported, int]:
        path = folder / f"{name}.tflite"
        path.write_bytes(np.load(ROOT / "tests" / "frontends" / "tflite" / "networks.npz")[name].tobytes())
        found = einmap.from_tflite(path, strict=True)
        return found, sum(prod(t.sizes) for t in found.inputs.values() if t.weight and t.bits in (8, 32))

    return read


MIXTRAL = 128 * (32 * (2 * 4096**2 + 2 * 4096 * 1024 + 2 * 3 * 4096 * 14336 + 4096 * 8) + 32000 * 4096)
"""Linear layers, two experts of eight, the router, and logits, of 128 tokens."""
MIXTRAL += 32 * 2 * 128**2 * 4096
"""Scores of all pairs of positions, and their use."""
KERAS_V1 = 4_231_976 - 10_944 + 1_025
TORCHVISION_V2 = 3_504_872 - 17_056 + 1_281
"""Trained numbers of the networks as published, less one for each channel that is normalised, and one class more."""
CASES = [
    Case("ResNet-50", Reference(4.089e9, "torchvision"), Reference(25_557_032, "torchvision"), vision("resnet50")),
    Case("MobileNetV3 large", Reference(0.217e9, "torchvision"), Reference(5_483_032, "torchvision"),
         vision("mobilenet_v3_large")),
    Case("ViT-B/16", Reference(17.564e9, "torchvision"), Reference(86_567_656, "torchvision"), vision("vit_b_16")),
    Case("U-Net, 256 x 256", Reference(48.30e9, "table of IPS-Seg"), Reference(31.04e6, "the same table"),
         image(UNet, 256)),
    Case("BERT-base, 128 tokens", Reference(11.25e9, "TinyBERT, Table 1, half of 22.5 GFLOPs"),
         Reference(109_482_240, "model card"), bert),
    *(Case(f"Llama 3 8B, {what}", None, Reference(8_030_261_248, "model card"), llama_step(*step),
           {"optimum": written(optimum, *step), "GenAI": written(genai, *step), "config.json": configured(*step)})
      for what, step in (("a prompt of 4,096", (4096, 0)), ("a token after 4,095", (1, 4095)))),
    Case("Mixtral 8x7B, 128 tokens", Reference(MIXTRAL, "formula of its layers"),
         Reference(46_702_792_704, "model card"), mixtral, counted=False, torch_onnx="aten.histc has no ONNX form"),
    Case("Whisper large v3, 30 s, 448 tokens", Reference(whisper_products(), "formula of its layers"),
         Reference(1_543_490_560, "model card"), whisper, counted=False),
    Case("Mamba-Codestral 7B, 512 tokens", Reference(mamba_products(), "formula of its listing 1"),
         Reference(7_285_403_648, "model card"), mamba, counted=False),
    Case("MobileNetV1, int8, TFLite", Reference(569e6, "paper, Table 4"), Reference(KERAS_V1, "Keras, folded"),
         files={"TFLite": tflite("mobilenet_v1")}),
    Case("MobileNetV2, int8, TFLite", Reference(300e6, "paper, Table 4"),
         Reference(TORCHVISION_V2, "torchvision, folded"), files={"TFLite": tflite("mobilenet_v2")}),
]  # fmt: skip


def ways(case: Case, built: Any, folder: Path) -> Iterator[tuple[str, int, int, float]]:
    """By every way in: who wrote it, products, parameters, processor seconds of the import."""
    if built is not None:
        module, inputs = built
        sizes = {name: p.numel() for name, p in module.named_parameters()}
        yield "torch.export", *measured(lambda: einmap.from_torch(module, inputs), sizes)
        if not case.torch_onnx:
            path = exported(module, inputs, folder / "torch.onnx")
            yield "torch.onnx", *measured(lambda: einmap.from_onnx(path), sizes)
    for who, read in case.files.items():
        start = time.process_time()
        found, parameters = read(folder)
        products = found.n_products if who == "config.json" else found.n_multiply_accumulates
        yield who, products, parameters, time.process_time() - start


def measured(read: Callable[[], einmap.Imported], sizes: Mapping[str, int]) -> tuple[int, int, float]:
    """Products, parameters of the module that became tensors, by their shapes there, and seconds of an import."""
    start = time.process_time()
    found = read()
    seconds = time.process_time() - start
    if found.barriers:
        print(f"  barriers: {found.barriers}")
    inputs = found.inputs.values()
    sources = {t.source: prod(t.sizes) for t in inputs if isinstance(t.source, str) and t.source in sizes}
    return found.n_multiply_accumulates, sum(sources.values()), seconds


def called(inputs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Inputs in order, and those by name."""
    return ((), inputs) if isinstance(inputs, dict) else (inputs, {})


def exported(module: torch.nn.Module, inputs: Any, path: Path) -> Path:
    """A file that `torch.onnx` writes, its parameters as inputs of the graph, so that it has their shapes alone."""
    args, named = called(inputs)
    with contextlib.redirect_stdout(io.StringIO()):
        program = torch.onnx.export(
            module, args, kwargs=named, dynamo=True, optimize=False, verbose=False, opset_version=20
        )
    program.save(path, include_initializers=False, keep_initializers_as_inputs=True)
    return path


def counted(module: torch.nn.Module, inputs: Any) -> Reference:
    """Products that PyTorch counts while a module runs without numbers."""
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        args, named = called(inputs)
        module(*args, **named)
    return Reference(counter.get_total_flops() / 2, "FlopCounterMode")


def difference(found: float, reference: Reference | None) -> str:
    """In percent."""
    return "-" if reference is None else f"{(found / reference.value - 1) * 100:+.3f}%"


def main() -> int:
    """Print a row for each way in of each model. Gives 1 where something differs."""
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    print(f"torch {torch.__version__}, torchvision {torchvision.__version__}, transformers {hf.__version__}")
    status = 0
    for case in CASES:
        if sys.argv[1:] and not any(case.name.lower().startswith(name.lower()) for name in sys.argv[1:]):
            continue
        built = None if case.build is None else case.build()
        own = counted(*built) if built is not None and case.counted else None
        print(f"\n{case.name}")
        for what, reference in (("products", case.products), ("products", own), ("parameters", case.parameters)):
            if reference is not None:
                print(f"  {what}: {reference.value:,.0f} ({reference.source})")
        if case.torch_onnx:
            print(f"  torch.onnx cannot write it: {case.torch_onnx}")
        found = []
        with tempfile.TemporaryDirectory() as folder:
            for who, products, parameters, seconds in ways(case, built, Path(folder)):
                differences = difference(products, case.products), difference(products, own)
                others = difference(parameters, case.parameters)
                print(f"  {who:<13}{products:>20,} {differences[0]:>9} {differences[1]:>9}", end="")
                print(f"{parameters:>17,} {others:>9} {seconds:>7.2f} s", flush=True)
                found.append((products, parameters))
        best = own or case.products
        is_as_said = best is not None and abs(products / best.value - 1) <= MOST_DIFFERENCE
        is_as_said &= case.parameters is not None and abs(parameters / case.parameters.value - 1) <= MOST_DIFFERENCE
        if not is_as_said or len({*found}) > 1:
            print("  DIFFERS")
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
