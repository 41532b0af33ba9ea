"""`einmap import`: a model (ONNX, PyTorch, TFLite, Hugging Face), or files of another tool, as a specification."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any

from einmap.cli.commands.exchange.folder import Folder
from einmap.cli.commands.exchange.formats import HUGGINGFACE, ONNX, TORCH, reader
from einmap.cli.commands.exchange.summary import check_complete, left_out_table, model_summary
from einmap.cli.inputs import Templates, definitions, reading_inputs
from einmap.cli.options import INPUT, Without, argument, flag, force_option, group, option, output_option, several
from einmap.cli.output import print_file, print_hint, print_notes, print_report
from einmap.cli.writing.target import Target
from einmap.errors import SpecError
from einmap.frontends.foreign import GIVEN_FILE, Translation
from einmap.frontends.huggingface.model import summary
from einmap.frontends.huggingface.read import read_model
from einmap.frontends.onnx.read import from_onnx
from einmap.frontends.tflite.read import from_tflite
from einmap.frontends.torch.read import from_torch
from einmap.frontends.yaml.spec import dump


@group
class Options:
    """Files to read, and where to write the specification."""

    files: list[Path] = argument(
        "FILES", "A model, FILE.onnx, FILE.pt2 or FILE.tflite; with --from a config.json, files of other tools."
    )
    from_: str = option(
        "onnx|torch|huggingface|scalesim|stream|timeloop|zigzag",
        "The format of FILES.",
        "--from",
        default=ONNX,
        panel=INPUT,
    )
    batch: int | None = option(
        "N", "The first dimension of every input of a model; sequences.", shown="as in the model", min=1, panel=INPUT
    )
    value: list[str] = several(
        "NAME=VALUE",
        "Value of an input of a model, by which control flow is known: a number, or a list; repeatable.",
        panel=INPUT,
    )
    instances: bool = flag("Equal layers of a model in ONNX or PyTorch are one, with n_instances.", panel=INPUT)
    bits: int | None = option("N", "Bits of every number.", shown="as the files say", min=1, max=1024, panel=INPUT)
    strict: bool = flag("Operators without Einsum form, and all that has no counterpart, are an error.", panel=INPUT)
    output: Path | None = output_option(
        "Write there: the workload of a model to a file, others into a folder; and print what became of them.",
        "OUT",
        shown="print the specification",
    )
    force: bool = force_option()


def import_files_command(options: Options, templates: Annotated[Templates, Without({"allow_code", "top_key"})]) -> None:
    """Read a model, or files of another tool, and write them as a specification.

    A model becomes a cascade of Einsums; its weights are not loaded, and nothing of it is executed. FILE.pt2 is what
    torch.export.save writes; it is read without PyTorch. -D gives sizes to
    dimensions that it leaves open, by the names that it has for them; --value gives inputs a value, by which an `If`
    takes its branch. Operators without Einsum form end the cascade and begin it again: they are listed
    with counts. Of Hugging Face a `config.json` is enough: it becomes one step of the model, by -D tokens=1, context=9,
    weight_bits, activation_bits, cache_bits, unrolled=1 (layers one by one). Files of another tool become
    workload.yaml, architecture.yaml and mapping.yaml; what has no counterpart is listed.

    Example: einmap import resnet50.onnx --batch 1 -o resnet50.yaml

    Example: einmap import vit.pt2 -D batch=8 -o vit.yaml

    Example: einmap import config.json --from huggingface --batch 8 -D context=4096 -o decode.yaml

    Example: einmap import --from timeloop arch.yaml problem.yaml mapping.yaml -o imported
    """
    files, define = options.files, templates.define
    if options.from_ in _MODELS:
        if len(files) != 1:
            raise SpecError(f"a model is one file, {len(files)} are given", hint="files of other tools need --from")
        _MODELS[options.from_](files[0], options, define)
        return
    read = reader(options.from_)
    if options.batch is not None:
        raise SpecError("--batch is for models", hint="change the problem's size in its file")
    _not_of_others(options)
    folder = Folder.of(options.output, options.force)
    with reading_inputs(define) as noted:
        result = read(files, define=definitions(define), root=templates.root, bits=options.bits)
    if options.strict:
        check_complete(result)
    show_translation(result, folder, noted.files)


def show_translation(result: Translation, folder: Folder | None, inputs: list[Path]) -> None:
    """Write the files of a translation and what is left out, or print them as one text."""
    if folder is None:
        parts = {name: text for name, text in result.files.items() if name != GIVEN_FILE}
        print_file("\n".join(parts.values()))
        if GIVEN_FILE in result.files:
            print_hint(f"{GIVEN_FILE}, for einmap map --given, is written with -o DIR alone")
        for entry in result.left_out:
            print_hint(f"{entry.at}: {entry.key} is left out: {entry.reason}")
    else:
        folder.write(result.files, inputs)
        if result.left_out:
            print_report(left_out_table(result.left_out))
        print_hint(f"wrote {', '.join(str(folder.path / name) for name in result.files)}")
    print_notes(result.notes)


def _import_model(model: Path, options: Options, define: list[str]) -> None:
    values = definitions(options.value, "--value", "use_cache_branch=1")
    is_torch = options.from_ == TORCH or model.suffix.lower() == ".pt2"
    target = Target.of(options.output, options.force, [model])
    with reading_inputs(define, target):
        batch, bits, strict = options.batch, options.bits, options.strict
        if model.suffix.lower() == ".tflite":
            _not_of_others(options)
            result = from_tflite(model, batch=batch, bits=bits, strict=strict)
        else:
            how: dict[str, Any] = {"bits": bits, "strict": strict, "instances": options.instances, "batch": batch}
            if is_torch:
                _not_of_others(options, "-D gives sizes", also=False)
            read = from_torch if is_torch else partial(from_onnx, values=values)
            result = read(model, dimensions=definitions(define), **how)
    text = f"# {model.name}, imported by einmap\n{dump(result.spec)}"
    if target is None:
        print_file(text)
    else:
        target.write(text)
        print_report(model_summary(result))
        print_hint(f"wrote {target.path}")
    print_notes(result.notes)


def _not_of_others(options: Options, hint: str | None = None, *, also: bool = True) -> None:
    """Raise SpecError for options that models of other formats do not have; `also`: for `--instances` as well."""
    if options.value:
        raise SpecError("--value is for ONNX models", hint=hint)
    if options.instances and also:
        raise SpecError("--instances is for ONNX models and PyTorch's", hint=hint)


def _import_config(config: Path, options: Options, define: list[str]) -> None:
    _not_of_others(options, "-D gives batch, tokens, context")
    if options.batch is not None:
        define = [*define, f"batch={options.batch}"]
    target = Target.of(options.output, options.force, [config])
    with reading_inputs(define, target):
        model = read_model(config, definitions(define), options.bits)
    text = f"{summary(model)}\n{dump(model.spec)}"
    if target is None:
        print_file(text)
    else:
        target.write(text)
        print_hint(f"wrote {target.path}")
    print_notes(model.notes)


_MODELS = {ONNX: _import_model, TORCH: _import_model, HUGGINGFACE: _import_config}
"""Formats of models, each one file."""
