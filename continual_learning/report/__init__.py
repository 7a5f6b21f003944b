"""`continual report` shows studies on one page that works offline.

The page draws its charts on canvas with its own code (`chart.js` draws, `view.js` and its neighbors
do the rest), rather than with Vega-Lite, for three reasons:

- Vega's offline bundle is 0.9 MB of script, and its expressions are compiled with `eval` unless its
  interpreter is used. Our scripts take 38 kB, and the page's Content-Security-Policy allows them by
  their hash and nothing else.
- 100 runs × 40 metrics are 4,000 lines in 40 charts that share a zoom. Vega keeps an object for
  every point; our code draws from typed arrays, and only the charts that are in view.
- Themes and print need other colors in the same picture, and we would have to write a readout for
  the keyboard in either case.

`continual figure` draws the figures of papers.
"""

from continual_learning.report.page import MARK, make, write

__all__ = ["MARK", "make", "write"]
