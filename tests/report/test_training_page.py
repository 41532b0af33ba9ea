"""The page and the trace of a training plan."""

import json
import re

import pytest
from tests.distribute.training.models import RESIDUAL

from einmap import Spec
from einmap.distribute.costs.cluster import default_cluster
from einmap.distribute.pipelines.shipped import pipeline_schedule
from einmap.distribute.pipelines.timeline import StageCosts, run_pipeline
from einmap.distribute.placements.mesh import Mesh
from einmap.distribute.training.model import Ranks, TrainingModel
from einmap.distribute.training.plan import TrainingRequest
from einmap.distribute.training.search import best_training_plan
from einmap.report.mesh.pipeline_trace import pipeline_trace

SIZES = {"B": 1, "M": 8, "P": 8, "H": 2, "E": 4, "F": 4, "D": 8, "S": 16}


def events_of(timeline):
    events = json.loads(b"".join(pipeline_trace(timeline)))["traceEvents"]
    return [e for e in events if e["ph"] == "X"], [e for e in events if e["ph"] == "C"]


def test_the_trace_of_a_pipeline_has_every_action_and_bubbles_between():
    """Two devices, two micro-batches, forward 1 s and backward 2 s: 9 s, of which each device works 6."""
    timeline = run_pipeline(pipeline_schedule("1f1b", 2, 2), StageCosts.equal(2, 1.0, 1.0, 1.0))
    boxes, counters = events_of(timeline)
    assert len(boxes) == 8 + sum(box["cat"] == "bubble" for box in boxes)
    for device in (1, 2):
        own = [box for box in boxes if box["tid"] == device]
        ends = [0.0, *(box["ts"] + box["dur"] for box in own)]
        assert [box["ts"] for box in own] == ends[:-1]
        assert ends[-1] == 9e6
        assert sum(box["dur"] for box in own if box["cat"] == "bubble") == 3e6
    held = [e["args"]["activations"] for e in counters if e["name"] == "held by device 0"]
    assert held == [1.0, 2.0, 1.0, 0.0]


@pytest.mark.parametrize("pp", [1, 2])
def test_the_page_has_all_sections_and_asks_nothing_of_the_network(pp):
    from einmap.report.html.page import to_html
    from einmap.report.html.pages.training_page import training_page

    spec = Spec.from_dict(workload={"rank_sizes": SIZES, "bits_per_value": {"All": 16}, "einsums": RESIDUAL})
    model = TrainingModel.of(spec.workload, 8, Ranks(), layers=4)
    request = TrainingRequest(4, fixed={"pp": pp})
    best = best_training_plan(model, default_cluster(Mesh((("x", 4),))), request)
    page = training_page(best, spec, ["<script>alert(1)</script>"])
    keys = ["summary", "timeline", "time", "memory", "others", "what-if", "workload", "inputs"]
    assert [section.key for section in page.sections] == [key for key in keys if key != "timeline" or pp > 1]
    html = to_html(page)
    assert html == to_html(page)
    assert "<script>alert" not in html
    assert not re.search(r"<(?:link|img|iframe)[^>]+(?:href|src)=.https?:", html)
