"""The `medn` command: registers the verbs, and turns every error into one sentence and its exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from medn.cli.bench import bench
from medn.cli.compare import compare
from medn.cli.compose import compose, place
from medn.cli.doctor import doctor
from medn.cli.export import export
from medn.cli.importing import import_rows
from medn.cli.inspect import inspect
from medn.cli.leaderboard import leaderboard
from medn.cli.listing import list_entries
from medn.cli.output import say
from medn.cli.predict import predict
from medn.cli.quickstart import quickstart
from medn.cli.report import report
from medn.cli.schema import schema
from medn.cli.select import select
from medn.cli.serve import serve
from medn.cli.summary import summary
from medn.cli.sweep import sweep
from medn.cli.table import table
from medn.cli.tables import tables
from medn.cli.train import train
from medn.core.errors import MednError, UsageError
from medn.core.packages import install
from medn.core.plugins import failures

INTERRUPTED = 130
TRAIN_LIBRARIES = (
    *("filelock", "jinja2", "lightgbm", "matplotlib", "onnx", "onnxscript"),
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
  medn sweep experiments/configs/cpu-layers.yaml    measure what a config describes
  medn train runs/cpu-layers --time 10m --jobs 2    learn from it
  medn select runs/cpu-layers --max-us 50           choose what to ship, as a bundle
  medn report runs/cpu-layers --open                how good the predictions are, as a page
  medn predict NAME.medn linear in_features=512 out_features=512    what one layer costs
  medn predict NAME.medn model.onnx                 what a whole model costs

\b
Exit codes: 0 done, 1 failed, 2 wrong usage, 3 nothing measured or no such device,
4 too noisy with --strict, 130 interrupted.""",
    rich_markup_mode=None,
    invoke_without_command=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command(name="quickstart")(quickstart)
app.command(name="doctor")(doctor)
app.command(name="list")(list_entries)
app.command(name="schema")(schema)
app.command(name="sweep")(sweep)
app.command(name="summary")(summary)
app.command(name="train")(train)
app.command(name="select")(select)
app.command(name="leaderboard")(leaderboard)
app.command(name="report")(report)
app.command(name="compare")(compare)
app.command(name="predict")(predict)
app.command(name="compose")(compose)
app.command(name="place", hidden=True)(place)
app.command(name="table")(table)
app.command(name="tables")(tables)
app.command(name="inspect")(inspect)
app.command(name="serve")(serve)
app.command(name="import")(import_rows)
app.command(name="export")(export)
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
) -> None:
    if context.invoked_subcommand is None:
        say(context.get_help())
        raise typer.Exit(UsageError.exit_code)


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command and give its exit code; plug-ins that could not be imported on the way are told after it."""
    try:
        return _run(arguments)
    finally:
        for sentence in failures():
            say(f"medn: {sentence}")


def _run(arguments: Sequence[str] | None) -> int:
    try:
        code = app(arguments, standalone_mode=False) or 0
        sys.stdout.flush()
    except MednError as error:
        say(f"medn: {error}")
        return error.exit_code
    except typer.TyperException as error:
        say(f"medn: {error.format_message()}")
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
        say(f"medn: this needs {library}: {remedy}")
        return MednError.exit_code
    except Exception as error:
        if os.environ.get("MEDN_DEBUG"):
            raise
        say(f"medn: unexpected {type(error).__name__}: {error} (MEDN_DEBUG=1 shows where it came from)")
        return 1
    if code == INTERRUPTED:
        say("medn: interrupted")
    return int(code)


def main() -> None:
    sys.exit(run())
