"""Modules that keep, share or change things where a capture could do harm. Each is made by one function."""

from __future__ import annotations

import functools
import itertools
import random
import threading
import weakref
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

Made = tuple[nn.Module, Any]
"""A module, and the inputs to call it with."""

MAKERS: dict[str, Callable[[], Made]] = {}
LOG: list[Any] = []
STATE: dict[str, Any] = {}
LAST: Any = None


def hostile(make: Callable[[], Made]) -> Callable[[], Made]:
    MAKERS[make.__name__] = make
    return make


class Calls(nn.Module):
    """A module made of a function and of what it keeps."""

    def __init__(self, function: Any, **kept: Any) -> None:
        super().__init__()
        self.fc = nn.Linear(16, 16)
        self.function = function
        for name, value in kept.items():
            setattr(self, name, value)

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(self, self.fc(x))


def rows() -> torch.Tensor:
    return torch.randn(4, 16)


@hostile
def the_same_layer_twice() -> Made:
    layer = nn.Linear(16, 16)
    return nn.Sequential(layer, nn.ReLU(), layer), rows()


@hostile
def a_list_of_one_module() -> Made:
    return nn.Sequential(*nn.ModuleList([nn.Linear(16, 16)] * 3)), rows()


@hostile
def two_attributes_for_one_module() -> Made:
    net = Calls(lambda self, x: self.other(x))
    net.other = net.fc
    return net, rows()


@hostile
def a_shared_batch_norm() -> Made:
    norm = nn.BatchNorm1d(16)
    return nn.Sequential(norm, nn.Linear(16, 16), norm), rows()


@hostile
def tied_weights() -> Made:
    net = Calls(lambda self, x: self.head(x), head=nn.Linear(16, 16))
    net.head.weight = net.fc.weight
    return net, rows()


@hostile
def a_buffer_that_views_a_weight() -> Made:
    net = Calls(lambda self, x: x + self.row)
    net.register_buffer("row", net.fc.weight.detach()[0])
    return net, rows()


@hostile
def an_attribute_made_at_the_first_call() -> Made:
    def lazily(self: Any, x: torch.Tensor) -> torch.Tensor:
        if not hasattr(self, "table"):
            self.table = torch.arange(16.0)
        return x + self.table

    return Calls(lazily), rows()


@hostile
def a_step_buffer() -> Made:
    def count(self: Any, x: torch.Tensor) -> torch.Tensor:
        self.step += 1
        return x * self.step

    net = Calls(count)
    net.register_buffer("step", torch.zeros(1))
    return net, rows()


