"""Why a test cannot tell."""

import copy
import pickle

import pytest

from pymc_ksd.diagnostics.reasons import Reason, code_of


@pytest.mark.parametrize(
    "again", [copy.copy, copy.deepcopy, lambda reason: pickle.loads(pickle.dumps(reason))]
)
def test_copies_of_a_reason_keep_its_code(again):
    reason = again(Reason("few_draws", "There are few draws."))
    assert reason == "There are few draws."
    assert code_of(reason) == "few_draws"
