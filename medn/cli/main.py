"""The `medn` command: registers the verbs, and turns every error into one sentence and its exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import Annotated

import typer

from medn.cli.adapt import adapt
from medn.cli.bench import bench
from medn.cli.check import check
from medn.cli.compare import compare
from medn.cli.compose import compose, place
from medn.cli.curve import curve
from medn.cli.devices import devices
from medn.cli.doctor import doctor
from medn.cli.export import export
from medn.cli.importing import import_rows
from medn.cli.init import init
from medn.cli.inspect import inspect
from medn.cli.leaderboard import leaderboard
from medn.cli.listing import list_entries
from medn.cli.merge import merge
from medn.cli.plan import plan
from medn.cli.predict import predict
from medn.cli.programs import programs
from medn.cli.quickstart import quickstart
from medn.cli.recommend import recommend
from medn.cli.report import report
from medn.cli.schema import schema
from medn.cli.select import select
from medn.cli.serve import serve
from medn.cli.summary import summary
from medn.cli.sweep import sweep
from medn.cli.table import table
from medn.cli.tables import tables
from medn.cli.train import train
from medn.cli.verbosity import LOGGER, QuietOption, Verb, VerboseOption, usual_verbosity
from medn.core.errors import MednError, UsageError
from medn.core.packages import install
from medn.core.plugins import failures

INTERRUPTED = 130
TRAIN_LIBRARIES = (
    *("filelock", "jinja2", "lightgbm", "onnx", "onnxruntime", "onnxscript"),
    *("optuna", "pyarrow", "sklearn", "scipy", "torch", "xgboost"),
)
"""What the extra `train` installs, as it is imported."""

app = typer.Typer(
    name="medn",
    help="Measure and predict what the layers of neural networks cost on a device.",
    epilog="""\b
Examples:
  medn quickstart                                   measure, train, choose and predict, in two minutes
  medn doctor                                       what this machine can measure
  medn sweep cpu-layers                             measure what a config describes
  medn train runs/cpu-layers --time 10m --jobs 2    learn from it
  medn select runs/cpu-layers --max-us 50           choose what to ship, as a bundle
  medn adapt runs/cpu-layers --device onnxruntime   a bundle for another device, from 50 points
  medn report runs/cpu-layers --open                how good the predictions are, as a page
  medn predict NAME.medn linear in_features=512 out_features=512    what one layer costs
  medn predict NAME.medn model.onnx                 what a whole model costs

\b
Exit codes: 0 done, 1 failed, 2 wrong usage, 3 nothing measured or no such device,
4 too noisy with --strict, 130 interrupted.""",
    rich_markup_mode=None,
    invoke_without_command=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
VERBS: dict[str, Callable[..., None]] = {
    "quickstart": quickstart,
    "doctor": doctor,
    "list": list_entries,
    "schema": schema,
    "init": init,
    "sweep": sweep,
    "summary": summary,
    "curve": curve,
    "train": train,
    "select": select,
    "adapt": adapt,
    "devices": devices,
    "leaderboard": leaderboard,
    "programs": programs,
    "report": report,
    "compare": compare,
    "check": check,
    "predict": predict,
    "recommend": recommend,
    "compose": compose,
    "table": table,
    "tables": tables,
    "inspect": inspect,
    "serve": serve,
    "plan": plan,
    "import": import_rows,
    "merge": merge,
    "export": export,
}
for name, verb in VERBS.items():
    app.command(name=name, cls=Verb)(verb)
app.command(name="place", hidden=True, cls=Verb)(place)
app.add_typer(bench)


def _print_version(wanted: bool) -> None:
    if wanted:
        from medn import __version__

        typer.echo(f"medn {__version__}")
        raise typer.Exit


@app.callback()
def options(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and stop.")
    ] = False,
    verbose: VerboseOption = False,
    quiet: QuietOption = False,
) -> None:
    if context.invoked_subcommand is None:
        LOGGER.error("%s", context.get_help())
        raise typer.Exit(UsageError.exit_code)


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command and give its exit code; plug-ins that could not be imported on the way are told after it."""
    usual_verbosity()
    try:
        return _run(arguments)
    finally:
        for sentence in failures():
            LOGGER.warning("medn: %s", sentence)


def _run(arguments: Sequence[str] | None) -> int:
    try:
        code = app(arguments, standalone_mode=False) or 0
        sys.stdout.flush()
    except MednError as error:
        LOGGER.error("medn: %s", error)
        return error.exit_code
    except typer.TyperException as error:
        LOGGER.error("medn: %s", error.format_message())
        return error.exit_code
    except BrokenPipeError:
        # Whoever read our output has had enough. Python would complain once more while it closes stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except ModuleNotFoundError as error:
        if os.environ.get("MEDN_DEBUG"):
            raise
        library = (error.name or "").partition(".")[0]
        remedy = install("train") if library in TRAIN_LIBRARIES else f"pip install {library}"
        LOGGER.error("medn: this needs %s: %s", library, remedy)
        return MednError.exit_code
    except Exception as error:
        if os.environ.get("MEDN_DEBUG"):
            raise
        LOGGER.debug("where it came from:", exc_info=True)
        LOGGER.error("medn: unexpected %s: %s (-v shows where it came from)", type(error).__name__, error)
        return 1
    if code == INTERRUPTED:
        LOGGER.error("medn: interrupted")
    return int(code)


def main() -> None:
    sys.exit(run())
