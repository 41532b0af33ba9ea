"""The page of training plans is true."""

import re
from dataclasses import fields
from pathlib import Path

from einmap.distribute.training.document import fixed_in
from einmap.distribute.training.plan import TrainingPlan
from einmap.frontends.yaml.parsing.parse import parse_yaml

PAGE = (Path(__file__).parents[3] / "docs" / "training-plans.md").read_text()


def test_the_program_of_the_page_runs():
    exec(re.search(r"```python\n(.*?)```", PAGE, re.DOTALL)[1], {})


def test_the_plan_of_the_page_has_all_fields_and_is_one():
    found = fixed_in(parse_yaml(re.search(r"```yaml\n(.*?)```", PAGE, re.DOTALL)[1], "page"))
    assert [*found, "meshes"] == [field.name for field in fields(TrainingPlan)]
    assert TrainingPlan(**found).devices == 32
