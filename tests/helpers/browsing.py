"""A real Chromium without a window, for tests of pages."""

import base64
import shutil
import struct
import tempfile
import zlib

import pytest

_QUIET = (
    "--headless=new --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --disable-dev-shm-usage --hide-scrollbars"
)


def start():
    """A driver, or a skipped test with the reason."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    binary = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    driver = shutil.which("chromedriver") or shutil.which("chromium-driver")
    if binary is None or driver is None:
        pytest.skip("there is no chromium with its chromedriver on this machine")
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    folder = tempfile.mkdtemp()
    for word in [*_QUIET.split(), f"--user-data-dir={folder}"]:
        options.add_argument(word)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    made = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    return made, folder


def stop(driver, folder):
    driver.quit()
    shutil.rmtree(folder, ignore_errors=True)


def look_like(driver, width, scheme="light", height=844):
    """A window of so many pixels, in light or dark."""
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    scheme = [{"name": "prefers-color-scheme", "value": scheme}]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": scheme})


def complaints(driver):
    """What the console says is wrong since the last time."""
    return [entry["message"] for entry in driver.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")]


def shades(driver):
    """How many different bytes a picture of the window has: one or two for a blank one."""
    data = base64.b64decode(driver.execute_cdp_cmd("Page.captureScreenshot", {"format": "png"})["data"])
    pixels, at = b"", 8
    while at < len(data):
        (size,) = struct.unpack(">I", data[at : at + 4])
        if data[at + 4 : at + 8] == b"IDAT":
            pixels += data[at + 8 : at + 8 + size]
        at += size + 12
    return len(set(zlib.decompress(pixels)))
