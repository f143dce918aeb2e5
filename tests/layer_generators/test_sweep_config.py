"""Sweep configs: what they may say, that every mistake is told by its path, and the schema for editors."""

from __future__ import annotations

from pathlib import Path

import jsonschema
import pytest

from medn.core.config import parse_yaml
from medn.core.domains import Fixed, LogRange, OneOf
from medn.core.errors import ConfigError
from medn.layer_generators.kind import layer_kinds
from medn.layer_generators.sampler import samplers
from medn.layer_generators.sweep import SweepConfig, load_sweep, parse_sweep, sweep_json_schema

CONFIGS = sorted((Path(__file__).parents[2] / "experiments" / "configs").glob("*.yaml"))
SMALL = "name: small\ndevices: [torch]\nlayers: {linear: {}}\n"

FULL = """
name: everything
seed: 7
devices: [torch, {name: laptop, backend: onnxruntime}]
sampler: sobol
budget: {points: 400, time: 10m}
layers:
  conv2d:
    in_channels: {log_range: [8, 256], multiple_of: 8}
    kernel_size: [1, 3, 5]
    groups: 1
    stride:
    share: 2
  linear:
conditions:
  batch_size: {powers_of_two: [1, 16]}
  utilization: [0.0, 0.5]
  cache: hot
  dtype: fp32
  threads: 1
  per_layer: 3
limits: {flops: 5.0e+9, memory_bytes: 1e9}
measure: {visits: 4, visit_time: 20ms, max_visits: 6, precision: 0.05, timeout: 1m, unstable_above: 0.1}
columns: {rack: A3, level: 3}
probes: [load_average, {name: temperature, file: /sys/class/thermal/thermal_zone0/temp, scale: 0.001}]
drop: [dilation_h, rack, flops, batch_size]
"""


