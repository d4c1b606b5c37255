// Charts by uPlot over time: bars, one series or several stacked ones; or lines of lengths of time.

import { colour, onTheme } from "../core/theme.js";
import { html, useEffect, useRef, useState } from "../core/view.js";
import { clock, clockSeconds, day, length, moment, number } from "../core/words.js";
import { zone } from "../core/zone.js";
import uPlot from "../vendor/uplot.js";

function stacked(columns) {
  const sums = columns[0].map(() => 0);
  return columns.map((column) => column.map((value, place) => (sums[place] += value)));
}

const LONG = 26 * 3600;
const step = (times) => (times && times.length > 1 ? times[1] - times[0] : 0);

function options(width, height, series, wide, hover, lines) {
  const soft = colour("soft");
  const line = colour("line");
  const font = "12px system-ui, sans-serif";
  const bars = uPlot.paths.bars({ size: [0.82, 60], align: 1, radius: 0.08 });
  return {
    width,
    height,
    padding: [10, 4, 0, 0],
    legend: { show: false },
    tzDate: (at) => uPlot.tzDate(new Date(at * 1000), zone()),
    cursor: { y: false, points: { show: false }, drag: { x: false, y: false } },
    hooks: { setCursor: [(plot) => hover(plot.cursor.idx)] },
    // A bar begins at its time: the last one needs room.
    scales: { x: lines ? {} : { range: (plot, min, max) => [min, max + step(plot.data[0])] }, y: { range: (_, __, most) => [0, Math.max((most || 0) * 1.08, lines ? 0.001 : wide ? 1 : 0.5)] } },
    axes: [
      {
        stroke: soft,
        font,
        size: 28,
        grid: { show: false },
        ticks: { stroke: line, size: 4 },
        space: 70,
        values: (plot, ticks) => {
          const words = plot.scales.x.max - plot.scales.x.min > LONG ? day : clock;
          return ticks.map((at) => words(new Date(at * 1000)));
        },
      },
      {
        stroke: soft,
        font,
        size: lines ? 62 : 44,
        grid: { stroke: line, width: 1 },
        ticks: { show: false },
        space: 34,
        ...(lines ? { values: (_, ticks) => ticks.map((value) => (value ? length(value) : "0")) } : {}),
      },
    ],
    series: [
      {},
      ...series
        .map((each) => ({
          label: each.label,
          stroke: colour(each.colour),
          ...(lines
            ? { width: 2, dash: each.dash, points: { size: 4 }, spanGaps: false }
            : { paths: bars, points: { show: false }, fill: colour(each.colour), width: 0 }),
        }))
        .reverse(),
    ],
  };
}

/** `times` in seconds; `series`: [{label, colour, values}], stacked; with `lines`, of seconds and beside each other. */
export function Chart({ times, series, height = 190, label, unit = "", onPick = null, lines = false }) {
  const place = useRef(null);
  const plot = useRef(null);
  const [at, setAt] = useState(null);
  const pick = useRef(onPick);
  pick.current = onPick;
  const names = series.map((each) => each.label).join();

  useEffect(() => {
    const draw = () => {
      if (plot.current) plot.current.destroy();
      const width = place.current.clientWidth || 600;
      plot.current = new uPlot(options(width, height, series, unit === "", setAt, lines), [[], ...series.map(() => [])], place.current);
      plot.current.over.addEventListener("click", () => {
        const index = plot.current.cursor.idx;
        if (pick.current && index !== null && index !== undefined) pick.current(index);
      });
      fill();
    };
    draw();
    const sized = new ResizeObserver(() => {
      const width = place.current && place.current.clientWidth;
      if (width && plot.current && width !== plot.current.width) plot.current.setSize({ width, height });
    });
    sized.observe(place.current);
    const leave = onTheme(draw);
    return () => {
      leave();
      sized.disconnect();
      plot.current.destroy();
      plot.current = null;
    };
  }, [names, height]);

  const latest = useRef(null);
  const columns = series.map((each) => each.values);
  latest.current = [times, ...(lines ? columns : stacked(columns)).reverse()];
  function fill() {
    if (plot.current && latest.current[0].length) plot.current.setData(latest.current);
  }
  useEffect(fill);

  const read = at === null || at === undefined || at >= times.length ? null : reading(times, series, at, unit, lines);
  return html`<div class="chart" role="img" aria-label=${label}>
    <div ref=${place}></div>
    ${read && html`<div class="read" aria-hidden="true">${read}</div>`}
  </div>`;
}

function reading(times, series, at, unit, lines) {
  const said = (value) => (lines ? length(value) : `${amount(value)}${unit}`);
  const parts = series.filter((each) => each.values[at] > 0).map((each) => `${said(each.values[at])} ${each.label}`);
  const words = times[times.length - 1] - times[0] > LONG ? (time) => moment(new Date(time)) : clockSeconds;
  return `${words(times[at] * 1000)} · ${parts.join(", ") || "nothing"}`;
}

const amount = (value) => (Number.isInteger(value) ? number(value) : value.toFixed(value < 10 ? 2 : 1));

export const Legend = ({ series }) => html`<div class="legend">
  ${series.map((each) => html`<span key=${each.label}><i class=${each.mark}></i>${each.label}</span>`)}
</div>`;
