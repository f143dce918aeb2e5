"""From what was learned to the form that ships, if it has learned something and says what was fitted."""

from __future__ import annotations

import numpy as np

from medn.core.errors import MednError
from medn.core.metrics import has_learned, score
from medn.core.units import percent
from medn.deployed.facts import NOT_TEST, TRAIN
from medn.deployed.packing import pack, unpack
from medn.regressors.form import Form, restore
from medn.regressors.regressor import Fitted
from medn.training.learning import Learning, constant_values
from medn.training.prepared import Prepared

LARGEST_DIFFERENCE = 1e-4
"""How far a deployed form may be from what was fitted, relative, for any row."""

MOST_WORSE = 1.1
"""How many times the error of the fit that they were held out from a fit on all rows may have on the rows to choose by,
which it has learned from: more means that it came to no good end."""


class NothingLearned(MednError):
    """One number for everything would predict better."""


class NoGoodEnd(MednError):
    """A fit on more rows predicts these worse than the one that had not learned from them."""


class NotTheSame(MednError):
    """A deployed form does not predict what the fitted regressor does."""


def shipped_form(learned: Learning, refitted: Fitted | None, prepared: Prepared) -> tuple[Form, str]:
    """The form that ships and which rows it has learned from: all but those for test, if that came to a good end."""
    if refitted is not None:
        try:
            if learned.fitted is not None:
                check_refitted(refitted, learned.error(prepared), prepared)
            return exported(refitted, prepared), NOT_TEST
        except Exception:  # a family may fail in any way its library does
            if learned.fitted is None:
                raise
    assert learned.fitted is not None, "rows in folds are always fitted once more"
    return exported(learned.fitted, prepared), TRAIN


def check_refitted(refitted: Fitted, error: float, prepared: Prepared) -> None:
    """`error` is that on the rows to choose by before they were learned from."""
    own = score(refitted.predict(prepared.validation.inputs), prepared.validation.target).mape
    if not own <= MOST_WORSE * error:
        raise NoGoodEnd(f"an error of {percent(own)} on rows that it learned from, where {percent(error)} was before")


def check_learned(learned: Learning, prepared: Prepared) -> None:
    """What has learned nothing is not offered: it would stand beside others as if it were one of them."""
    held, constant, predicted = prepared.validation, constant_values(prepared), np.exp(learned.log_values)
    if has_learned(predicted, held.target, constant):
        return
    errors = [score(values, held.target).mape for values in (predicted, constant)]
    own, plain = map(percent, errors)
    raise NothingLearned(f"it has learned nothing: an error of {own}, one number for every layer has {plain}")


def exported(fitted: Fitted, prepared: Prepared) -> Form:
    """The deployed form, read back from what is saved, if it says what the fitted regressor says."""
    inputs = np.concatenate([prepared.validation.inputs, prepared.test.inputs])
    form = restore(unpack(*pack(fitted.export().parts())), inputs.shape[1])
    expected, deployed = fitted.predict(inputs), form.predict(inputs)
    if not (np.isfinite(deployed) & (deployed > 0)).all():
        raise NotTheSame("the deployed form predicts latencies that are not positive numbers")
    difference = float(np.abs(deployed / expected - 1).max())
    if not difference <= LARGEST_DIFFERENCE:
        raise NotTheSame(f"the deployed form differs by {difference:.2g} from the fitted regressor")
    return form
