"""make pictures: the pictures of the playground in docs/pictures, taken of a running `make run`.

URL: of the server; by default http://127.0.0.1:8080. The recording needs ffmpeg.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from playwright.sync_api import sync_playwright

from tests.tools.playground.conftest import BROWSER, WIDE

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

PICTURES = Path("docs/pictures")

PHONE = {"width": 390, "height": 844}

FRAMES_A_SECOND = 8


def main() -> int:
    url = os.environ.get("URL") or "http://127.0.0.1:8080"
    PICTURES.mkdir(exist_ok=True)
    with sync_playwright() as playwright_api:
        browser = playwright_api.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        _stills(browser, url)
        with tempfile.TemporaryDirectory() as folder:
            _record(browser, url, Path(folder))
            frames = ["-framerate", str(FRAMES_A_SECOND), "-i", f"{folder}/%04d.png"]
            colors = "split[a][b];[a]palettegen=max_colors=64[p];[b][p]paletteuse=dither=none"
            command = ["ffmpeg", "-y", "-loglevel", "error", *frames, "-vf", f"scale=880:-1,{colors}"]
            subprocess.run([*command, str(PICTURES / "playground.gif")], check=True)
        browser.close()
    return 0


def _stills(browser: "Browser", url: str) -> None:
    for name, size, scheme, language in (
        ("playground", WIDE, "light", "en-US"),
        ("playground-dark", WIDE, "dark", "en-US"),
        ("playground-phone", PHONE, "light", "en-US"),
        ("playground.zh-CN", WIDE, "light", "zh-CN"),
    ):
        options: Any = {"viewport": size, "color_scheme": scheme, "locale": language}
        page = browser.new_page(**options)
        page.goto(url)
        page.wait_for_selector("#examples button")
        english, chinese = ("What is 1 plus 2?", "Teach me basketball."), ("1加2等于多少？", "教我打篮球")
        for count, text in enumerate(chinese if language == "zh-CN" else english, 1):
            _send(page, text, count)
        if size == WIDE:
            page.click("#tab-requests")
            page.click(".exchange summary >> nth=0")
        page.screenshot(path=PICTURES / f"{name}.png")
        page.close()


def _send(page: "Page", text: str, count: int) -> None:
    page.fill("#text", text)
    page.click("#composer .primary")
    page.locator(".state.completed, .state.input-required").nth(count - 1).wait_for()
    page.wait_for_selector("#composer .primary:enabled")


def _record(browser: "Browser", url: str, folder: Path) -> None:
    """Pictures of a conversation, as a user has it, at FRAMES_A_SECOND."""
    page = browser.new_page(viewport={"width": 1100, "height": 640}, locale="en-US")
    page.goto(url)
    page.wait_for_selector("#examples button")
    count = 0

    def hold(frames: int) -> None:
        nonlocal count
        for _ in range(frames):
            page.screenshot(path=folder / f"{count:04d}.png")
            count += 1

    def write(text: str) -> None:
        for end in range(0, len(text) + 1, 3):
            page.fill("#text", text[:end])
            hold(1)
        page.fill("#text", text)
        page.click("#composer .primary")

    hold(6)
    write("Teach me a sport.")
    page.wait_for_selector(".state.input-required")
    hold(8)
    write("basketball")
    page.wait_for_selector(".state.completed")
    hold(8)
    page.click("#tab-requests")
    page.click(".exchange summary >> nth=0")
    hold(12)
    page.select_option("#skill", "ai-calculate")
    page.fill("[name=num1]", "40")
    hold(3)
    page.fill("[name=num2]", "2")
    hold(3)
    page.click("#composer .primary")
    page.locator(".state.completed").nth(1).wait_for()
    hold(12)
    page.close()


if __name__ == "__main__":
    sys.exit(main())
