"""Set expressions: sets of the tensors, or of the rank variables, of one Einsum."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from einmap.errors import ExpressionError, InvariantError, did_you_mean
from einmap.expressions.records import HasAttributes
from einmap.visible import short

type Kind = Literal["tensors", "rank variables"]
type Names = frozenset[str]

SET_NAMES = (
    "All", "Tensors", "Inputs", "Outputs", "Intermediates", "Shared", "Persistent", "Nothing", "Above", "Other",
)  # fmt: skip
"""Sets that every Einsum has; `Above` and `Other` in some fields only."""

_ATTRIBUTES = ("bits_per_value", "last_rank_variables", "rank_variables", "tensors")


@dataclass(frozen=True, slots=True)
class SetInfo:
    """Facts of an Einsum that its sets know: rank variables and bits of each tensor, and all rank variables.

    `bits` has no entry for tensors whose bits are not known yet. `last`: the rank variables of each tensor's last rank.
    """

    tensor_rank_variables: tuple[tuple[str, Names], ...] = ()
    bits: tuple[tuple[str, float], ...] = ()
    rank_variables: Names = frozenset()
    last: tuple[tuple[str, Names], ...] = ()

    @staticmethod
    def of(
        tensor_rank_variables: Mapping[str, Names],
        bits: Mapping[str, float],
        rank_variables: Names,
        last: Mapping[str, Names] | None = None,
    ) -> SetInfo:
        """From dictionaries by tensor."""
        indexed = tuple(tensor_rank_variables.items())
        return SetInfo(indexed, tuple(bits.items()), rank_variables, tuple((last or {}).items()))


@dataclass(frozen=True, slots=True)
class NameSet:
    """Some tensors, or some rank variables, of one Einsum; `universe` is all of them there.

    Two sets are equal when kind and members are. Calling a set gives the set: `Outputs()`.
    """

    members: Names
    universe: Names = field(compare=False)
    kind: Kind
    info: SetInfo = field(default=SetInfo(), compare=False, repr=False)
    holder: HasAttributes | None = field(default=None, compare=False, repr=False)
    """The memory or toll that holds exactly these tensors: `GLB` is a set, and `GLB.size` a field."""

    def __post_init__(self) -> None:
        if not self.members <= self.universe:
            raise InvariantError(f"{self} has members outside of its universe {sorted(self.universe)}")

    def with_members(self, members: Names) -> NameSet:
        """Other members of the same universe."""
        return NameSet(members, self.universe, self.kind, self.info)

    def __and__(self, other: object) -> NameSet:
        return self.with_members(self.members & self._alike(other))

    def __or__(self, other: object) -> NameSet:
        return self.with_members(self.members | self._alike(other))

    def __sub__(self, other: object) -> NameSet:
        return self.with_members(self.members - self._alike(other))

    def __xor__(self, other: object) -> NameSet:
        return self.with_members(self.members ^ self._alike(other))

    def __invert__(self) -> NameSet:
        return self.with_members(self.universe - self.members)

    def __contains__(self, item: object) -> bool:
        """`A in Inputs`: a subset test; a text is looked for among the members."""
        return item in self.members if isinstance(item, str) else self._alike(item) <= self.members

    def __len__(self) -> int:
        return len(self.members)

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self.members))

    def __call__(self) -> NameSet:
        """The set itself."""
        return self

    def __str__(self) -> str:
        return f"{{{', '.join(self)}}}"

    def _alike(self, other: object) -> Names:
        if not isinstance(other, NameSet):
            raise ExpressionError(f"expected {self.kind}, got {short(other)}")
        other.expect(self.kind)
        if other.universe != self.universe:
            raise ExpressionError(f"{self} and {other} belong to different Einsums")
        return other.members

    def expect(self, kind: Kind) -> NameSet:
        """This set, when it is of that kind. Raises ExpressionError."""
        if self.kind != kind:
            hint = "use `.rank_variables`" if kind == "rank variables" else None
            raise ExpressionError(f"expected {kind}, got {self.kind} {self}", hint=hint)
        return self

    @property
    def tensors(self) -> NameSet:
        """This set of tensors itself; of a set of rank variables all tensors that one of them indexes."""
        if self.kind == "tensors":
            return self
        indexed = {t: variables for t, variables in self.info.tensor_rank_variables if variables & self.members}
        universe = frozenset(t for t, _ in self.info.tensor_rank_variables)
        return NameSet(frozenset(indexed), universe, "tensors", self.info)

    @property
    def rank_variables(self) -> NameSet:
        """All rank variables that index the tensors of this set."""
        return self._variables(dict(self.expect("tensors").info.tensor_rank_variables))

    @property
    def last_rank_variables(self) -> NameSet:
        """The rank variables of the last rank of each tensor of this set, whose neighbours are neighbours in memory."""
        return self._variables(dict(self.expect("tensors").info.last))

    def _variables(self, indexed: Mapping[str, Names]) -> NameSet:
        variables = frozenset[str]().union(*(indexed.get(tensor, frozenset()) for tensor in self.members))
        return NameSet(variables, self.info.rank_variables, "rank variables", self.info)

    @property
    def bits_per_value(self) -> float:
        """Bits of one value of the only tensor of this set. Raises ExpressionError for any other number."""
        self.expect("tensors")
        if not self:
            raise ExpressionError(
                "bits_per_value of an empty set: needs exactly one tensor",
                hint="where x may be empty use `x.bits_per_value if x else 0`",
            )
        if len(self) > 1:
            raise ExpressionError(f"bits_per_value needs exactly one tensor, got {self}")
        (tensor,) = self.members
        bits = dict(self.info.bits)
        if tensor not in bits:
            raise ExpressionError(
                f"bits_per_value of {tensor} is not known here",
                hint="expressions of `arch` may use it; those of the workload and of renames may not",
            )
        return bits[tensor]

    def expression_attribute(self, name: str) -> object:
        """The attributes above, or one of the holder's. Raises ExpressionError for any other name."""
        match name:
            case "tensors":
                return self.tensors
            case "rank_variables":
                return self.rank_variables
            case "last_rank_variables":
                return self.last_rank_variables
            case "bits_per_value":
                return self.bits_per_value
            case _ if self.holder is not None:
                return self.holder.expression_attribute(name)
            case _:
                hint = did_you_mean(name, _ATTRIBUTES, listing="attributes")
                raise ExpressionError(f"a set has no attribute {name!r}", hint=hint)
