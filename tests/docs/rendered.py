"""What a reader of a built page sees, and what is wrong with it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urljoin, urlsplit

__all__ = ["PROSE", "Page", "Site", "faults", "link_faults"]

SILENT = ("code", "pre", "script", "style", "annotation")
VOID = ("area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "wbr")
BREAKS = ("p", "li", "td", "th", "dt", "dd", "div", "h1", "h2", "h3", "h4", "h5", "tr", "pre", "br")
ASSETS = {"img": "src", "script": "src", "iframe": "src", "source": "src", "link": "href"}

# Markup that a reader should never meet: by name, the words outside code that show it.
PROSE = {
    "a doctest in prose": r">>> ",
    "a backslash outside code": r"\\[A-Za-z{}|,;!]",
    "bold left raw": r"\*\*",
    "a backtick left raw": r"`",
    "a role of another markup": r":(?:class|meth|func|mod|data|attr|exc|ref):",
    "a formula left raw": r"\$[^$\n]+\$",
    "a link left raw": r"\]\([^)\s]+\)|\]\[[\w.`]*\]",
    "a table left raw": r"\| *:?-{3,}|^ *\| .* \| *$",
    "a list left raw": r"(?<=\S\n) *(?:[-*+]|\d+\.) \S",
    "a heading left raw": r"^#+ ",
    "a directive left raw": r":::|^!!! |^\?\?\? |\{[#:][\w ]",
    "a literal block left raw": r"::$",
}


@dataclass
class Page(HTMLParser):
    """A page: the words of its article outside code, its ids, its links and what it loads."""

    path: str
    html: str
    words: str = ""
    formulas: str = ""
    ids: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)
    assets: list[str] = field(default_factory=list)
    found: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.feed(self.html)

    @property
    def told(self) -> bool:
        """Whether the parser is where words are read as words."""
        return "article" in self.open and not any(tag in SILENT for tag in self.open)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        has = dict(attrs)
        self.ids |= {has[key] or "" for key in ("id", "name") if key in has and tag != "meta"}
        if tag == "a" and has.get("href"):
            self.links.append(has["href"] or "")
        if ASSETS.get(tag) in has and has.get("rel") not in ("canonical", "next", "prev"):
            self.assets.append(has[ASSETS[tag]] or "")
        if tag == "img" and "article" in self.open and not has.get("alt"):
            self.found.append(f"an image without words for it: {has.get('src')}")
        if tag == "blockquote" and "blockquote" in self.open:
            self.found.append("a quote in a quote")
        if tag in ("em", "strong") and re.search(r"[^\W_]\Z", self.words):
            self.found.append(f"emphasis inside a word: {self.words[-30:]}<{tag}>")
        if tag in BREAKS and self.told:
            self.words += "\n"
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in self.open:
            while self.open.pop() != tag:
                pass
        if tag in BREAKS and "article" in self.open:
            self.words += "\n"

    def handle_data(self, data: str) -> None:
        if self.told and "math" in self.open:
            self.formulas += data
            self.words += " "
        elif self.told:
            self.words += data
        elif "article" in self.open:
            self.words += " "

    def handle_comment(self, data: str) -> None:
        if "article" in self.open and re.match(r" *\w+: ", data):
            self.found.append(f"a comment that nothing filled in: {data.strip()}")


def faults(page: Page) -> list[str]:
    """What of ``page`` was not rendered."""
    shown = [*page.found]
    for name, pattern in PROSE.items():
        for match in re.finditer(pattern, page.words, re.MULTILINE):
            around = page.words[max(match.start() - 30, 0) : match.end() + 30]
            shown.append(f"{name}: {' '.join(around.split())}")
    for match in re.finditer(r"\\[A-Za-z{}\\]+|&", page.formulas):
        shown.append(f"a macro that the formula leaves raw: {match[0]}")
    for asset in page.assets:
        if urlsplit(asset).scheme not in ("", "data") or asset.startswith("//"):
            shown.append(f"an asset from outside: {asset}")
    return shown


def link_faults(pages: dict[str, Page], files: set[str]) -> list[str]:
    """The links of all pages, by path, to a place of the site that is not there."""
    shown = []
    for path, page in pages.items():
        for link in [*page.links, *page.assets]:
            if urlsplit(link).scheme:
                continue
            there = urlsplit(urljoin(f"/site/{path}", link))  # not the root, which has no parent
            target = unquote(there.path).removeprefix("/site/")
            target += "index.html" * (target == "" or target.endswith("/"))
            if target not in files:
                shown.append(f"{path}: {link} leads nowhere")
            elif there.fragment and target in pages:
                if unquote(there.fragment) not in pages[target].ids:
                    shown.append(f"{path}: {link} names an anchor that is not there")
    return shown


class Site:
    """A built site: its pages by path, and the paths of all its files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        every = (one for one in folder.rglob("*") if one.is_file())
        self.files = {one.relative_to(folder).as_posix() for one in every}
        names = (one for one in sorted(self.files) if one.endswith(".html") and one != "404.html")
        self.pages = {name: Page(name, self.read(name)) for name in names}

    def read(self, name: str) -> str:
        """The text of a file of it."""
        return (self.folder / name).read_text(encoding="utf-8")
