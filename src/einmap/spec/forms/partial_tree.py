"""A partly given mapping from its raw form: per Einsum nodes in order, with `!Any {}` where nodes may be inserted."""

from __future__ import annotations

from collections.abc import Sequence

from einmap.einsum.workload import Workload
from einmap.errors import At, MappingError, NotSupportedError, did_you_mean, raise_all
from einmap.mapping.nodes import Compute, Split
from einmap.mapping.template import (
    AnyPlace,
    OpenCompute,
    OpenSpatial,
    OpenTemporal,
    PartialMapping,
    PartialNode,
    StageBegin,
)
from einmap.spec.forms.loop_tree import TreeReader
from einmap.spec.raw import Path, Raw, RawList, RawMap, place, tag_of
from einmap.spec.schema.base import Input, check
from einmap.spec.schema.mapping import (
    IGNORED,
    PARTIAL_NODES,
    AnyInput,
    LoopInput,
    MappingInput,
    PartialComputeInput,
    PipelineInput,
    SpatialLoopInput,
    TemporalInput,
)
from einmap.spec.shared_inputs import KEY as KEY_OF_COPIES

type Placed = tuple[PartialNode | LoopInput, Path]
KEYS = ("given", "mapping")


def read_given(root: Raw, workload: Workload) -> dict[str, PartialMapping]:
    """Given mapping of each Einsum.

    given: {nodes: [...]}              for the Einsum that its Compute names, or the only one; splits are allowed
    given: {EinsumA: {nodes: [...]}}   for each Einsum by itself
    mapping: {nodes: [...]}            a complete mapping of which no part is shared

    Raises SpecError and MappingError (several together).
    """
    reader = _Reader(root, workload)
    reader.top()
    raise_all(reader.problems)
    return reader.found


