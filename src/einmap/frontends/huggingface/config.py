"""The fields of a `config.json`, each checked with its place; what is unknown is refused by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from einmap.errors import At, EinmapError, SpecError, closest, did_you_mean, raise_all
from einmap.frontends.files import exists, read_text_file
from einmap.frontends.foreign import Value
from einmap.frontends.yaml.parsing.parse import parse_yaml
from einmap.spec.raw import Raw, RawMap, RawScalar, from_python
from einmap.visible import short

MOST = 2**32
"""No size of a model is larger."""
WIDEST = 1024
"""Bits of the widest value."""

_HARMLESS_BY_WHAT = {
    "names": "architectures model_type name_or_path auto_map finetuning_task task_specific_params tokenizer_class "
    "problem_type id2label label2id transformers_version unsloth_version unsloth_fixed is_llama_config",
    "widths, which are read apart": "torch_dtype dtype quantization_config",
    "tokens": "bos_token_id eos_token_id pad_token_id sep_token_id cls_token_id mask_token_id unk_token_id "
    "decoder_start_token_id",
    "how positions are turned, and how many are": "max_position_embeddings original_max_position_embeddings rope_theta "
    "rope_scaling rope_parameters rope_interleave rope_interleaved rope_local_base_freq partial_rotary_factor "
    "use_mrope",
    "training": "initializer_range initializer_cutoff_factor attention_dropout hidden_dropout hidden_dropout_prob "
    "attention_probs_dropout_prob embd_pdrop resid_pdrop resid_dropout embedding_dropout dropout classifier_dropout "
    "gradient_checkpointing pretraining_tp router_aux_loss_coef router_jitter_noise aux_loss_alpha seq_aux "
    "rescale_prenorm_residual time_step_rank time_step_min time_step_max time_step_floor time_step_limit "
    "time_step_scale time_step_init_scheme",
    "how it is run": "use_cache cache_implementation attn_implementation ep_size output_attentions "
    "output_hidden_states output_router_logits return_dict use_return_dict torchscript residual_in_fp32 fused_add_norm",
}
HARMLESS = frozenset(name for names in _HARMLESS_BY_WHAT.values() for name in names.split())
"""Fields that change neither parameters nor products nor what is moved."""


class Config:
    """A dictionary of fields. Those that nothing has asked for are refused when it is closed.

    `inside`: the field of which it is the value, if any; `outside`: fields that stand beside that one.
    """

    def __init__(self, raw: Any, file: str | None, inside: str = "", outside: frozenset[str] = frozenset()) -> None:
        top = At(file, path=inside)
        if not isinstance(raw, RawMap):
            place = getattr(raw, "at", None)
            raise SpecError("expected a dictionary of fields", at=replace(place, path=inside) if place else top)
        self._raw = raw
        self._asked: set[str] = {*HARMLESS}
        self._outside = outside
        self.top = top

    def has(self, key: str) -> bool:
        """Whether a key is there, and not null."""
        return self.get(key) is not None

    def get(self, key: str) -> Value | None:
        """The value of a key; None where it is missing or null."""
        self._asked.add(key)
        raw = self._raw.get(key)
        if raw is None or (isinstance(raw, RawScalar) and raw.value is None):
            return None
        return Value(raw, self._path(key))

    def with_fields(self, fields: Mapping[str, Raw], outside: frozenset[str] = frozenset()) -> Config:
        """A copy with other fields, too, of which those of `outside` stand beside the dictionary."""
        items = {**dict(self._raw.items), **fields}
        places = tuple(self._raw.place_of(key) for key in items)
        made = Config(replace(self._raw, items=(*items.items(),), key_at=places), self.top.file, self.top.path, outside)
        made.pass_over(self._asked)
        return made

    def pass_over(self, keys: Iterable[str]) -> None:
        """Take keys as known, whatever they say."""
        self._asked |= {*keys}

    def names(self) -> tuple[str, ...]:
        """All keys, in written order."""
        return self._raw.keys()

    def at(self, key: str) -> At:
        """The place of a field, the file where it is missing."""
        found = self.get(key)
        return replace(self.top, path=self._path(key)) if found is None else found.at

    def wrong(self, key: str, text: str, hint: str | None = None) -> SpecError:
        """An error at a field."""
        return SpecError(text, at=self.at(key), hint=hint)

    def size(self, key: str, without: int | None = None, least: int = 1, most: int = MOST) -> int:
        """A size, `without` where it is missing. Raises SpecError where it must be there."""
        found = self.get(key)
        if found is None:
            if without is None:
                raise self._missing(key, "a whole number")
            return without
        return found.integer(least, most)

    def number(self, key: str, without: float) -> float:
        """A number that is not negative."""
        found = self.get(key)
        return without if found is None else found.number()

    def flag(self, key: str, without: bool) -> bool:
        """True or false."""
        found = self.get(key)
        return without if found is None else found.flag()

    def word(self, key: str, known: Iterable[str], without: str | None = None) -> str:
        """One of some words."""
        found, words = self.get(key), [*known]
        if found is None:
            if without is None:
                raise self._missing(key, " or ".join(words))
            return without
        text = found.text()
        if text not in words:
            hint = did_you_mean(text, words, listing="known")
            raise self.wrong(key, f"{key} {short(text, 60)} is not known", hint)
        return text

    def only(self, key: str, value: object, why: str) -> None:
        """Refuse a field that has another value than the one that is imported."""
        found = self.get(key)
        if found is not None and (not isinstance(found.raw, RawScalar) or found.raw.value != value):
            shown = str(value).lower()
            raise self.wrong(key, f"{why}, expected {shown}", "leave the field out, or give it this value")

    def close(self) -> None:
        """Refuse what nothing has asked for: it may change the numbers."""
        problems: list[EinmapError] = []
        known = sorted(self._asked)
        for key in self.names():
            if key in self._asked or key.startswith("_") or not self.has(key):
                continue
            at = replace(self._raw.place_of(key) or self.top, path=self._path(key[:60]))
            guess = closest(key, known)
            meant = f"did you mean {guess!r}? " if guess else ""
            hint = f"{meant}Remove it if it changes neither sizes nor what is computed"
            text = "this field is not known for the architecture: it may change the numbers"
            problems.append(SpecError(text, at=at, hint=hint))
        raise_all(problems)

    def _path(self, key: str) -> str:
        return f"{self.top.path}.{key}" if self.top.path and key not in self._outside else key

    def _missing(self, key: str, expected: str) -> SpecError:
        others = [other for other in self.names() if other not in self._asked]
        hint = did_you_mean(key, others, listing="other fields there") if others else None
        return SpecError(f"the field {key!r} is missing, expected {expected}", at=self.top, hint=hint)


def read_config(config: str | Path | Mapping[str, object]) -> Config:
    """A `config.json`, or its content as a dictionary. Raises SpecError with the place."""
    if isinstance(config, str | Path):
        path = Path(config)
        path = path / "config.json" if path.is_dir() else path
        if not exists(path):
            hint = "nothing is downloaded: save the model's config.json, and name that file or its folder"
            raise SpecError("there is no such file", at=At(str(path)), hint=hint)
        return Config(parse_yaml(read_text_file(path), str(path)), str(path))
    if not isinstance(config, Mapping):
        raise SpecError(f"expected a path or a dictionary, found {short(config)}")
    return Config(from_python(dict(config)), None)
