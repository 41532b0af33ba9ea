"""All operators of ATen that are read, by name."""

from __future__ import annotations

from collections.abc import Mapping

from einmap.frontends.torch.operators.call import Rule
from einmap.frontends.torch.operators.contractions import CONTRACTIONS
from einmap.frontends.torch.operators.creation import CREATION
from einmap.frontends.torch.operators.layout import LAYOUT
from einmap.frontends.torch.operators.lookups import LOOKUPS
from einmap.frontends.torch.operators.pointwise import POINTWISE
from einmap.frontends.torch.operators.recurrent import RECURRENT
from einmap.frontends.torch.operators.reductions import REDUCTIONS
from einmap.frontends.torch.operators.states import STATES
from einmap.frontends.torch.operators.windows import WINDOWS

OPERATORS: Mapping[str, Rule] = {
    **POINTWISE,
    **LAYOUT,
    **LOOKUPS,
    **STATES,
    **CREATION,
    **CONTRACTIONS,
    **RECURRENT,
    **REDUCTIONS,
    **WINDOWS,
}
"""By the name of the operator, without its overload."""
