"""A lane ends with the numbers of the oracle for any valid events, in any order and any batches."""

import random

import pytest
from hypothesis import given, strategies as st

from tests.daemon.test_equality import OTHER_CONFIGS, assert_equals_the_oracle
from tests.fuzz.adversary import Adversary
from tests.fuzz.settings import examples
from tests.oracle import OracleConfig
from tests.streams import SMALL_CONFIG, topic_names

CONFIGS = {"small": SMALL_CONFIG, **OTHER_CONFIGS}


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
@examples(20)
@given(seed=st.integers(0, 2**32), topics=st.sampled_from((1, 2)))
def test_adversarial_events_give_the_numbers_of_the_oracle(
    config: OracleConfig, seed: int, topics: int
) -> None:
    rng = random.Random(seed)
    records = Adversary(rng, topic_names(topics), config).records(rng.choice((30, 120, 300)))
    assert_equals_the_oracle(rng, records, topic_names(topics), config, crashes=True)
