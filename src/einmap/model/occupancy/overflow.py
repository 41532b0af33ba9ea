"""Messages where tiles do not fit into a memory."""

from __future__ import annotations

from collections.abc import Callable

from einmap.errors import At, CapacityError
from einmap.mapping.nodes import Address, format_address
from einmap.model.occupancy.lifetimes import Peak


def overflow(over: list[tuple[str, Peak]], where: Callable[[Address], At]) -> CapacityError:
    """The error for memories that are too small: the fullest one, tensor by tensor, and which others overflow too."""
    name, peak = max(over, key=lambda item: item[1].bits / max(item[1].memory.size_bits, 1))
    largest = max(peak.live, key=lambda b: b.bits)
    shares = ", ".join(
        f"{b.tensor} {_shown(b.bits)} ({format_address(b.address)})" for b in sorted(peak.live, key=lambda b: -b.bits)
    )
    others = [f"{n} ({_shown(p.bits)} of {_shown(p.memory.size_bits)})" for n, p in over if n != name]
    return CapacityError(
        f"memory {name!r} needs {_shown(peak.bits)} bits while Einsum {peak.einsum!r} runs, it holds "
        f"{_shown(peak.memory.size_bits)}{' in each half' * (peak.memory.buffering == 'double')}: {shares}"
        + (f"; also too small: {', '.join(others)}" if others else ""),
        component=name,
        needed_bits=peak.bits,
        capacity_bits=peak.memory.size_bits,
        at=where(largest.address),
        hint=f"choose a smaller tile shape above the storage of {largest.tensor}, or let it bypass {name}",
    )


def _shown(bits: float) -> str:
    return f"{int(bits):,}" if abs(bits) < 1e15 and bits == int(bits) else f"{bits:,}"
