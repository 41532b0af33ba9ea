"""A specification in the other dialect: the raw tree rewritten, everything else left as it is.

!Fanout {name: X, ...}               <-> !Container {name: X, ...}
latency: 1 / (8 * 614e9)             <-> throughput: 8 * 614e9
latency_scale: 2                     <-> throughput_scale: 1 / 2
bits_per_value_scale: {output: 2}    <-> bits_per_value: {output: 2 * output.bits_per_value}
total_latency: max(read_latency, write_latency)
                                     <-> total_latency: max(a.n_calls / a.throughput for a in actions)
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from einmap.errors import At, EinmapError, ExpressionError, SpecError, raise_all
from einmap.expressions.arithmetic import evaluate, number, parse, tensor_set
from einmap.expressions.evaluator.syntax import one_line
from einmap.expressions.scope import Scope, lazy_layer
from einmap.expressions.sets import NameSet
from einmap.spec.dialects.convert_expressions import LatencyNames, reciprocal, renamed, times, without_factor
from einmap.spec.dialects.dialect import Dialect, action_names, choose_dialect
from einmap.spec.names import RESERVED
from einmap.spec.raw import FREE_FORM, Path, Raw, RawList, RawMap, RawScalar, place, tag_of, to_python

type Fields = list[tuple[str, Raw]]
type Symbols = Callable[[], Mapping[str, Mapping[str, NameSet]]]

_NEWER_DEFAULTS: Mapping[str, tuple[Any, ...]] = {
    "actions_scale": (1, "1"),
    "values_per_action": ({},),
    "skip_initial_output_write": (True,),
    "no_resend_to_below": ("~All", "Nothing"),
    "forked_power_gateable": (False,),
    "non_forked_power_gateable": (False,),
}
"""Fields that only the newer dialect has, and the values that say nothing."""

_RECIPROCALS = {
    "newer": {"latency": "throughput", "latency_scale": "throughput_scale"},
    "older": {"throughput": "latency", "throughput_scale": "latency_scale"},
}
_OTHER = re.compile(r"\bOther\b")
_NO_EXPRESSIONS = ("name", "component_class", "component_modeling_log", "direction", "operator", "type")


def translated(root: RawMap, dialect: Dialect, source: Dialect, variables: Scope, symbols: Symbols) -> RawMap:
    """The specification `root`, which means what it means in `source`, in the words of `dialect`.

    `symbols`: the names of each Einsum; called only where the text depends on them.
    Raises SpecError (several problems together) naming place and construct that `dialect` cannot express.
    """
    translator = _Translator(root, dialect, _Names(root, variables, symbols))
    done = _without_dialect(translator.spec())
    raise_all(translator.problems)
    arch = done.get("arch")
    if isinstance(arch, RawMap) and (source != dialect or choose_dialect(arch).dialect != source):
        done = _with(done, "arch", _with_may_reuse(arch, source))
    return done


def _with(raw: RawMap, key: str, value: Raw) -> RawMap:
    return replace(raw, items=tuple((k, value if k == key else v) for k, v in raw.items))


def _rebuilt(raw: RawMap, fields: Fields) -> RawMap:
    return replace(raw, items=tuple(fields), key_at=tuple(raw.place_of(key) for key, _ in fields))


def _without_dialect(root: RawMap) -> RawMap:
    """The text now says it by itself."""
    config = root.get("config")
    if not isinstance(config, RawMap) or config.get("dialect") is None:
        return root
    rest = _rebuilt(config, [(key, value) for key, value in config.items if key != "dialect"])
    if rest.items:
        return _with(root, "config", rest)
    return _rebuilt(root, [(key, value) for key, value in root.items if key != "config"])


def _with_may_reuse(raw: Raw, source: Dialect) -> Raw:
    """The default of `may_reuse` differs, so it is written out beside `reuse`."""
    match raw:
        case RawList(items=items):
            return replace(raw, items=tuple(_with_may_reuse(item, source) for item in items))
        case RawMap():
            fields = [(key, value if key in FREE_FORM else _with_may_reuse(value, source)) for key, value in raw.items]
            reuse = raw.get("reuse")
            if raw.get("fanout") is not None and reuse is not None and raw.get("may_reuse") is None:
                fields.append(("may_reuse", RawScalar("All", "All") if source == "older" else reuse))
            return _rebuilt(raw, fields)
        case _:
            return raw


class _Names:
    """Names that a text depends on: variables, and the symbols of each Einsum."""

    def __init__(self, root: RawMap, variables: Scope, symbols: Symbols) -> None:
        self.root = root
        self.variables = variables
        self._symbols = symbols
        arch = root.get("arch")
        own = arch.get("variables") if isinstance(arch, RawMap) else None
        self.own: dict[str, Any] = to_python(own) if isinstance(own, RawMap) else {}

    def scopes(self) -> list[Scope]:
        """One for each Einsum; one without symbols when there is no workload. Raises SpecError."""
        tables = self._symbols().values() if self.root.get("workload") is not None else [{}]
        return [lazy_layer(self.own, self.variables.layer(table), lambda _: None) for table in tables]

    def values(self, text: str, fields: Mapping[str, Any]) -> list[float] | None:
        """The numbers that `text` stands for in the Einsums; None where that is not known yet."""
        try:
            return [
                number(text, lazy_layer(fields, scope, lambda _: None), at=None, what="value")
                for scope in self.scopes()
            ]
        except EinmapError:
            return None

    def tensors(self, key: str, at: At) -> dict[str, bool]:
        """The tensors that a set expression selects in some Einsum, and whether in all that have them.

        Raises SpecError.
        """
        if self.root.get("workload") is None:
            text = f"which tensors {key!r} selects is known with a workload only"
            raise SpecError(text, at=at, hint="give the workload too, or name single tensors")
        selected = [tensor_set(key, scope, at=at) for scope in self.scopes()]
        tensors = sorted(frozenset().union(*(name_set.members for name_set in selected)))
        return {t: all(t in name_set.members for name_set in selected if t in name_set.universe) for t in tensors}

    def is_single(self, key: str, at: At) -> bool:
        """Whether `key` is a name of at most one tensor in every Einsum."""
        if not key.isidentifier():
            return False
        if self.root.get("workload") is None:
            return key not in RESERVED
        return all(len(tensor_set(key, scope, at=at).members) <= 1 for scope in self.scopes())


class _Translator:
    """Walks the architecture; problems are collected."""

    def __init__(self, root: RawMap, dialect: Dialect, names: _Names) -> None:
        self.root = root
        self.dialect = dialect
        self.names = names
        self.problems: list[EinmapError] = []
        self.reciprocals = _RECIPROCALS[dialect]
        self.is_newer = dialect == "newer"

    def at(self, path: Path) -> At:
        return place(self.root, path)

    def refuse(self, what: str, path: Path, hint: str | None = None) -> None:
        text = f"the {self.dialect} dialect cannot express {what}"
        self.problems.append(SpecError(text, at=self.at(path), hint=hint))

    def attempt[T](self, path: Path, call: Callable[[], T], otherwise: T) -> T:
        """The result of `call`; a problem without a place stands at `path`."""
        try:
            return call()
        except EinmapError as problem:
            problem.at = problem.at or self.at(path)
            self.problems.append(problem)
            return otherwise

    def spec(self) -> RawMap:
        arch = self.root.get("arch")
        if not isinstance(arch, RawMap):
            return self.root
        nodes = self.nodes(arch.get("nodes"), ("arch", "nodes"))
        return _with(self.root, "arch", arch if nodes is None else _with(arch, "nodes", nodes))

    def nodes(self, raw: Raw | None, path: Path) -> Raw | None:
        if not isinstance(raw, RawList):
            return raw
        return replace(raw, items=tuple(self.node(item, (*path, i)) for i, item in enumerate(raw.items)))

    def node(self, raw: Raw, path: Path) -> Raw:
        if not isinstance(raw, RawMap):
            return raw
        match tag_of(raw):
            case "Container" | "Fanout":
                return self.retagged(raw)
            case "Network" | "Array" as tag if not self.is_newer:
                self.refuse(f"!{tag}", path, "it exists in the newer dialect only")
                return raw
            case "Array":
                nodes = self.nodes(raw.get("nodes"), (*path, "nodes"))
                return raw if nodes is None else _with(raw, "nodes", nodes)
            case "Network":
                return self.network(raw, path)
            case "Memory" | "Toll" | "Compute" as tag:
                return self.component(raw, path, tag)
            case _:
                raw = self.without_newer(raw, path)
                nodes = self.nodes(raw.get("nodes"), (*path, "nodes"))
                return raw if nodes is None else _with(raw, "nodes", nodes)

    def retagged(self, raw: RawMap) -> RawMap:
        tag = "Container" if self.is_newer else "Fanout"
        return replace(raw, tag=tag) if raw.tag else _with(raw, "type", RawScalar(tag, tag))

    def without_newer(self, raw: RawMap, path: Path) -> RawMap:
        """Fields that only the newer dialect has are left out where they say nothing, else refused."""
        if self.is_newer:
            return raw
        kept: Fields = []
        for key, value in raw.items:
            if key not in _NEWER_DEFAULTS:
                kept.append((key, value))
            elif not _is_one_of(value, _NEWER_DEFAULTS[key]):
                self.refuse(f"`{key}`", (*path, key), "it exists in the newer dialect only; leave it out")
        return _rebuilt(raw, kept)

    def component(self, raw: RawMap, path: Path, tag: str) -> RawMap:
        given = self.without_newer(raw, path)
        fields: Fields = []
        for key, value in given.items:
            here = (*path, key)
            match key, value:
                case ("actions", RawList(items=items)):
                    actions = tuple(self.action(item, raw, (*here, i)) for i, item in enumerate(items))
                    fields.append((key, replace(value, items=actions)))
                case ("total_latency", RawScalar(value=str(text))):
                    names = LatencyNames(action_names(raw, tag))
                    rewrite = names.newer if self.is_newer else names.older
                    fields.append((key, self.attempt(here, partial(_rewritten, rewrite, text), value)))
                case ("tensors", RawMap()):
                    fields.append((key, self.without_newer(value, here)))
                case ("direction", RawMap()) if not self.is_newer:
                    fields.append((key, self.direction(value, here)))
                case _ if key in self.reciprocals:
                    fields.append((self.reciprocals[key], self.reciprocal(value, raw, here)))
                case _:
                    fields.append((key, value))
        fields = self.bits(fields, path)
        return self.renamed_in(_rebuilt(raw, fields), raw)

    def network(self, raw: RawMap, path: Path) -> RawMap:
        """Latency and throughput of a network are two things, so both stay as they are."""
        fields: Fields = []
        for key, value in raw.items:
            if key == "total_latency" and isinstance(value, RawScalar) and isinstance(value.value, str):
                names = LatencyNames(action_names(raw, "Network"))
                rewrite = partial(_rewritten, names.newer, value.value)
                fields.append((key, self.attempt((*path, key), rewrite, value)))
            else:
                fields.append((key, value))
        return _rebuilt(raw, self.bits(fields, path))

    def action(self, raw: Raw, component: RawMap, path: Path) -> Raw:
        if not isinstance(raw, RawMap):
            return raw
        fields: Fields = []
        for key, value in self.without_newer(raw, path).items:
            new = self.reciprocals.get(key)
            if new is None:
                fields.append((key, value))
            elif raw.get(new) is None:
                fields.append((new, self.reciprocal(value, component, (*path, key), raw)))
            elif key.endswith("_scale"):
                self.problems.append(SpecError(f"give only one of {key} and {new}", at=self.at((*path, key))))
        return self.renamed_in(_rebuilt(raw, fields), component, raw)

    def direction(self, raw: RawMap, path: Path) -> Raw:
        directions = {value.value for _, value in raw.items if isinstance(value, RawScalar)}
        if len(directions) != 1:
            self.refuse("a direction for each tensor", path, "give one direction for all, or a Toll for each")
            return raw
        return raw.items[0][1]

    def reciprocal(self, raw: Raw, component: RawMap, path: Path, action: RawMap | None = None) -> Raw:
        """1 / `raw`, where the reciprocal of 0 is infinite."""
        if not isinstance(raw, RawScalar) or raw.value is None or isinstance(raw.value, bool) or raw.value == 1:
            return raw
        text = _spelled(raw)
        fields = {**_numeric_fields(component), **(_numeric_fields(action) if action else {})}
        fields.pop(str(path[-1]))
        values = self.names.values(text, fields)
        if values and not any(values):
            return RawScalar("inf", "inf")
        is_safe = bool(values) and all(values or ())
        return self.attempt(path, lambda: _scalar(reciprocal(text, lambda _: is_safe)), raw)

    def renamed_in(self, raw: RawMap, component: RawMap, action: RawMap | None = None) -> RawMap:
        """References to the fields that have another name now."""
        hidden = to_python(action.get("extra_attributes_for_component_model") or RawMap(())) if action else {}
        owners = (component, *((action,) if action else ()))
        names = {old: new for old, new in self.reciprocals.items() if any(o.get(old) is not None for o in owners)}
        names = {old: new for old, new in names.items() if old not in hidden}
        attributes = {old: new for old, new in self.reciprocals.items() if old.endswith("_scale")}
        skip = _NO_EXPRESSIONS if action else (*_NO_EXPRESSIONS, "actions")

        def changed(value: Raw, *, is_free: bool) -> Raw:
            match value:
                case RawScalar(value=str(text)) if not (is_free and value.quoted):
                    try:
                        new = renamed(text, names, attributes)
                    except ExpressionError:  # no expression: an error of its own, whoever reads it
                        return value
                    return value if new == text else replace(value, value=new, text=new)
                case RawList(items=items):
                    return replace(value, items=tuple(changed(item, is_free=is_free) for item in items))
                case RawMap(items=pairs):
                    fields = [(k, v if k in skip else changed(v, is_free=is_free or k in FREE_FORM)) for k, v in pairs]
                    return _rebuilt(value, fields)
                case _:
                    return value

        done = changed(raw, is_free=False)
        assert isinstance(done, RawMap)
        return done

    def bits(self, fields: Fields, path: Path) -> Fields:
        """Bits of values in this holder: factors of the workload's bits in the older dialect, bits in the newer one."""
        old, new = ("bits_per_value_scale", "bits_per_value")[:: 1 if self.is_newer else -1]
        table = dict(fields).get(old)
        if not isinstance(table, RawMap):
            return fields
        none: Fields = []
        entries = self.attempt((*path, old), lambda: self.bits_entries(table, (*path, old)), none)
        present = dict(fields).get(new)
        if isinstance(present, RawMap):
            joined = RawMap((*present.items, *entries))
            return [(key, joined if key == new else value) for key, value in fields if key != old]
        added: Fields = [(new, RawMap(tuple(entries)))] if entries else []
        index = [key for key, _ in fields].index(old)
        return [*fields[:index], *added, *fields[index + 1 :]]

    def bits_entries(self, table: RawMap, path: Path) -> Fields:
        entries: Fields = []
        others = [key for key, _ in table.items if not _speaks_of_other(key)]
        for key, value in table.items:
            at = self.at((*path, key))
            if not isinstance(value, RawScalar) or (self.is_newer and value.value == 1):
                continue
            text = _spelled(value)
            rest = f"~({' | '.join(others)})" if others else "All"
            chosen = _OTHER.sub(f"({rest})", key)
            if self.names.is_single(chosen, at):
                entries.append((chosen, _scalar(self.bits_text(text, chosen))))
                continue
            tensors = self.names.tensors(chosen, at)
            for tensor, always in tensors.items():
                part = chosen if chosen.isidentifier() else f"({chosen})"
                selector = chosen if len(tensors) == 1 else tensor if always else f"{tensor} & {part}"
                entries.append((selector, _scalar(self.bits_text(text, tensor))))
        return entries

    def bits_text(self, text: str, tensor: str) -> str:
        """2 --> 2 * A.bits_per_value, and for the older dialect 16 --> 16 / A.bits_per_value; or back."""
        base = f"{tensor}.bits_per_value"
        back = without_factor(text, ast.Div if self.is_newer else ast.Mult, base)
        return back if back is not None else times(text, "*" if self.is_newer else "/", base)


