/**
 * A plot on a canvas: the measured trace, the means of slots, and the private numbers, whose error band has a pattern.
 * A slider below the plot chooses one number and says it in words; the mouse or a finger on the plot moves the slider.
 */

import { day, number, time } from "./text.js";

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
/** The distances between ticks of the time axis, in milliseconds. */
const SECONDS = [1, 2, 5, 10, 15, 30].map((count) => count * 1000);
const STEPS = [...SECONDS, ...SECONDS.map((ms) => ms * 60), HOUR, 2 * HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR, DAY];
const LEFT = 54;
const RIGHT = 12;
const TOP = 22;
/** The smallest distances of ticks in pixels: of values, of times, and of times with seconds. */
const [VALUE_PX, TIME_PX, SECONDS_PX] = [32, 62, 88];

/** Return a colour or size of the page's style sheet. */
function style(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/** Return round values from low to high, at most so many. */
function ticksOf(low, high, most) {
  const raw = (high - low) / Math.max(most, 1);
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((count) => count * power).find((size) => size >= raw);
  const first = Math.ceil(low / step);
  return Array.from({ length: Math.floor(high / step) - first + 1 }, (_, i) => (first + i) * step);
}

/** Return the ticks of the time axis, at round local times, and the step between them. */
function timesOf(from, to, width) {
  const room = (ms, px) => (ms / (to - from)) * width >= px;
  const step = STEPS.find((ms) => room(ms, ms < MINUTE ? SECONDS_PX : TIME_PX));
  const days = step ? 1 : Math.ceil((TIME_PX * (to - from)) / (width * DAY));
  const ticks = [];
  const tick = new Date(from);
  tick.setHours(0, 0, 0, 0);
  while (tick <= to) {
    const midnight = tick.getTime();
    for (let ms = midnight; ms < midnight + DAY; ms += step || DAY) if (ms >= from && ms <= to) ticks.push(ms);
    tick.setDate(tick.getDate() + days);
  }
  return { ticks, step: step || DAY };
}

/** One plot in an element of the page. */
export class Plot {
  #place;
  #canvas = document.createElement("canvas");
  #unit = "";
  #shown = null;
  #reader;
  #read;
  #chosen = null;

  /** Draw in `place`, with the slider in `reader`; `read` returns a slot as text. */
  constructor(place, reader, read) {
    this.#place = place;
    this.#reader = reader;
    this.#read = read;
    place.append(this.#canvas);
    const slider = reader.querySelector("input");
    slider.addEventListener("input", () => this.#choose(this.#shown.slots[Number(slider.value)]));
    for (const name of ["pointermove", "pointerdown"]) this.#canvas.addEventListener(name, (event) => this.#follow(event));
    new ResizeObserver(() => this.#draw()).observe(place);
    for (const query of ["(prefers-color-scheme: dark)", "(forced-colors: active)"]) {
      matchMedia(query).addEventListener("change", () => this.#draw());
    }
  }

  /** Begin an empty plot whose values are in `unit`. */
  begin(unit) {
    this.#unit = unit;
    this.#shown = null;
    this.#chosen = null;
    this.#reader.hidden = true;
  }

  /** Show the trace, means and private slots {from, to, power, half} between two times; all else is cut off. */
  show(trace, means, slots, from, to) {
    const cut = (all) => {
      const inside = all.filter((stretch) => stretch.to > from && stretch.from < to);
      return inside.map((stretch) => ({ ...stretch, start: Math.max(stretch.from, from), end: Math.min(stretch.to, to) }));
    };
    this.#shown = { trace: cut(trace), means: cut(means), slots: cut(slots), from, to };
    this.#showReader();
    this.#draw();
  }

  /** Choose a slot to be read. */
  #choose(slot) {
    this.#chosen = slot;
    this.#showReader();
    this.#draw();
  }

  /** The chosen slot as it is shown now; undefined if none is. */
  get #point() {
    const { slots } = this.#shown;
    const isChosen = ({ from, band }) => from === this.#chosen?.from && band === this.#chosen?.band;
    return slots.length === 1 ? slots[0] : slots.find(isChosen); // a single slot needs no choice
  }

  /** Show the chosen slot as text. */
  #showReader() {
    const [slider, output] = this.#reader.children;
    const { slots } = this.#shown;
    const found = slots.indexOf(this.#point);
    this.#reader.hidden = slots.length === 0;
    if (!slots.length) return;
    slider.max = slots.length - 1;
    slider.value = found < 0 ? slots.length - 1 : found;
    const text = this.#read(slots[slider.value]);
    slider.setAttribute("aria-valuetext", text);
    output.textContent = found < 0 ? "" : text;
  }

  /** Choose the slot at the mouse or finger. */
  #follow({ offsetX }) {
    if (!this.#shown) return;
    const { slots, from, to } = this.#shown;
    const at = from + ((offsetX - LEFT) / (this.#place.clientWidth - LEFT - RIGHT)) * (to - from);
    const slot = slots.find(({ start, end }) => start <= at && at < end);
    if (slot) this.#choose(slot);
  }

  /** Draw all anew. */
  #draw() {
    const { clientWidth: width, clientHeight: height } = this.#place;
    if (!width || !this.#shown) return;
    const { trace, means, slots, from, to } = this.#shown;
    const [you, they, text, grid] = ["--you", "--they", "--soft", "--grid"].map(style);
    this.#canvas.width = width * devicePixelRatio;
    this.#canvas.height = height * devicePixelRatio;
    const pen = this.#canvas.getContext("2d");
    pen.scale(devicePixelRatio, devicePixelRatio);
    pen.font = style("--plot-font");
    const times = timesOf(from, to, width - LEFT - RIGHT);
    const labels = this.#timeLabels(times);
    const bottom = height - (labels.some(([, date]) => date) ? 38 : 22);
    const values = [...trace, ...means].map(({ power }) => power).concat(slots.flatMap(({ power, half }) => [power - half, power + half]));
    const low = Math.min(0, ...values);
    const high = Math.max(0, ...values) * 1.03 || 1;
    const x = (ms) => LEFT + ((ms - from) / (to - from)) * (width - LEFT - RIGHT);
    const y = (value) => TOP + ((high - value) / (high - low)) * (bottom - TOP);
    const line = (x1, y1, x2, y2) => {
      pen.beginPath();
      pen.moveTo(x1, y1);
      pen.lineTo(x2, y2);
      pen.stroke();
    };
    const write = (label, left, top, align) => {
      pen.textAlign = align;
      pen.fillText(label, left, top);
    };
    pen.fillStyle = text;
    pen.strokeStyle = grid;
    write(this.#unit, 0, 12, "left");
    for (const value of values.length ? ticksOf(low, high, (bottom - TOP) / VALUE_PX) : []) {
      line(LEFT, y(value), width - RIGHT, y(value));
      write(number(value), LEFT - 8, y(value) + 4, "right");
    }
    line(LEFT, bottom, width - RIGHT, bottom);
    times.ticks.forEach((tick, i) => {
      line(x(tick), bottom, x(tick), bottom + 4);
      const half = Math.max(...labels[i].map((label) => pen.measureText(label).width)) / 2;
      const middle = Math.min(Math.max(x(tick), half), width - half);
      labels[i].forEach((label, row) => write(label, middle, bottom + 17 + 15 * row, "center"));
    });
    this.#drawBands(pen, they, slots, x, y);
    drawSteps(pen, trace, x, y, { strokeStyle: you, lineWidth: 0.8 });
    drawSteps(pen, means, x, y, { strokeStyle: you, lineWidth: 2.5 });
    pen.setLineDash([9, 4]);
    drawSteps(pen, slots, x, y, { strokeStyle: they, lineWidth: 2.5 });
    pen.setLineDash([]);
    const point = this.#point;
    pen.lineWidth = 1;
    pen.strokeStyle = text;
    if (point) line(x((point.start + point.end) / 2), TOP, x((point.start + point.end) / 2), bottom);
  }

  /** Return the lines of text below each tick: the time, and the date at the first tick and where it changes. */
  #timeLabels({ ticks, step }) {
    if (step >= DAY) return ticks.map((tick) => [day(tick)]);
    const dated = ticks.some((tick) => day(tick) !== day(Date.now()));
    const changes = (i) => i === 0 || day(ticks[i]) !== day(ticks[i - 1]);
    return ticks.map((tick, i) => [time(tick, step < MINUTE), ...(dated && changes(i) ? [day(tick)] : [])]);
  }

  /** Draw the error bands with diagonal lines, so that a pattern marks them in addition to the colour. */
  #drawBands(pen, colour, slots, x, y) {
    pen.strokeStyle = colour;
    pen.lineWidth = 0.75;
    for (const { start, end, power, half } of slots) {
      const [left, right, top, bottom] = [x(start), x(end), y(power + half), y(power - half)];
      pen.save();
      pen.beginPath();
      pen.rect(left, top, right - left, bottom - top);
      pen.stroke();
      pen.clip();
      pen.globalAlpha = 0.45;
      pen.beginPath();
      const rise = bottom - top;
      for (let at = left - rise - ((left - rise + bottom) % 8); at < right; at += 8) {
        pen.moveTo(at, bottom);
        pen.lineTo(at + rise, top);
      }
      pen.stroke();
      pen.restore();
    }
  }
}

/** Draw stretches as a line with steps, which ends where no stretch follows. */
function drawSteps(pen, stretches, x, y, look) {
  Object.assign(pen, look);
  pen.beginPath();
  stretches.forEach(({ start, end, power }, i) => {
    if (i && stretches[i - 1].end >= start) pen.lineTo(x(start), y(power));
    else pen.moveTo(x(start), y(power));
    pen.lineTo(x(end), y(power));
  });
  pen.stroke();
}
