"""Invariants of every result; a violation is a bug and never a number that is handed out."""

from __future__ import annotations

from einmap.arch.component import Compute
from einmap.errors import InvariantError
from einmap.model.counting.reuse import Takes
from einmap.model.counting.tiles import SKIP, Count
from einmap.model.traffic.einsum_traffic import EinsumTraffic
from einmap.model.traffic.tensor_traffic import TensorTraffic


def check_traffic(traffic: EinsumTraffic) -> None:
    """Counts are never negative, nothing is lost between levels, every element moves at its backing holder.

    Raises InvariantError naming Einsum, tensor and component.
    """
    for tensor in traffic.tensors:
        _check_tensor(traffic, tensor)


def _check_tensor(traffic: EinsumTraffic, tensor: TensorTraffic) -> None:
    name = f"Einsum {traffic.path.einsum.name!r}, tensor {tensor.access.tensor!r}"
    for exchange in tensor.exchanges:
        child, parent = (tensor.flow(exchange, at) for at in (exchange.child, exchange.parent))
        where = f"{name}, between {exchange.parent.component.name!r} and {exchange.child.component.name!r}"
        for value in (parent.live, parent.initial, parent.up):
            _require(value >= 0, f"{where}: negative count {value}")
        _require(parent.up <= child.up, f"{where}: {parent.up} write-backs arrive of {child.up} sent")
        arriving, sent = parent.live + parent.initial, child.live + child.initial
        _require(arriving <= sent, f"{where}: {sent} fills received of {arriving} read")
        if not tensor.access.output and isinstance(exchange.child.component, Compute):
            _require(
                sent == traffic.operations()[0],
                f"{where}: {sent} operands for {traffic.operations()[0]} operations",
            )
    backing = tensor.exchanges[-1]
    if not tensor.charge(backing).fills and not tensor.access.output:
        return  # another Einsum pays for the buffer that both use
    flow = tensor.flow(backing, backing.parent)
    elements = _elements(tensor, traffic)
    moved = flow.up if tensor.access.output else flow.live + flow.initial
    verb = "written" if tensor.access.output else "read"
    _require(moved >= elements, f"{name}: {moved} values {verb} at the backing holder, the tensor has {elements}")


def _elements(tensor: TensorTraffic, traffic: EinsumTraffic) -> Count:
    """Distinct elements that the Einsum touches, at least: one for each value of the fully relevant variables."""
    total: Count = 1
    everything: Takes = tuple(SKIP for _ in traffic.path.loops)
    for _, index in tensor.access.projection:
        best = max((traffic.path.einsum.extents[v] for v, _ in index.terms), default=1)
        total *= best
    variables = [v for _, index in tensor.access.projection for v, _ in index.terms]
    if len(set(variables)) < len(variables):
        return max(traffic.path.einsum.extents[v] for v in variables)
    return min(total, tensor.counts.relevant(everything))


def _require(holds: bool, text: str) -> None:
    if not holds:
        raise InvariantError(f"internal error: {text}", hint="this is a bug in einmap; please report the specification")
