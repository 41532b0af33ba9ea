"""The page on tokens: its sections, of one machine and of several, and what is in its plots."""

import re

import pytest
from tests.serving.test_plans import MIXED, NODES

import einmap
from einmap.report.html.page import to_html
from einmap.report.html.pages.tokens_page import tokens_page
from einmap.report.html.parts import Figure, pictures
from einmap.report.serving.tables import roof_table, ways_table
from einmap.serving.tokens import TokenRequest, token_costs

ROOMY = NODES.set("cluster.pe.memory", 10**8)


def costs_on(devices, contexts=(40,)):
    return token_costs(MIXED, ROOMY, TokenRequest((1, 16), contexts, devices))


def several_machines():
    return tokens_page([costs_on(2, (40, 400)), costs_on(4, (40, 400))], "<script>alert(1)</script>")


def test_the_page_of_one_machine_has_all_sections():
    page = tokens_page([costs_on(4)])
    keys = ["summary", "front", "times", "spent", "plans", "roofline", "memory", "parts"]
    assert [section.key for section in page.sections] == keys
    assert "tensor" in page.sections[4].parts[0].rows[0][2]
    one = tokens_page([costs_on(1)])
    assert [section.key for section in one.sections] == [key for key in keys if key != "plans"]


def test_several_machines_are_in_tabs_and_nothing_of_a_name_is_run():
    page = several_machines()
    assert [section.key for section in page.sections][2] == "compared"
    html = to_html(page)
    assert html == to_html(page)
    assert "<script>alert" not in html
    assert not re.search(r"<(?:link|img|iframe)[^>]+(?:href|src)=.https?:", html)


def test_the_plot_has_each_plan_that_has_room():
    costs = costs_on(4)
    (figure,) = [one for one in pictures(tokens_page([costs])) if isinstance(one, Figure) and one.name == "front"]
    others, _, best = (layer["data"]["values"] for layer in figure.plot["layer"])
    assert [(row["x"], row["y"]) for row in best] == [(point.user_rate, point.rate) for point in costs.points]
    assert len(others) == sum(len(point.ways) - 1 for point in costs.points)
    assert len(ways_table(costs).rows) == len(others) + len(best)


def test_a_part_is_left_or_right_of_the_ridge_and_below_the_roof():
    costs = costs_on(1, (400,))
    table = roof_table(costs)
    # 10^12 operations and 10^9 bytes a second
    assert table.caption == "The ridge is at 1,000 operations/byte."
    assert {row[6] for row in table.rows} == {"memory"}
    for row in table.rows:
        assert 0 < float(row[7].strip("<>%")) <= 100
    layer = next(part for part in costs.points[0].parts if part.name == "layer")
    assert float(table.rows[0][5].replace(",", "")) == pytest.approx(layer.operations / layer.moved, rel=1e-3)
    assert roof_table(token_costs(MIXED, einmap.loads(BARE), TokenRequest())) is None


BARE = "cluster: {pe: {peak: {bf16: 1e15}}, axes: {x: {bandwidth: 1e9}}}"
