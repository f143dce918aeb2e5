"""Torch-Pruning to a budget of seconds: a predictor says what every group of channels costs, and when to stop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from medn.capture.capture import capture
from medn.capture.captured_model import CapturedLayer, CapturedModel
from medn.core.errors import MednError, UsageError
from medn.core.packages import need
from medn.core.values import Scalar
from medn.predictor.predictor import Predictor

if TYPE_CHECKING:
    import torch

STEPS = 60
"""In which the pruner gets to the largest share of channels that may go."""
MOST_PRUNED = 0.9
"""Of any layer's channels, so that none is left without."""
FINEST = 4
"""The channels of sweeps are multiples of this, so a predictor knows no finer staircase."""
LEAST_SAVED = 0.01
"""Of a group's seconds: on a wide stair fewer channels save nothing, and a predictor may even see it rise a little."""

CHANNELS = {
    "conv1d": ("in_channels", "out_channels"),
    "conv2d": ("in_channels", "out_channels"),
    "conv3d": ("in_channels", "out_channels"),
    "conv_transpose2d": ("in_channels", "out_channels"),
    "batch_norm2d": ("channels", "channels"),
    "group_norm": ("channels", "channels"),
    "layer_norm": ("features", "features"),
    "linear": ("in_features", "out_features"),
}
"""What pruning the inputs and the outputs of a layer changes."""
PRUNED = ("conv1d", "conv2d", "conv3d", "conv_transpose2d", "linear")

Cost = Callable[[CapturedModel], float]


@dataclass(frozen=True)
class Pruned:
    """What became of a model that was pruned in place."""

    before_s: float
    after_s: float
    round_to: int
    """The step in which channels were removed."""
    captured: CapturedModel
    """The model as it now is."""

    @property
    def share(self) -> float:
        return self.after_s / self.before_s


def prune(
    model: torch.nn.Module,
    example_inputs: Any,
    predictor: Predictor,
    *,
    share: float | None = None,
    budget_s: float | None = None,
    round_to: int | None = None,
    ignored_layers: Sequence[torch.nn.Module] | None = None,
    max_pruning_ratio: float = MOST_PRUNED,
) -> Pruned:
    """Prune a model in place until it is predicted to take a `share` of its seconds, or `budget_s` seconds.

    Channels that cost most for what they matter go first, in the step that the device's staircase suggests unless
    `round_to` says another. `ignored_layers` keep their outputs; left out, these are the last layers of the model.

    >>> prune(net, torch.rand(1, 3, 224, 224), medn.load("laptop.medn"), share=0.6).after_s    # doctest: +SKIP
    """
    need("pruning to a budget", "torch_pruning", extra="optimizers")
    captured = capture(model, example_inputs)
    before_s = predictor.model(captured).latency_s
    budget = _budget(before_s, share, budget_s)
    step = suggested_step(captured, predictor) if round_to is None else round_to
    importance = SecondsImportance(model, captured, predictor)
    kept = last_layers(model, captured) if ignored_layers is None else ignored_layers

    def cost(now: CapturedModel) -> float:
        importance.captured = now
        return predictor.model(now).latency_s

    captured = prune_until(model, example_inputs, importance, cost, budget, step, kept, max_pruning_ratio)
    return Pruned(before_s, predictor.model(captured).latency_s, step, captured)


def prune_until(
    model: torch.nn.Module,
    example_inputs: Any,
    importance: Callable[[Any], Any],
    cost: Cost,
    budget: float,
    round_to: int = 1,
    ignored_layers: Sequence[torch.nn.Module] = (),
    max_pruning_ratio: float = MOST_PRUNED,
) -> CapturedModel:
    """Prune a model in place, group by group, until any cost of it is within a budget; the model it then is."""
    import torch_pruning

    captured = capture(model, example_inputs)
    if cost(captured) <= budget:
        return captured
    pruner = torch_pruning.pruner.BasePruner(
        model,
        example_inputs,
        importance=importance,
        global_pruning=True,
        pruning_ratio=max_pruning_ratio,
        max_pruning_ratio=max_pruning_ratio,
        iterative_steps=STEPS,
        round_to=round_to,
        ignored_layers=list(ignored_layers),
    )
    for _ in range(STEPS):
        for group in pruner.step(interactive=True):
            group.prune()
            captured = capture(model, example_inputs)
            if cost(captured) <= budget:
                return captured
    left = f"{1 - max_pruning_ratio:.0%} of the channels"
    raise MednError(f"the budget {budget:.3g} is not reached with {left}: the model costs {cost(captured):.3g}")


