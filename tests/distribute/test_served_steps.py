"""Predicted times per output token against measured ones (`benchmarks/serving_steps.py` has all of them)."""

import pytest
from benchmarks.serving_steps import CLUSTERS, Row, cluster_named, predicted, rows_of

ROWS = """\
model_path,system,backend,backend_version,precision,isl,osl,batch_size,tp_size,silicon_ttft_ms,silicon_tpot_ms
meta-llama/Llama-3.1-8B-Instruct,h100_sxm,trtllm,1.0.0rc3,,1024,512,8,1,550.0,7.42
meta-llama/Llama-3.1-8B-Instruct,h100_sxm,trtllm,1.0.0rc3,,2048,256,32,1,255.9,14.94
meta-llama/Llama-3.1-8B-Instruct,h100_sxm,trtllm,1.0.0rc3,,4096,128,64,1,618.4,64.32
meta-llama/Llama-3.1-8B-Instruct,h100_sxm,trtllm,1.0.0rc3,,2048,512,32,4,153.5,5.49
Qwen/Qwen3-32B,h100_sxm,trtllm,1.0.0rc3,fp8,1024,512,16,4,156.1,8.40
meta-llama/Llama-3.1-70B,h200_sxm,vllm,,fp8,1024,1024,8,1,255.5,22.56
"""
"""Of `silicon_sample.csv` in aiconfigurator_core 0.12.0 (PyPI, Apache-2.0); none of these set a constant."""


def test_times_per_output_token_are_within_5_percent_with_one_device_and_10_with_several(tmp_path):
    path = tmp_path / "measured.csv"
    path.write_text(ROWS)
    rows = [row for row in rows_of(path) if isinstance(row, Row)]
    assert len(rows) == 6
    for row in rows:
        taken = predicted(row, cluster_named(CLUSTERS[row.system]))
        assert taken == pytest.approx(row.measured, rel=0.05 if row.tp == 1 else 0.1), row
