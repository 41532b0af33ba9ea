"""`einmap plan` with a cluster whose PEs have an architecture: what is printed, and what is refused."""

import pytest

FEED_FORWARD = ("-D", "N_TOKENS=12", "-D", "D_MODEL=8", "-D", "D_FF=16", "-D", "BITS=8")


def test_the_shipped_pod_is_planned(run):
    sizes = ("-D", "N_TOKENS=32", "-D", "D_MODEL=64", "-D", "D_FF=128")
    done = run("plan", "feed_forward", "--mesh", "x=4", "--cluster", "tpu_v4i_pod", *sizes)
    assert done.status == 0, done.err
    assert "proven least" in done.out
    assert "of 8 GiB" in done.out


@pytest.mark.parametrize(
    ("pe", "message"),
    [
        ("{arch: tpu_v4}", "there is no file 'tpu_v4' here, and no shipped architecture of that name"),
        ("{arch: tpu_v4}", "did you mean 'tpu_v4i'"),
        ("{arch: matmul.yaml}", "no shipped architecture of that name"),
        ("{arch: ''}", "there is no file '' here"),
        ("{arch: simple, peak: {bf16: 1e12}}", "a PE with an architecture has no peak"),
        ("{arch: simple, energy_per_bit: 1e-12}", "a PE with an architecture has no energy_per_bit"),
        ("{arch: work.yaml}", "it has no key 'arch'"),
        ("{arch: broken.yaml}", "broken.yaml:1:15: arch.nodes: the architecture needs a list of nodes"),
        ("{arch: options.yaml}", "options.yaml:2:18: mapper.metric: unknown field 'metric' of Mapper"),
        ("{arch: ../outside.yaml}", "leads out of"),
        ("{arch: never.yaml}", "the architecture of the PEs cannot map Einsum 'U', however it is spread"),
        ("{memory: 1e9}", "a PE needs 'peak', or 'arch' in its place"),
    ],
)
def test_a_bad_architecture_is_told(run, tmp_path, pe, message):
    folder = tmp_path / "here"
    folder.mkdir()
    (folder / "pod.yaml").write_text(f"cluster:\n  pe: {pe}\n  axes:\n    x: {{bandwidth: 1e9}}\n")
    (folder / "work.yaml").write_text("workload: {einsums: ['Z[m] = A[m]'], rank_sizes: {M: 2}}\n")
    (folder / "broken.yaml").write_text("arch: {nodes: 3}\n")
    (folder / "options.yaml").write_text(f"x-none: 0\nmapper: {{metric: 0}}{NEVER}")
    (folder / "never.yaml").write_text(NEVER)
    (tmp_path / "outside.yaml").write_text("arch: {nodes: []}\n")
    done = run("plan", "feed_forward", "--mesh", "x=2", "--cluster", folder / "pod.yaml", *FEED_FORWARD)
    assert done.status == 2
    assert message in " ".join(done.err.split())
    assert "Traceback" not in done.out + done.err


NEVER = """
arch:
  nodes:
  - !Memory
    name: Main
    size: inf
    leak_power: 0
    actions: [{name: read, energy: 1, throughput: 1}, {name: write, energy: 1, throughput: 1}]
    tensors: {keep: All}
  - !Memory
    name: Small
    size: 4
    leak_power: 0
    actions: [{name: read, energy: 1, throughput: 1}, {name: write, energy: 1, throughput: 1}]
    tensors: {keep: All}
  - !Compute {name: MAC, leak_power: 0, actions: [{name: compute, energy: 1, throughput: 1}]}
"""
