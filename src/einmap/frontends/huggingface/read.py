"""The entrance: a `config.json` or a dictionary of its fields, and the step that is asked for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from einmap.errors import EinmapError, SpecError, did_you_mean, raise_all
from einmap.frontends.files import reading
from einmap.frontends.huggingface.config import WIDEST, read_config
from einmap.frontends.huggingface.description import Description
from einmap.frontends.huggingface.einsums import Step, Widths
from einmap.frontends.huggingface.families import description_of
from einmap.frontends.huggingface.model import LanguageModel, model_of
from einmap.frontends.huggingface.multimodal import LEFT_OUT, text_of
from einmap.frontends.huggingface.sizes import quantised_bits
from einmap.visible import short

PARAMETERS = {
    "batch": (1, 2**20),
    "tokens": (1, 2**30),
    "context": (0, 2**30),
    "weight_bits": (1, WIDEST),
    "activation_bits": (1, WIDEST),
    "cache_bits": (1, WIDEST),
    "unrolled": (0, 1),
}
"""Names that -D may have, with the least and largest value."""


def from_huggingface(
    config: str | Path | Mapping[str, object],
    *,
    batch: int = 1,
    tokens: int = 1,
    context: int = 0,
    weight_bits: int | None = None,
    activation_bits: int | None = None,
    cache_bits: int | None = None,
    unrolled: bool = False,
) -> LanguageModel:
    """One step of a language model from its `config.json`, or from a dictionary with its fields.

    `tokens` new positions of each of `batch` sequences, after `context` cached ones: a decode step with one token, a
    chunk of a prompt with several. The cache is an input; new rows are written to the outermost memory. `weight_bits`:
    of linear layers, in place of what `quantization_config` or `dtype` says; embeddings, heads, norms, biases and
    routers keep `dtype`; `activation_bits`, `cache_bits`: in place of `dtype`. Equal layers are one with instances,
    unless they are `unrolled`. Nothing is downloaded, weights are not needed.

    Raises SpecError with the place for fields that are unknown, wrong or missing, and for steps that do not fit.
    """
    check(batch=batch, tokens=tokens, context=context)
    made, widths = described(config, weight_bits, activation_bits, cache_bits)
    return model_of(made, Step(batch, tokens, context), widths, unrolled=unrolled)


def described(
    config: str | Path | Mapping[str, object],
    weight_bits: int | None = None,
    activation_bits: int | None = None,
    cache_bits: int | None = None,
) -> tuple[Description, Widths]:
    """Description of a model, and bits of its values; parameters as `from_huggingface` has them. Raises SpecError."""
    check(weight_bits=weight_bits, activation_bits=activation_bits, cache_bits=cache_bits)
    fields = read_config(config)
    text = text_of(fields)
    fields = text or fields
    quantised, of_experts = quantised_bits(fields) if weight_bits is None else (None, None)
    made = description_of(fields)
    made = replace(made, left_out=LEFT_OUT) if text is not None else made
    widths = Widths(
        weights=weight_bits or quantised or made.bits,
        others=made.bits,
        activations=activation_bits or made.bits,
        cache=cache_bits or made.bits,
        experts=of_experts,
    )
    return made, widths


def check(**given: object) -> None:
    """Raise SpecError for parameters of a step, by name, that are not what `PARAMETERS` says; None: not given."""
    raise_all([error for name, value in given.items() if (error := _unfit(name, value)) is not None])


def check_each(values: Iterable[object], name: str, shown: str) -> None:
    """Raise SpecError for values of a parameter of a step that do not fit; `shown`: how the error calls them."""
    raise_all([error for value in values if (error := _unfit(name, value, shown=shown)) is not None])


def _unfit(name: str, value: object, flag: str = "", shown: str = "") -> EinmapError | None:
    least, most = PARAMETERS[name]
    if value is None or (isinstance(value, int) and not isinstance(value, bool) and least <= value <= most):
        return None
    found = short(value, 60)
    return SpecError(f"{flag}{shown or name}: expected a whole number from {least} to {most:,}, found {found}")


def read_model(file: Path, define: Mapping[str, object], bits: int | None = None) -> LanguageModel:
    """A model from a file; `define`: parameters of `from_huggingface` by name; `bits`: of all that these leave open.

    Raises SpecError with the place, for names that are not parameters too.
    """
    if (noted := reading()) is not None:
        noted.variables.update(define)
    problems: list[EinmapError] = []
    for name, value in define.items():
        if name not in PARAMETERS:
            hint = did_you_mean(name, PARAMETERS, listing="parameters")
            problems.append(SpecError(f"-D {short(name, 60)}: a model has no such parameter", hint=hint))
        elif (error := _unfit(name, value, "-D ")) is not None:
            problems.append(error)
    raise_all(problems)
    values: dict[str, int] = {name: int(str(value)) for name, value in define.items()}
    unrolled = bool(values.pop("unrolled", 0))
    if bits is not None:
        values = {"weight_bits": bits, "activation_bits": bits, "cache_bits": bits, **values}
    return from_huggingface(file, unrolled=unrolled, **values)
