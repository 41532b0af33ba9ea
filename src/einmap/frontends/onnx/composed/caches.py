"""Rows that are written into a cache: what is not written stays where it is."""

from __future__ import annotations

from einmap.frontends.cascade.step import NotExpressible
from einmap.frontends.onnx.composed.body import Body


def scattered(b: Body) -> None:
    """TensorScatter: rows of an update from the place on that `write_indices` says, which must be known."""
    shape, update = b.shape(0), b.shape(1, len(b.shape(0)))
    axis = b.call.axis(b.call.integer("axis", -2), len(shape))
    size, n = shape[axis], update[axis]
    others = [*shape[:axis], *shape[axis + 1 :]] == [*update[:axis], *update[axis + 1 :]]
    b.expect(others and n <= size, f"an update of the shape {[*update]} does not fit {[*shape]} along axis {axis}")
    start = 0
    if b.has(2):
        places = b.numbers(2)
        if places is None or not places.size:
            raise NotExpressible(
                "where rows are written is known only when the model runs",
                f"give the value of an input: --value {b.name(2)}=N" if b.name(2) else None,
            )
        start = int(places.reshape(-1)[0])
        if int(places.min()) != int(places.max()):
            raise NotExpressible("rows of each sequence are written at another place")
    b.expect(start >= 0, f"rows are written from {start} on")
    is_circular = b.call.text("mode", "linear") == "circular"
    start = start % size if is_circular else start
    behind = start + n - size
    b.expect(behind <= 0 or is_circular, f"{n} rows from {start} on are not in {size}")
    first, last = b.name(0), b.name(1)
    if behind > 0:  # round the end
        kept = [b.slice(first, axis, behind, start)] if behind < start else []
        parts = [b.slice(last, axis, n - behind, n), *kept, b.slice(last, axis, 0, n - behind)]
    else:
        parts = [b.slice(first, axis, 0, start)] if start else []
        parts += [last, *([b.slice(first, axis, start + n, size)] if start + n < size else [])]
    b.results[0] = b.joined(axis, *parts)
