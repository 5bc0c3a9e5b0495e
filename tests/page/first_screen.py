"""What is seen without scrolling, counted: words, numbers, and controls."""

from typing import Final, NamedTuple

from tests.page.browser import Page

DESKTOP: Final = (1360, 900)
PHONE: Final = (390, 844)
_COUNTED: Final = """(() => {
  const inside = ({ left, right, top, bottom }) => right > left && bottom > top
    && left < innerWidth && right > 0 && top < innerHeight && bottom > 0;
  const seen = (node) => node.checkVisibility({ visibilityProperty: true });
  const texts = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const range = document.createRange();
    range.selectNodeContents(node);
    const rects = [...range.getClientRects()];
    if (seen(node.parentElement) && rects.some(inside)) texts.push(node.data);
  }
  const within = (node) => inside((node.closest('label') ?? node).getBoundingClientRect());
  const controls = [...document.querySelectorAll('a[href], button, select, input, summary')]
    .filter((node) => seen(node) && within(node));
  for (const one of controls) {
    if (one.tagName === 'SELECT') texts.push(one.selectedOptions[0]?.textContent ?? '');
  }
  const tokens = texts.join(' ').split(/\\s+/);
  const numbers = tokens.filter((one) => /[0-9]/.test(one) && !/[A-Za-z]{2}/.test(one));
  const words = tokens.filter((one) => /\\p{L}/u.test(one) && !numbers.includes(one));
  const chart = [...document.querySelectorAll('svg.chart')].find(seen)?.getBoundingClientRect();
  const whole = Boolean(chart) && chart.bottom <= innerHeight;
  return [words.length, numbers.length, controls.length, whole];
})()"""


class FirstScreen(NamedTuple):
    """What somebody has to read and to choose from before anything else."""

    words: int
    numbers: int
    """Those of axes included."""
    controls: int
    has_chart: bool
    """Whether the first chart is on it as a whole."""


async def first_screen(page: Page) -> FirstScreen:
    """That of the page as it is shown now."""
    return FirstScreen(*await page.value(_COUNTED))
