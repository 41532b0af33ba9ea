"""Networks counted by hand: hops, link traffic, longest route. 8 bits for each value, one bit for each action."""

import pytest
from tests.model.worked import counts, latencies
from tests.nests import nest

from einmap import SpecError, dump, evaluate, execute, loads
from einmap.errors import NotSupportedError

HOP = "actions: [{name: hop, energy: 2, latency: 0.5, throughput: 4}]"


def arch(network=HOP, x="fanout: 8", above=""):
    return f"""
arch:
  nodes:
  - !Memory {{name: DRAM, size: inf, leak_power: 0, area: 0,
             actions: [{{name: read, energy: 10, throughput: inf}}, {{name: write, energy: 12, throughput: inf}}]}}
  {above}
  - !Network {{name: Noc, leak_power: 0, area: 0, {network}}}
  - !Memory {{name: REG, size: inf, leak_power: 0, area: 0, spatial: [{{name: X, {x}}}, {{name: Y, fanout: 4}}],
             actions: [{{name: read, energy: 1, throughput: inf}}, {{name: write, energy: 1, throughput: inf}}]}}
  - !Compute {{name: MAC, leak_power: 0, area: 0, actions: [{{name: compute, energy: 1, throughput: inf}}]}}
"""


def spec(einsum, sizes, *nodes, held="A, B, Z", **options):
    """DRAM, then loops (`n 2` in time, `X n 2` over lanes), REG with `held`, down to tiles of one value."""
    found = ["!Storage {tensors: [A, B, Z], component: DRAM}"]
    reg = [f"!Storage {{tensors: [{held}], component: REG}}"] if held else []
    for node in (*nodes, "REG", *(f"{v} 1" for v in sizes)):
        match node.split():
            case ["REG"]:
                found += reg
            case [variable, shape]:
                found.append(f"!Temporal {{rank_variable: {variable}, tile_shape: {shape}}}")
            case [name, variable, shape]:
                component = "Array" if name == "P" else "REG"
                found.append(
                    f"!Spatial {{rank_variable: {variable}, tile_shape: {shape}, component: {component}, name: {name}}}"
                )
    tree = "\n".join(f"  - {node}" for node in (*found, "!Compute {einsum: Z, component: MAC}"))
    bounds = ", ".join(f"{v}: 0 <= {v} < {n}" for v, n in sizes.items())
    workload = f"iteration_space_shape: {{{bounds}}}\n  bits_per_value: {{All: 8}}\n  einsums: ['{einsum}']"
    return loads(f"{arch(**options)}\nworkload:\n  {workload}\nmapping:\n  nodes:\n{tree}\n")


def hops(found, **more):
    """Values times steps by tensor, in model and machine, and actions on the busiest link."""
    cost, execution = evaluate(found), execute(found)
    moved = {t: n / 8 for (_, t, c, _), n in counts(cost).items() if c == "Noc"}
    assert moved == {r.tensor: r.count / 8 for r in execution.actions if r.component == "Noc"}
    return moved, execution.link_traffic["Z", "Noc"] / 8


SCALED = "Z[n] = A[k, n] * B[k]"
ROW = SCALED, {"n": 4, "k": 2}, "X n 1"


def test_a_mesh_sends_what_lanes_share_once_along_the_row():
    # A: 2 values to lanes 1, 2, 3; B: 2 values from lane to lane; Z: one value back from each lane
    assert hops(spec(*ROW)) == ({"A": 2 * (1 + 2 + 3), "B": 2 * 3, "Z": 1 + 2 + 3}, 2 * 3 + 2 + 3)
    cost = evaluate(spec(*ROW))
    # the route into the last of 4 lanes takes 2 s, 11 values of 8 bits at 4 bits/s take 22 s
    assert latencies(cost, "Z")["Noc"] == 22
    assert cost.energy_by("component")["Noc",] == 2 * 8 * (12 + 6 + 6)


def test_all_to_all_takes_one_step_to_each_lane():
    found = spec(*ROW, network=f"topology: all_to_all, {HOP}")
    assert hops(found) == ({"A": 2 * 3, "B": 2 * 3, "Z": 3}, 2 * 3 + 2 + 3)


