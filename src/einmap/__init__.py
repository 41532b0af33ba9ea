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
from einmap.model.cost import Cost as Cost
from einmap.model.evaluate import evaluate as evaluate
from einmap.progress import Progress as Progress
from einmap.spec.raw import LiteralString as LiteralString
from einmap.spec.spec import Spec as Spec

__all__ = [
    "CapacityError",
    "Cost",
    "EinmapError",
    "EngineError",
    "Execution",
    "FanoutError",
    "JaxEngine",
    "JaxOptions",
    "LiteralString",
    "MapResult",
    "Mapping",
    "MappingError",
    "Mapspace",
    "Mesh",
    "NoMappingError",
    "PartialMapping",
    "Plan",
    "Progress",
    "Spec",
    "SpecError",
    "Template",
    "communication",
    "distribute",
    "dump",
    "dump_mapping",
    "engine_named",
    "evaluate",
    "execute",
    "load",
    "loads",
    "map_workload",
    "plan_cost",
    "plan_of",
]
