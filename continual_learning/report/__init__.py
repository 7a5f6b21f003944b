"""`continual report`: studies as one page that works offline.

The charts are our own, on canvas (`chart.js` draws, `view.js` and its neighbours do the rest),
and not Vega-Lite's:

- Vega's offline bundle is 0.9 MB of script, and its expressions are compiled with `eval` unless its
  interpreter is used; ours is 38 kB, and the page's Content-Security-Policy allows these scripts by
  their hash, and nothing else.
- 100 runs × 40 metrics are 4,000 lines in 40 charts that share a zoom. Vega keeps an object for
  every point; ours draws from typed arrays, the charts that can be seen alone.
- Themes and print need other colours in the same picture, and a readout on the keyboard is ours
  to write in either case.

Figures of papers are `continual figure`'s.
"""

from continual_learning.report.page import MARK, make, write

__all__ = ["MARK", "make", "write"]
