"""The surfaces of einmap on which what others wrote arrives: for each a way to draw a call, and to make it.

A call is a dictionary of JSON values, `draw[surface](rng)`; `make[surface](call)` makes it.
"""

import contextlib
import io
import os
import random
from pathlib import Path

from tests.fuzz import mutate, seeds
from tests.fuzz.words import BITS, BLOCKS, EINSUMS, FIELDS, JOINS, PARTS

import einmap
from einmap.cli.main import main
from einmap.distribute.backends.check import check_outputs, sample_inputs
from einmap.distribute.backends.engines import engine_named
from einmap.einsum.rewrites.steps import parse_step
from einmap.errors import EinmapError
from einmap.execute.execute import execute
from einmap.frontends.yaml.spec import dump, dump_mapping
from einmap.mapping.rewrite.text import rewritten
from einmap.model.explanation.explain import explain
from einmap.report.costs.cost_report import cost_report, to_text
from einmap.report.drawing.draw import draw as picture

draw = {}
make = {}
SHARES = {}


def surface(share):
    def added(maker):
        SHARES[maker.__name__] = share
        make[maker.__name__] = maker
        return maker

    return added


def drawn(maker):
    def added(drawer):
        draw[maker.__name__] = drawer
        return drawer

    return added


def looked_at(spec):
    """What a specification costs, or why it cannot be said."""
    if spec.raw.get("mapping") is None:
        spec.workload  # noqa: B018 - reads it
        if spec.raw.get("arch") is not None:
            spec.archs  # noqa: B018
        return spec
    cost = einmap.evaluate(spec)
    to_text(cost_report(cost, spec, spec.mapping))
    return spec


@surface(26)
def specification_text(call):
    looked_at(einmap.loads(call["text"], define=call["define"]))


@drawn(specification_text)
def _(rng):
    text, define = rng.choice(seeds.specifications())
    return {"text": mutate.text_of(rng, text), "define": define}


@surface(16)
def specification_tree(call):
    looked_at(einmap.Spec.from_dict(call["tree"]))


@drawn(specification_tree)
def _(rng):
    return {"tree": mutate.tree_of(rng, rng.choice(seeds.trees()))}


@surface(8)
def template(call):
    einmap.loads(call["text"], define=call["define"])


@drawn(template)
def _(rng):
    if rng.random() < 0.3:
        text = mutate.text_of(rng, rng.choice(seeds.templates()))
    else:
        parts = [
            rng.choice(BLOCKS).format(" ".join(rng.choice(BITS) for _ in range(rng.choice((1, 1, 2)))))
            for _ in range(rng.choice((1, 2)))
        ]
        text = "".join(f"variables: {{a: {part}}}\n" if rng.random() < 0.5 else f"{part}\n" for part in parts)
        text = mutate.text_of(rng, text) if rng.random() < 0.5 else text
    return {"text": text, "define": {"x": rng.choice((1, 2.5, "a", True, "9" * 50))}}


@surface(12)
def expression(call):
    looked_at(einmap.Spec.from_dict(call["tree"]))


@drawn(expression)
def _(rng):
    tree = mutate.copy.deepcopy(seeds.trees()[0])
    text = rng.choice(PARTS)
    for _ in range(rng.choice((0, 1, 1, 2, 3))):
        text = text + rng.choice(JOINS) + rng.choice(PARTS)
    if rng.random() < 0.3:
        text = mutate.text_of(rng, text)
    *path, last = rng.choice(FIELDS)
    holder = tree
    for step in path:
        holder = holder[step]
    holder[last] = {
        "tile_shape": [{"expression": text, "operator": "<=", "value": text}],
        "actions": [
            {"name": "read", "energy": text, "throughput": text},
            {"name": "write", "energy": 1, "throughput": text},
        ],
        "iteration_space_shape": {"m": text},
    }.get(last, text)
    return {"tree": tree}


@surface(10)
def einsum_string(call):
    spec = einmap.loads(seeds.TINY.replace('"C[m,n] = A[m,k] * B[k,n]"', repr_yaml(call["text"])))
    einmap.pretty_einsums(spec.workload)
    picture(spec, "workload")


@drawn(einsum_string)
def _(rng):
    text = rng.choice(EINSUMS)
    if rng.random() < 0.4:
        text = text.replace(rng.choice(mutate.WORD.findall(text)), mutate.odd(rng))
    return {"text": mutate.text_of(rng, text)}