def _is_one_of(raw: Raw, values: tuple[Any, ...]) -> bool:
    plain = to_python(raw)
    return any(type(plain) is type(value) and plain == value for value in values) or plain is None


def _numeric_fields(raw: RawMap) -> dict[str, Any]:
    """The fields that expressions of a component or action may use, its extra attributes among them."""
    extra = raw.get("extra_attributes_for_component_model")
    extra_fields: dict[str, Any] = to_python(extra) if isinstance(extra, RawMap) else {}
    scalars = {key: to_python(value) for key, value in raw.items if isinstance(value, RawScalar)}
    return {**extra_fields, **{key: value for key, value in scalars.items() if value is not None}}


def _spelled(raw: RawScalar) -> str:
    """A scalar as an expression, in the spelling of the user where that is one."""
    value = raw.value
    if isinstance(value, str):
        return one_line(value)
    if isinstance(value, float) and math.isinf(value):
        return "inf" if value > 0 else "-inf"
    try:
        is_spelling = evaluate(raw.text, Scope()) == value
    except EinmapError:
        is_spelling = False
    return raw.text if is_spelling else repr(value)


def _scalar(text: str) -> RawScalar:
    """An expression as a scalar; a number as that number."""
    tree = parse(text)
    is_number = isinstance(tree, ast.Constant) and type(tree.value) in (int, float)
    value = tree.value if isinstance(tree, ast.Constant) and is_number else text
    assert isinstance(value, int | float | str)
    return RawScalar(value, text)


def _rewritten(rewrite: Callable[[str], str], text: str) -> RawScalar:
    return _scalar(rewrite(text))


def _speaks_of_other(key: str) -> bool:
    return _OTHER.search(key) is not None
