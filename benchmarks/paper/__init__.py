"""The experiments of Liu, Lee and Jordan (2016), run through the library on PyMC models."""