def repr_yaml(text):
    import json

    return json.dumps(text)


@surface(9)
def mapping(call):
    """Everything that is made of a mapping."""
    spec = looked_at(einmap.loads(call["text"], define=call["define"]))
    match call["then"]:
        case "emit":
            einmap.emit(spec, call["lang"])
        case "explain":
            explain(spec)
        case "draw":
            picture(spec, "mapping", costs=True)
        case "dump":
            einmap.loads(dump(spec))
        case "simulate":
            longest = max(len(path) for path in spec.mapping.paths)
            if all(einsum.n_computes * longest < 400_000 for einsum in spec.workload.einsums):
                execute(spec)


@drawn(mapping)
def _(rng):
    texts = [(seeds.BASE, {}), *seeds.mapped()]
    text, define = rng.choice(texts)
    head, found, tail = text.partition("\nmapping:")
    return {
        "text": head + found + mutate.text_of(rng, tail), "define": define,
        "then": rng.choice(("emit", "emit", "explain", "draw", "dump", "simulate")), "lang": rng.choice(("c", "python", "pseudo")),
    }  # fmt: skip


@surface(2)
def given_mapping(call):
    with placed({"given.yaml": call["given"]}) as folder:
        spec = einmap.loads(call["text"])
        einmap.map_workload(spec, given=folder / "given.yaml", time_limit_s=0.5, workers=1)


GIVEN = """mapping:
  nodes:
  - !Any {}
  - !Temporal {rank_variable: m, tile_shape: 2}
  - !Storage {tensors: [A], component: Buffer}
  - !Any {}
  - !Compute {einsum: C, component: MAC}
"""


@drawn(given_mapping)
def _(rng):
    return {"text": seeds.TINY, "given": mutate.text_of(rng, GIVEN)}


@surface(2)
def search(call):
    einmap.map_workload(einmap.Spec.from_dict(call["tree"]), time_limit_s=0.5, workers=1, **call["options"])


OPTIONS = {
    "metrics": ["energy", "latency", "edp", "energy,latency", "energy|latency", "resource_usage", "leak_energy", "", "x", "energy,,"],
    "max_evaluations": [0, 1, 5, -1, 10**30, 1.5, None], "semantics": ["exact", "accelforge", "x"], "brute_force": [True], "fuse": [False],
    "max_fused_loops": [0, 1, 5, -1, "a"], "objective_tolerance": [0, 0.1, 5, -1, float("nan")], "memory_limit": [1, 10**9, float("inf"), -1],
    "tiling_coarseness": [1, 2, 10**9, 0.5], "explore_imperfect_temporal_loops": [True], "explore_imperfect_spatial_loops": [True],
    "share_inputs": [True, False], "max_pmapping_templates_per_einsum": [1, 5, 0], "nonsense": [1], "seed": [-1, 10**30],
}  # fmt: skip


@drawn(search)
def _(rng):
    tree = rng.choice(seeds.trees()[1:3])
    names = rng.sample(sorted(OPTIONS), rng.choice((0, 1, 1, 2)))
    tree = tree if names and rng.random() < 0.5 else mutate.tree_of(rng, tree)
    return {"tree": tree, "options": {name: rng.choice(OPTIONS[name]) for name in names}}


@surface(4)
def distribution(call):
    plan = einmap.plan_of(einmap.loads(call["text"], define=call["define"]))
    einmap.communication(plan)
    with engine_named("local") as engine:
        engine.check(plan)
        inputs = sample_inputs(plan.workload, 0, plan.dtype)
        check_outputs(plan.workload, inputs, engine.run(plan, inputs).outputs, plan.dtype)


@drawn(distribution)
def _(rng):
    text, define = rng.choice(seeds.distributed())
    head, found, tail = text.partition("\ndistribution:")
    return {"text": head + found + mutate.text_of(rng, tail), "define": define}


@surface(3)
def machine(call):
    found = einmap.machine_from_dict(call["tree"])
    einmap.to_mapping(
        einmap.plan_matmul(*call["sizes"], found, dtype=call["dtype"], time_limit_s=0.5, **call["options"])
    )


