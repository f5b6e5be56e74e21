"""What the tests with Spark share: one session, for all of them."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from tests.spark.session import session


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A running session on two cores that tries a task four times."""
    with session(tmp_path_factory.mktemp("spark")) as running:
        yield running
