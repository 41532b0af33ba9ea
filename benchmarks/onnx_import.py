"""Networks in ONNX imported at full size: products against published counts, seconds, memory, the best mappings.

Processor seconds of one import, without the start of Python; the memory is that of a process of its own, and of the
command `einmap import`. Mappings are unfused, on three shipped architectures, each within LIMIT_S. Exits with status 1
where products differ from the published ones by more than 1 %, or where an import takes longer than 2 s or more than
500 MB.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import onnx

import einmap
from onnx_networks import NETWORKS, resnet

ARCHES = ("tpu_v4i", "eyeriss", "nvdla")
LIMIT_S = 100.0
MOST_SECONDS, MOST_MB, MOST_DIFFERENCE = 2.0, 500, 0.01


def imported(path: Path) -> tuple[einmap.Imported, float]:
    """A model of a batch of one, its numbers of 8 bits, and the processor seconds of the import."""
    dimensions = {"batch": 1} if b"batch" in path.read_bytes() else {}
    start = time.process_time()
    model = einmap.from_onnx(path, dimensions=dimensions, bits=8)
    model.spec.workload  # noqa: B018 - bound here, so that its time counts
    return model, time.process_time() - start


def mapped(model: einmap.Imported, arch: str) -> str:
    """Processor seconds of the search for the best mapping that fuses nothing, and "?" if it is not proven."""
    spec = einmap.Spec.from_dict({**einmap.load(arch).to_dict(), **model.spec.to_dict()})
    start = time.process_time()
    result = einmap.map_workload(spec, fuse=False, time_limit_s=LIMIT_S)
    return f"{time.process_time() - start:.1f} s{'' if result.optimal else '?'}"


def with_weights(path: Path) -> Path:
    """The model with zeros for all its weights, in the file itself."""
    model = onnx.load(path, load_external_data=False)
    for tensor in model.graph.initializer:
        if tensor.data_location == 1:
            values = 1
            for size in tensor.dims:
                values *= size
            tensor.ClearField("external_data")
            tensor.ClearField("data_location")
            tensor.raw_data = bytes(4 * values)
    path.write_bytes(model.SerializeToString())
    return path


CALL = "import einmap; begin = time.process_time(); einmap.from_onnx(sys.argv[1], batch=1).spec.workload"
COMMAND = """begin = 0.0
from einmap.cli.main import main
with contextlib.suppress(SystemExit):
    main(["import", sys.argv[1], "--batch", "1"])"""
USED = 'time.process_time() - begin, int(re.search(r"VmHWM:\\s*(\\d+)", open("/proc/self/status").read())[1]) // 1024'
"""What `getrusage` tells has the memory of the process that began this one in it."""


def fresh(code: str, path: Path) -> tuple[float, int]:
    """Processor seconds and megabytes of a new process: of CALL without the start of Python, of COMMAND with it."""
    text = f"import contextlib, re, sys, time\n{code}\nprint({USED}, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", text, str(path)], check=True, capture_output=True, text=True)
    seconds, megabytes = done.stderr.split()[-2:]
    return float(seconds), int(megabytes)


def main() -> int:
    """Print the tables."""
    failed = False
    folder = Path(tempfile.mkdtemp())
    print(f"{'':36} operators  Einsums        products  published    import")
    models = {}
    for number, (name, (make, published, _)) in enumerate(NETWORKS.items()):
        model, seconds = imported(make(folder / f"{number}.onnx"))
        models[name] = model
        products = model.n_multiply_accumulates
        difference = f"{products / published - 1:+.2%}" if published else "-"
        failed |= bool(published) and abs(products / published - 1) > MOST_DIFFERENCE
        failed |= seconds > MOST_SECONDS or bool(model.barriers)
        counts = f"{sum(model.operators.values()):9} {len(model.spec.workload.einsums):8}"
        print(f"{name:36} {counts} {products:15,}  {difference:>9} {seconds:7.2f} s")
    print("\nResNet-50 in a new process, 32-bit numbers")
    outside = resnet(folder / "resnet50.onnx", [3, 4, 6, 3], True)
    inside = with_weights(resnet(folder / "resnet50_whole.onnx", [3, 4, 6, 3], True))
    for path, where in ((outside, "weights in another file"), (inside, "weights in the file")):
        size = f"{where}, {path.stat().st_size / 1e6:.1f} MB"
        for code, what in ((CALL, "from_onnx"), (COMMAND, "einmap import")):
            seconds, megabytes = fresh(code, path)
            failed |= megabytes > MOST_MB or seconds > MOST_SECONDS
            print(f"{size:36} {what:14} {seconds:5.2f} s {megabytes:5} MB")
    print()
    print("Mappings without fusion, 8 bits (processor seconds; ?: not proven)")
    print(" " * 36 + "".join(f"{title:>10}" for title in ARCHES))
    for name, model in models.items():
        print(f"{name:36}" + "".join(f"{mapped(model, arch):>10}" for arch in ARCHES), flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