@hostile
def an_input_changed_in_place() -> Made:
    class InPlace(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.relu_().mul_(2)

    return InPlace(), rows()


@hostile
def a_list_given_as_input() -> Made:
    class Pops(nn.Module):
        def forward(self, parts: list[torch.Tensor]) -> torch.Tensor:
            first = parts.pop()
            parts.append(first + 1)
            return first.relu()

    return Pops(), ([rows(), rows()],)


@hostile
def an_object_given_as_input() -> Made:
    class Cache:
        def __init__(self) -> None:
            self.held: list[torch.Tensor] = []

    class Caches(nn.Module):
        def forward(self, x: torch.Tensor, cache: Cache) -> torch.Tensor:
            cache.held.append(x.relu())
            return cache.held[-1]

    return Caches(), (rows(), Cache())


@hostile
def a_stash_in_containers_and_helpers() -> Made:
    class Helper:
        __slots__ = ("last",)

        def __init__(self) -> None:
            self.last: Any = None

    def stash(self: Any, x: torch.Tensor) -> torch.Tensor:
        self.seen["x"] = x
        self.seen["deep"]["er"].append(x)
        self.helper.last = x
        return x.relu()

    return Calls(stash, seen={"deep": {"er": []}}, helper=Helper()), rows()


@hostile
def a_class_attribute() -> Made:
    class Shared(nn.Module):
        cache: dict[Any, Any] = {}
        calls = 0

        def __init__(self) -> None:
            super().__init__()
            self.kept_here = (Shared.cache, lambda: Shared.calls)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            Shared.calls += 1
            Shared.latest = x.relu()
            return Shared.cache.setdefault(x.shape, torch.ones(16)) + x

    return Shared(), rows()


@hostile
def a_closure() -> Made:
    kept: list[Any] = []
    count = 0

    def remember(self: Any, x: torch.Tensor) -> torch.Tensor:
        nonlocal count
        count += 1
        kept.append(x)
        return x.relu()

    return Calls(remember), rows()


@hostile
def a_default_argument() -> Made:
    def remember(self: Any, x: torch.Tensor, kept: list[Any] = []) -> torch.Tensor:  # noqa: B006  # that is the fault
        kept.append(x)
        return kept[0] + x

    return Calls(remember), rows()


@hostile
def a_module_level_name() -> Made:
    def remember(self: Any, x: torch.Tensor) -> torch.Tensor:
        global LAST
        LAST = x
        LOG.append(x)
        STATE["x"] = x
        return x.relu()

    return Calls(remember, watched=(LOG, STATE)), rows()


@functools.lru_cache
def table(size: int) -> torch.Tensor:
    return torch.arange(float(size))


@hostile
def a_cached_function() -> Made:
    return Calls(lambda self, x: x + table(x.shape[-1])), rows()


@hostile
def a_hook_with_a_dict() -> Made:
    features: dict[str, Any] = {}
    net = nn.Sequential(nn.Linear(16, 16), nn.ReLU())
    net[0].register_forward_hook(lambda module, given, made: features.update(out=made))
    net[1].register_forward_pre_hook(lambda module, given: (given[0] * 2,))
    return net, rows()


@hostile
def a_hook_that_removes_itself() -> Made:
    net = nn.Sequential(nn.Linear(16, 16))
    handles: list[Any] = []
    handles.append(net[0].register_forward_hook(lambda module, given, made: handles.pop().remove()))
    return net, rows()


@hostile
def a_parametrized_layer() -> Made:
    return nn.utils.parametrizations.spectral_norm(nn.Linear(16, 16)), rows()


@hostile
def weight_norm_of_old() -> Made:
    return nn.utils.weight_norm(nn.Linear(16, 16)), rows()


@hostile
def a_lazy_layer() -> Made:
    return nn.Sequential(nn.LazyLinear(16), nn.ReLU()), rows()


@hostile
def an_own_deepcopy() -> Made:
    class Itself(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(16, 16)

        def __deepcopy__(self, memo: Any) -> Any:
            return self

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.last = self.fc(x)
            return self.last

    return Itself(), rows()


@hostile
def a_lock() -> Made:
    def locked(self: Any, x: torch.Tensor) -> torch.Tensor:
        with self.lock, self.again, self.condition:
            self.here.last = x
            return x.relu()

    kept = {"lock": threading.Lock(), "again": threading.RLock(), "condition": threading.Condition()}
    return Calls(locked, here=threading.local(), **kept), rows()


@hostile
def an_open_file() -> Made:
    def reads(self: Any, x: torch.Tensor) -> torch.Tensor:
        return x * len(self.file.readline())

    return Calls(reads, file=Path(__file__).open()), rows()


@hostile
def a_generator_that_is_not_used() -> Made:
    def endless() -> Iterator[int]:
        yield from itertools.count()

    return Calls(lambda self, x: x.relu(), source=endless()), rows()


@hostile
def a_weak_reference_to_its_owner() -> Made:
    class Child(nn.Module):
        owner: Any

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.owner().last = x
            return x.relu()

    net = Calls(lambda self, x: self.child(x), child=Child())
    net.child.owner = weakref.ref(net)
    return net, rows()


@hostile
def bound_methods_and_partials() -> Made:
    net = Calls(lambda self, x: self.then(self.step(x)))
    net.step = functools.partial(functional.linear, weight=net.fc.weight)
    net.then = net.fc.forward
    return net, rows()


@hostile
def a_forward_replaced_by_one_around_it() -> Made:
    net = nn.Sequential(nn.Linear(16, 16), nn.BatchNorm1d(16))
    before = net.forward
    net.forward = lambda x: before(x) * 2  # type: ignore[method-assign]
    return net, rows()


OWNER: Any = None


@hostile
def a_forward_that_names_its_model() -> Made:
    global OWNER
    OWNER = Calls(lambda self, x: OWNER.fc(x))
    OWNER.train()
    return OWNER, rows()


VARIABLE: ContextVar[Any] = ContextVar("VARIABLE", default=None)


@hostile
def a_context_variable() -> Made:
    def sets(self: Any, x: torch.Tensor) -> torch.Tensor:
        before = VARIABLE.get()
        VARIABLE.set(x)
        return x if before is None else x + before

    return Calls(sets), rows()


@hostile
def a_module_that_becomes_another() -> Made:
    class After(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.tanh()

    class Before(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.__class__ = After  # type: ignore[assignment]
            return x.relu()

    return Before(), rows()


@hostile
def a_namespace_in_a_closure() -> Made:
    space = SimpleNamespace(last=None, calls=0)

    def notes(self: Any, x: torch.Tensor) -> torch.Tensor:
        space.last, space.calls = x, space.calls + 1
        return x * space.calls

    return Calls(notes), rows()


@hostile
def a_single_helper_for_all() -> Made:
    class Single:
        made: Any = None
        log: list[Any]

        def __new__(cls) -> Any:
            if cls.made is None:
                cls.made = super().__new__(cls)
                cls.made.log = []
            return cls.made

    def notes(self: Any, x: torch.Tensor) -> torch.Tensor:
        Single().log.append(x)
        return x * len(self.helper.log)

    return Calls(notes, helper=Single()), rows()


CLEANED: list[str] = []


@hostile
def a_resource_that_cleans_up() -> Made:
    class Resource:
        def __del__(self) -> None:
            CLEANED.append("resource")

    class Items(dict[str, int]):
        def __del__(self) -> None:
            CLEANED.append("items")

    class Cleans(Calls):
        def __del__(self) -> None:
            CLEANED.append("module")

    return Cleans(lambda self, x: x.relu(), resource=Resource(), items=Items(a=1)), rows()


@hostile
def random_numbers_of_every_sort() -> Made:
    def rolls(self: Any, x: torch.Tensor) -> torch.Tensor:
        torch.manual_seed(random.randrange(9))
        noise = torch.rand(16, generator=self.own) + np.random.rand()  # the shared one
        return x + noise + torch.randn_like(x) * random.random()

    return Calls(rolls, own=torch.Generator().manual_seed(5)), rows()


@hostile
def settings_changed_by_a_call() -> Made:
    def sets(self: Any, x: torch.Tensor) -> torch.Tensor:
        torch.set_default_dtype(torch.float64)
        torch.set_grad_enabled(True)
        self.train()
        self.fc.weight.requires_grad_(False)
        return x.relu()

    return Calls(sets), rows()


@hostile
def weights_replaced_and_written() -> Made:
    def writes(self: Any, x: torch.Tensor) -> torch.Tensor:
        self.fc.weight.data.mul_(0.5)
        self.fc.bias = nn.Parameter(torch.zeros(16))
        self.fc.weight.data = self.fc.weight.data.clone()
        return x.relu()

    return Calls(writes), rows()


@hostile
def gradients_held() -> Made:
    net = nn.Sequential(nn.Linear(16, 16), nn.Linear(16, 1))
    net(rows()).sum().backward()
    return net, rows().requires_grad_()


@hostile
def a_result_kept_with_its_graph() -> Made:
    net = Calls(lambda self, x: x + self.before.mean())
    net.before = net.fc(rows())
    return net, rows()


@hostile
def numpy_arrays() -> Made:
    def counts(self: Any, x: torch.Tensor) -> torch.Tensor:
        self.array += 1
        self.tensor.numpy()[0] += 1
        return x * float(self.array[0])

    return Calls(counts, array=np.zeros(3), tensor=torch.zeros(3)), rows()


@hostile
def a_call_that_fails_half_way() -> Made:
    def breaks(self: Any, x: torch.Tensor) -> torch.Tensor:
        self.step = x
        self.fc.weight.data.zero_()
        self.eval()
        LOG.append(x)
        random.random()
        raise KeyError("half-way")

    return Calls(breaks, watched=LOG), rows()


@hostile
def a_call_that_needs_data() -> Made:
    """Only a real run can tell its shapes, and all it keeps is written to."""

    def gathers(self: Any, x: torch.Tensor) -> torch.Tensor:
        self.step.add_(1)
        self.fc.weight.mul_(2)
        self.fc.bias.detach().numpy()[0] = 3
        outside.add_(1)
        self.held = x[x.sum(1) > 0]
        return self.held.relu()

    outside = torch.zeros(3)
    net = Calls(gathers)
    net.register_buffer("step", torch.zeros(1))
    return net, torch.randn(400, 16)