@drawn(machine)
def _(rng):
    tree = rng.choice(seeds.machines())
    options = {
        "method": ["joint", "level by level"], "fit": ["all", "resident"], "double_buffer": [True],
        "grain": [1, 0, 7, (1, 2, 3), 10**20],
    }  # fmt: skip
    options |= {
        "accumulate": ["owned", "atomic"], "candidates": [1, 0, 10**9], "accumulator": ["fp64", "int8", "x"],
        "resident": [{"A": "L1"}, {"X": "Y"}],
    }  # fmt: skip
    names = rng.sample(sorted(options), rng.choice((0, 0, 1, 2)))
    return {
        "tree": mutate.tree_of(rng, tree) if rng.random() < 0.6 else tree,
        "sizes": [rng.choice((1, 7, 64, 100, 1009, 4096, 2**20, 2**40, 2**62, 2**70, 0, -1)) if rng.random() < 0.2 else 512 for _ in range(3)],
        "dtype": rng.choice((*tree["machine"]["compute"]["flops"], *tree["machine"]["compute"]["flops"], "fp32", "x")), "options": {name: rng.choice(options[name]) for name in names},
    }  # fmt: skip


@surface(4)
def partition_step(call):
    spec = einmap.loads(call["text"])
    found = einmap.partition(spec.workload, [parse_step(kind, text) for kind, text in call["steps"]]).workload
    einmap.pretty_einsums(found)
    einmap.pretty_loops(found)
    if call["whole"]:
        einmap.loads(dump(spec.with_workload(found))).workload  # noqa: B018 - read again


STEPS = [
    ("split", "K=2"), ("split", "M/2"), ("split", "M,N=2"), ("flatten", "M,N"), ("flatten", "G=K,N"),
    ("linearise", "K"), ("delay", "K"), ("delay", "ZT=K@C"),
]  # fmt: skip
STEPS += [
    ("split", "K=3"), ("split", "M=4,2"), ("split", "K=0"), ("linearise", "X=M"), ("flatten", "M,M"),
    ("split", "K1=1"), ("delay", "K1@C"),
]  # fmt: skip


@drawn(partition_step)
def _(rng):
    steps = []
    for _ in range(rng.choice((1, 1, 2, 3))):
        kind, text = rng.choice(STEPS)
        steps.append((kind, mutate.text_of(rng, text).strip() if rng.random() < 0.4 else text))
    return {"text": rng.choice((seeds.TINY, seeds.CHAIN)), "steps": steps, "whole": rng.random() < 0.5}


@surface(4)
def rewrite_step(call):
    spec = einmap.loads(call["text"], define=call["define"])
    tree = spec.mapping
    for step in call["steps"]:
        tree = rewritten(tree, spec.workload, step)
    einmap.evaluate(spec, tree)
    dump_mapping(tree)


LOOPS = {
    "interchange": 2, "split": 1, "fuse": 1, "tile": 1, "hoist": 0, "sink": 0, "bypass": 0, "keep": 0, "merge": 0,
    "distribute": 1, "initial": 1, "group": 0, "ungroup": 0, "pipeline": 0, "sequence": 0,
}  # fmt: skip
WORDS = [
    "m#0",
    "m#99999999999",
    "nodes[99]",
    "nodes[4].nodes[0]",
    "0",
    "-1",
    "T:2,C:4",
    "A@",
    "@",
    "K",
    "X",
    "1" * 5000,
    "A@Nowhere",
    "above",
    "below",
]


@drawn(rewrite_step)
def _(rng):
    text, define = rng.choice([(seeds.BASE, {}), *seeds.mapped()])
    loops, holders = seeds.nodes_of(text)
    steps = []
    for _ in range(rng.choice((1, 1, 2))):
        kind = rng.choice(sorted(LOOPS))
        words = [rng.choice(loops) for _ in range(LOOPS[kind])]
        if kind in {"split", "tile"}:
            words.append(rng.choice(("1", "2", "4", "8", "16")))
        if kind in {"hoist", "sink", "bypass", "keep"}:
            words.append(rng.choice(holders))
        if kind == "keep" or (kind in {"hoist", "sink"} and rng.random() < 0.3):
            words += [
                {"hoist": "above", "sink": "below"}.get(kind) or rng.choice(("above", "below")),
                rng.choice(loops),
            ]
        if rng.random() < 0.2 and words:
            words[rng.randrange(len(words))] = rng.choice(WORDS)
        step = " ".join([kind, *words])
        steps.append(mutate.text_of(rng, step) if rng.random() < 0.1 else step)
    return {"text": text, "define": define, "steps": steps}


