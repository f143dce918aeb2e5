"""The environment of each device of a sweep, and whether it is the one that the run was measured in."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from medn.core.environment import Manifest, disagreements, environment_id
from medn.core.errors import StoreError
from medn.core.store import Store


def enter_environments(
    store: Store, manifests: Mapping[str, Manifest], mix_environments: bool, elsewhere: Collection[str] = ()
) -> dict[str, str]:
    """The id of each device's environment, written down; refused where the run holds visits made in another one.

    Environments of devices that are known to be `elsewhere` alone are none of these devices' business.
    """
    held = store.environments()
    devices_of = store.devices_by_environment()
    if not mix_environments:
        for key, other in held.items():
            if devices_of[key] - manifests.keys() == devices_of[key] <= set(elsewhere):
                continue
            if any(_is_beside(manifests[name], other) for name in devices_of[key] & manifests.keys()):
                continue
            measured = {device: manifests[device] for device in devices_of[key] if device in manifests}
            if difference := _difference(other, measured, manifests):
                raise StoreError(
                    f"{store.path.parent} was measured in another environment ({difference}). Choose another folder "
                    "with --run, or pass --mix-environments to keep both, each row marked with its own"
                )
    ids = {device: _id_in(held, manifest) for device, manifest in manifests.items()}
    for device, manifest in manifests.items():
        store.add_environment(ids[device], manifest)
    return ids


def _is_beside(manifest: Manifest, other: Manifest) -> bool:
    """Whether it is another of the machines that serve the same device."""
    return "reached_over" in manifest and other.get("reached_over") != manifest["reached_over"]


def _difference(other: Manifest, measured: Mapping[str, Manifest], all_now: Mapping[str, Manifest]) -> str:
    """What tells an environment of the run from that of the devices which were measured in it; empty if nothing does.

    One in which none of them was measured must be the machine of any of them.
    """
    if "source" in other:
        return f"imported from {other['source']}"
    differences = ["; ".join(disagreements(manifest, other)) for manifest in (measured or all_now).values()]
    if not measured and "" in differences:
        return ""
    return next(filter(None, differences), "")


def _id_in(held: Mapping[str, Manifest], manifest: Manifest) -> str:
    """The id that the run has for this environment already, if it tells all of the device's libraries."""
    for key, other in held.items():
        told = "source" not in other and manifest["libraries"].keys() <= other["libraries"].keys()
        if told and not disagreements(manifest, other):
            return key
    return environment_id(manifest)
