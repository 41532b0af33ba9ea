"""All placements of one tensor, and the cheapest way between two of them by the values that are sent."""

from einmap import Spec
from einmap.distribute.hops.shortest import TensorPlaces, shortest_paths
from einmap.distribute.placements.blocks import offered_blocks
from einmap.distribute.placements.placement import parts_of_mesh


def places_of(mesh, sizes, placements=(), partial=()):
    """Splits in even blocks, and those of `placements`, of a tensor T with these ranks."""
    ranks = [rank for rank, _ in sizes]
    text = f"T[{', '.join(map(str.lower, ranks))}] = A[{', '.join(map(str.lower, ranks))}]"
    workload = Spec.from_dict(workload={"rank_sizes": dict(sizes), "bits_per_value": {"All": 8}, "einsums": [text]})
    asked = [("T", placement) for placement in placements]
    blocks = offered_blocks(workload.workload, mesh, {"T": dict(sizes), "A": dict(sizes)}, asked)
    splits = tuple(split for rank in ranks for split in blocks.splits["T", rank])
    over = tuple(sorted({*partial, *(axis for placement in placements for axis in placement.partial)}))
    reduction = next((placement.reduction for placement in placements if placement.partial), "sum")
    return TensorPlaces(mesh, sizes, splits, over, reduction, parts_of_mesh(one.on for one in placements))


def cheapest_route(mesh, sizes, starts, target):
    """From one of `starts` to `target`: fewest values sent, then fewest moves; None where there is no way."""
    paths = shortest_paths(places_of(mesh, sizes, (*starts, target)), lambda hop: hop.sent_values + 1e-6)
    number, end = paths.places.number, paths.places.number[target]
    start = min((number[start] for start in starts), key=lambda start: paths.distances[start, end])
    return paths.route(start, end) if paths.distances[start, end] < float("inf") else None
