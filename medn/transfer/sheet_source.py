"""What the data sheet of a new device says of it, as one more source beside the known devices themselves.

From ten points on, a source that is nearly right but for a factor is worth more than several that are not: so what is
known before anything is measured takes part in what is learned from few measurements.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from medn.bundle.bundle import write_bundle
from medn.core.errors import MednError
from medn.deployed.candidate import deployed_of
from medn.regressors.form import MOST_LEVELS
from medn.runs.tables import Source
from medn.sources.run_sources import SUFFIX, KnownDevices
from medn.transfer.candidate_points import measured_elsewhere, restricted
from medn.transfer.zero_shot import zero_shot

FOLDER = "from_sheet"
LEVELS_AROUND = 3
"""What a predictor that leans on it puts around its form."""


def sheet_source(run: Path, source: Source, files: Sequence[Path]) -> list[Path]:
    """The bundle that follows from the data sheet of the one device of a run, in the run; none where nothing does."""
    if len(source.devices) != 1 or source.devices[0] not in source.sheets:
        return []
    (device,), known = source.devices, KnownDevices.read(files)
    name = f"{device} from its sheet"
    try:
        try:
            pool = measured_elsewhere([file.parent for file in files], name)
        except MednError:  # bundles without their runs
            pool = measured_elsewhere([run], name)
        found = zero_shot(known, name, source.sheets[device], restricted(pool, known, ()))
    except MednError:  # few devices, or no numbers in common
        return []
    levels = [deployed_of(entry.latency).form.parts().levels for entry in found.bundle.entries]
    if max(levels) + LEVELS_AROUND > MOST_LEVELS:
        return []
    path = run / FOLDER / f"{FOLDER}{SUFFIX}"
    write_bundle(path, found.bundle)
    return [path]
