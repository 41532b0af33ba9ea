"""Which dialect an architecture is written in, the warning where that matters, and the other dialect's words."""

import pytest

from einmap import SpecError, dump, evaluate, loads
from einmap.errors import ManyErrors

SPEC = """
{config}
arch:
  variables: {{throughput: 5, direction: {{a: 1}}, x_latency: 2}}
  nodes:
  - !Memory {{name: Main, size: inf, component_class: Dummy{memory}}}
  - {tag} {{name: Array, spatial: [{{name: X, fanout: 3, {reuse}}}]}}
  - !Compute {{name: MAC, component_class: Dummy{compute}}}
workload:
  rank_sizes: {{N: 3}}
  bits_per_value: {{All: 1}}
  einsums: ["Z[n] = A[K: 0] * B[n]"]
mapping:
  nodes:
  - !Storage {{component: Main, tensors: [A, B, Z]}}
  - !Spatial {{rank_variable: n, tile_shape: 1, component: Array, name: X}}
  - !Compute {{component: MAC, einsum: Z}}
"""


def spec(memory="", compute="", config="", reuse="reuse: Z", array="!Memory {size: inf, component_class: Dummy}"):
    tag = array.split(" ")[0]
    text = SPEC.format(config=config, memory=memory, compute=compute, tag=tag, reuse=reuse)
    if tag == "!Memory":
        text = text.replace("{name: Array,", "{name: Array, size: inf, component_class: Dummy,")
    return loads(text)


def main_reads(given):
    return sum(r.count for r in evaluate(given).actions if (r.component, r.tensor, r.action) == ("Main", "A", "read"))


def warnings(given):
    return [str(note) for note in given.notes if "may_reuse" in str(note)]


@pytest.mark.parametrize(
    ("given", "dialect", "reason"),
    [
        (spec(), "newer", "nothing in it tells the dialects apart"),
        (spec(array="!Fanout"), "older", "it has !Fanout"),
        (spec(compute=", actions: [{name: compute, energy: 1, latency: 1}]"), "older", "it has an action's `latency`"),
        (spec(", total_latency: read_latency + x_latency"), "older", "it has `read_latency` in `total_latency`"),
        (spec(", total_latency: x_latency"), "newer", "nothing in it"),
        (spec(", bits_per_value_scale: {All: 2}", array="!Container"), "newer", "it has !Container, though also `bits"),
        (spec(", tensors: {no_resend_to_below: A}", array="!Fanout"), "newer", "it has `no_resend_to_below`, though"),
        (spec(", total_latency: max(a.n_calls for a in actions)", array="!Fanout"), "newer", "it has `n_calls` in"),
        (spec(config="config: {dialect: older}", array="!Container"), "older", "config.dialect says so"),
    ],
)
def test_the_dialect_is_the_one_whose_words_are_used_and_a_warning_says_why(given, dialect, reason):
    assert given.dialect == dialect
    assert len(warnings(given)) == 1
    assert f"({dialect} dialect, since {reason}" in warnings(given)[0]


@pytest.mark.parametrize(
    "given", [spec(array="!Container"), spec(", actions_scale: 2"), spec(config="config: {dialect: newer}")]
)
def test_where_the_newer_dialect_is_certain_nothing_is_said(given):
    assert (given.dialect, warnings(given)) == ("newer", [])


@pytest.mark.parametrize("reuse", ["may_reuse: Z, reuse: Z", "may_reuse: Z", "reuse: All", "min_usage: 0"])
def test_where_the_choice_makes_no_difference_nothing_is_said(reuse):
    assert warnings(spec(reuse=reuse, array="!Fanout")) == []


def test_an_unknown_dialect_is_an_error_with_its_place():
    with pytest.raises(
        SpecError, match=r"(?s)<text>:2:.*config.dialect: unknown dialect 'odler'.*did you mean 'older'"
    ):
        _ = spec(config="config: {dialect: odler}").dialect
    with pytest.raises(SpecError, match="did you mean 'newer'"):
        dump(spec(), "newest")


@pytest.mark.parametrize("array", ["!Fanout", "!Container"])
@pytest.mark.parametrize("config", ["", "config: {dialect: older}", "config: {dialect: newer}"])
@pytest.mark.parametrize("dialect", ["older", "newer"])
def test_the_default_that_differs_is_written_out(array, config, dialect):
    given = spec(array=array, config=config)
    again = loads(dump(given, dialect))
    assert main_reads(again) == main_reads(given) == (1 if given.dialect == "older" else 3)
    assert again.raw.get("config") is None
    assert given.in_dialect(given.dialect).dialect == given.dialect or "may_reuse" in dump(given, given.dialect)


