"""One browser for all tests of pages."""

import browsing
import pytest


@pytest.fixture(scope="session")
def chromium():
    driver, folder = browsing.start()
    yield driver
    browsing.stop(driver, folder)
