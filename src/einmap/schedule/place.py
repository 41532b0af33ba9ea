"""One tensor at one storage node, with everybody who uses it there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from einmap.mapping.nodes import Address
from einmap.schedule.routes import Hold, Route

type NodeTensor = tuple[Address, str]
"""A storage node by its address, and one of the tensors that it holds."""


@dataclass(frozen=True)
class Place:
    """One tensor at one storage node, with the routes that use it in written order."""

    hold: Hold
    users: tuple[Route, ...]
    holds: Mapping[str, Hold]

    @property
    def key(self) -> NodeTensor:
        """Address and tensor."""
        return self.hold.address, self.hold.tensor

    @property
    def producer(self) -> Route | None:
        """The route below that writes the tensor."""
        return next((r for r in self.users if self.hold.tensor in r.einsum.outputs), None)

    @property
    def consumers(self) -> tuple[Route, ...]:
        """The routes below that read the tensor."""
        return tuple(r for r in self.users if self.hold.tensor in r.einsum.inputs)

    def is_backing(self) -> bool:
        """Whether the node is the tensor's outermost holder."""
        return self.users[0].holds[self.hold.tensor][0].address == self.hold.address