class _Reader(TreeReader):
    """Collects what is given, and problems."""

    def __init__(self, root: Raw, workload: Workload) -> None:
        super().__init__(root, workload.by_name)
        self.workload = workload
        self.found: dict[str, PartialMapping] = {}

    def top(self) -> None:
        root = self.root
        keys = [k for k in root.keys() if not k.startswith(("_", "x-"))] if isinstance(root, RawMap) else []  # noqa: SIM118
        if not isinstance(root, RawMap) or len(keys) != 1 or keys[0] not in KEYS:
            wrong = next((k for k in keys if k not in KEYS), None)
            text = (
                f"unknown key {wrong!r} of a given mapping"
                if wrong
                else "a given mapping has the key given, or mapping"
            )
            at = root.place_of(wrong) if isinstance(root, RawMap) and wrong else place(root, ())
            hint = did_you_mean(wrong or "", KEYS, listing="keys")
            self.problems.append(MappingError(text, at=at, hint=hint))
            return
        value, path = root.get(keys[0]), (keys[0],)
        if isinstance(value, RawMap) and value.get(KEY_OF_COPIES):
            text = "a given mapping is for each Einsum by itself, this one has copies that several of them share"
            at = place(root, (keys[0], KEY_OF_COPIES))
            self.problems.append(MappingError(text, at=at, hint="map with the option share_inputs=false first"))
            return
        if isinstance(value, RawMap) and value.get("nodes") is None and keys[0] == "given":
            for name, nodes in value.items:
                self.named(name, nodes, (*path, name), value.place_of(name))
        else:
            self.tree(value, path, None)

    def named(self, name: str, raw: Raw, path: Path, at: At | None) -> None:
        if name not in self.workload.by_name:
            hint = did_you_mean(name, self.workload.by_name, listing="Einsums")
            self.problems.append(MappingError(f"the workload has no Einsum {name!r}", at=at, hint=hint))
        else:
            self.tree(raw, path, name)

    def tree(self, raw: Raw | None, path: Path, einsum: str | None) -> None:
        """Read the tree below `given`, or below the name of an Einsum."""
        if isinstance(raw, RawList):
            self.branch(raw, path, [], einsum)
            return
        if raw is None or check(MappingInput, raw, self.root, path, self.problems, drop=("nodes",)) is None:
            if raw is None:
                self.complain("nothing is given", path)
            return
        assert isinstance(raw, RawMap)
        self.branch(raw.get("nodes"), (*path, "nodes"), [], einsum)

    def branch(self, raw: Raw | None, path: Path, above: list[Placed], einsum: str | None) -> None:
        """A list of nodes below those `above`; a split at its end has branches of its own."""
        if not isinstance(raw, RawList) or not raw.items:
            self.complain("a list of nodes is needed", path, "an !Any {} alone leaves everything free")
            return
        nodes = list(above)
        for index, item in enumerate(raw.items):
            here, tag = (*path, index), tag_of(item) or ""
            if tag in IGNORED:
                continue
            if tag in ("Sequential", "Split", "Pipeline", "Nested"):
                self.below(item, here, nodes, einsum)
                if index + 1 < len(raw.items):
                    self.complain(f"nothing may follow a {tag} in its list", (*path, index + 1))
                return
            nodes += [(node, here) for node in self.partial_node(item, here)]
        self.end(nodes, path, einsum)

    def below(self, raw: Raw, path: Path, above: list[Placed], einsum: str | None) -> None:
        inner = raw.get("nodes") if isinstance(raw, RawMap) else None
        kind = PARTIAL_NODES[tag_of(raw) or ""]
        model = check(kind, raw, self.root, path, self.problems, drop=("nodes",), node=True)
        self.unkept(model, path)
        if isinstance(model, PipelineInput):
            self.fanout_of_stages(model, path)
        if tag_of(raw) == "Nested":
            self.branch(inner, (*path, "nodes"), above, einsum)
            return
        if not isinstance(inner, RawList) or not inner.items:
            self.complain(f"{tag_of(raw)} needs a list of branches", path)
            return
        if isinstance(model, PipelineInput):
            self.stages(len(inner.items), path)
        for index, branch in enumerate(inner.items):
            here = (*path, "nodes", index)
            if tag_of(branch) != "Nested":
                self.complain(f"a branch of {tag_of(raw)} must be !Nested", here, "wrap it in !Nested")
            elif isinstance(model, PipelineInput):
                begin = StageBegin(".".join(map(str, path)), index, model.component, model.name)
                self.below(branch, here, [*above, (begin, path)], einsum)
            else:
                self.below(branch, here, above, einsum)

    def end(self, nodes: list[Placed], path: Path, einsum: str | None) -> None:
        """A whole branch: it belongs to an Einsum."""
        name = einsum or next((n.einsum for n, _ in nodes if isinstance(n, Compute | OpenCompute) and n.einsum), None)
        computing = [
            einsum.name for einsum in self.workload.einsums if not einsum.is_copy
        ] or self.workload.einsum_names
        if name is None and len(computing) == 1:
            name = computing[0]
        if self.problems:
            return
        if name is None:
            hint = "name it in the Compute, or write given: {EINSUM: {nodes: [...]}}"
            self.complain("these nodes do not say of which Einsum they are", path, hint)
        elif name not in self.workload.by_name:
            hint = did_you_mean(name, self.workload.by_name, listing="Einsums")
            self.complain(f"the workload has no Einsum {name!r}", path, hint)
        elif name in self.found:
            self.complain(f"Einsum {name!r} is given twice", path)
        else:
            resolved = [(_resolved(node, name), place(self.root, here)) for node, here in nodes]
            partial = PartialMapping(tuple(n for n, _ in resolved), tuple(at for _, at in resolved))
            others = self.workload.users.keys() - self.workload.by_name[name].tensors
            self.found[name] = partial.without(others)

    def unkept(self, model: Input | None, path: Path) -> None:
        """Refuse fields that the mapping found cannot have."""
        fields = {"text": getattr(model, "text", None)}
        if isinstance(model, TemporalInput) and model.tile_shape is None:
            fields["initial_tile_shape"] = model.initial_tile_shape
        for name, value in fields.items():
            if value is not None:
                text = f"{name} in a given mapping is not supported"
                hint = "leave it out: the mapping found does not have it"
                self.problems.append(NotSupportedError(text, at=place(self.root, (*path, name)), hint=hint))

    def partial_node(self, raw: Raw, path: Path) -> Sequence[PartialNode | LoopInput]:
        """One node; loops without a tile shape as they were written."""
        tag = tag_of(raw) or ""
        if tag not in PARTIAL_NODES:
            self.unknown(tag, path, PARTIAL_NODES)
            return ()
        model = check(PARTIAL_NODES[tag], raw, self.root, path, self.problems, node=True)
        self.unkept(model, path)
        match model:
            case None:
                return ()
            case AnyInput(temporal=temporal):
                return (AnyPlace(temporal),)
            case LoopInput() if model.tile_shape is None and model.n_iterations is None:
                self.rank_variable(model, path)
                return (model,)
            case PartialComputeInput(einsum=einsum, component=component):
                return (OpenCompute(einsum or "") if component is None else Compute(einsum or "", component),)
            case _:
                return [node for node in self.leaf(model, path) if not isinstance(node, Split)]


def _resolved(node: PartialNode | LoopInput, einsum: str) -> PartialNode:
    """The node for one Einsum."""
    match node:
        case LoopInput(rank_variable=given):
            variable = given if isinstance(given, str) else given.get(einsum, "")
            if isinstance(node, SpatialLoopInput):
                return OpenSpatial(variable, node.component, node.name)
            return OpenTemporal(variable)
        case OpenCompute(einsum=""):
            return OpenCompute(einsum)
        case Compute(einsum="", component=component):
            return Compute(einsum, component)
        case _:
            return node
