"""Mutants of a source file: one small change of the text each, at a place that is code.

A change replaces the bytes of one token or expression, so line numbers stay and a mutant can be
shown as the line before and after. Left alone: docstrings, annotations, decorators, defaults of
parameters, ``raise`` and ``assert`` statements, f-strings, and whatever else only words a message.
A default is a choice: no test can know that another would be a fault.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

BINARY = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "/"),
    ast.Div: ("/", "*"),
    ast.Pow: ("**", "*"),
    ast.FloorDiv: ("//", "*"),
    ast.Mod: ("%", "+"),
    ast.MatMult: ("@", "*"),
    ast.BitAnd: ("&", "|"),
    ast.BitOr: ("|", "&"),
    ast.BitXor: ("^", "&"),
    ast.LShift: ("<<", ">>"),
    ast.RShift: (">>", "<<"),
}
# The neighbour (does the edge belong?) and, where that differs, the opposite (is it tested at all?)
COMPARED = {
    ast.Lt: ("<", "<=", ">="),
    ast.LtE: ("<=", "<", ">"),
    ast.Gt: (">", ">=", "<="),
    ast.GtE: (">=", ">", "<"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Is: ("is", "is not"),
    ast.IsNot: (r"is\s+not", "is"),
    ast.In: ("in", "not in"),
    ast.NotIn: (r"not\s+in", "in"),
}
PAIRS = ("min max", "minimum maximum", "argmin argmax", "any all", "floor ceil", "zeros ones")
SWAPS = {a: b for pair in PAIRS for a, b in (pair.split(), pair.split()[::-1])}
SILENT = (ast.Raise, ast.Assert, ast.JoinedStr, ast.Import, ast.ImportFrom)


@dataclass(frozen=True)
class Mutant:
    """One change: bytes ``start`` to ``end`` of ``file`` become ``text``."""

    file: str  # within the package
    function: str  # dotted; outside of functions the name that is bound, "" where none is
    line: int
    kind: str
    before: str
    after: str
    start: int
    end: int
    text: str
    lines: tuple[int, int]  # of the statement, to find the tests that run it
    outer: str | None  # qualified name of the outermost function; None where import runs it
    nth: int = 1  # among changes of its kind in one function, in the order of the text

    @property
    def id(self) -> str:
        return f"{self.file}:{self.function}:{self.line}:{self.kind}"

    @property
    def key(self) -> str:
        """The mutant's name: function and operator, so that code may move and locals be renamed."""
        return f"{self.file}:{self.function}: {self.kind} #{self.nth}"

    @property
    def shown(self) -> str:
        """The line before and after."""
        return f"{self.before} => {self.after}"

    def applied(self, source: bytes) -> bytes:
        return source[: self.start] + self.text.encode() + source[self.end :]


def mutants_of(file: str, source: bytes) -> list[Mutant]:
    """Every mutant of a file, in the order of its lines."""
    finder = _Finder(file, source)
    finder.visit(ast.parse(source))
    seen: Counter[tuple[str, str]] = Counter()
    numbered = []
    for mutant in sorted(finder.found, key=lambda m: (m.start, m.end, m.text)):
        seen[mutant.function, mutant.kind] += 1
        numbered.append(replace(mutant, nth=seen[mutant.function, mutant.kind]))
    return numbered


def accepted(path: Path) -> dict[str, str]:
    """survivors.toml: key of a mutant -> why it is harmless."""
    entries = tomllib.loads(path.read_text()).get("accepted", []) if path.exists() else []
    return {f"{e['file']}:{key}": e["reason"] for e in entries for key in e["mutants"]}


