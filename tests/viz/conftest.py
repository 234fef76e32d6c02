"""A browser that all tests of the page share."""

import browsing
import pytest


@pytest.fixture(scope="session")
def chromium():
    driver, folder = browsing.start()
    yield driver
    browsing.stop(driver, folder)
