"""BibTeX entries of the library and of the paper behind it, as CITATION.cff has them."""

from __future__ import annotations

from heavytail._version import __version__

__all__ = ["AUTHORS", "PROCEEDINGS", "TITLE", "YEAR", "citation"]

AUTHORS = ("Jing Wang", "Yu-Jie Zhang", "Peng Zhao", "Zhi-Hua Zhou")
TITLE = "Heavy-Tailed Linear Bandits: Huber Regression with One-Pass Update"
PROCEEDINGS = "Proceedings of the 42nd International Conference on Machine Learning"
YEAR = 2025
LIBRARY = "heavytail: decide and learn under heavy-tailed rewards"
RELEASED = 2026


def citation() -> str:
    """BibTeX entries of the library, in the version that runs, and of the paper.

    >>> import heavytail as ht
    >>> print(ht.citation())  # doctest: +ELLIPSIS
    @software{heavytail,
      author = {{heavytail contributors}},
    ...
    """
    library = {
        "author": "{heavytail contributors}",
        "title": f"{{{LIBRARY}}}",
        "version": __version__,
        "year": str(RELEASED),
    }
    paper = {
        "author": " and ".join(AUTHORS),
        "title": f"{{{TITLE}}}",
        "booktitle": PROCEEDINGS,
        "year": str(YEAR),
    }
    return "\n".join(
        [_entry("software", "heavytail", library), _entry("inproceedings", "wang2025heavy", paper)]
    )


def _entry(kind: str, key: str, fields: dict[str, str]) -> str:
    lines = "".join(f"  {name} = {{{text}}},\n" for name, text in fields.items())
    return f"@{kind}{{{key},\n{lines}}}"
