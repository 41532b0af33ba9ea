"""Changes of the cascade that a mapping is made for: `mapping: {rewrites: [online_softmax P=512], nodes: ...}`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from einmap.einsum.workload import Workload
from einmap.errors import EinmapError, SpecError, did_you_mean
from einmap.spec.forms.write_workload import with_written
from einmap.spec.raw import RawMap, get_value, place, set_value, to_python
from einmap.spec.shared_inputs import without
from einmap.visible import short

if TYPE_CHECKING:
    from einmap.einsum.rewrites.steps import Step

KEY = "rewrites"
"""The key under `mapping` that holds them, as `parse_rewrite` reads them."""


def parse_rewrite(text: str) -> Step:
    """`online_softmax P=512` as a step. Raises SpecError for a step that there is not, and as `parse_step` does."""
    from einmap.einsum.rewrites.steps import USAGE, parse_step  # rarely needed

    name, _, rest = text.strip().partition(" ")
    if name not in USAGE:
        raise SpecError(
            f"{short(text)} is not a change of a cascade", hint=did_you_mean(name, USAGE, listing="changes")
        )
    return parse_step(name, rest)


def rewritten(workload: Workload, texts: Sequence[str]) -> Workload:
    """The workload after these changes. Raises SpecError, NotSupportedError."""
    from einmap.einsum.rewrites.steps import partition

    return partition(workload, map(parse_rewrite, texts)).workload


def names_rewrites(root: RawMap) -> bool:
    """Whether there is a workload, and a mapping that is made for changes of its cascade."""
    mapping = root.get("mapping")
    return root.get("workload") is not None and isinstance(mapping, RawMap) and mapping.get(KEY) is not None


def expanded(root: RawMap, workload: Workload, names: Sequence[str]) -> RawMap:
    """The raw specification of the cascade that its mapping is made for; the key is taken out.

    `workload`: that of `root`; `names`: its Einsums that stand there. Raises SpecError with the place of the change.
    """
    texts, mapping = to_python(get_value(root, ("mapping", KEY))), root.get("mapping")
    at = place(root, ("mapping", KEY))
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise SpecError(f"expected a list of changes, found {short(texts)}", at=at, hint='["online_softmax P=512"]')
    assert isinstance(mapping, RawMap)
    try:
        changed = with_written(root, workload, names, rewritten(workload, texts))
    except EinmapError as error:
        raise type(error)(error.message, at=at, hint=error.hint) from None
    bare = set_value(changed, ("mapping",), without(mapping, KEY))
    assert isinstance(bare, RawMap)
    return bare
