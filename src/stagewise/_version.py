"""The version, alone in a file: packaging reads it here, and any module may import it without importing the rest."""

__version__ = "0.1.0.dev0"
