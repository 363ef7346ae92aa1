"""One file for each public function, on one preparation of target and sample; results as xarray.

It may import all rooms before it, and neither `plots` nor `report`.
"""
