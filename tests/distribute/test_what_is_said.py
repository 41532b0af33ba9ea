"""What is said of a plan: what is padding, what one change would alter, what helps where memory is too short."""

import pytest

from einmap import Spec, SpecError, load
from einmap.distribute.costs.cluster import Cluster, Link, ProcessingElement
from einmap.distribute.placements.mesh import Mesh
from einmap.distribute.planner.padding import padded_moves, uneven_loops
from einmap.distribute.planner.planner import plan_workload
from einmap.distribute.planner.planning import PlanRequest
from einmap.progress import Progress
from einmap.report.mesh.planned import change_lines, padding_lines, planned_document


def cluster(**links):
    pe = ProcessingElement(((32, 1e12),))
    return Cluster(pe, tuple((axis, Link(*link)) for axis, link in links.items()))


def planned(workload, mesh, machine, what_if=None, progress=None, **options):
    return plan_workload(workload, PlanRequest(Mesh(mesh), machine, **options), progress, what_if)


def sums(m, k):
    spec = {"rank_sizes": {"M": m, "K": k}, "bits_per_value": {"All": 32}, "einsums": ["Z[m] = A[m, k]"]}
    return Spec.from_dict(workload=spec).workload


def test_blocks_that_do_not_divide_leave_PEs_idle_and_send_padding():
    # 6 rows in blocks of 1: two of eight PEs have none, and what is gathered is eight values, not six
    asked = {"A": {"M": "x"}, "Z": "replicated"}
    best = planned(sums(6, 1000), (("x", 8),), cluster(x=(1e9,)), placements=asked).best
    (loop,) = uneven_loops(best)
    assert (loop.variable, loop.block, loop.parts, loop.empty, loop.last, loop.einsums) == ("m", 1, 8, 2, 1, ("Z",))
    assert loop.idle == 0.25
    (move,) = padded_moves(best)
    assert (move.what, move.sent, move.needed) == ("the all-gather of Z", 28, 21)
    assert padding_lines(best) == [
        "idle: m of 6 in blocks of 1 over x: 2 of 8 PEs along x have none; 25 % of the time of Z is lost",
        "padding: the all-gather of Z sends 1.33 times what it has, 28 bytes instead of 21 bytes",
    ]


def test_a_short_last_block_is_told_and_even_ones_are_not():
    asked = {"A": {"M": "x"}}
    uneven = planned(sums(10, 1000), (("x", 4),), cluster(x=(1e9,)), placements=asked).best
    assert padding_lines(uneven) == [
        "idle: m of 10 in blocks of 3 over x: the last PE has 1; 17 % of the time of Z is lost"
    ]
    assert padding_lines(planned(sums(12, 1000), (("x", 4),), cluster(x=(1e9,)), placements=asked).best) == []


def test_what_one_change_would_alter_is_what_planning_with_it_gives():
    workload = load("matmul", define={"M": 64, "K": 4096, "N": 64, "BITS": 32}).workload
    # the operands lie in parts of the reduced rank, and their sum is scattered: 3/4 of 64 x 64 values of 4 bytes
    asked = {"A": {"K": "x"}, "B": {"K": "x"}}
    slow = cluster(x=(1e9, 1e-6), y=(1e8, 1e-6))
    mesh = (("x", 4), ("y", 1))
    result = planned(workload, mesh, slow, 60.0, placements=asked, memory=1e6)
    moving = 0.75 * 64 * 64 * 4 / 1e9
    assert result.best.cost == pytest.approx(2 * 64**2 * 1024 / 1e12 + moving + 3e-6, rel=1e-6)
    by_name = {change.what: change.best for change in result.changes}
    assert by_name["half the memory (488.3 KiB)"] is None
    wide, soon = by_name["twice the bandwidth along x (2 GB/s)"], by_name["half the latency along x (500 ns)"]
    assert wide.cost == pytest.approx(result.best.cost - moving / 2, rel=1e-6)
    assert soon.cost == pytest.approx(result.best.cost - 1.5e-6, rel=1e-6)
    lines = change_lines(result)
    assert lines[0] == "half the memory (488.3 KiB): no plan keeps to it"
    assert lines[1].startswith(
        f"twice the bandwidth along x (2 GB/s): {100 * (wide.cost / result.best.cost - 1):.3g} %"
    )
    assert len(lines) == 3
    document = planned_document(result)
    assert [change["plan"] is None for change in document["what_if"]] == [True, False, False]


