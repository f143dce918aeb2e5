"""How much a command says: `-q` and `-v`, by the loggers of the standard library."""

from __future__ import annotations

import logging
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from medn.core.text import printable

LOGGER = logging.getLogger("medn")
"""Messages for people are INFO, errors ERROR, and what explains the work DEBUG. Modules of medn log below it."""


LONGEST_SENTENCE = 200


class _OnStderr(logging.Handler):
    """Lines on stderr, wherever that is when they are written."""

    def emit(self, record: logging.LogRecord) -> None:
        typer.echo(printable(self.format(record)), err=True)


def usual_verbosity() -> None:
    """As every command begins: messages are shown, what explains the work is not."""
    LOGGER.setLevel(logging.INFO)


LOGGER.addHandler(_OnStderr())
usual_verbosity()


def _say_more(wanted: bool) -> None:
    if wanted:
        LOGGER.setLevel(logging.DEBUG)


def _say_less(wanted: bool) -> None:
    if wanted:
        LOGGER.setLevel(logging.WARNING)


VerboseOption = Annotated[
    bool,
    typer.Option("-v", "--verbose", callback=_say_more, expose_value=False, help="Say more about what is done."),
]
QuietOption = Annotated[
    bool,
    typer.Option("-q", "--quiet", callback=_say_less, expose_value=False, help="Say nothing but warnings and errors."),
]


def is_verbose() -> bool:
    return LOGGER.isEnabledFor(logging.DEBUG)


def is_quiet() -> bool:
    return not LOGGER.isEnabledFor(logging.INFO)


class Verb(TyperCommand):
    """A command that takes `-v` and `-q` after its name too, as the options of `medn` itself declare them."""

    def get_short_help_str(self, limit: int = LONGEST_SENTENCE) -> str:
        """Its first sentence in the list of verbs, where it is wrapped and not cut off."""
        return super().get_short_help_str(max(limit, LONGEST_SENTENCE))

    def get_params(self, ctx: Any) -> Any:  # the types of the library's own are private
        shared = [each for each in ctx.find_root().command.params if each.name in ("verbose", "quiet")]
        own = super().get_params(ctx)
        return own if any(each in own for each in shared) else [*own[:-1], *shared, *own[-1:]]
