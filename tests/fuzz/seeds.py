"""What is mutated: shipped examples made small, the hostile inputs, the specification of the catalogue."""

import functools
import io
import re
from pathlib import Path

from ruamel.yaml import YAML
from tests.catalogue.cases import BASE
from tests.catalogue.generated import GENERATED

from einmap.frontends.yaml.spec import example_paths

HOSTILE = Path(__file__).parents[1] / "catalogue" / "hostile"
SMALL = {"M": 64, "K": 64, "N": 64}
MAPPED = [
    (["simple", "matmul", "simple_matmul"], SMALL),
    (["simple", "matmul_chain", "simple_matmul_chain_fused"], {"M": 64}),
    (["simple", "matmul_chain", "simple_matmul_chain_unfused"], {"M": 64}),
    (["simple", "two_matvecs", "simple_two_matvecs_fused"], {}),
    (["simple", "two_matvecs", "simple_two_matvecs_unfused"], {}),
    (["simple", "attention_core", "simple_attention_fused"], {}),
    (["tpu_v4i", "matmul", "tpu_v4i_matmul"], {"M": 512, "K": 512, "N": 512}),
    (["edge", "mobilenet_pair", "edge_mobilenet_pair_fused"], {}),
    (["eyeriss", "resnet50_layer", "eyeriss_conv"], {"LAYER": "conv2_2", "BITS": 16}),
]
DISTRIBUTED = [
    (["matmul", "matmul_reduce_scatter"], {"M": 16, "K": 16, "N": 16}),
    (["matmul", "matmul_2d_gather"], {"M": 16, "K": 16, "N": 16}),
    (["matmul", "matmul_all_gather_a"], {"M": 16, "K": 16, "N": 16}),
    (["matmul", "matmul_overlap"], {"M": 16, "K": 16, "N": 16}),
    (["matrix_vector", "matrix_vector_2d"], {}),
    (["elementwise", "elementwise_parallel"], {}),
]
ARCHES = ("simple", "edge", "eyeriss", "nvdla", "simba", "tpu_v4i")
WORKLOADS = (
    "attention_core", "conv", "feed_forward", "gpt3_6.7b", "llama3_8b_decode", "mobilenet_v1", "resnet50", "vgg16",
)  # fmt: skip
TINY = """
arch:
  nodes:
  - !Memory {name: Main, size: inf, leak_power: 0, area: 0, actions: [{name: read, energy: 8, throughput: 4}, {name: write, energy: 8, throughput: 4}]}
  - !Container {name: Array, spatial: [{name: X, fanout: 2, may_reuse: Inputs}]}
  - !Memory {name: Buffer, size: 64, leak_power: 1, area: 1, tensors: {keep: Nothing, may_keep: All},
             actions: [{name: read, energy: 1, throughput: 8}, {name: write, energy: 1, throughput: 8}]}
  - !Compute {name: MAC, leak_power: 0, area: 0, actions: [{name: compute, energy: 1, throughput: 1}]}
workload:
  rank_sizes: {M: 4, K: 4, N: 4}
  bits_per_value: {All: 1}
  einsums: ["C[m,n] = A[m,k] * B[k,n]"]
"""
CHAIN = TINY.replace('["C[m,n] = A[m,k] * B[k,n]"]', '["C[m,n] = A[m,k] * B[k,n]", "D[m] = C[m,n]"]')


@functools.cache
def text_of(names):
    return "\n".join(example_paths()[name].read_text(encoding="utf-8") for name in names)


@functools.cache
def specifications():
    """(text, values of its template variables); what has a mapping is evaluated."""
    found = [(BASE, {}), (TINY, {}), (CHAIN, {})]
    found += [(text_of(tuple(names)), define) for names, define in MAPPED]
    found += [(text_of(tuple(names)), define) for names, define in DISTRIBUTED]
    found += [(text_of(("simple", name)), {}) for name in WORKLOADS]
    found += [(text_of((name, "matmul")), SMALL) for name in ARCHES]
    hostile = {file.name: file.read_text(encoding="utf-8") for file in HOSTILE.glob("*.yaml")} | GENERATED
    found += [
        (text, {}) for name, text in sorted(hostile.items()) if len(text) < 10_000 and not name.startswith(("08", "09"))
    ]
    return found


@functools.cache
def templates():
    return [text for text, _ in specifications() if "{{" in text or "{%" in text]


@functools.cache
def trees():
    """Whole specifications as dictionaries, with their mappings; tags are the field `type`."""
    import einmap

    return [
        einmap.loads(text, define=define).to_dict()
        for text, define in [(BASE, {}), (TINY, {}), (CHAIN, {}), *mapped(), *distributed()]
    ]


def mapped():
    return [(text_of(tuple(names)), define) for names, define in MAPPED]


def distributed():
    return [(text_of(tuple(names)), define) for names, define in DISTRIBUTED]


@functools.cache
def nodes_of(text):
    """Words of a mapping for its loops, and for what its memories hold."""
    variables = re.findall(r"rank_variable: (\w+)", text) or ["m"]
    memories = re.findall(r"- !Memory\b[^#]*?name: (\w+)", text)
    tensors = re.findall(r"\b[A-Z]\w*(?=\[)", text)
    return [*variables, *(f"{v}#2" for v in variables), "nodes[1]", "nodes[3]"], [
        f"{t}@{m}" for t in tensors or ["A"] for m in memories or ["Main"]
    ]


@functools.cache
def machines():
    paths = example_paths(("machines",)).values()
    texts = [path.read_text(encoding="utf-8") for path in paths] + [
        (HOSTILE / "08-machine-inf-bandwidth.yaml").read_text()
    ]
    return [YAML(typ="safe").load(io.StringIO(text)) for text in texts]
