"""The walk over blocks of pairs."""

from types import SimpleNamespace

import numpy as np

from pymc_ksd.engine.functions import Totals
from pymc_ksd.engine.schedule import number_of_pairs, upper_triangle
from pymc_ksd.engine.walk import PLAIN, add_up


class Counting:
    """Adds up the number of pairs, and notes how many blocks were made before the first is done."""

    n_points, dim = 1_000, 1

    def __init__(self):
        self.made, self.made_before = 0, None

    def functions(self):
        return SimpleNamespace(n_pairs=0.0, count=1, block_size=lambda n, dim: 10)

    def blocks(self, size):
        self.made = 0
        for block in upper_triangle(self.n_points, size):
            self.made += 1
            yield block

    def reduce(self, functions, block):
        if self.made_before is None:
            self.made_before = self.made
        return Totals({"pairs": np.array(number_of_pairs(block))})


def test_blocks_are_walked_without_a_list_of_them():
    work = Counting()
    totals = add_up(work, PLAIN)
    assert totals.sums["pairs"] == 1_000**2 / 2
    assert work.made_before == 1
    assert work.made == 100 * 101 / 2
