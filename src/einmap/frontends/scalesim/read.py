"""SCALE-Sim's files -> workload.yaml, architecture.yaml and mapping.yaml."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from einmap.errors import At, Note, SpecError
from einmap.frontends.foreign import Report, Translation
from einmap.frontends.scalesim.array import BUFFERS, architecture
from einmap.frontends.scalesim.config import Config, read_config
from einmap.frontends.scalesim.folds import mapping, tensors
from einmap.frontends.scalesim.topology import Layer, read_topology
from einmap.frontends.yaml.dump import to_yaml
from einmap.spec.raw import from_python

_WORD = 8
_CLOCK_NOTE = "SCALE-Sim counts cycles: they take 1 ns each, which `arch.variables.CLOCK` of architecture.yaml changes"
_LESS_NOTE = "SCALE-Sim reports one cycle less for each layer than its folds take"
_ENERGY_NOTE = "SCALE-Sim gives no energies: all cost 0 J until components have a class or numbers of their own"


def read(files: Sequence[Path], *, define: Mapping[str, object], root: Sequence[Path], bits: int | None) -> Translation:
    """Translation of a configuration (`.cfg`), a topology (`.csv`), or both.

    A topology alone gives convolutions as they are; with a configuration, the products that the array sees (windows
    laid out as rows), and the mapping that its dataflow stands for. The files have no templates and include nothing, so
    `define` and `root` must be empty; a value has 8 `bits` where they are not given. Raises SpecError with the place.
    """
    for option, value in (("-D", define), ("--root", root)):
        if value:
            raise SpecError(f"{option} has no meaning for SCALE-Sim's files, which have no templates")
    report = Report()
    config: Config | None = None
    layers: tuple[Layer, ...] = ()
    for file in files:
        kind = file.suffix.lower()
        if kind not in (".cfg", ".csv"):
            hint = "a configuration ends in .cfg, a topology in .csv"
            raise SpecError("this is not a file of SCALE-Sim", at=At(str(file)), hint=hint)
        if config if kind == ".cfg" else layers:
            raise SpecError(
                f"a second {'configuration' if kind == '.cfg' else 'topology'}",
                at=At(str(file)),
                hint="import them one by one; layouts of buffers are not read",
            )
        if kind == ".cfg":
            config = read_config(file, report)
        else:
            layers = read_topology(file, report)
    width = bits or _WORD
    texts: dict[str, object] = {}
    if layers:
        texts["workload.yaml"] = {"workload": _workload(layers, width, as_products=config is not None)}
    if config is not None:
        texts["architecture.yaml"] = {"arch": architecture(config, width)}
        report.notes += [Note(text, kind="advice") for text in (_CLOCK_NOTE, _LESS_NOTE, _ENERGY_NOTE)]
    if config is not None and layers:
        section, small = mapping(layers, config)
        if small:
            names = ", ".join(BUFFERS[role] for role in small)
            report.leave(
                config.at, "Dataflow", f"one half of {names} is less than a fold needs, so no mapping is written"
            )
        else:
            texts["mapping.yaml"] = {"mapping": section}
    head = "# from SCALE-Sim's files, written by einmap\n"
    return report.counted({name: head + to_yaml(from_python(tree)) for name, tree in texts.items()})


def _workload(layers: tuple[Layer, ...], bits: int, *, as_products: bool) -> dict[str, object]:
    einsums = [_product(layer) if as_products else _convolution(layer) for layer in layers]
    return {"bits_per_value": {"All": bits}, "einsums": einsums}


def _product(layer: Layer) -> dict[str, object]:
    names = tensors(layer)
    m, n, k = map(layer.variable, "mnk")
    text = f"{names['output']}[{m}, {n}] = {names['input']}[{m}, {k}] * {names['weight']}[{k}, {n}]"
    return _einsum(layer, text, layer.product)


def _convolution(layer: Layer) -> dict[str, object]:
    if layer.height == layer.width == layer.stride == layer.outputs[1] == 1:
        return _product(layer)
    names, step = tensors(layer), f"{layer.stride}*" if layer.stride > 1 else ""
    n, p, q, c, r, s = map(layer.variable, "npqcrs")
    window = f"H{layer.number}: {step}{p} + {r}, W{layer.number}: {step}{q} + {s}"
    text = f"{names['output']}[{n}, {p}, {q}] = {names['input']}[{c}, {window}] * {names['weight']}[{n}, {c}, {r}, {s}]"
    sizes = {"n": layer.filters, "p": layer.outputs[0], "q": layer.outputs[1]}
    sizes |= {"c": layer.channels, "r": layer.height, "s": layer.width}
    return _einsum(layer, text, sizes)


def _einsum(layer: Layer, text: str, sizes: Mapping[str, int]) -> dict[str, object]:
    names = tensors(layer)
    result: dict[str, object] = {
        "einsum": text,
        "iteration_space_shape": [f"0 <= {layer.variable(v)} < {size}" for v, size in sizes.items()],
        "renames": {"input": names["input"], "weight": names["weight"], "output": "Outputs"},
    }
    return {**result, "n_instances": layer.instances} if layer.instances > 1 else result
