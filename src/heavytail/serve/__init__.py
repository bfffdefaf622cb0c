"""A decision service that loses nothing: ``heavytail serve``."""
