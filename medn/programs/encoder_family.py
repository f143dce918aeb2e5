"""What families of encoders have in common: only what they read differs."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from medn.programs.family import Lesson, ProgramFamily
from medn.regressors.form import Form
from medn.regressors.regressor import Effort, Settings


class EncoderFamily(ProgramFamily):
    packages: ClassVar[tuple[str, ...]] = ("torch",)
    defaults: ClassVar[Settings] = {}
    """Fields of `Teaching` or of its `EncoderDesign`, where they differ from theirs."""

    def fit(self, lesson: Lesson, effort: Effort) -> Form:
        import torch

        from medn.programs.network import EncoderDesign
        from medn.programs.training import Teaching, fit_encoder

        settings = {**self.defaults, **lesson.settings}
        design = {name: settings.pop(name) for name in EncoderDesign.__dataclass_fields__ if name in settings}
        teaching = Teaching(
            design=EncoderDesign(**design), seed=effort.seed, seconds=effort.seconds, clock=effort.clock
        )
        torch.set_num_threads(effort.threads)
        return fit_encoder(
            self.encoding,
            lesson.train,
            lesson.validation,
            lesson.devices,
            replace(teaching, **settings),
            lesson.unlabelled,
        )
