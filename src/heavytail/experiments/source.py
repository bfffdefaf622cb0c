"""Which source a number depends on: a hash of the files behind a call, the user's own included.

Files are found by reading ``import`` statements, those inside functions too, from the modules in
question on, without running anything. The library's files count, and so does every file of the
user's; the standard library and installed packages do not.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import importlib.util
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import FunctionType
from typing import Any

__all__ = ["code_digest", "files_of", "kernel_modules", "source_digest"]

LIBRARY = "heavytail"  # counts wherever it is installed
_INSTALLED = {"site-packages", "dist-packages"}


@functools.cache
def source_digest(modules: frozenset[str]) -> str:
    """A hash of the source of ``modules`` and of all that they import."""
    digest = hashlib.blake2b(digest_size=16)
    for name, path in files_of(modules).items():
        digest.update(name.encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


@functools.cache
def code_digest(modules: frozenset[str]) -> str:
    """A hash of the code of ``modules`` themselves: comments, docstrings, types and the names of
    local variables do not count.
    """
    digest = hashlib.blake2b(digest_size=8)
    for name in sorted(modules):
        path = _file(name)
        if path is not None:
            digest.update(name.encode())
            digest.update(_code(path.read_text("utf-8")).encode())
    return digest.hexdigest()


def kernel_modules(kernels: Iterable[Callable[..., Any]]) -> set[str]:
    """The modules in which ``kernels``, and the functions of the library they call, are written."""
    todo = [getattr(kernel, "py_func", kernel) for kernel in kernels]
    seen = set(map(id, todo))
    modules = set()
    while todo:
        function = todo.pop()
        modules.add(str(function.__module__))
        for name in function.__code__.co_names:
            value = function.__globals__.get(name)
            value = getattr(value, "py_func", value)
            own = isinstance(value, FunctionType) and value.__module__.startswith(f"{LIBRARY}.")
            if own and id(value) not in seen:
                seen.add(id(value))
                todo.append(value)
    return modules


@functools.cache  # most policies share most of their kernels
def _code(text: str) -> str:
    """The text without what no number hangs on: comments, docstrings, annotations, imports of
    types, lay-out, and the names of local variables, which are numbered instead.
    """
    tree = ast.parse(text)
    _number_locals(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                node.body = node.body[1:]
            node.body = [line for line in node.body if not _says_types(line)] or [ast.Pass()]
        if isinstance(node, ast.ClassDef):
            decorators = node.decorator_list
            node.decorator_list = [mark for mark in decorators if ast.unparse(mark) != "final"]
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            node.returns = None
        elif isinstance(node, ast.AnnAssign):  # stays: it may be a field, known by its place
            node.annotation = ast.Name("_", ast.Load())
        elif isinstance(node, ast.arg):
            node.annotation = None
        for field, value in ast.iter_fields(node):
            several = isinstance(value, list)
            changed = [_letters(part, text) for part in (value if several else [value])]
            setattr(node, field, changed if several else changed[0])
    _without_unused(tree)
    return ast.unparse(tree)


def _number_locals(tree: ast.AST) -> None:
    """Call the local variables of every function, with those of functions inside, _0, _1, ..."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            numbers = {name: f"_{i}" for i, name in enumerate(_locals(node))}
            for part in ast.walk(node):
                if isinstance(part, ast.Name):
                    part.id = numbers.get(part.id, part.id)
        else:
            _number_locals(node)


def _says_types(line: ast.stmt) -> bool:
    """Tell whether a statement is there for annotations, or for what a module offers."""
    if isinstance(line, ast.If):
        return "TYPE_CHECKING" in ast.unparse(line.test)
    if isinstance(line, ast.ImportFrom):
        modules = {"typing", "types", "collections.abc", "numpy.typing", f"{LIBRARY}._typing"}
        return line.module in modules
    if not isinstance(line, ast.Assign):
        return False
    value = ast.unparse(line.value)
    union = isinstance(line.value, ast.BinOp) and isinstance(line.value.op, ast.BitOr)
    return (
        ast.unparse(line.targets[0]) == "__all__"
        or value.startswith(("TypeVar(", "ParamSpec("))
        or (union and ("ArrayLike" in value or "Callable[" in value or value.endswith("| None")))
    )


