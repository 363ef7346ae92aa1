"""What is compared: kernels, Stein operators, compiled Stein kernels, scaling and bandwidths.

It knows PyTensor and NumPy, neither PyMC models nor xarray, and may import `compilation` and
`options`.
"""
