"""The options of `einmap plan` as values, checked together."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from einmap.distribute.costs.cluster import Cluster, default_cluster
from einmap.distribute.costs.cost_model import PLAN_METRICS, PlanMetric
from einmap.distribute.costs.magnitudes import LARGEST
from einmap.distribute.derive import context_of
from einmap.distribute.placements.mesh import MAX_DEVICES, Mesh
from einmap.distribute.placements.request import Where, checked_request
from einmap.distribute.planner.matching_ends import matching_ends
from einmap.distribute.planner.planning import PlanRequest
from einmap.distribute.planner.read_cluster import KEY as CLUSTER_KEY
from einmap.errors import At, EinmapError, SpecError, attempt, did_you_mean, raise_all
from einmap.facade import cluster_in
from einmap.frontends.yaml.folders import FolderNames
from einmap.spec.spec import Spec
from einmap.visible import short

_UNITS = {"B": 1, **{f"{p}B": 1000 ** (i + 1) for i, p in enumerate("kMGT")}}
_UNITS |= {f"{p}iB": 1024 ** (i + 1) for i, p in enumerate("KMGT")}
LONGEST_SIZE = 20
"""Digits of a number of PEs that is read at all."""


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """Options of the command line. `memory`: bytes; `fixed`: by tensor, text of its `--fix` and placement;
    `same`: results that lie as graph inputs do, None: the default.
    """

    mesh: Mesh
    metric: PlanMetric
    memory: float | None
    fixed: Mapping[str, tuple[str, object]]
    same: Mapping[str, str] | None


def plan_options(
    mesh: str, metric: str, memory: str | None, fix: Sequence[str], same: Sequence[str] | None = None
) -> PlanOptions:
    """Options as values. Raises SpecError, all problems of the command line together."""
    problems: list[EinmapError] = []
    laid = attempt(problems, partial(mesh_of, mesh))
    known = next((one for one in PLAN_METRICS if one == metric), None)
    if known is None:
        problems.append(SpecError(f"--metrics {metric}: no such metric", hint=did_you_mean(metric, PLAN_METRICS)))
    limit = None if memory is None else attempt(problems, partial(memory_of, memory))
    fixed = attempt(problems, partial(placements_of, fix))
    ends = attempt(problems, partial(ends_of, same)) if same else None
    raise_all(problems)
    assert laid is not None
    assert known is not None
    assert fixed is not None
    return PlanOptions(laid, known, limit, fixed, ends)


def plan_request(
    spec: Spec, options: PlanOptions, cluster_file: str | None, time_limit: float, root: FolderNames = ()
) -> PlanRequest:
    """The planning request; `root`: folders of files that the cluster names. Raises SpecError, all that is wrong with
    cluster, mesh and placements together.
    """

    def locate(where: Where) -> At | None:
        return At(path=f"--fix {options.fixed[str(where[1])][0]!r}") if len(where) > 1 else None

    problems: list[EinmapError] = []
    placements = {tensor: placement for tensor, (_, placement) in options.fixed.items()}
    context = attempt(problems, partial(context_of, spec.workload, options.mesh, locate=locate))
    if context is not None:
        attempt(problems, partial(checked_request, context, placements))
        attempt(problems, partial(matching_ends, context, options.same))
    cluster = attempt(problems, partial(machine_of, spec, cluster_file, options.mesh, root))
    raise_all(problems)
    assert cluster is not None
    return PlanRequest(options.mesh, cluster, options.metric, options.memory, placements, time_limit, same=options.same)


def machine_of(spec: Spec, cluster_file: str | None, mesh: Mesh, root: FolderNames = ()) -> Cluster:
    """The cluster that was read with `--cluster` or with the workload, else the default one for the mesh.

    Raises SpecError (several problems together), also where the mesh does not lie on it.
    """
    problems: list[EinmapError] = []
    if cluster_file is not None and spec.raw.get(CLUSTER_KEY) is None:
        hint = "write the key cluster in it, or take a shipped one, such as a100_nodes"
        problems.append(SpecError(f"--cluster {cluster_file!r}: it has no key {CLUSTER_KEY!r}", hint=hint))
    given = attempt(problems, partial(cluster_in, spec, root))
    if given is not None:
        attempt(problems, partial(given.check, mesh))
    raise_all(problems)
    return given or default_cluster(mesh)


def mesh_of(text: str) -> Mesh:
    """`x=8,y=4` as a mesh. Raises SpecError (several problems together)."""
    axes: list[tuple[str, int]] = []
    problems: list[EinmapError] = []
    for part in text.split(","):
        name, _, size = (word.strip() for word in part.partition("="))
        if not (size.isascii() and size.lstrip("-").isdecimal()):
            what = f"--mesh {text!r}: {part.strip()!r} is not an axis with its PEs"
            problems.append(SpecError(what, hint="write --mesh x=8,y=4"))
        elif len(size) > LONGEST_SIZE:
            what = (
                f"--mesh: axis {name!r} has a number of {len(size):,} digits; at most {MAX_DEVICES:,} PEs are supported"
            )
            problems.append(SpecError(what, hint="plan one such part of the machine"))
        else:
            axes.append((name, int(size)))
    mesh = attempt(problems, partial(Mesh, tuple(axes))) if axes or not problems else None
    raise_all(problems)
    assert mesh is not None
    return mesh


def memory_of(text: str) -> float:
    """`16GiB` as bytes. Raises SpecError."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([A-Za-z]+)", text.strip())
    if match is None or match[2] not in _UNITS:
        raise SpecError(
            f"--memory {text!r} is not an amount of memory", hint=f"write 16GiB; units: {', '.join(_UNITS)}"
        )
    amount = float(match[1]) * _UNITS[match[2]]
    if not 1 <= amount <= LARGEST:
        what = "is less than a byte" if amount < 1 else "is more than there can be"
        raise SpecError(f"--memory {short(text)} {what}", hint="write 16GiB")
    return float(amount)


