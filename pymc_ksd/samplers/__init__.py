"""Samplers on trial: targets whose draws are known, and samplers that are known to be wrong.

They may import `diagnostics`, by which draws are judged.
"""
