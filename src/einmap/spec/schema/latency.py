"""Input models of machine facts that change how long a mapping takes."""

from __future__ import annotations

from typing import Annotated

from einmap.spec.schema.base import Expression, Input
from einmap.spec.schema.documented import documented, one_of


class PortsInput(Input):
    """`ports` of a memory: how many accesses one instance serves at a time, each as fast as `throughput` says."""

    read: Annotated[Expression, documented("Ports that serve reads alone.", 1, unit="ports")] = 0
    write: Annotated[Expression, documented("Ports that serve writes alone.", 1, unit="ports")] = 0
    read_write: Annotated[Expression, documented("Ports that serve a read or a write.", 2, unit="ports")] = 0


class BanksInput(Input):
    """`banks` of a memory: equal parts of it, each of which serves one access at a time."""

    number: Annotated[Expression, documented("Banks of one instance.", 8, unit="banks")]
    conflicts: Annotated[
        str,
        one_of(("none", "random")),
        documented(
            "Which banks the accesses of one moment fall on: `none`, different ones, as long as there are enough; "
            "`random`, any, each as likely, so that of n accesses on b banks `b * (1 - (1 - 1/b) ** n)` are served on "
            "average.",
            "random",
        ),
    ] = "none"
