"""The page of every public name: taken from the packages when the site is built.

A name that no reference page shows is a link to nowhere, which the strict build refuses.
"""

from __future__ import annotations

import importlib
import inspect
import re
from types import ModuleType
from typing import Any

import heavytail

PLACE = "<!-- names: all -->"
ROLE = re.compile(r":\w+:`~?([^`]+)`")
# What has no docstring of its own; each has its place on the page of names itself.
CONSTANTS = {
    "ALL": "every class of this package, in the order of its table",
    "AGENT_CHECKS": "the checks of `check_agent`, by name",
    "BLOCK": "rounds that an environment deals at a time",
    "CONTROLLER_CHECKS": "the checks of `check_controller`, by name",
    "ENVIRONMENT_CHECKS": "the checks of `check_environment`, by name",
    "ESTIMATOR_CHECKS": "the checks of `check_estimator`, by name",
    "IDENTIFIER_CHECKS": "the checks of `check_identifier`, by name",
    "LEDGER_CHECKS": "the checks of `check_ledger`, by name",
    "LINKS": "the four links below, by name",
    "POLICY_CHECKS": "the checks of `check_policy`, by name",
    "SKEWS": "the worlds of `SkewedBandit`, by name",
    "identity": "the mean is the score: rewards of any sign",
    "log": "the log of the mean is the score: counts and amounts",
    "logistic": "the log-odds of the mean are the score: clicks",
    "probit": "the mean is the normal distribution function of the score: clicks",
}


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Fill in a table for every public package and module."""
    if PLACE not in markdown:
        return markdown
    tables = [table(heavytail), *(table(one) for one in public_modules())]
    return markdown.replace(PLACE, "\n\n".join(tables))


def public_modules() -> list[ModuleType]:
    """The modules among the names of ``heavytail``, and that of its clients."""
    named = [getattr(heavytail, name) for name in heavytail.__all__]
    found = [one for one in named if inspect.ismodule(one)]
    return [*found, importlib.import_module("heavytail.client")]


def public_names(module: ModuleType) -> list[str]:
    """What ``module`` offers; of ``heavytail`` without the policies, which have their own table."""
    shown = getattr(module, "__all__", None) or [n for n in dir(module) if not n.startswith("_")]
    kept = heavytail.policies.NAMES if module is heavytail else ()
    return [name for name in shown if name not in kept]


def table(module: ModuleType) -> str:
    """A heading, what the module is for, and a row for each of its names."""
    names = public_names(module)
    rows = "\n".join(f"| {link(module, name)} | {says(module, name)} |" for name in names)
    about = summary(module.__doc__ or "")
    return f"## {module.__name__}\n\n{about}\n\n| name | what it is |\n| --- | --- |\n{rows}"


def identifier(module: ModuleType, name: str) -> str:
    """Where the reference has it: by the module that defines it."""
    value = getattr(module, name)
    if inspect.ismodule(value):
        return str(value.__name__)
    if name in CONSTANTS:
        return f"{module.__name__}.{name}"
    return f"{value.__module__}.{name}"


def link(module: ModuleType, name: str) -> str:
    """The name, and the way to its entry."""
    value, target = getattr(module, name), identifier(module, name)
    if inspect.ismodule(value):  # has a table on this page
        return f"[`{name}`](#{re.sub(r'[^a-z]', '', target)})"
    if name in CONSTANTS:
        return f'<span id="{target}">`{name}`</span>'
    return f"[`{name}`][{target}]"


def says(module: ModuleType, name: str) -> str:
    """The first sentence of its docstring."""
    return CONSTANTS[name] if name in CONSTANTS else summary(inspect.getdoc(getattr(module, name)))


def summary(doc: str | None) -> str:
    """The first sentence, on one line, as a cell of a table can hold it."""
    text = " ".join((doc or "").split("\n\n")[0].split())
    sentence = re.split(r"(?<=[a-z)`][.])\s", text)[0]
    return ROLE.sub(r"`\1`", sentence).replace("|", r"\|")
