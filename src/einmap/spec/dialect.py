"""Which of the two spellings in circulation an architecture is written in.

They differ in names, which are read side by side, and in one default: what `may_reuse` is when only
`reuse` is given. So the dialect matters only there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal

from einmap.errors import SpecError, did_you_mean
from einmap.spec.raw import Raw, RawList, RawMap, RawScalar, tag_of

type Dialect = Literal["older", "newer"]

_OLDER_LATENCY = re.compile(r"\b(\w+_(latency|actions)|action2latency)\b")
_NEWER_TAGS = {"Container", "Network", "Array"}
_NEWER_KEYS = {
    "throughput", "throughput_scale", "values_per_action", "actions_scale", "skip_initial_output_write",
    "no_resend_to_below", "forked_power_gateable", "non_forked_power_gateable", "bits_per_value",
}  # fmt: skip


def dialect_of(arch: Raw | None, wanted: str = "auto") -> Dialect:
    """`wanted` (`config.dialect`) or, for `auto`, what the architecture uses.

    Older: `!Fanout`, an action's `latency`, or names such as `read_latency` in `total_latency`, unless
    something that only the newer dialect has stands beside it.
    """
    match wanted:
        case "older":
            return "older"
        case "newer":
            return "newer"
    if wanted != "auto":
        raise SpecError(f"unknown dialect {wanted!r}", hint=did_you_mean(wanted, ["auto", "older", "newer"]))
    marks = set(_marks(arch)) if arch is not None else set()
    return "older" if "older" in marks and "newer" not in marks else "newer"


def _marks(raw: Raw, key: str = "", tag: str = "") -> Iterator[Dialect]:
    match raw:
        case RawMap():
            own = tag_of(raw)
            tag = own or tag
            if own == "Fanout":
                yield "older"
            if own in _NEWER_TAGS:
                yield "newer"
            for name, value in raw.items:
                if name in _NEWER_KEYS or (name == "direction" and isinstance(value, RawMap)):
                    yield "newer"
                if key == "actions" and name == "latency" and tag != "Network":
                    yield "older"
                if name in ("bits_per_value_scale", "latency_scale"):
                    yield "older"
                yield from _marks(value, name, tag)
        case RawList(items=items):
            for item in items:
                yield from _marks(item, key, tag)
        case RawScalar(value=str(text)) if key == "total_latency":
            if "n_calls" in text:
                yield "newer"
            elif _OLDER_LATENCY.search(text):
                yield "older"
        case _:
            return
