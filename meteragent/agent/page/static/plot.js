/**
 * A plot, drawn by uPlot, of the trace and the private numbers, whose error band has a pattern. A slider below the plot
 * chooses one number and says it in words; the mouse or a finger on the plot moves the slider.
 */

import { day, number, say, time } from "./text.js";

const HEIGHT = 290;
const SECONDS_FROM = 60;
const DAY_S = 86_400;
/** The smallest distance between two ticks of the time axis, in pixels: the width of a label and a margin. */
const TICK_PX = 54;
const TICK_SECONDS_PX = 84;

/** Return a colour or size of the page's style sheet. */
function style(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/** Draw diagonal lines, so that a pattern marks the error band in addition to its colour. */
function hatch(colour) {
  const tile = document.createElement("canvas");
  const size = 8 * devicePixelRatio;
  tile.width = tile.height = size;
  const pen = tile.getContext("2d");
  pen.strokeStyle = colour;
  pen.globalAlpha = 0.45;
  pen.lineWidth = devicePixelRatio;
  for (const shift of [-size, 0, size]) {
    pen.moveTo(shift, size);
    pen.lineTo(shift + size, 0);
  }
  pen.stroke();
  return pen.createPattern(tile, "repeat");
}

/** Format the ticks of the time axis: the time, and below it the date at the first tick and where the date changes. */
function times(_, ticks) {
  const seconds = ticks.length > 1 && ticks[1] - ticks[0] < SECONDS_FROM;
  if (ticks.length > 1 && ticks[1] - ticks[0] >= DAY_S - 3600) return ticks.map((tick) => day(tick * 1000));
  const today = day(Date.now());
  const dated = ticks.some((tick) => day(tick * 1000) !== today);
  return ticks.map((tick, i) => {
    const date = day(tick * 1000);
    const changes = i === 0 || date !== day(ticks[i - 1] * 1000);
    return dated && changes ? `${time(tick * 1000, seconds)}\n${date}` : time(tick * 1000, seconds);
  });
}

/** Return stretches as points of a step line, with a null where no stretch follows. */
function stairs(stretches, values) {
  const points = [[], ...values.map(() => [])];
  stretches.forEach((stretch, i) => {
    points[0].push(stretch.from / 1000);
    values.forEach((value, k) => points[k + 1].push(value(stretch)));
    const next = stretches[i + 1];
    if (!next || next.from > stretch.to) {
      points[0].push(stretch.to / 1000);
      values.forEach((value, k) => points[k + 1].push(next ? null : value(stretch)));
    }
  });
  return points;
}

/** One plot in an element of the page. */
export class Plot {
  #place;
  #unit = "";
  #chart = null;
  #shown = null;
  #range = [0, 1];
  #reader;
  #read;
  #slots = [];
  #chosen = null;

  /** Draw in `place`, with the slider in `reader`; `read` returns a slot as text. */
  constructor(place, reader, read) {
    this.#place = place;
    this.#reader = reader;
    this.#read = read;
    const slider = reader.querySelector("input");
    slider.addEventListener("input", () => this.#choose(this.#slots[Number(slider.value)]));
    new ResizeObserver(() => this.#fit()).observe(place);
    for (const query of ["(prefers-color-scheme: dark)", "(forced-colors: active)"]) {
      matchMedia(query).addEventListener("change", () => this.#restart());
    }
  }

  /** Begin an empty plot whose values are in `unit`. */
  begin(unit) {
    this.#unit = unit;
    this.#shown = null;
    this.#chosen = null;
    this.#restart();
  }

  /** Show the trace and private slots {from, to, power, half} between two times; all else is cut off. */
  show(trace, slots, from, to) {
    const inside = (stretch) => stretch.to > from && stretch.from < to;
    const cut = ({ from: start, to: end, ...rest }) => ({ from: Math.max(start, from), to: Math.min(end, to), ...rest });
    const raw = stairs(trace.filter(inside).map(cut), [(s) => s.power]);
    const inner = [(s) => s.power, (s) => s.power - s.half, (s) => s.power + s.half];
    const hidden = stairs(slots.filter(inside).map(cut), inner);
    this.#slots = slots.filter(inside);
    this.#range = [from / 1000, to / 1000];
    this.#shown = uPlot.join([raw, hidden]);
    if (this.#chart) this.#chart.setData(this.#shown);
    else this.#start();
    this.#showReader();
  }

  /** Choose a slot to be read. */
  #choose(slot) {
    this.#chosen = slot;
    this.#showReader();
  }

  /** Show the chosen slot as text and as a line in the plot; before a choice, say how to choose. */
  #showReader() {
    const [slider, output] = this.#reader.children;
    const last = this.#slots.length - 1;
    const isChosen = ({ from, band }) => from === this.#chosen?.from && band === this.#chosen?.band;
    const found = last === 0 ? 0 : this.#slots.findIndex(isChosen); // a single slot needs no choice
    const index = found < 0 ? last : found;
    this.#reader.hidden = last < 0;
    if (last < 0) return;
    slider.max = last;
    slider.value = index;
    const text = this.#read(this.#slots[index]);
    slider.setAttribute("aria-valuetext", text);
    output.textContent = found < 0 ? say("read.hint") : text;
    if (found >= 0) this.#point(this.#slots[index]);
  }

  /** Draw a line at the middle of a slot's visible part. */
  #point({ from, to }) {
    const [start, end] = this.#range;
    const middle = (Math.max(from / 1000, start) + Math.min(to / 1000, end)) / 2;
    this.#chart?.setCursor({ left: this.#chart.valToPos(middle, "x"), top: 0 }, false);
  }

  /** Choose the slot at the mouse or finger. */
  #follow(chart) {
    const { left } = chart.cursor;
    if (!(left >= 0)) return;
    const time = chart.posToVal(left, "x") * 1000;
    const slot = this.#slots.find(({ from, to }) => from <= time && time < to);
    if (slot) this.#choose(slot);
  }

  #restart() {
    this.#chart?.destroy();
    this.#chart = null;
    if (this.#shown) this.#start();
  }

  #fit() {
    this.#chart?.setSize({ width: this.#place.clientWidth, height: HEIGHT });
  }

  #start() {
    const [you, they, text, grid] = ["--you", "--they", "--soft", "--grid"].map(style);
    const stepped = uPlot.paths.stepped({ align: 1 });
    const edge = { stroke: they, width: 0.75, paths: stepped, points: { show: false } };
    const axis = { stroke: text, grid: { stroke: grid, width: 1 }, ticks: { stroke: grid, width: 1 }, font: style("--plot-font") };
    const tickSpace = () => (this.#range[1] - this.#range[0] < 8 * SECONDS_FROM ? TICK_SECONDS_PX : TICK_PX);
    const tickHeight = (_, labels) => (labels?.some((label) => label.includes("\n")) ? 46 : 30);
    const fromZero = (_, low, high) => uPlot.rangeNum(Math.min(low ?? 0, 0), Math.max(high ?? 0, 1), 0.1, true);
    const options = {
      width: this.#place.clientWidth,
      height: HEIGHT,
      padding: [12, 20, 0, 0],
      cursor: { y: false, points: { show: false }, drag: { x: false, y: false, setScale: false } },
      hooks: { setCursor: [(chart) => this.#follow(chart)] },
      legend: { show: false },
      scales: { x: { time: true, range: () => this.#range }, y: { range: fromZero } },
      axes: [
        { ...axis, values: times, space: tickSpace, size: tickHeight },
        { ...axis, label: this.#unit, labelSize: 18, labelFont: style("--plot-font"), size: 56, values: (_, all) => all.map(number) },
      ],
      series: [
        {},
        { stroke: you, width: 1.5, paths: stepped, points: { show: false } },
        { stroke: they, width: 2.5, dash: [9, 4], paths: stepped, points: { show: false } },
        edge,
        edge,
      ],
      bands: [{ series: [4, 3], fill: hatch(they) }],
    };
    this.#chart = new uPlot(options, this.#shown, this.#place);
  }
}
