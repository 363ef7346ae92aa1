"""The version of the package, read by the build and written into results."""

__version__ = "0.1.0.dev0"