def mistakes_in(text: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        parse_sweep(text, known_devices=["torch", "onnxruntime"], known_probes=["load_average"])
    return list(caught.value.mistakes)


def schema_errors(text: str) -> list[str]:
    validator = jsonschema.Draft202012Validator(sweep_json_schema())
    return [error.json_path for error in validator.iter_errors(parse_yaml(text, "sweep"))]


def test_everything_a_config_can_say_is_read() -> None:
    config = parse_sweep(FULL, known_devices=["torch", "onnxruntime"], known_probes=["load_average"])
    assert [(device.name, device.backend) for device in config.devices] == [
        ("torch", "torch"),
        ("laptop", "onnxruntime"),
    ]
    assert (config.budget.points, config.budget.time_s) == (400, 600.0)
    assert config.layers["conv2d"].share == 2
    assert dict(config.layers["conv2d"].space.named) == {
        "in_channels": LogRange((8, 256), 8),
        "kernel_size": OneOf((1, 3, 5)),
        "groups": Fixed(1),
    }
    assert config.conditions.domains["utilization"] == OneOf((0.0, 0.5))
    assert config.limits.flops == 5e9
    assert (config.measure.visit_time_s, config.measure.timeout_s, config.measure.max_visits) == (0.02, 60.0, 6)
    assert config.columns == {"rack": Fixed("A3"), "level": Fixed(3)}
    assert config.probes[1].scale == 0.001


def test_defaults_fill_what_a_config_leaves_out() -> None:
    config = parse_sweep(SMALL)
    assert (config.seed, config.sampler, config.budget.points) == (0, "random", None)
    assert (config.measure.visits, config.measure.max_visits, config.measure.visit_time_s) == (8, 16, 0.05)
    assert config.conditions.domains == {
        "batch_size": Fixed(1),
        "utilization": Fixed(0.0),
        "cache": Fixed("hot"),
        "dtype": Fixed("fp32"),
        "threads": Fixed(1),
    }


@pytest.mark.parametrize(
    ("more", "mistake"),
    [
        ("seed: -1", "seed: must be at least 0 (got -1)"),
        ("sampler: soboll", "sampler: no sampler named 'soboll'. Did you mean 'sobol'?"),
        ("budget: {points: 0}", "budget.points: must be at least 1 (got 0)"),
        ("budget: {time: 5y}", "budget.time: must be a duration above 0, such as 90, '90s', '10m' or '2h' (got '5y')"),
        ("budgt: {}", "budgt: unknown key. Did you mean 'budget'?"),
        ("conditions: {batch_size: [1, 0]}", "conditions.batch_size.1: must be at least 1 (got 0)"),
        ("conditions: {batch_size: 1.5}", "conditions.batch_size: must be a whole number (got 1.5)"),
        ("conditions: {utilization: 0.99}", "conditions.utilization: must be at most 0.95 (got 0.99)"),
        ("conditions: {utilization: idle}", "conditions.utilization: must be a number (got 'idle')"),
        ("conditions: {cache: [hot, cool]}", "conditions.cache.1: must be one of hot, cold, inside (got 'cool')."),
        ("conditions: {dtype: [fp32, nf4]}", "conditions.dtype.1: must be one of fp32, fp16, bf16, fp64, int8, fp8, "),
        ("dtypes: {nf4: 0}", "dtypes: the bytes of one element of nf4 must be a number from 0.015625 to 64 (got 0)"),
        ("dtypes: {fp16: 4}", "dtypes: an element of fp16 has 2 bytes (got 4)"),
        (
            "dtypes: [nf4]",
            "dtypes: must be data types with the bytes of one element, as in {nvfp4: 0.5625} (got ['nf4'])",
        ),
        ("conditions: {threads: {range: [0, 2]}}", "conditions.threads.range.0: must be at least 1 (got 0)"),
        ("conditions: {per_layer: 0}", "conditions.per_layer: must be at least 1 (got 0)"),
        ("conditions: {batchsize: 1}", "conditions.batchsize: unknown key. Did you mean 'batch_size'?"),
        ("limits: {flops: 0}", "limits.flops: must be above 0 (got 0)"),
        ("measure: {visits: 4, max_visits: 2}", "measure.max_visits: must be at least visits, 4 (got 2)"),
        ("measure: {visits: 4, calm_visits: 9}", "measure.calm_visits: must be at most max_visits, 8 (got 9)"),
        ("measure: {visits: 0}", "measure.visits: must be at least 1 (got 0)"),
        ("columns: {batch_size: 3}", "columns.batch_size: this name has a meaning already; choose another"),
        ("columns: {in_features: 3}", "columns.in_features: this name has a meaning already; choose another"),
        (
            "columns: {rack: [1, a]}",
            "columns.rack: must be all numbers, all strings, or all true or false (got [1, 'a'])",
        ),
        ("columns: {rack: {log_rang: [1, 2]}}", "columns.rack: needs exactly one of range, log_range,"),
        ("columns: {latency_s: 3}", "columns.latency_s: this name has a meaning already; choose another"),
        ("columns: {power mode: 1}", "columns.power mode: a column is named with letters, digits and '_'"),
        ("probes: [load_averag]", "probes.0: no probe named 'load_averag'. Did you mean 'load_average'?"),
        ("probes: [load_average, load_average]", "probes.0: the name 'load_average' stands 2 times"),
        ("drop: [in_feature]", "drop.0: no column is named 'in_feature'. Did you mean 'in_features'?"),
        ("drop: [dilation_h]", "drop.0: no column is named 'dilation_h'."),
    ],
)
def test_a_mistake_is_told_by_its_path(more: str, mistake: str) -> None:
    found = mistakes_in(SMALL + more)
    assert any(line.startswith(mistake) for line in found), found


@pytest.mark.parametrize(
    ("layers", "mistake"),
    [
        ("{}", "layers: must name at least one layer kind"),
        ("[linear]", "layers: must name at least one layer kind"),
        ("{conv2: {}}", "layers.conv2: no layer kind named 'conv2'. Did you mean 'conv2d'?"),
        ("{linear: 3}", "layers.linear: must be a mapping of parameters to values (got 3)"),
        ("{linear: {share: 0}}", "layers.linear.share: must be a number above 0 (got 0)"),
        ("{linear: {in_feature: 3}}", "layers.linear.in_feature: unknown parameter. Did you mean 'in_features'?"),
        ("{conv2d: {kernel_size: [1, 0]}}", "layers.conv2d.kernel_size.1: must be at least 1 (got 0)"),
        ("{conv2d: {kernel_size: 3, kernel_h: 3}}", "layers.conv2d.kernel_size: already says kernel_h"),
        ("{conv2d: {depthwise: 3}}", "layers.conv2d.depthwise: must be true or false (got 3)"),
        ("{conv2d: {bias: [true, maybe]}}", "layers.conv2d.bias.1: must be true or false (got 'maybe')"),
        ("{conv2d: {groups: {log_range: [0, 4]}}}", "layers.conv2d.groups: log_range must start at 1 or more (got 0)"),
        ("{conv2d: {stride: {rang: [1, 2]}}}", "layers.conv2d.stride: needs exactly one of range, log_range"),
        ("{activation: {function: [relu, reluu]}}", "layers.activation.function.1: must be one of relu"),
        ("{linear: {rows: {range: [1, 2], step: 0.5}}}", "layers.linear.rows.step: must be a whole number (got 1.5)"),
    ],
)
def test_a_mistake_in_a_layer_is_told_by_its_path(layers: str, mistake: str) -> None:
    found = mistakes_in(f"name: small\ndevices: [torch]\nlayers: {layers}")
    assert len(found) == 1
    assert found[0].startswith(mistake)


@pytest.mark.parametrize(
    ("devices", "mistakes"),
    [
        ("[]", ["devices: must have 1 or more entries (got [])"]),
        ("[torh]", ["devices.0: no device named 'torh'. Did you mean 'torch'? Known: onnxruntime, torch"]),
        ("[{name: laptop}]", ["devices.0.backend: missing"]),
        (
            "[torh, {name: x, backend: torch, port: 1}]",
            [
                "devices.0: no device named 'torh'. Did you mean 'torch'? Known: onnxruntime, torch",
                "devices.1.port: unknown key. Known: name, backend, sheet, over, python",
            ],
        ),
        (
            "[{name: x, backend: torch, sheet: {peak_gflops: 0, cores: 4, cache_mb: much}}]",
            [
                "devices.0.sheet.peak_gflops: must be above 0 (got 0)",
                "devices.0.sheet.cache_mb: must be a number (got 'much')",
                "devices.0.sheet.cores: unknown key. Known: "
                "peak_gflops, bandwidth_gb_s, multiprocessors, cache_mb, clock_mhz",
            ],
        ),
        (
            "[torch, torch]",
            [
                "devices.0: the name 'torch' stands 2 times; each needs its own",
                "devices.1: the name 'torch' stands 2 times; each needs its own",
            ],
        ),
    ],
)
def test_wrong_devices_are_told_by_their_place(devices: str, mistakes: list[str]) -> None:
    assert mistakes_in(f"name: small\ndevices: {devices}\nlayers: {{linear: }}") == mistakes


def test_fewer_points_than_devices_are_a_mistake() -> None:
    text = "name: small\ndevices: [torch, onnxruntime]\nlayers: {linear: }\nbudget: {points: 1}"
    assert mistakes_in(text) == ["budget.points: must be at least 1 per device, 2 (got 1)"]


def test_a_name_that_cannot_be_a_folder_is_a_mistake() -> None:
    assert mistakes_in("name: ../x\ndevices: [torch]\nlayers: {linear: }")[0].startswith("name: must be letters")


def test_mistakes_of_all_parts_come_at_once() -> None:
    found = mistakes_in("seed: x\ndevices: [torh]\nlayers: {conv2: , linear: {bias: 3}}\nlimits: {flop: 1}\ndrop: 3")
    assert [line.split(":")[0] for line in found] == [
        "name",
        "seed",
        "devices.0",
        "layers.conv2",
        "layers.linear.bias",
        "limits.flop",
        "drop",
    ]


def test_devices_and_probes_are_free_where_nobody_says_which_exist() -> None:
    config = parse_sweep("name: small\ndevices: [mine]\nlayers: {linear: }\nprobes: [my_probe]")
    assert config.devices[0].backend == "mine"


def test_a_probe_that_reads_a_file_may_have_any_name() -> None:
    text = SMALL + "probes: [{name: temperature, file: /sys/x}]"
    assert parse_sweep(text, known_probes=[]).probes[0].file == "/sys/x"


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_every_shipped_config_is_right(path: Path) -> None:
    config = load_sweep(path)
    assert isinstance(config, SweepConfig)
    assert config.name == path.stem


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_every_shipped_config_keeps_the_schema(path: Path) -> None:
    assert schema_errors(path.read_text(encoding="utf-8")) == []


def test_the_schema_is_a_schema_and_knows_every_kind_and_sampler() -> None:
    schema = sweep_json_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    assert list(schema["properties"]["layers"]["properties"]) == list(layer_kinds)
    assert schema["properties"]["sampler"]["enum"] == list(samplers)


def test_the_schema_accepts_everything_a_config_can_say() -> None:
    assert schema_errors(FULL) == []


@pytest.mark.parametrize(
    ("more", "path"),
    [
        ("layers: {conv2: }", "$.layers"),
        ("layers: {linear: {in_feature: 3}}", "$.layers.linear"),
        ("layers: {linear: {in_features: 0}}", "$.layers.linear.in_features"),
        ("layers: {linear: {in_features: {log_rang: [1, 2]}}}", "$.layers.linear.in_features"),
        ("layers: {linear: }\nsampler: soboll", "$.sampler"),
        ("layers: {linear: }\nconditions: {utilization: 2}", "$.conditions.utilization"),
        ("layers: {linear: }\nmeasure: {visit: 2}", "$.measure"),
    ],
)
def test_the_schema_points_at_what_is_wrong(more: str, path: str) -> None:
    assert schema_errors(f"name: small\ndevices: [torch]\n{more}") == [path]


def test_a_device_elsewhere_names_one_command_or_several() -> None:
    devices = "[{name: a, backend: torch, over: ssh a}, {name: b, backend: torch, over: [ssh b, ssh c]}]"
    config = parse_sweep(f"name: small\ndevices: {devices}\nlayers: {{linear: }}")
    assert [device.over for device in config.devices] == [["ssh a"], ["ssh b", "ssh c"]]
    assert [device.python for device in config.devices] == ["python3", "python3"]


@pytest.mark.parametrize(
    ("devices", "mistake"),
    [
        ("[{name: a, backend: torch, over: ''}]", "must be a command that leads to the device, such as ssh NAME"),
        ("[{name: a, backend: torch, over: [ssh a, ssh a]}]", "names a command twice"),
        ('[{name: a, backend: torch, over: "ssh \'a"}]', "cannot be read as a command: No closing quotation"),
        (
            "[{name: a, backend: torch, over: ssh x}, {name: b, backend: torch, over: [ssh x, ssh y]}]",
            "devices.1.over: 'ssh x' serves another device with other commands beside",
        ),
    ],
)
def test_ways_that_lead_nowhere_are_refused(devices: str, mistake: str) -> None:
    (told,) = mistakes_in(f"name: small\ndevices: {devices}\nlayers: {{linear: }}")
    assert mistake in told
