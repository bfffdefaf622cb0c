"""The version, read from here by the package, by its files and by the build."""

__version__ = "0.2.0"