@surface(4)
def command_line(call):
    with placed(call["files"]):
        main(call["args"])


COMMANDS = [
    ["evaluate", "A"], ["evaluate", "A", "--json"], ["evaluate", "A", "--semantics", "accelforge"], ["dump", "A"], ["show", "A"], ["show", "A", "-o", "-"],
    ["explain", "A"], ["emit", "A", "--lang", "c"], ["emit", "A", "--lang", "python"], ["diff", "A", "B"], ["diff", "B", "A", "--json"],
    ["rewrite", "A", "--do", "split m 1"], ["partition", "A", "--split", "K=2"], ["partition", "A", "--print", "loops"], ["schema", "arch"],
    ["examples", "--json"], ["run", "A", "--dry-run"], ["plan-matmul", "8", "8", "8", "--dtype", "fp32", "--machine", "cpu_core"],
    ["map", "A", "--time-limit", "0.2", "--max-evaluations", "50"], ["evaluate", "A", "-D", "M=4"], ["partition", "A", "--delay", "K"],
    ["show", "A", "--costs"], ["map", "A", "--option", "max_fused_loops=1", "--time-limit", "0.2"],
]  # fmt: skip


@drawn(command_line)
def _(rng):
    args = list(rng.choice(COMMANDS))
    if rng.random() < 0.4:
        at = rng.randrange(1, len(args)) if len(args) > 1 else 0
        args[at] = rng.choice((mutate.text_of(rng, args[at]).strip("\n"), mutate.odd(rng), "--help", "-o"))[:3000]
    text = rng.choice((seeds.BASE, seeds.TINY, seeds.CHAIN))
    files = {"A": text if rng.random() < 0.3 else mutate.text_of(rng, text), "B": mutate.text_of(rng, seeds.BASE)}
    return {"files": files, "args": args}


@contextlib.contextmanager
def placed(files):
    """Files in a folder of their own, which is the working folder."""
    import tempfile

    with tempfile.TemporaryDirectory() as name, contextlib.chdir(name):
        for file, text in files.items():
            Path(file).write_text(text, encoding="utf-8", errors="replace")
        yield Path(name)


def misbehaving(call):
    """Not a surface: what the limits are for."""
    if call["how"] == 0:
        while True:
            pass
    if call["how"] == 1:
        return bytearray(4 * 10**9)
    os._exit(3)


make["misbehaving"] = misbehaving


def call_of(seed, index, name=None):
    """The surface, drawn unless named, and the call of a number."""
    rng = random.Random(f"{seed}/{index}")
    name = name or rng.choices(list(SHARES), list(SHARES.values()))[0]
    if name == "misbehaving":
        return name, {"how": index}
    return name, draw[name](rng)


WRITTEN = {"specification_text", "specification_tree", "template", "expression", "einsum_string", "mapping"}
"""Surfaces where whatever is refused was written by the caller: every error names the place."""


class Wrong(Exception):
    """A call ended as it must not."""


MOST = 30_000
"""Characters of an error. One line for each of the problems of a file, and there may be many."""
PRINTED = 1_000_000


def ended(name, call):
    """`result` or `error`; whatever else comes of a call is an exception."""
    out, err = io.StringIO(), io.StringIO()
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            make[name](call)
    except EinmapError as error:
        text = str(error)
        if not text.strip() or len(text) > MOST or any(not c.isprintable() and c != "\n" for c in text):
            raise Wrong(f"an error of {len(text)} characters: {text[:300]!r}") from error
        if name in WRITTEN and not all(single.at and str(single.at) for single in getattr(error, "problems", (error,))):
            raise Wrong(f"an error without a place: {text[:300]!r}") from error
        return "error"
    except SystemExit as end:
        said = out.getvalue() + err.getvalue()
        if end.code not in {0, 2, None} or len(said) > PRINTED or any(not c.isprintable() and c != "\n" for c in said):
            raise Wrong(f"status {end.code}, {len(said)} characters: {said[-300:]!r}") from end
        return "error" if end.code == 2 else "result"
    return "result"
