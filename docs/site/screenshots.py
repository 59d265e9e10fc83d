"""Takes the pictures of docs/images from a campaign in the store: ``python docs/site/screenshots.py [CAMPAIGN]``.

Those that are there show the default runners with ``controller compare --device cpu --quick --steps 20
--warmup-steps 2 --trials 2 --pause 0 --workload mlp-mnist --workload mlp2-mnist --workload cnn-mnist``,
on a busy machine. Needs the development packages and Chromium (Debian: chromium).
"""

import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
from tests.browser import launch  # noqa: E402

WIDTH, HEIGHT = 1280, 900


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        page = Path(folder) / "report.html"
        command = [sys.executable, "-m", "controller", "report", *sys.argv[1:], "-o", str(page)]
        subprocess.run(command, check=True, cwd=ROOT)
        browser = launch(playwright)
        for scheme in ("light", "dark"):
            context = browser.new_context(
                offline=True, color_scheme=scheme, viewport={"width": WIDTH, "height": HEIGHT}
            )
            view = context.new_page()
            view.goto(page.as_uri())
            view.wait_for_selector("html[data-drawn]")
            view.screenshot(path=ROOT / "docs" / "images" / f"report-{scheme}.png")
            context.close()
        browser.close()


if __name__ == "__main__":
    main()