def test_a_change_that_alters_the_plan_says_how():
    workload = load("feed_forward", define={"N_TOKENS": 64, "D_MODEL": 1024, "D_FF": 4096, "BITS": 16}).workload
    result = planned(workload, (("x", 8),), cluster(x=(20e9, 1e-7)), 60.0, memory=20 * 2**20)
    lines = "\n".join(change_lines(result))
    assert "half the memory (10 MiB): " in lines
    assert result.changes[0].best.peak.bytes <= 10 * 2**20


def test_changes_for_which_there_is_no_time_are_not_tried():
    workload = load("matmul").workload
    result = planned(workload, (("x", 4),), cluster(x=(1e9, 1e-6)), 0.0)
    assert [change.tried for change in result.changes] == [False, False]
    assert change_lines(result)[0].endswith("not tried, the time was over")


def test_too_little_memory_names_what_is_missing_and_the_least_changes_that_help():
    workload = load("matmul", define={"M": 256, "K": 256, "N": 256, "BITS": 32}).workload

    def refused(memory, **asked):
        with pytest.raises(SpecError) as caught:
            planned(workload, (("x", 4),), cluster(x=(1e9,)), memory=memory * 2**10, placements=asked)
        return str(caught.value), caught.value.hint

    # both operands of 256 KiB on every PE, a quarter cut from one of them, and that of the result
    text, hint = refused(400, A="replicated", B="replicated")
    assert "no plan keeps to 400 KiB on each PE: the thriftiest needs 640 KiB, 240 KiB more; then it holds " in text
    assert hint == "allow 640 KiB, or do not fix A (384 KiB do), or do not fix B (384 KiB do)"
    # one operand is read whole; the other one and the result are cut in more parts
    hint = refused(330, A={"M": "x"}, B="replicated")[1]
    assert hint == "allow 384 KiB, or lay the mesh over 8 PEs along x (320 KiB do)"
    assert refused(200)[1] == "allow 384 KiB; without turns up to 16 times as many PEs along one axis would not do"


def test_where_the_cluster_ends_is_said_and_another_of_its_axes_is_tried():
    workload = load("matmul", define={"M": 256, "K": 256, "N": 256, "BITS": 32}).workload

    def hint(memory, **sizes):
        links = tuple((axis, Link(1e9, size=size)) for axis, size in sizes.items())
        of_links = Cluster(ProcessingElement(((32, 1e12),)), links)
        with pytest.raises(SpecError) as caught:
            planned(workload, (("x", 4),), of_links, memory=memory * 2**10)
        return caught.value.hint

    ended = "without turns more PEs along one axis would not do, as far as the cluster goes: at most 4 PEs along x"
    assert hint(260, x=4) == f"allow 384 KiB; {ended}"
    # rows of A over x, 64 KiB, columns of B over y, 128 KiB, and 32 KiB of Z
    assert hint(260, x=4, y=2) == "allow 384 KiB, or lay the mesh over 2 PEs along y (224 KiB do)"


def test_least_energy_is_not_asked_of_a_cluster_without_energies():
    workload = load("matmul").workload
    with pytest.raises(SpecError, match="the cluster gives no energy"):
        planned(workload, (("x", 4),), cluster(x=(1e9, 1e-6)), metric="energy")


def test_a_search_that_is_stopped_gives_the_best_so_far_with_a_bound():
    workload = load("feed_forward", define={"N_TOKENS": 64, "D_MODEL": 1024, "D_FF": 4096, "BITS": 16}).workload
    told = []
    progress = Progress(told.append)
    limited = planned(workload, (("x", 8),), cluster(x=(20e9, 1e-7)), progress=progress, memory=10 * 2**20)
    assert limited.best.proven
    assert {report.what for report in told} >= {"plans in any memory", "plans within the memory", "plans that differ"}
    progress.stop()
    stopped = planned(workload, (("x", 8),), cluster(x=(20e9, 1e-7)), progress=progress)
    # without a limit there is nothing to stop but the plans that differ
    assert stopped.best.proven
    assert stopped.others == ()
