"""Peak memory of real models on torch: what is predicted from shapes alone, against what a real run allocates.

    python -m experiments.peak_memory --out results
    python -m experiments.peak_memory --models resnet50,vgg16 --batch 1,16

Each model is captured at batch size 1, and its peak predicted at every batch size. Then it runs in a process of its
own, one thread, with random weights: the peak of what torch's allocator held (every allocation and release, as
torch's profiler tells them), and how far the resident set grew, which counts what is kept and rounded up too. torch's
own MemTracker on fake tensors stands beside it. Weights count in all of them.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.real_models import IMAGE_MODELS, image_model
from experiments.script import end_with, named
from experiments.tables import markdown_table, write_tables
from medn.capture.capture import capture
from medn.core.errors import MednError
from medn.devices.memory import PeakMemory
from medn.model.model_sources import make_model
from medn.model.schedule import peak_activation_bytes, peak_graph_bytes

if TYPE_CHECKING:
    import torch

MODELS = (
    *("convnext_tiny", "cspresnet50", "deit_small_patch16_224", "densenet121", "dla34", "edgenext_small"),
    *("efficientnet_b0", "ghostnet_100", "hrnet_w18_small", "inception_v3", "mixer_b16_224", "mobilenetv2_100"),
    *("mobilevit_s", "poolformer_s12", "regnety_016", "res2net50_26w_4s", "resnet50", "seresnext50_32x4d"),
    *("swin_tiny_patch4_window7_224", "vgg16"),
)
"""Twenty architectures of as many families."""


def allocated_peak(run: Any) -> int:
    """The most that torch's CPU allocator held at once while something ran, over what it held before."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiled:
        run()
    results = profiled.profiler.kineto_results  # type: ignore[union-attr]
    found = sorted((event.start_ns(), event.nbytes()) for event in results.events() if event.name() == "[memory]")
    held = peak = 0
    for _, size_bytes in found:
        held += size_bytes
        peak = max(peak, held)
    return peak


def measure(name: str, batch_size: int) -> dict[str, float | None]:
    """What a real run takes, weights and inputs included. To be called in a process of its own."""
    import torch

    torch.set_num_threads(1)
    model, example = make_model(f"timm:{name}")
    inputs = torch.randn(batch_size, *example.shape[1:])
    weights = sum(each.nbytes for each in (*model.parameters(), *model.buffers()))
    with torch.inference_mode():
        model(inputs)  # libraries load what they need at the first call
        with PeakMemory() as resident:
            model(inputs)
        allocated = allocated_peak(lambda: model(inputs))
    grown = None if resident.bytes is None else resident.bytes + inputs.nbytes + weights
    tracked = weights + tracked_peak(model, example, batch_size)
    return {"allocated": weights + inputs.nbytes + allocated, "resident": grown, "tracked": tracked}


def tracked_peak(model: torch.nn.Module, example: torch.Tensor, batch_size: int) -> float:
    """What torch's MemTracker says of a run on fake tensors, beside the weights."""
    import torch
    from torch._subclasses import FakeTensorMode
    from torch.distributed._tools.mem_tracker import MemTracker

    mode = FakeTensorMode()
    for module in model.modules():
        for store, make in ((module._parameters, torch.nn.Parameter), (module._buffers, lambda tensor: tensor)):
            for key, tensor in list(store.items()):
                if tensor is not None:
                    store[key] = make(mode.from_tensor(tensor.data))  # type: ignore[assignment]
    with mode:
        inputs, tracker = torch.empty(batch_size, *example.shape[1:]), MemTracker()
        tracker.track_external(model, inputs)
        with torch.no_grad(), tracker:
            model(inputs)
        peak = tracker.get_tracker_snapshot("peak")
    total = sum(device["Total"] for device in peak.values())
    return total - sum(each.numel() * each.element_size() for each in (*model.parameters(), *model.buffers()))


def in_child(name: str, batch_size: int) -> dict[str, float | None]:
    code = (
        f"import json; from experiments.peak_memory import measure; print(json.dumps(measure({name!r}, {batch_size})))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    if done.returncode:
        raise MednError(f"{name} cannot be run: {(done.stderr.strip().splitlines() or ['it was ended'])[-1]}")
    found: dict[str, float | None] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def row(name: str, batch_size: int) -> dict[str, Any]:
    model, inputs = image_model(name)
    captured = capture(model, inputs)
    predicted = captured.parameter_bytes + peak_activation_bytes(captured, batch_size, "torch")
    graph = captured.parameter_bytes + peak_graph_bytes(captured, batch_size)
    found = in_child(name, batch_size)
    measured = found["allocated"] or 0.0
    return {
        "model": name,
        "batch": batch_size,
        "measured MB": round(measured / 1e6, 1),
        "predicted MB": round(predicted / 1e6, 1),
        "error": predicted / measured - 1,
        "graph alone": graph / measured - 1,
        "MemTracker": (found["tracked"] or 0.0) / measured - 1,
        "resident": None if found["resident"] is None else found["resident"] / measured - 1,
    }


def told(line: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: f"{value:+.1%}" if isinstance(value, float) and not name.endswith("MB") else value
        for name, value in line.items()
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default=",".join(MODELS), help="names of timm, separated by commas")
    parser.add_argument("--batch", default="4", help="batch sizes, separated by commas")
    parser.add_argument("--out", type=Path, help="a folder for the table and its JSON")
    options = parser.parse_args()
    names = named("model", options.models, dict.fromkeys(IMAGE_MODELS))
    rows = []
    for name in names:
        for batch_size in map(int, options.batch.split(",")):
            rows.append(row(name, batch_size))
            print(told(rows[-1]), file=sys.stderr, flush=True)
    errors = [abs(each["error"]) for each in rows]
    summary = {
        "models": len(names),
        "mean error": f"{statistics.mean(errors):.2%}",
        "worst": f"{max(errors):.1%}",
        "mean of the graph alone": f"{statistics.mean(abs(each['graph alone']) for each in rows):.1%}",
        "mean of MemTracker": f"{statistics.mean(abs(each['MemTracker']) for each in rows):.1%}",
    }
    print(markdown_table([told(each) for each in rows]))
    print(summary)
    if options.out:
        write_tables(options.out, "peak_memory", rows, summary)
    return 0


if __name__ == "__main__":
    end_with(main)