def placements_of(texts: Sequence[str]) -> dict[str, tuple[str, object]]:
    """`WQ: H=x, D=y*z` as placements, by tensor, with the text. Raises SpecError (several problems together)."""
    placements: dict[str, tuple[str, object]] = {}
    problems: list[EinmapError] = []
    for text in texts:
        tensor, colon, rest = (word.strip() for word in text.partition(":"))
        if not colon or not tensor:
            missing = "a tensor" if colon else "a colon"
            problems.append(SpecError(f"--fix {text!r}: {missing} is missing", hint="write 'WQ: H=x'"))
            continue
        placement = attempt(problems, partial(_placement_of, text, rest))
        if tensor in placements:
            hint = "write its ranks in one --fix, such as 'WQ: H=x, D=y'"
            problems.append(SpecError(f"--fix {text!r}: {tensor} is fixed twice", hint=hint))
        placements[tensor] = text, placement
    raise_all(problems)
    return placements


def ends_of(texts: Sequence[str]) -> dict[str, str]:
    """`O: X` as results with the graph inputs as which they lie; `none` for none. Raises SpecError (several problems
    together).
    """
    ends: dict[str, str] = {}
    problems: list[EinmapError] = []
    for text in texts if list(texts) != ["none"] else ():
        result, _, tensor = (word.strip() for word in text.partition(":"))
        if not result or not tensor:
            problems.append(SpecError(f"--same {text!r}: two tensors are needed", hint="write 'O: X', or none"))
        elif result in ends:
            problems.append(SpecError(f"--same {text!r}: {result} is given twice", hint="name one graph input"))
        else:
            ends[result] = tensor
    raise_all(problems)
    return ends


def _placement_of(text: str, rest: str) -> object:
    """`H=x, D=y*z`, or `replicated`, as a placement. `text`: the whole option."""
    if rest == "replicated":
        return rest
    ranks: dict[str, list[str]] = {}
    for part in rest.split(","):
        rank, equals, axes = (word.strip() for word in part.partition("="))
        if not equals or not rank:
            hint = "write 'WQ: H=x', or 'WQ: replicated'"
            raise SpecError(f"--fix {text!r}: {part.strip()!r} is not a placement", hint=hint)
        if rank in ranks:
            hint = f"write several axes of a rank as '{rank}=x*y'"
            raise SpecError(f"--fix {text!r}: rank {rank} is split twice", hint=hint)
        ranks[rank] = [axis.strip() for axis in axes.split("*")]
    return ranks
