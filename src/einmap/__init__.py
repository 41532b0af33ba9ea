"""einmap maps Einsums onto hardware: evaluate a mapping, find the best one, show both."""

from einmap.distribute.backends.engines import engine_named as engine_named
from einmap.distribute.backends.jax_mesh import JaxEngine as JaxEngine
from einmap.distribute.backends.jax_mesh import JaxOptions as JaxOptions
from einmap.distribute.cost import communication as communication
from einmap.distribute.cost import plan_cost as plan_cost
from einmap.distribute.derive import distribute as distribute
from einmap.distribute.mesh import Mesh as Mesh
from einmap.distribute.plan import Plan as Plan
from einmap.distribute.read import plan_of as plan_of
from einmap.einsum.delay import delay_reduction as delay_reduction
from einmap.einsum.flatten import flatten as flatten
from einmap.einsum.flatten import linearise as linearise
from einmap.einsum.partition import split as split
from einmap.einsum.pretty import pretty_einsums as pretty_einsums
from einmap.einsum.pretty import pretty_loops as pretty_loops
from einmap.einsum.steps import Partitioned as Partitioned
from einmap.einsum.steps import partition as partition
from einmap.emit.emit import emit as emit
from einmap.errors import CapacityError as CapacityError
from einmap.errors import EinmapError as EinmapError
from einmap.errors import EngineError as EngineError
from einmap.errors import FanoutError as FanoutError
from einmap.errors import MappingError as MappingError
from einmap.errors import NoMappingError as NoMappingError
from einmap.errors import SpecError as SpecError
from einmap.execute.execute import execute as execute
from einmap.execute.result import Execution as Execution
from einmap.frontends.yaml.spec import dump as dump
from einmap.frontends.yaml.spec import dump_mapping as dump_mapping
from einmap.frontends.yaml.spec import load as load
from einmap.frontends.yaml.spec import loads as loads
from einmap.mapper.mapper import map_workload as map_workload
from einmap.mapper.mapspace import Mapspace as Mapspace
from einmap.mapper.result import MapResult as MapResult
from einmap.mapping.mapping import Mapping as Mapping
from einmap.mapping.template import PartialMapping as PartialMapping
from einmap.mapping.template import Template as Template
from einmap.matmul.machine import ComputeUnit as ComputeUnit
from einmap.matmul.machine import Level as Level
from einmap.matmul.machine import Machine as Machine
from einmap.matmul.plan import plan_matmul as plan_matmul
from einmap.matmul.read_machine import load_machine as load_machine
from einmap.matmul.read_machine import machine_from_dict as machine_from_dict
from einmap.matmul.result import MatmulPlan as MatmulPlan
from einmap.matmul.to_mapping import to_mapping as to_mapping
from einmap.model.cost import Cost as Cost
from einmap.model.evaluate import evaluate as evaluate
from einmap.progress import Progress as Progress
from einmap.spec.raw import LiteralString as LiteralString
from einmap.spec.spec import Spec as Spec

__all__ = [
    "CapacityError",
    "ComputeUnit",
    "Cost",
    "EinmapError",
    "EngineError",
    "Execution",
    "FanoutError",
    "JaxEngine",
    "JaxOptions",
    "Level",
    "LiteralString",
    "Machine",
    "MapResult",
    "Mapping",
    "MappingError",
    "Mapspace",
    "MatmulPlan",
    "Mesh",
    "NoMappingError",
    "PartialMapping",
    "Partitioned",
    "Plan",
    "Progress",
    "Spec",
    "SpecError",
    "Template",
    "communication",
    "delay_reduction",
    "distribute",
    "dump",
    "dump_mapping",
    "emit",
    "engine_named",
    "evaluate",
    "execute",
    "flatten",
    "linearise",
    "load",
    "load_machine",
    "loads",
    "machine_from_dict",
    "map_workload",
    "partition",
    "plan_cost",
    "plan_matmul",
    "plan_of",
    "pretty_einsums",
    "pretty_loops",
    "split",
    "to_mapping",
]
