"""A real browser for tests: headless Chromium, driven by playwright; where there is none, the tests skip and say so."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

#: Debian, Ubuntu and the others call it otherwise; PERFGUARD_CHROMIUM names one that is elsewhere.
_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
#: Where screenshots are kept for people to look at; CI uploads them.
SCREENSHOTS = os.environ.get("PERFGUARD_SCREENSHOTS")


def chromium_path() -> str | None:
    """Return the program of a Chromium that is installed here."""
    named = os.environ.get("PERFGUARD_CHROMIUM")
    return named or next((found for name in _NAMES if (found := shutil.which(name))), None)


@contextmanager
def chromium() -> Iterator[Any]:
    """Start a headless Chromium; skips the test where there is none, or nothing to drive it with."""
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="playwright is not installed: pip install -e '.[browser]'"
    )
    path = chromium_path()
    if path is None:
        pytest.skip("no Chromium is installed here (Debian: apt-get install chromium)")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()


#: A busy machine draws 1 024 ranks for longer than playwright's own 30 seconds.
_PATIENCE_MS = 180_000
#: Labels that are not whole: outside of the window or of their figure, wider than their own box, or over another label.
_CLIPPED = """() => {
  const found = [];
  const visible = [...document.querySelectorAll("figure, .step-timeline")].filter((one) => one.checkVisibility());
  const width = document.documentElement.clientWidth;
  for (const table of document.querySelectorAll(".grid .scroll")) {
    if (table.checkVisibility() && table.scrollWidth > table.clientWidth + 1) {
      found.push(`a table is ${table.scrollWidth - table.clientWidth} wider than its place`);
    }
  }
  for (const figure of visible) {
    const outer = figure.getBoundingClientRect();
    const labels = [...figure.querySelectorAll(
      ".drawing span, .y-title, .x-title, figcaption, .legend li, .note, .cells th, .cells td, .lane .label, .side"
    )].filter((one) => one.checkVisibility() && one.textContent.trim() && !one.querySelector("span"));
    const scrolls = (one) => one.closest(".scroll");
    for (const label of labels) {
      const range = document.createRange();
      range.selectNodeContents(label);
      const box = range.getBoundingClientRect();
      const inside = box.left >= Math.max(0, outer.left) - 1 && box.right <= Math.min(width, outer.right) + 1;
      const fits = label.scrollWidth <= label.clientWidth + 1 || getComputedStyle(label).display === "inline";
      if (!scrolls(label) && !(inside && fits)) found.push(`outside: ${label.textContent.slice(0, 80)}`);
    }
    for (const axis of figure.querySelectorAll(".xs, .ys")) {
      const boxes = [...axis.querySelectorAll("span")].map((one) => [one.getBoundingClientRect(), one.textContent]);
      boxes.forEach(([one, text], at) => boxes.slice(at + 1).forEach(([other, others]) => {
        const aside = one.right <= other.left || other.right <= one.left;
        const apart = aside || one.bottom <= other.top + 2 || other.bottom <= one.top + 2;
        if (!apart) found.push(`over each other: ${text} and ${others}`);
      }));
    }
  }
  return found;
}"""


class Shown:
    """A page in the browser, and what it did: messages of its console, errors, and what it asked the network for."""

    def __init__(
        self,
        browser: Any,
        path: Path,
        *,
        size: tuple[int, int],
        scheme: str = "light",
        fragment: str = "",
        scripts: bool = True,
    ) -> None:
        self.context = browser.new_context(
            viewport={"width": size[0], "height": size[1]},
            color_scheme=scheme,
            accept_downloads=True,
            java_script_enabled=scripts,
        )
        self.context.set_default_timeout(_PATIENCE_MS)
        self.page = self.context.new_page()
        self.said: list[str] = []
        self.requested: list[str] = []
        self.page.on("console", lambda message: self.said.append(f"{message.type}: {message.text}"))
        self.page.on("pageerror", lambda error: self.said.append(f"error: {error}"))
        self.page.on("dialog", lambda dialog: (self.said.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        self.context.on("request", lambda request: self.requested.append(request.url))
        self.page.goto(path.as_uri() + fragment)
        if scripts:
            self.page.locator("html[data-built]").wait_for(state="attached")

    @property
    def outside(self) -> list[str]:
        """What was asked of anything but the file itself."""
        return [url for url in self.requested if not url.startswith(("file:", "data:", "blob:"))]

    def is_on_screen(self, selector: str, *, nth: int = 0) -> bool:
        """Whether an element lies whole inside the window, without scrolling."""
        size, box = self.page.viewport_size, self.page.locator(selector).nth(nth).bounding_box()
        return bool(
            box
            and box["width"] > 0
            and box["y"] >= 0
            and box["y"] + box["height"] <= size["height"]
            and box["x"] >= 0
            and box["x"] + box["width"] <= size["width"]
        )

    def clipped(self) -> list[str]:
        """Return the labels of figures that end outside of their figure or the window, or lie over each other."""
        found: list[str] = self.page.evaluate(_CLIPPED)
        return found

    def count(self, selector: str, expected: int) -> None:
        """Wait until so many elements are there. The page's own policy forbids playwright to look by a function."""
        from playwright.sync_api import expect

        expect(self.page.locator(selector)).to_have_count(expected, timeout=_PATIENCE_MS)

    def keep(self, name: str, *, whole: bool = False) -> None:
        """Keep a screenshot where somebody looks at them."""
        if SCREENSHOTS:
            Path(SCREENSHOTS).mkdir(parents=True, exist_ok=True)
            self.page.screenshot(path=Path(SCREENSHOTS) / f"{re.sub(r'[^a-z0-9-]', '-', name)}.png", full_page=whole)

    def violations(self) -> list[str]:
        """Return what axe-core calls serious or critical."""
        axe = pytest.importorskip(
            "axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed"
        )
        found = axe.Axe().run(self.page).response["violations"]
        return [
            f"{one['id']} ({one['impact']}): {node['html'][:120]} {node['failureSummary'][:200]}"
            for one in found
            if one["impact"] in ("serious", "critical")
            for node in one["nodes"][:3]
        ]