def _constants(value: Any) -> Iterator[Any]:
    """What a number becomes: c + 1, 2 c, c / 2; 1 becomes 0 too, True becomes False."""
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, int):
        yield from dict.fromkeys([value + 1, *([2 * value, value // 2] if value else [])])
    elif isinstance(value, float):
        options = [value + 1.0, 2.0 * value, 0.5 * value, *([0.0] if value == 1.0 else [])]
        yield from (v for v in dict.fromkeys(options) if v != value)


def _bound(node: ast.stmt) -> str:
    """The name that an assignment binds, "" where it binds none or several."""
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return targets[0].id if len(targets) == 1 and isinstance(targets[0], ast.Name) else ""


class _Finder(ast.NodeVisitor):
    def __init__(self, file: str, source: bytes) -> None:
        self.file, self.source, self.found = file, source, list[Mutant]()
        self.names: list[str] = []  # of the classes and functions around
        self.bound = ""  # outside of functions, the name that a statement binds
        self.outer: str | None = None
        self.returns = ""
        self.lines = (1, 1)
        self.starts = [0, *(m.end() for m in re.finditer(b"\n", source))]

    def at(self, node: Any) -> int:
        return self.starts[node.lineno - 1] + node.col_offset

    def end(self, node: Any) -> int:
        return self.starts[node.end_lineno - 1] + node.end_col_offset

    def add(self, kind: str, start: int, end: int, text: str) -> None:
        line = self.source.count(b"\n", 0, start)
        first, last = self.starts[line], self.source.find(b"\n", end)
        last = len(self.source) if last < 0 else last
        before = self.source[first:last].decode()
        after = (self.source[first:start] + text.encode() + self.source[end:last]).decode()
        before, after = (" ".join(part.partition("  # ")[0].split()) for part in (before, after))
        name = ".".join([*self.names, self.bound] if self.bound else self.names)
        where = (line + 1, kind, before, after, start, end, text, self.lines, self.outer)
        self.found.append(Mutant(self.file, name, *where))

    def operator(self, left: Any, right: Any, pattern: str, *texts: str) -> None:
        """Replace the operator that stands between two nodes."""
        gap = self.source[self.end(left) : self.at(right)].decode()
        match = re.search(pattern, re.sub(r"#.*", lambda m: " " * len(m[0]), gap))
        assert match is not None, (self.file, gap, pattern)
        start = self.end(left) + match.start()
        for text in texts:
            kind = f"{match[0]} -> {text}"
            self.add(kind, start, start + len(match[0]), text)

    def visit(self, node: ast.AST) -> None:
        if isinstance(node, SILENT):
            return
        if isinstance(node, ast.stmt):
            kept, self.lines = self.lines, (node.lineno, node.end_lineno or node.lineno)
            self.bound = _bound(node) if self.outer is None else ""
            if body := getattr(node, "body", None):
                self.lines = (node.lineno, max(node.lineno, body[0].lineno - 1))
            super().visit(node)
            self.lines, self.bound = kept, ""
        else:
            super().visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        kept = self.outer, self.returns
        self.names.append(node.name)
        self.outer = self.outer or ".".join(self.names)
        self.returns = ast.unparse(node.returns) if node.returns else ""
        for child in node.body:
            self.visit(child)
        self.names.pop()
        self.outer, self.returns = kept

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self.visit(node.body)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self.names.append(node.name)
        for child in node.body:
            self.visit(child)
        self.names.pop()

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value:
            self.visit(node.value)

    def visit_Constant(self, node: ast.Constant) -> None:
        for value in _constants(node.value):
            old = self.source[self.at(node) : self.end(node)].decode()
            self.add(f"{old} -> {value!r}", self.at(node), self.end(node), repr(value))

    def visit_BinOp(self, node: ast.BinOp) -> None:
        strings = (ast.JoinedStr, ast.List)
        for side in (node.left, node.right):
            if isinstance(side, strings) or isinstance(getattr(side, "value", None), str):
                break  # text is joined, not numbers added
        else:
            old, new = BINARY[type(node.op)]
            self.operator(node.left, node.right, re.escape(old), new)
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        old, new = BINARY[type(node.op)]
        if not isinstance(node.value, (ast.List, ast.ListComp)):
            self.operator(node.target, node.value, re.escape(old) + "=", new + "=")
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        left = node.left
        for op, right in zip(node.ops, node.comparators, strict=True):
            old, *new = COMPARED[type(op)]
            self.operator(left, right, old, *new)
            left = right
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        old, new = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        for left, right in zip(node.values, node.values[1:], strict=False):
            self.operator(left, right, rf"\b{old}\b", new)
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        word = {ast.Not: "not", ast.USub: "-", ast.Invert: "~"}.get(type(node.op))
        if word:
            self.add(f"{word} removed", self.at(node), self.at(node) + len(word), "")
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        if name in SWAPS:
            end = self.end(node.func)
            self.add(f"{name} -> {SWAPS[name]}", end - len(name), end, SWAPS[name])
        self.generic_visit(node)

    def visit_Return(self, node: ast.Return) -> None:
        plain = (ast.Name, ast.Call, ast.Attribute, ast.Subscript, ast.Tuple)
        if isinstance(node.value, plain):
            start, end = self.at(node.value), self.end(node.value)
            old = self.source[start:end].decode()
            new = {"float": f"1 + {old}", "int": f"1 + {old}", "bool": f"not {old}"}
            if old != "math.inf":
                self.add("return", start, end, new.get(self.returns, "None"))
        self.generic_visit(node)

    def negate(self, node: Any) -> None:
        if not isinstance(node.test, (ast.Compare, ast.BoolOp, ast.UnaryOp, ast.NamedExpr)):
            self.add("negated", self.at(node.test), self.at(node.test), "not ")
        self.generic_visit(node)

    visit_If = visit_While = visit_IfExp = negate