def test_the_longest_route_waits_for_each_step():
    slow = HOP.replace("latency: 0.5, throughput: 4", "latency: 3, throughput: inf")
    assert latencies(evaluate(spec(*ROW, network=slow)), "Z")["Noc"] == 4 * 3
    two = spec(SCALED, {"n": 4, "k": 2}, "X n 2", "Y k 1", network=slow)
    assert latencies(evaluate(two), "Z")["Noc"] == (2 + 2) * 3
    direct = spec(*ROW, network=f"topology: all_to_all, {slow}")
    assert latencies(evaluate(direct), "Z")["Noc"] == 3


def test_lanes_that_share_nothing_are_sent_their_own_copy():
    assert hops(spec(*ROW, x="fanout: 8, may_reuse: Nothing")) == ({"A": 12, "B": 2 * (1 + 2 + 3), "Z": 6}, 6 + 6 + 3)


def test_loops_on_one_fanout_go_in_strides():
    # two groups of 4 lanes: the second one begins 4 steps away; 0 + 1 + ... + 7 in all
    moved, link = hops(spec("Z[n] = A[n] * B[n]", {"n": 8}, "X n 4", "X n 1"))
    assert moved == dict.fromkeys("ABZ", 28)
    assert link == 3 * 7


def test_a_ragged_last_lane_gets_less():
    moved, link = hops(spec("Z[n] = A[n] * B[n]", {"n": 5}, "X n 2"))
    assert moved == dict.fromkeys("ABZ", 1 * 2 + 2 * 1)
    assert link == 3 * 3


def test_two_fanouts_are_gone_along_in_the_order_of_the_loops():
    # n over X, k over Y: A 1 value for each of 2 x 2 lanes; B multicast along X, one value for each k
    moved, link = hops(spec(SCALED, {"n": 2, "k": 2}, "X n 1", "Y k 1"))
    # A: 2 values to the second column, then 1 up in each of 2 columns; B: 2 values, then 1 in each column
    # Z: reduced in each column, then one value along the row
    assert moved == {"A": 2 + 2, "B": 2 + 2, "Z": 2 + 1}
    assert link == 2 + 2 + 1


def test_lanes_that_reduce_pass_their_sums_on_and_are_not_refilled():
    # 2 visits of Z's one value, 4 lanes: 3 steps back each time; the refill goes to the first lane
    reduces = "Z[n] = A[k, n] * B[k]", {"n": 1, "k": 8}, "k 4", "X k 1"
    assert hops(spec(*reduces))[0]["Z"] == 2 * 3
    # in turn: every lane writes back and all but the very first are refilled
    assert hops(spec(*reduces, x="fanout: 8, may_reuse: Nothing"))[0]["Z"] == 2 * (1 + 2 + 3) * 2


def test_traffic_is_that_of_the_whole_einsum():
    once, link = hops(spec("Z[n] = A[n] * B[n]", {"n": 4}, "X n 1"))
    again, whole = hops(spec("Z[m, n] = A[m, n] * B[m, n]", {"n": 4, "m": 5}, "m 1", "X n 1"))
    assert again == {t: 5 * n for t, n in once.items()}
    assert whole == 5 * link


def test_operands_fetched_for_each_operation_cross_each_time():
    # A is not held below: 2 * 4 operands, one for each lane and k
    moved, _ = hops(spec(*ROW, held="B, Z"))
    assert moved == {"A": 2 * (1 + 2 + 3), "B": 6, "Z": 6}
    # m repeats A for each of 3 operations
    moved, _ = hops(spec("Z[m, n] = A[n] * B[m]", {"n": 4, "m": 3}, "X n 1", held="B, Z"))
    assert moved["A"] == 3 * (1 + 2 + 3)
    plain = evaluate(spec("Z[m, n] = A[n] * B[m]", {"n": 4, "m": 3}, "X n 1", held="B, Z"), semantics="accelforge")
    assert counts(plain)["Z", "A", "Noc", "hop"] == 8 * (1 + 2 + 3)


def test_each_instance_of_a_network_has_links_of_its_own():
    above = "- !Container {name: Array, spatial: [{name: P, fanout: 2}]}"
    moved, link = hops(spec("Z[m, n] = A[m, n] * B[n]", {"m": 2, "n": 4}, "P m 1", "X n 1", above=above))
    assert moved == dict.fromkeys("ABZ", 2 * (1 + 2 + 3))
    assert link == 3 * 3


def test_the_user_may_say_how_long_it_takes():
    timed = f"{HOP}, total_latency: \"max_hops + max_link_traffic / 8 + actions['hop'].n_calls / 64\""
    # 4 lanes; 11 values on the busiest link; 24 values times steps, 8 bits each
    assert latencies(evaluate(spec(*ROW, network=timed)), "Z")["Noc"] == 4 + 11 + 24 / 8


