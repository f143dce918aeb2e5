"""What an exporter is: a bundle's latencies as files in the format of another program."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

from medn.capture.captured_model import CapturedModel
from medn.core.errors import ConfigError, StoreError, UsageError, unknown
from medn.core.parameters import Parameter
from medn.core.registry import Registry
from medn.core.text import shown
from medn.estimator.layer_predictor import LayerPredictor
from medn.estimator.table_files import read_value

Options = SimpleNamespace
"""The options of one export by attribute, checked, with defaults."""


class Exporter(ABC):
    """One format. One subclass in one file, with `@exporters.register` above it."""

    name: ClassVar[str]
    description: ClassVar[str]
    to: ClassVar[str]
    """Where it is written if nobody says: the name that the other program looks for, of a file or of a folder."""
    needs_model: ClassVar[bool] = False
    options: ClassVar[tuple[Parameter, ...]] = ()
    """What can be said beside; one without a default must be said."""

    @abstractmethod
    def files(self, predictor: LayerPredictor, model: CapturedModel | None, options: Options) -> Mapping[str, bytes]:
        """The content of each file by its name in the folder, or of the only file under the name ''."""

    def read_options(self, given: Mapping[str, Any]) -> Options:
        """What was given, as values or as a command line has them, with the defaults of the rest, checked at once."""
        known = {option.name: option for option in self.options}
        mistakes = [unknown(f"option of {self.name}", name, known) for name in given if name not in known]
        values = {}
        for name, option in known.items():
            written = given.get(name, option.default)
            is_text = isinstance(written, str) and option.type is not str
            values[name] = option.fitted(read_value(written) if is_text else written)
            if values[name] is None:
                mistakes.append(f"{name}: missing; it is {option.about}")
            elif wrong := option.mistake(values[name]):
                mistakes.append(f"{name}: {wrong}")
        if mistakes:
            raise ConfigError(f"table in the format {self.name}", mistakes)
        return SimpleNamespace(**values)

    def write(
        self,
        predictor: LayerPredictor,
        to: Path | None = None,
        model: CapturedModel | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> list[Path]:
        """Write the table to a file or a folder, and tell which files were written."""
        if self.needs_model and model is None:
            raise UsageError(f"a table in the format {self.name} is of a model's layers: give a model")
        checked = self.read_options(options or {})
        target = Path(self.to) if to is None else to
        written = []
        for name, content in self.files(predictor, model, checked).items():
            path = target / name if name else target
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
            except OSError as error:
                raise StoreError(f"cannot write {path}: {error.strerror or shown(error)}") from None
            written.append(path)
        return written


exporters: Registry[Exporter] = Registry("table format", package="medn.exporting.formats")