def _without_unused(tree: ast.Module) -> None:
    """Take names out of imports that nothing uses once annotations are gone."""
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    for line in tree.body:
        if isinstance(line, ast.ImportFrom):
            line.names = [name for name in line.names if (name.asname or name.name) in used]
    tree.body = [line for line in tree.body if not isinstance(line, ast.ImportFrom) or line.names]


def _locals(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    """The variables that a function assigns to and no one sees from outside, as they come: no
    argument, here or of a function inside, and none that is global, in a class or in an f-string.
    """
    assigned: dict[str, None] = {}
    kept = set()
    for part in ast.walk(function):
        if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
            assigned[part.id] = None
        elif isinstance(part, ast.arg):
            kept.add(part.arg)
        elif isinstance(part, ast.Global | ast.Nonlocal):
            kept.update(part.names)
        elif isinstance(part, ast.ClassDef | ast.JoinedStr):
            kept.update(name.id for name in ast.walk(part) if isinstance(name, ast.Name))
    return [name for name in assigned if name not in kept]


def _letters(node: Any, text: str) -> Any:
    """An f-string as it is written, which is no version's; every other node itself."""
    if isinstance(node, ast.JoinedStr):
        return ast.Constant(ast.get_source_segment(text, node))
    return node


def files_of(modules: Iterable[str]) -> dict[str, Path]:
    """Every module that ``modules`` lead to, and its file, sorted by name."""
    paths: dict[str, Path] = {}
    todo = list(modules)
    seen = set(todo)
    while todo:
        name = todo.pop()
        path = _file(name)
        if path is None:
            continue
        paths[name] = path
        for other in _reached(name, path):
            if other not in seen:
                seen.add(other)
                todo.append(other)
    return dict(sorted(paths.items()))


@functools.cache
def _top(name: str) -> Path | None:
    """The file or folder of a top-level module; None for what is installed or part of Python."""
    if name in sys.stdlib_module_names and name != "__main__":
        return None
    if name == "__main__":
        script = getattr(sys.modules[name], "__file__", None)
        return None if script is None else Path(script)
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return None
    if spec is None:
        return None
    folders = list(spec.submodule_search_locations or ())
    where = folders[0] if folders else spec.origin
    if where is None or not (folders or spec.has_location):  # what an origin says is no path then
        return None
    path = Path(where)
    return None if name != LIBRARY and _INSTALLED & set(path.parts) else path


@functools.cache
def _file(name: str) -> Path | None:
    """The file of a module, a package's being its ``__init__``; None where it does not count."""
    top, *rest = name.split(".")
    place = _top(top)
    if place is None:
        return None
    place = place.joinpath(*rest)
    for path in (place, place / "__init__.py", place.with_name(f"{place.name}.py")):
        if path.is_file():
            return path
    return None


@functools.cache
def _reached(name: str, path: Path) -> frozenset[str]:
    """The modules that the file names in its imports, with the packages they lie in."""
    if path.suffix != ".py":
        return frozenset()
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    reached = set(_parents(name))
    for target in _imports(ast.parse(path.read_bytes()), package):
        reached |= {target, *_parents(target), *_folder(target)}
    return frozenset(reached)


def _imports(tree: ast.AST, package: str) -> Iterator[str]:
    """The module of every import that can run."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.expr):
            continue  # an import is a statement
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue  # never run
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parts = package.split(".")[: len(package.split(".")) + 1 - node.level]
            base = ".".join([*parts, node.module or ""]).strip(".") if node.level else node.module
            for alias in node.names:
                inside = f"{base}.{alias.name}"
                yield inside if _file(inside) else str(base)
        else:
            yield from _imports(node, package)


def _parents(name: str) -> Iterator[str]:
    while "." in name:
        name = name.rpartition(".")[0]
        yield name


def _folder(name: str) -> set[str]:
    """All modules of a package that loads its names when they are used, so names no imports."""
    path = _file(name)
    if path is None or path.name != "__init__.py" or "__getattr__" not in path.read_text("utf-8"):
        return set()
    root = path.parent
    inside = (file.relative_to(root).with_suffix("").parts for file in root.rglob("*.py"))
    return {".".join([name, *(part for part in parts if part != "__init__")]) for parts in inside}
