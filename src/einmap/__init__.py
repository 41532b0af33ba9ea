"""einmap maps Einsums onto hardware: evaluate a mapping, find the best one, show both."""

import sys
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from einmap.distribute.backends.engines import engine_named as engine_named
    from einmap.distribute.backends.jax.engine import JaxEngine as JaxEngine
    from einmap.distribute.backends.jax.engine import JaxOptions as JaxOptions
    from einmap.distribute.costs.cost import communication as communication
    from einmap.distribute.costs.cost import plan_cost as plan_cost
    from einmap.distribute.derive import distribute_workload as distribute_workload
    from einmap.distribute.pipelines.problem import PipelineProblem as PipelineProblem
    from einmap.distribute.pipelines.schedule import PipelineSchedule as PipelineSchedule
    from einmap.distribute.pipelines.search import best_pipeline as best_pipeline
    from einmap.distribute.pipelines.shipped import pipeline_schedule as pipeline_schedule
    from einmap.distribute.pipelines.table import schedule_csv as schedule_csv
    from einmap.distribute.pipelines.table import schedule_from_csv as schedule_from_csv
    from einmap.distribute.pipelines.timeline import StageCosts as StageCosts
    from einmap.distribute.pipelines.timeline import run_pipeline as run_pipeline
    from einmap.distribute.placements.mesh import Mesh as Mesh
    from einmap.distribute.plans.plan import Plan as Plan
    from einmap.distribute.read import plan_of as plan_of
    from einmap.einsum.gradients.gradient import Gradient as Gradient
    from einmap.einsum.gradients.gradient import gradient as gradient
    from einmap.einsum.notation.pretty import pretty_einsums as pretty_einsums
    from einmap.einsum.notation.pretty import pretty_loops as pretty_loops
    from einmap.einsum.rewrites.delay import delay_reduction as delay_reduction
    from einmap.einsum.rewrites.flatten import flatten as flatten
    from einmap.einsum.rewrites.flatten import linearise as linearise
    from einmap.einsum.rewrites.partition import split as split
    from einmap.einsum.rewrites.steps import Partitioned as Partitioned
    from einmap.einsum.rewrites.steps import partition as partition
    from einmap.emit.emit import emit as emit
    from einmap.errors import CapacityError as CapacityError
    from einmap.errors import EinmapError as EinmapError
    from einmap.errors import EngineError as EngineError
    from einmap.errors import FanoutError as FanoutError
    from einmap.errors import MappingError as MappingError
    from einmap.errors import NoMappingError as NoMappingError
    from einmap.errors import SpecError as SpecError
    from einmap.execute.execute import execute as execute
    from einmap.execute.results.result import Execution as Execution
    from einmap.facade import map_workload as map_workload
    from einmap.frontends.cascade.imported import Imported as Imported
    from einmap.frontends.huggingface.model import LanguageModel as LanguageModel
    from einmap.frontends.huggingface.read import from_huggingface as from_huggingface
    from einmap.frontends.jax.read import from_jax as from_jax
    from einmap.frontends.onnx.read import from_onnx as from_onnx
    from einmap.frontends.tflite.read import from_tflite as from_tflite
    from einmap.frontends.torch.read import from_torch as from_torch
    from einmap.frontends.yaml.spec import dump as dump
    from einmap.frontends.yaml.spec import dump_mapping as dump_mapping
    from einmap.frontends.yaml.spec import load as load
    from einmap.frontends.yaml.spec import loads as loads
    from einmap.mapper.mapspace.mapspace import Mapspace as Mapspace
    from einmap.mapper.result.result import MapResult as MapResult
    from einmap.mapping.mapping import Mapping as Mapping
    from einmap.mapping.template import PartialMapping as PartialMapping
    from einmap.mapping.template import Template as Template
    from einmap.matmul.machine.machine import ComputeUnit as ComputeUnit
    from einmap.matmul.machine.machine import Level as Level
    from einmap.matmul.machine.machine import Machine as Machine
    from einmap.matmul.machine.read_machine import load_machine as load_machine
    from einmap.matmul.machine.read_machine import machine_from_dict as machine_from_dict
    from einmap.matmul.plan import plan_matmul as plan_matmul
    from einmap.matmul.result import MatmulPlan as MatmulPlan
    from einmap.matmul.to_mapping import to_mapping as to_mapping
    from einmap.model.cost import Cost as Cost
    from einmap.model.evaluate import evaluate as evaluate
    from einmap.model.explanation.explain import explain as explain
    from einmap.progress import Progress as Progress
    from einmap.report.frames.frame import Frame as Frame
    from einmap.report.frames.kinds import frame_of as frame_of
    from einmap.report.frames.kinds import frames_of as frames_of
    from einmap.report.frames.write import to_csv as to_csv
    from einmap.report.frames.write import to_frame as to_frame
    from einmap.report.frames.write import to_parquet as to_parquet
    from einmap.serving.tokens import TokenCosts as TokenCosts
    from einmap.serving.tokens import TokenRequest as TokenRequest
    from einmap.serving.tokens import token_costs as token_costs
    from einmap.spec.raw import LiteralString as LiteralString
    from einmap.spec.spec import Spec as Spec
    from einmap.studio.widget import studio as studio
    from einmap.sweep.result import PointResult as PointResult
    from einmap.sweep.sweep import sweep as sweep

    __version__: str