def suggested_step(captured: CapturedModel, predictor: Predictor) -> int:
    """The multiple of channels that suits the convolutions in which most seconds are spent; 1 where there are none."""
    votes: dict[int, float] = {}
    for each in captured.layers:
        layer = each.layer
        if layer is None or layer.kind != "conv2d" or layer.values["groups"] != 1 or "conv2d" not in predictor.kinds:
            continue
        channels = int(layer.values["out_channels"])
        if channels < 2 * FINEST:
            continue
        fixed = {name: value for name, value in layer.values.items() if name != "out_channels"}
        fixed["batch_size"] = each.batch_size
        stairs = predictor.table("conv2d", fixed, out_channels=range(FINEST, channels + 1, FINEST))
        step = stairs.round_to or FINEST
        votes[step] = votes.get(step, 0.0) + float(stairs.latency_s[-1])
    return max(votes, key=lambda step: votes[step], default=1)


def last_layers(model: torch.nn.Module, captured: CapturedModel) -> list[torch.nn.Module]:
    """The modules behind which nothing else can be pruned: their outputs are those of the model."""
    followed: set[int] = set()
    last: list[str] = []
    for index, each in reversed(list(enumerate(captured.layers))):
        is_pruned = each.layer is not None and each.layer.kind in PRUNED
        if is_pruned and index not in followed:
            last.append(each.name)
        if is_pruned or index in followed:
            followed.update(each.inputs)
    modules = dict(model.named_modules())
    return [modules[name] for name in last if name in modules]


class SecondsImportance:
    """How much channels matter for each second that is spent on them: an importance for Torch-Pruning."""

    def __init__(self, model: torch.nn.Module, captured: CapturedModel, predictor: Predictor) -> None:
        import torch_pruning

        self.matter = torch_pruning.importance.GroupMagnitudeImportance(p=2)
        self.predictor = predictor
        self.names = {module: name for name, module in model.named_modules()}
        self.captured = captured
        """The model as it now is; whoever prunes it says so here."""

    def __call__(self, group: Any) -> torch.Tensor:
        matter: torch.Tensor = self.matter(group)
        return matter / self.channel_s(group)

    def channel_s(self, group: Any) -> float:
        """Predicted seconds that each channel of a group takes, from what a quarter fewer of them would save."""
        layers = {each.name: each for each in self.captured.layers if each.layer and each.layer.kind in CHANNELS}
        changed: dict[str, dict[str, Scalar]] = {}
        for dependency, channels in group:
            name = self.names.get(dependency.target.module, "")
            if name in layers and layers[name].layer.kind in self.predictor.kinds:  # type: ignore[union-attr]
                row = changed.setdefault(name, _row(layers[name]))
                _narrow(row, dependency.handler.__name__ == "prune_out_channels", _quarter(channels))
        if not changed:
            return 1e-12  # nothing that is predicted gets faster, so these channels may stay
        rows = [*(_row(layers[name]) for name in changed), *changed.values()]
        seconds = self.predictor.predict(rows).latency_s
        before_s, after_s = float(seconds[: len(changed)].sum()), float(seconds[len(changed) :].sum())
        return max(before_s - after_s, LEAST_SAVED * before_s) / _quarter(group[0].idxs)


def _row(each: CapturedLayer) -> dict[str, Scalar]:
    assert each.layer is not None
    return {"kind": each.layer.kind, **each.layer.values, "batch_size": each.batch_size}


def _narrow(row: dict[str, Scalar], of_outputs: bool, fewer: int) -> None:
    """A layer with fewer channels on one side; groups stay whole, and depthwise layers keep one for each channel."""
    name = CHANNELS[str(row["kind"])][of_outputs]
    groups, channels = int(row.get("groups", 1)), int(row[name])
    narrower = max(1, channels - fewer)
    if groups > 1 and groups == row.get("in_channels") == row.get("out_channels"):
        row |= {"in_channels": narrower, "out_channels": narrower, "groups": narrower}
    else:
        row[name] = max(groups, narrower // groups * groups)


def _quarter(channels: Sequence[int]) -> int:
    return max(1, len(channels) // 4)


def _budget(before_s: float, share: float | None, budget_s: float | None) -> float:
    if (share is None) == (budget_s is None):
        raise UsageError("say how fast the model must get: either share or budget_s")
    if share is not None and not 0 < share < 1:
        raise UsageError(f"share: must be between 0 and 1 (got {share})")
    if budget_s is not None and not budget_s > 0:
        raise UsageError(f"budget_s: must be above 0 (got {budget_s})")
    return share * before_s if share is not None else float(budget_s or 0.0)
