"""The look of every page, light and dark: one style sheet, which names nothing outside itself."""

from __future__ import annotations

from typing import Final

STYLE_SHEET: Final = """
:root {
  color-scheme: light dark;
  --paper: #fcfcfb; --card: #ffffff; --ink: #1b1f24; --soft: #59636e; --line: #d8dce1;
  --grid: #eceef1; --data: #2f6fb0; --fill: #2f6fb026; --good: #1a7f45; --warning: #9a6200;
  --bad: #bf2c2c; --heat: 47 111 176;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #14171b; --card: #1b1f24; --ink: #e4e7eb; --soft: #9aa4af; --line: #363c44;
    --grid: #262b32; --data: #6aa9e6; --fill: #6aa9e62e; --good: #58c48a; --warning: #e0ae4f;
    --bad: #f0807c; --heat: 106 169 230;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0; background: var(--paper); color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif;
}
main { max-width: 68rem; margin: 0 auto; padding: 2.5rem 1.25rem 4rem; }
h1 { font-size: 1.75rem; line-height: 1.25; margin: 0 0 .4rem; letter-spacing: -.01em; }
h2 { font-size: 1.25rem; margin: 2.75rem 0 .35rem; }
h3 { font-size: 1rem; margin: 0 0 .2rem; color: var(--ink); }
p { margin: .35rem 0; max-width: 46rem; }
.verdict {
  font-size: 1.1rem; border-left: 4px solid var(--tone, var(--line)); padding-left: .8rem;
}
.plain { --tone: var(--data); } .good { --tone: var(--good); }
.warning { --tone: var(--warning); } .bad { --tone: var(--bad); }
.note, figcaption { color: var(--soft); font-size: .875rem; }
figcaption { margin-bottom: .6rem; }
nav { margin: 1rem 0; font-size: .9rem; }
nav a { margin-right: 1rem; color: var(--data); }
.figures { display: flex; flex-wrap: wrap; gap: .75rem; margin: 1.25rem 0; padding: 0; }
.figures div {
  background: var(--card); border: 1px solid var(--line); border-top: 3px solid var(--tone);
  border-radius: 6px; padding: .6rem .9rem; min-width: 8.5rem;
}
.figures dt { color: var(--soft); font-size: .8rem; }
.figures dd {
  margin: 0; font-size: 1.5rem; font-weight: 600; font-variant-numeric: tabular-nums;
}
.facts {
  display: grid; grid-template-columns: max-content 1fr; gap: .15rem 1.25rem; margin: 1rem 0;
}
.facts dt { color: var(--soft); } .facts dd { margin: 0; overflow-wrap: anywhere; }
figure {
  margin: 1rem 0; padding: .75rem .75rem .5rem; background: var(--card);
  border: 1px solid var(--line); border-radius: 6px;
}
svg { display: block; width: 100%; height: auto; overflow: visible; }
svg text { font: 12px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; fill: var(--soft); }
svg .name { fill: var(--ink); }
.axis { stroke: var(--line); } .grid { stroke: var(--grid); }
.step { fill: none; stroke: var(--data); stroke-width: 1.75; stroke-linejoin: round; }
.area { fill: var(--fill); }
.bar { fill: var(--tone); }
.bar.open { fill-opacity: .35; stroke: var(--tone); stroke-dasharray: 4 3; }
.cell { fill: rgb(var(--heat)); }
.cell:hover, .bar:hover { stroke: var(--ink); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .875rem; margin: .35rem 0; min-width: 24rem; }
caption { text-align: left; font-weight: 600; padding: .35rem 0; }
th, td { padding: .3rem .9rem .3rem 0; text-align: left; vertical-align: top;
  border-bottom: 1px solid var(--grid); unicode-bidi: isolate; }
.short { white-space: nowrap; } .long { overflow-wrap: anywhere; min-width: 9rem; }
th { color: var(--soft); font-weight: 600; border-bottom-color: var(--line); white-space: nowrap; }
.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
details { margin: .25rem 0; } summary { cursor: pointer; color: var(--soft); font-size: .875rem; }
footer { margin-top: 3rem; color: var(--soft); font-size: .85rem; }
@media print { details > * { display: block; } figure { break-inside: avoid; } }
"""
