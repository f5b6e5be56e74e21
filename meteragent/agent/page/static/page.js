/** The page's main module: it connects, keeps the data that the agent sends, and redraws a few times a second. */

import { History, period } from "./history.js";
import { Plot } from "./plot.js";
import { load, Receivers } from "./receivers.js";
import * as show from "./sections.js";
import { hasBands, hasPowers, Means, Numbers, Trace } from "./series.js";
import { Tabs } from "./tabs.js";
import { amount, clock, day, duration, element, number, say, speak, time, until } from "./text.js";

const DRAW_MS = 250;
const DRAW_CALM_MS = 5000;
const TICK_MS = 1000;
const SAY_MS = 5000;
const RETRY_MS = 3000;
const MINUTE = 60_000;
const TABLE_ROWS = 100;
/** The number of slots before now that the plot shows. */
const SLOTS = 8;
/** With more meters than this, the page opens with their table. */
const METERS = 8;
/** The parts about a home's own numbers, of which a stream of a group sends none. */
const OF_NUMBERS = ["figures", "trace", "lists", "tab-history", "presets", "last"];

const { fill } = show;
const at = (id) => document.getElementById(id);
const calm = matchMedia("(prefers-reduced-motion: reduce)");

/** The state of the page: its data on one meter, and what is shown. */
class Page {
  constructor(facts) {
    this.facts = facts;
    this.plot = new Plot(at("trace-plot"), at("trace-reader"), (slot) => this.#read(slot));
    this.history = new History();
    this.receivers = new Receivers(facts);
    this.tabs = new Tabs(at("tabs"), () => this.draw());
    this.ahead = 0;
    this.over = 0;
    this.said = 0;
    this.source = null;
    this.drawn = 0;
    at("choice").addEventListener("submit", (event) => event.preventDefault());
    at("choice").addEventListener("change", () => this.choose(at("stream").value, at("meter").value));
    setInterval(() => this.#tick(), TICK_MS);
  }

  /** The agent's time, never before the end of a slot whose number was sent. */
  get now() {
    return Math.max(Date.now() + this.ahead, this.over);
  }

  /** Show a stream and one of its meters; an empty name chooses the first. */
  choose(streamName, meter) {
    const stream = this.facts.streams.find(({ name }) => name === streamName) || this.facts.streams[0];
    if (stream !== this.stream) this.#show(stream);
    if (!stream.meters.includes(meter)) meter = stream.meters[0] || "";
    this.meter = meter;
    this.trace = new Trace(stream.own);
    this.numbers = new Numbers(stream.own);
    this.means = new Means();
    this.opened = null;
    this.upcoming = undefined;
    this.over = 0;
    this.missed = 0;
    const waiting = { measured: "line.waiting", sent: "now.sent_none", off: "now.off_none", next: "now.next_none" };
    for (const [id, about] of Object.entries(waiting)) show.showFigure(id, "", say(about));
    this.plot.show([], [], [], this.now - SLOTS * stream.own.step_ms, this.now);
    this.#offer("stream", this.facts.streams.map(({ name }) => name), stream.name);
    this.#offer("meter", stream.meters, meter);
    this.history.begin(stream.name, meter);
    this.connect();
  }

  #show(stream) {
    this.stream = stream;
    const { own } = stream;
    this.unit = own.power_unit;
    this.plot.begin(this.unit);
    for (const part of document.querySelectorAll("#trace .key li + li, #numbers, #off-tile")) part.hidden = !hasPowers(own);
    at("bands").hidden = !hasBands(own);
    for (const id of OF_NUMBERS) at(id).hidden = Boolean(stream.group);
    at("crowd").hidden = !stream.group;
    show.showArrivals(stream.arrivals, (meter) => this.#chooseMeter(meter));
    show.showHidden(own);
    if (!stream.group) show.showLimit(own, null);
    this.receivers.show(stream, this.now);
    const yours = own.said.name ? `${own.said.name} (${say("preset.own")})` : say("preset.own");
    const presets = Object.entries(stream.presets).map(([name, said]) => this.#card(name, said.name, said));
    fill("preset-choice", this.#card("yours", yours, own.said), ...presets);
    at("preset-choice").querySelector("input").click();
  }

  /** Return a preset as a card with three figures. */
  #card(value, name, said) {
    const input = element("input", "", { type: "radio", name: "preset", value });
    input.addEventListener("change", () => {
      at("preset-events").hidden = value === "yours"; // the table above has them
      show.showLimits("preset-events", say("preset.table"), said);
    });
    const figures = said.summary.map(([label, figure]) => element("span", [element("b", figure), label]));
    const code = value === "yours" ? [] : [" ", element("code", value)];
    return element("label", [input, element("span", [element("strong", name), ...code]), element("span", figures)]);
  }

  #offer(id, names, chosen) {
    at(id).replaceChildren(...names.map((name) => new Option(name, name, false, name === chosen)));
    at(`${id}-label`).hidden = names.length < 2;
  }

  #chooseMeter(meter) {
    this.choose(this.stream.name, meter);
    this.tabs.choose("now");
  }

  /** Open a stream of events; if it ends for any reason, connect again. */
  connect() {
    this.source?.close();
    const { meter } = this;
    if (!meter) {
      this.#state("waiting");
      setTimeout(() => this.look(), RETRY_MS);
      return;
    }
    const query = new URLSearchParams({ stream: this.stream.name, meter });
    const source = new EventSource(`/events?${query}`);
    const on = (name, take) => source.addEventListener(name, (event) => take(JSON.parse(event.data)));
    on("start", ({ topic, records, means }) => {
      this.#state("open");
      if (this.stream.group) return show.showGroup(this.stream.group, topic.split("/").at(-1));
      this.numbers.add(records);
      this.means.add(means);
      this.history.load();
      this.draw();
    });
    on("news", (news) => this.news(news));
    on("glance", (glance) => this.glance(glance));
    on("full", () => this.#state("full"));
    source.addEventListener("error", () => {
      if (at("line").dataset.state !== "full") this.#state("lost");
      if (source.readyState === EventSource.CLOSED && source === this.source) setTimeout(() => this.look(), RETRY_MS);
    });
    this.source = source;
  }

  /** Load the facts again, because no meter was known or the agent has restarted. */
  async look() {
    const facts = await load("/facts.json");
    if (facts) {
      const fresh = facts.streams.find(({ name }) => name === this.stream.name);
      this.facts = facts;
      show.showProblems(facts, facts.counters);
      if (!fresh || fresh.own.id !== this.stream.own.id) location.reload();
      this.stream.meters = fresh?.meters || [];
      this.#showArrivals(fresh?.arrivals || []);
      if (this.meter) this.connect();
      else this.choose(this.stream.name, "");
    } else {
      this.#state("lost");
      setTimeout(() => this.look(), RETRY_MS);
    }
  }

  #showArrivals(rows) {
    show.showArrivals(rows, (meter) => this.#chooseMeter(meter));
  }

  #state(name) {
    if (at("line").dataset.state === name) return;
    at("line").dataset.state = document.body.dataset.state = name;
    fill("line", say(`line.${name}`));
  }

  news({ readings, records, missed, means }) {
    this.trace.add(readings);
    this.means.add(means);
    this.missed += missed;
    const last = this.numbers.add(records);
    if (last) {
      this.over = Math.max(this.over, last.to);
      this.history.loadSoon();
    }
    if (last && Date.now() - this.said >= SAY_MS) {
      this.said = Date.now();
      fill("said", this.#sayRecord(last));
    }
    const wait = calm.matches && !last ? DRAW_CALM_MS : DRAW_MS;
    if (Date.now() - this.drawn >= wait) this.draw();
    else this.pending ??= setTimeout(() => this.draw(), wait - (Date.now() - this.drawn));
  }

  glance(glance) {
    if (glance.now_ms !== null) this.ahead = glance.now_ms - Date.now();
    this.opened ??= glance.now_ms ?? this.now;
    this.upcoming = glance.upcoming;
    if (glance.meters) {
      this.stream.meters = glance.meters;
      this.#offer("meter", glance.meters, this.meter);
    }
    show.showSpent(glance.spent, glance.allowance, this.stream.own);
    show.showLast(glance.last);
    if (this.stream.group) show.showReports(glance.reports, this.stream.group);
    else show.showLimit(this.stream.own, glance.allowance);
    this.#state(glance.health.source && glance.health.sink ? "open" : "offline");
    show.showHealth(glance, this.facts.counters);
    this.#showArrivals(glance.arrivals);
    this.receivers.show(this.stream, this.now);
    show.showProblems(glance, this.facts.counters);
    if (Date.now() - this.drawn >= (calm.matches ? DRAW_CALM_MS : DRAW_MS)) this.draw();
  }

  /** Redraw the plots, the figures and the table of numbers. */
  draw() {
    clearTimeout(this.pending);
    this.pending = undefined;
    if (document.hidden || this.opened === null) return;
    this.drawn = Date.now();
    if (this.stream.group) return this.#sayNextReport();
    const { now } = this;
    const { own } = this.stream;
    const stretches = this.trace.stretches(now);
    const means = hasPowers(own) ? this.means.list(now) : [];
    const all = this.numbers.list(now - SLOTS * own.step_ms);
    const slots = all.map((slot) => ({ ...slot, they: slot.power, you: this.#you(slot) }));
    this.plot.show(stretches, means, slots, this.#since(now, own, slots, means), now);
    this.#showMeasured(stretches.at(-1), now);
    this.#showSent(slots.at(-1));
    this.#tick();
    const counted = { readings: number(this.trace.readings.length), opened: clock(this.opened), records: slots.length };
    at("trace-plot").setAttribute("aria-label", say("trace.plot", counted));
    at("trace-missed").hidden = this.missed === 0;
    fill("trace-missed", say("missed", { count: number(this.missed) }));
    const seconds = own.step_ms < MINUTE;
    if (!at("history").hidden) show.showNumbers(slots.slice(-TABLE_ROWS).reverse(), this.unit, seconds);
  }

  /** Return the start of the plot: some slots before now, but not before the first number and visit. */
  #since(now, { step_ms: step }, slots, means) {
    const first = Math.min(slots[0]?.from ?? now, means[0]?.from ?? now, this.opened);
    return Math.max(now - SLOTS * step, Math.min(first, now - step / 4));
  }

  /** Return the use in a slot; null unless all of it was observed. */
  #you({ window, band }) {
    const mean = this.means.get(window, band);
    return mean?.part === 1 ? mean.power : null;
  }

  /** Show the newest measured power or, before the first reading of this visit, the mean of the open slot. */
  #showMeasured(last, now) {
    const seconds = true;
    const open = this.means.list(now).at(-1);
    if (last) show.showFigure("measured", amount(last.power, this.unit), say("now.measured_at", { time: clock(Math.min(last.to, now), seconds) }));
    else if (open) show.showFigure("measured", amount(open.power, this.unit), say("now.measured_since", { from: clock(open.from) }));
    else show.showFigure("measured", "", say("line.waiting"));
  }

  /** Show the newest number that was sent, and how far off it is. */
  #showSent(last) {
    const { own } = this.stream;
    const { newest } = this.numbers;
    if (!newest) {
      show.showFigure("sent", "", say("now.sent_none"));
      return show.showFigure("off", "", say("now.off_none"));
    }
    const [value, half, unit] = last ? [last.they, last.half, this.unit] : [newest.value, newest.half, own.unit];
    if (hasBands(own)) {
      const bands = this.numbers.of(newest.from);
      const total = bands.reduce((sum, band) => sum + band.value, 0);
      return show.showFigure("sent", amount(total, unit), say("now.sent_bands", { count: bands.length, length: period(newest) }));
    }
    show.showFigure("sent", amount(value, unit), say("now.sent_about", { ...this.#span(newest), half: amount(half, unit) }));
    if (!last || last.you === null) return show.showFigure("off", "", say("now.off_unseen"));
    show.showFigure("off", amount(Math.abs(last.they - last.you), unit), say("now.off_about", { mean: amount(last.you, unit) }));
  }

  /** Show when the next number is sent. A slot that had begun at the meter's first reading is not sent. */
  #tick() {
    const { upcoming, now, stream } = this;
    if (!this.meter || this.opened === null || stream.group || document.hidden) return;
    if (stream.own.event_clock) return show.showFigure("next", "", say("now.next_event"));
    if (!upcoming) return show.showFigure("next", "", upcoming === null ? say("now.next_none") : "");
    const { start_ms: from, end_ms: to, leaves_ms: leaves } = upcoming;
    const date = leaves - now > 20 * 60 * MINUTE ? `${day(leaves)}, ${time(leaves)}` : clock(leaves, leaves % MINUTE > 0);
    const values = { ...this.#span({ from, to }), leaves: date };
    const key = hasBands(stream.own) ? "now.next_at" : "now.next_about";
    show.showFigure("next", duration(leaves - now), say(key, values));
  }

  /** Show which report leaves next, and when. */
  #sayNextReport() {
    const { upcoming, now } = this;
    if (!upcoming) return fill("crowd-next", upcoming === null ? say("crowd.idle") : "");
    const { start_ms: from, end_ms: to, leaves_ms: leaves } = upcoming;
    const values = { ...this.#span({ from, to }), leaves: clock(leaves, leaves % MINUTE > 0) };
    return fill("crowd-next", say(now < from ? "crowd.next" : "crowd.open", values));
  }

  #span({ from, to }) {
    const seconds = to - from < MINUTE;
    const [first, last] = [clock(from, seconds), until(from, to, seconds)];
    return { from: first, to: last, length: `${first} – ${last}` };
  }

  /** Return a slot of a plot as text. */
  #read({ from, to, they, half, you }) {
    const [value, low, high] = [they, they - half, they + half].map((figure) => amount(figure, this.unit));
    const values = { ...this.#span({ from, to }), value, low, high };
    return you === null ? say("read.slot_unseen", values) : say("read.slot", { ...values, mean: amount(you, this.unit) });
  }

  /** Return a new record as text. */
  #sayRecord(record) {
    const { own } = this.stream;
    const value = hasPowers(own) ? amount(record.power, this.unit) : amount(record.value, own.unit);
    if (!hasBands(own)) return say("trace.said", { ...this.#span(record), value });
    return say("bands.said", { band: record.band, value, period: period(record) });
  }
}

/** Show only the receivers, because no stream runs; once one does, show the whole page. */
function idle(facts) {
  for (const tab of document.querySelectorAll("[role=tab]")) tab.hidden = tab.id !== "tab-receivers";
  at("last").hidden = true;
  at("line").dataset.state = "waiting";
  fill("line", say("line.idle"));
  new Receivers(facts).show({}, Date.now());
  new Tabs(at("tabs"), () => {}).choose("receivers");
  setInterval(async () => (await load("/facts.json"))?.streams.length && location.reload(), RETRY_MS);
}

async function start() {
  const [texts, facts] = await Promise.all([load("/texts.json"), load("/facts.json")]);
  if (!texts || !facts) {
    setTimeout(start, RETRY_MS);
    return;
  }
  speak(texts);
  fill("foot", say("foot", { version: facts.version }));
  const asked = new URLSearchParams(location.search);
  show.showProblems(facts, facts.counters);
  if (!facts.streams.length) return idle(facts);
  const page = new Page(facts);
  page.choose(asked.get("stream"), asked.get("meter"));
  const isFleet = page.stream.meters.length > METERS && !asked.get("meter");
  page.tabs.choose(location.hash.slice(1) || (isFleet ? "meters" : "now"));
}

start();
