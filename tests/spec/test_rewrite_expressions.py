"""Expressions between the dialects; what is expected is written out."""

import pytest

from einmap import SpecError
from einmap.spec.dialects.convert_expressions import LatencyNames, reciprocal, renamed

NAMES = LatencyNames(("read", "write"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 / (8 * 614e9)", "8 * 614e9"),
        ("1 / 1.05e9 / 128", "1.05e9 * 128"),
        ("1 / x / (a + b)", "x * (a + b)"),
        ("1e-9", "1 / 1e-9"),
        ("x*2", "1 / (x*2)"),
        ("max(1, y)", "1 / max(1, y)"),
        ("inf", "0"),
    ],
)
def test_a_reciprocal_is_as_short_as_it_can_be(text, expected):
    assert reciprocal(text, lambda _: True) == expected


@pytest.mark.parametrize("text", ["x", "x*2", "0 if a else 1"])
def test_what_may_be_0_is_guarded_and_the_guard_goes_away_again(text):
    guarded = reciprocal(text, lambda _: False)
    assert guarded.startswith("inf if ")
    assert reciprocal(guarded, lambda _: False) == text


def test_references_to_a_renamed_field_become_its_reciprocal_and_back():
    newer = renamed("latency*2 + X.latency_scale", {"latency": "throughput"}, {"latency_scale": "throughput_scale"})
    assert newer == "(1 / throughput)*2 + (1 / X.throughput_scale)"
    assert renamed(newer, {"throughput": "latency"}, {}) == "latency*2 + (1 / X.throughput_scale)"


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("max(read_latency, write_latency)", "max(a.n_calls / a.throughput for a in actions)"),
        ("sum(read_actions, write_actions) / 400e6", "sum(a.n_calls for a in actions) / 400e6"),
        ("read_latency", "actions['read'].n_calls / actions['read'].throughput"),
        ("2 * (x + read_actions)", "2 * (x + actions['read'].n_calls)"),
        ("1 - 2*write_latency", "1 - 2*(actions['write'].n_calls / actions['write'].throughput)"),
        ("f(read_latency, 3)", "f(actions['read'].n_calls / actions['read'].throughput, 3)"),
        ("actions[0].energy", "actions[0].energy"),
        ("dram_latency * 2", "dram_latency * 2"),
    ],
)
def test_names_of_total_latency(older, newer):
    assert NAMES.newer(older) == newer
    assert NAMES.older(newer) == older


@pytest.mark.parametrize(
    ("text", "newer"),
    [
        ("sum(*action2latency.values()) + 2e-9", "sum(a.n_calls / a.throughput for a in actions) + 2e-9"),
        ("max(1e-9, *action2latency.values())", "max(1e-9, *[a.n_calls / a.throughput for a in actions])"),
        ("action2latency['read']", "actions['read'].n_calls / actions['read'].throughput"),
    ],
)
def test_the_dictionary_of_latencies_becomes_a_list(text, newer):
    assert NAMES.newer(text) == newer


@pytest.mark.parametrize(
    ("text", "older"),
    [
        ("max(2 * a.n_calls / a.throughput for a in actions)", "max(2 * read_latency, 2 * write_latency)"),
        ("max(1, *[b.n_calls for b in actions])", "max(1, read_actions, write_actions)"),
        ("sum(a.energy * a.n_calls for a in actions)", "sum(actions[0].energy * read_actions, actions[1].energy * write_actions)"),
    ],
)  # fmt: skip
def test_loops_over_the_actions_are_written_out(text, older):
    assert NAMES.older(text) == older


def test_a_loop_over_one_action_is_its_value():
    alone = LatencyNames(("compute",))
    assert alone.older("max(a.n_calls for a in actions) * 2") == "compute_actions * 2"
    assert alone.older("max(a.n_calls + 1 for a in actions) * 2") == "(compute_actions + 1) * 2"


@pytest.mark.parametrize("text", ["len(actions)", "sum(a.throughput for a in actions)", "max_hops * 2"])
def test_what_the_older_names_cannot_say_is_refused(text):
    with pytest.raises(SpecError, match="the older dialect cannot express"):
        NAMES.older(text)


def test_other_uses_of_the_dictionary_of_latencies_are_refused():
    with pytest.raises(SpecError, match="the newer dialect cannot express `action2latency`"):
        NAMES.newer("len(action2latency)")
