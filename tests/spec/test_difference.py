"""Fields in which specifications differ."""

import einmap
from einmap.spec.forms.spec_difference import FieldChange, field_changes


def changes(before, after):
    return list(field_changes(einmap.Spec.from_dict(before).raw, einmap.Spec.from_dict(after).raw))


def memory(name, **fields):
    return {"type": "Memory", "name": name, **fields}


def arch(*nodes):
    return {"arch": {"nodes": list(nodes)}}


def test_nodes_are_told_by_their_names():
    found = changes(arch(memory("A", size=1), memory("B", size=2)), arch(memory("B", size=3)))
    assert found == [
        FieldChange("arch.nodes.A", {"type": "Memory", "name": "A", "size": 1}, None, removed=True),
        FieldChange("arch.nodes.B.size", 2, 3),
    ]


def test_what_is_new_is_added_and_another_order_is_said():
    assert changes(arch(memory("A")), arch(memory("A", area=0))) == [
        FieldChange("arch.nodes.A.area", None, 0, added=True)
    ]
    (order,) = changes(arch(memory("A"), memory("B")), arch(memory("B"), memory("A")))
    assert (order.path, order.before, order.after) == ("arch.nodes (order)", ["A", "B"], ["B", "A"])


def test_other_tags_differ_and_lists_without_names_go_by_position():
    (change,) = changes(arch(memory("A")), arch({"type": "Toll", "name": "A"}))
    assert (change.path, change.before, change.after) == ("arch.nodes.A.type", "Memory", "Toll")
    (change,) = changes({"workload": {"einsums": ["x", "y"]}}, {"workload": {"einsums": ["x", "z"]}})
    assert (change.path, change.before, change.after) == ("workload.einsums[1]", "y", "z")