NODE = """
arch:
  nodes:
  - !Memory
    name: Main
    size: inf
    component_class: Dummy
    {}
"""
BITS = "workload: {rank_sizes: {M: 4}, bits_per_value: {All: 8}, einsums: ['T[m] = A[m]', 'Z[m] = T[m] * B[m]']}"


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("latency_scale: 3", "throughput_scale: 1 / 3"),
        ("latency_scale: 1", "throughput_scale: 1"),
        ("latency_scale: 0", "throughput_scale: inf"),
        ("latency_scale: x", "throughput_scale: inf if x == 0 else 1 / x"),
        ("actions: [{name: read, latency: 0}]", "actions: [{name: read, throughput: inf}]"),
        ("actions: [{name: read, latency: 0x10}]", "actions: [{name: read, throughput: 1 / 0x10}]"),
        ("actions: [{name: read, latency: 1 / 1_000}]", "actions: [{name: read, throughput: 1_000}]"),
        ("bits_per_value_scale: {A: 2}", "bits_per_value: {A: 2 * A.bits_per_value}"),
        ("bits_per_value_scale: {A: 1 + 1}", "bits_per_value: {A: (1 + 1) * A.bits_per_value}"),
        ("bits_per_value_scale: {Outputs & T: 2}", "bits_per_value: {Outputs & T: 2 * T.bits_per_value}"),
    ],
)
def test_fields_of_the_older_dialect_in_the_newer_one_and_back(older, newer):
    there = loads(NODE.format(older) + BITS).in_dialect("newer")
    assert there == loads(NODE.format(newer) + BITS)
    assert there.in_dialect("older").in_dialect("newer") == there


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("{Inputs: 2}", "A: 2 * A.bits_per_value, B: 2 * B.bits_per_value, T & Inputs: 2 * T.bits_per_value"),
        ("{All: 1}", None),
        ("{T: 3, Other: 2}", "T: 3 * T.bits_per_value, A: 2 * A.bits_per_value, B: 2 * B.bits_per_value, Z: 2 * "),
    ],
)
def test_a_factor_for_several_tensors_is_written_for_each(older, newer):
    text = dump(loads(NODE.format(f"bits_per_value_scale: {older}") + BITS), "newer")
    flat = ", ".join(line.strip() for line in text.partition("bits_per_value:")[2].partition("workload")[0].split("\n"))
    assert newer is None or newer in flat.replace("{", ", ")
    assert newer is not None or "bits_per_value" not in text.partition("workload")[0]


@pytest.mark.parametrize(
    ("field", "path", "word"),
    [
        ("actions_scale: 2", "actions_scale", "`actions_scale`"),
        ("values_per_action: {All: 2}", "values_per_action", "`values_per_action`"),
        ("skip_initial_output_write: false", "skip_initial_output_write", "`skip_initial_output_write`"),
        ("tensors: {no_resend_to_below: A}", "tensors.no_resend_to_below", "`no_resend_to_below`"),
        ("actions: [{name: read, values_per_action: {A: 1}}]", 'actions[0] "read".values_per_action', "`values_per"),
        ("total_latency: sum(a.throughput for a in actions)", "total_latency", "`throughput alone` in total_latency"),
        ("bits_per_value: {All: 2}", "bits_per_value.All", "known with a workload only"),
    ],
)
def test_what_the_older_dialect_cannot_express_is_named_with_its_place(field, path, word):
    with pytest.raises(SpecError) as caught:
        dump(loads(NODE.format(field)), "older")
    assert word in caught.value.message
    assert str(caught.value.at).endswith(f': arch.nodes[0] "Main".{path}')


def test_all_that_cannot_be_expressed_is_named_together():
    nodes = "arch: {nodes: [!Network {name: N}, !Fork {forked_power_gateable: true, nodes: [!Array {name: A}]}]}"
    with pytest.raises(ManyErrors) as caught:
        dump(loads(nodes), "older")
    found = ["!Network", "`forked_power_gateable`", "!Array"]
    assert [p.message.removeprefix("the older dialect cannot express ") for p in caught.value.problems] == found


def test_newer_fields_that_say_nothing_are_left_out():
    fields = "actions_scale: 1\n    values_per_action: {}\n    skip_initial_output_write: true\n    tensors: {no_resend_to_below: ~All}"
    assert loads(NODE.format(fields)).in_dialect("older") == loads(NODE.format("tensors: {}"))


def test_a_direction_for_each_tensor_is_one_direction_where_all_are_equal():
    toll = "arch: {nodes: [!Toll {name: T, direction: {A: up, Other: %s}}]}"
    assert "direction: up" in dump(loads(toll % "up"), "older")
    with pytest.raises(SpecError, match="a direction for each tensor"):
        dump(loads(toll % "down"), "older")