def test_widths_and_scales():
    wide = spec(*ROW, network=f"{HOP}, bits_per_action: 16, bits_per_value: {{A: 32}}, actions_scale: 3")
    found = counts(evaluate(wide))
    assert (found["Z", "A", "Noc", "hop"], found["Z", "B", "Noc", "hop"]) == (12 * 2 * 3, 6 * 3 / 2)
    assert latencies(evaluate(wide), "Z")["Noc"] == 3 * (6 * 2 + 2 / 2 + 3 / 2) / 4
    scaled = HOP.replace("latency: 0.5", "latency: 40, latency_scale: 0.5")
    assert latencies(evaluate(spec(*ROW, network=f"{scaled}, latency_scale: 0.5")), "Z")["Noc"] == 4 * 10


def test_a_network_is_dumped_and_read():
    found = spec(*ROW, network=f"topology: all_to_all, {HOP}")
    assert counts(evaluate(loads(dump(found)))) == counts(evaluate(found))


@pytest.mark.parametrize(
    ("network", "words"),
    [
        (f"topology: mehs, {HOP}", "unknown topology 'mehs'.*mesh"),
        (HOP.replace("latency: 0.5, ", ""), "action 'hop' of 'Noc' has no latency"),
        (
            HOP.replace(", throughput: 4", ""),
            "action 'hop' of 'Noc' has no throughput.*latency .* does not stand for it",
        ),
        ("actions: []", "action 'hop' of 'Noc' has no energy"),
        (HOP.replace("name: hop", "name: hopp"), r"'hopp' \(actions\[0\]\) meant to be 'hop'"),
        (f"{HOP}, size: 8", "unknown field 'size'"),
    ],
)
def test_a_bad_network_is_named(network, words):
    with pytest.raises(SpecError, match=f"(?s){words}"):
        evaluate(spec(*ROW, network=network))


def test_lanes_that_share_a_common_tile_in_one_einsum_only_are_refused():
    text = """
workload:
  iteration_space_shape: {p: 0 <= p < 4, m: 0 <= m < 2, s: 0 <= s < 2}
  bits_per_value: {All: 8}
  einsums: ["X[m, p] = A[H: p] * F[m]", "Z[p] = A[H: p + s] * G[s]"]
mapping:
  nodes:
  - !Storage {tensors: [A, F, G, X, Z], component: DRAM}
  - !Spatial {rank_variable: {X: m, Z: s}, tile_shape: 1, component: REG, name: X}
  - !Storage {tensors: [A], component: REG}
  - !Sequential
    nodes:
    - !Nested {nodes: [!Temporal {rank_variable: p, tile_shape: 1}, !Compute {einsum: X, component: MAC}]}
    - !Nested {nodes: [!Temporal {rank_variable: p, tile_shape: 1}, !Compute {einsum: Z, component: MAC}]}
"""
    with pytest.raises(NotSupportedError, match=r"'A' crosses the network 'Noc'.*in Einsum 'X' but not in 'Z'"):
        evaluate(loads(arch() + text))


def test_values_pass_a_network_that_is_not_enabled_without_hops():
    off = spec(*ROW, network="enabled: len(All) > 3, " + HOP)
    cost, execution = evaluate(off), execute(off)
    assert "Noc" not in {row.component for row in (*cost.actions, *cost.latencies, *execution.actions)}
    assert [str(note) for note in cost.notes] == [str(note) for note in evaluate(spec(*ROW)).notes]
    free = spec(*ROW, network="actions: [{name: hop, energy: 0, latency: 0, throughput: inf}]")
    assert (cost.energy, cost.latency) == (evaluate(free).energy, evaluate(free).latency)


def test_events_of_a_network_cannot_be_traced():
    with pytest.raises(NotSupportedError, match="'Noc'"):
        execute(spec(*ROW), trace=["Noc"])


def test_copies_over_a_network_to_several_lanes_are_refused():
    text = """
workload:
  iteration_space_shape: {n: 0 <= n < 4}
  bits_per_value: {All: 8}
  einsums: [{name: Z, einsum: 'Z[n] = A[n]', is_copy_operation: true}]
""" + nest("DRAM: A / n 1 @ REG.X / REG: Z / n 1 / Z @ MAC")
    with pytest.raises(NotSupportedError, match=r"copy Einsum 'Z'.*'Noc'"):
        evaluate(loads(arch() + text))