# Where each public name is defined; the module is imported when the name is first asked for.
_HOMES = {
    "CapacityError": "einmap.errors",
    "ComputeUnit": "einmap.matmul.machine.machine",
    "Cost": "einmap.model.cost",
    "EinmapError": "einmap.errors",
    "EngineError": "einmap.errors",
    "Execution": "einmap.execute.results.result",
    "FanoutError": "einmap.errors",
    "Frame": "einmap.report.frames.frame",
    "Gradient": "einmap.einsum.gradients.gradient",
    "Imported": "einmap.frontends.cascade.imported",
    "JaxEngine": "einmap.distribute.backends.jax.engine",
    "JaxOptions": "einmap.distribute.backends.jax.engine",
    "LanguageModel": "einmap.frontends.huggingface.model",
    "Level": "einmap.matmul.machine.machine",
    "LiteralString": "einmap.spec.raw",
    "Machine": "einmap.matmul.machine.machine",
    "MapResult": "einmap.mapper.result.result",
    "Mapping": "einmap.mapping.mapping",
    "MappingError": "einmap.errors",
    "Mapspace": "einmap.mapper.mapspace.mapspace",
    "MatmulPlan": "einmap.matmul.result",
    "Mesh": "einmap.distribute.placements.mesh",
    "NoMappingError": "einmap.errors",
    "PartialMapping": "einmap.mapping.template",
    "Partitioned": "einmap.einsum.rewrites.steps",
    "PipelineProblem": "einmap.distribute.pipelines.problem",
    "PipelineSchedule": "einmap.distribute.pipelines.schedule",
    "Plan": "einmap.distribute.plans.plan",
    "PointResult": "einmap.sweep.result",
    "Progress": "einmap.progress",
    "Spec": "einmap.spec.spec",
    "SpecError": "einmap.errors",
    "StageCosts": "einmap.distribute.pipelines.timeline",
    "Template": "einmap.mapping.template",
    "TokenCosts": "einmap.serving.tokens",
    "TokenRequest": "einmap.serving.tokens",
    "best_pipeline": "einmap.distribute.pipelines.search",
    "communication": "einmap.distribute.costs.cost",
    "delay_reduction": "einmap.einsum.rewrites.delay",
    "distribute_workload": "einmap.distribute.derive",
    "dump": "einmap.frontends.yaml.spec",
    "dump_mapping": "einmap.frontends.yaml.spec",
    "emit": "einmap.emit.emit",
    "engine_named": "einmap.distribute.backends.engines",
    "evaluate": "einmap.model.evaluate",
    "execute": "einmap.execute.execute",
    "explain": "einmap.model.explanation.explain",
    "flatten": "einmap.einsum.rewrites.flatten",
    "frame_of": "einmap.report.frames.kinds",
    "frames_of": "einmap.report.frames.kinds",
    "gradient": "einmap.einsum.gradients.gradient",
    "from_huggingface": "einmap.frontends.huggingface.read",
    "from_jax": "einmap.frontends.jax.read",
    "from_onnx": "einmap.frontends.onnx.read",
    "from_tflite": "einmap.frontends.tflite.read",
    "from_torch": "einmap.frontends.torch.read",
    "linearise": "einmap.einsum.rewrites.flatten",
    "load": "einmap.frontends.yaml.spec",
    "load_machine": "einmap.matmul.machine.read_machine",
    "loads": "einmap.frontends.yaml.spec",
    "machine_from_dict": "einmap.matmul.machine.read_machine",
    "map_workload": "einmap.facade",
    "partition": "einmap.einsum.rewrites.steps",
    "pipeline_schedule": "einmap.distribute.pipelines.shipped",
    "plan_cost": "einmap.distribute.costs.cost",
    "plan_matmul": "einmap.matmul.plan",
    "plan_of": "einmap.distribute.read",
    "pretty_einsums": "einmap.einsum.notation.pretty",
    "pretty_loops": "einmap.einsum.notation.pretty",
    "run_pipeline": "einmap.distribute.pipelines.timeline",
    "schedule_csv": "einmap.distribute.pipelines.table",
    "schedule_from_csv": "einmap.distribute.pipelines.table",
    "split": "einmap.einsum.rewrites.partition",
    "studio": "einmap.studio.widget",
    "sweep": "einmap.sweep.sweep",
    "to_csv": "einmap.report.frames.write",
    "to_frame": "einmap.report.frames.write",
    "to_mapping": "einmap.matmul.to_mapping",
    "to_parquet": "einmap.report.frames.write",
    "token_costs": "einmap.serving.tokens",
}

__all__ = list(_HOMES)

# Functions that have the name of a sub-package. It is imported now, so that its name is free from then on: a later
# import of one of its modules would put the sub-package in the place of the function.
for _name in ("emit", "execute", "studio", "sweep"):
    import_module(f"{__name__}.{_name}")
    globals().pop(_name, None)
del _name


def load_ipython_extension(shell: object) -> None:
    """Display specifications and results as HTML in an IPython shell: `%load_ext einmap`."""
    from einmap.report.notebook.register import register

    register(shell)


if "IPython" in sys.modules:  # in a notebook the displays are there without a word
    from einmap.report.notebook.register import register_where_it_runs

    register_where_it_runs()

if not TYPE_CHECKING:  # else every name would seem to exist

    def __getattr__(name: str) -> object:
        if name == "__version__":
            value = _version()
        elif name in _HOMES:
            value = getattr(import_module(_HOMES[name]), name)
        else:
            value = _part(name)
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__, "__version__"})


def _part(name: str) -> object:
    """A sub-package or module: `einmap.errors`. Raises AttributeError."""
    where = f"{__name__}.{name}"
    try:
        if name.isidentifier() and not name.startswith("_"):
            return import_module(where)
    except ModuleNotFoundError as error:
        if error.name != where:
            raise
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)


def _version() -> str:
    """The version of the package that is installed; pyproject.toml has it."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("einmap")
    except PackageNotFoundError:
        return "0+unknown"
