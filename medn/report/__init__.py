"""The HTML report of a run, and the comparison of two runs: numbers are gathered first, then drawn as one page."""

from medn.report.content import gather as gather
from medn.report.models import predicted_models as predicted_models
from medn.report.page import report_page as report_page
