/** The page's main module: it connects, keeps the data that the agent sends, and redraws a few times a second. */

import { History, period } from "./history.js";
import { Plot } from "./plot.js";
import { fill, showArrivals, showBudget, showGroup, showHealth, showHidden, showLast, showLimits, showNumbers } from "./sections.js";
import { showPairs, showProblems, showReports, showSpent } from "./sections.js";
import { hasBands, hasPowers, Means, Numbers, Trace } from "./series.js";
import { amount, clock, day, element, number, say, speak, time } from "./text.js";

const DRAW_MS = 250;
const DRAW_CALM_MS = 5000;
const SAY_MS = 5000;
const RETRY_MS = 3000;
const MINUTE = 60_000;
const TABLE_ROWS = 100;
/** The sections about a home's own numbers, of which a stream of a group sends none. */
const OF_NUMBERS = ["trace", "month", "presets", "attack", "last"];

const at = (id) => document.getElementById(id);
const calm = matchMedia("(prefers-reduced-motion: reduce)");

/** The state of the page: its data on one meter, and what is shown. */
class Page {
  constructor(facts) {
    this.facts = facts;
    this.plot = new Plot(at("trace-plot"), at("trace-reader"), (slot) => this.#read(slot));
    this.history = new History();
    this.ahead = 0;
    this.over = 0;
    this.said = 0;
    this.source = null;
    this.drawn = 0;
    this.missed = 0;
    at("trace-numbers").addEventListener("toggle", () => this.draw());
    at("choice").addEventListener("submit", (event) => event.preventDefault());
    at("choice").addEventListener("change", () => this.choose(at("stream").value, at("meter").value));
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
    fill("trace-latest", say("trace.none"));
    fill("trace-next");
    this.#offer(at("stream"), this.facts.streams.map(({ name }) => name), stream.name);
    this.#offer(at("meter"), stream.meters, meter);
    at("stream-label").hidden = this.facts.streams.length < 2;
    this.history.begin(stream.name, meter);
    this.connect();
  }

  #show(stream) {
    this.stream = stream;
    const own = stream.own;
    this.unit = own.power_unit;
    this.plot.begin(this.unit);
    at("trace-note").hidden = own.kind === "power";
    for (const part of document.querySelectorAll("#trace .key li + li, #trace-numbers, #attack-order")) part.hidden = !hasPowers(own);
    for (const part of document.querySelectorAll("#bands, a[href='#bands']")) part.hidden = !hasBands(own);
    const parts = (ids) => document.querySelectorAll(ids.map((id) => `#${id}, a[href='#${id}']`).join());
    for (const part of parts(OF_NUMBERS)) part.hidden = Boolean(stream.group);
    for (const part of parts(["crowd"])) part.hidden = !stream.group;
    showArrivals(stream.arrivals);
    showHidden(own);
    const yours = own.preset ? `${say("preset.own")} (${own.preset})` : say("preset.own");
    const presets = Object.entries(stream.presets).map(([name, said]) => this.#radio(name, name, said));
    fill("preset-choice", this.#radio(say("preset.own"), yours, own.said), ...presets);
    at("preset-choice").querySelector("input").click();
  }

  #radio(value, name, said) {
    const input = element("input", "", { type: "radio", name: "preset", value });
    input.addEventListener("change", () => showLimits("preset-events", say("preset.table"), said));
    return element("label", [input, element("span", [element("b", name), element("small", said.summary)])]);
  }

  #offer(select, names, chosen) {
    select.replaceChildren(...names.map((name) => new Option(name, name, false, name === chosen)));
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
    on("start", ({ topic, records }) => {
      this.#state("open");
      if (this.stream.group) return showGroup(this.stream.group, topic.split("/").at(-1));
      this.numbers.add(records);
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
      showProblems(facts.problems);
      if (!fresh || fresh.own.id !== this.stream.own.id) location.reload();
      this.stream.meters = fresh?.meters || [];
      showArrivals(fresh?.arrivals || []);
      if (this.meter) this.connect();
      else this.choose(this.stream.name, "");
    } else {
      this.#state("lost");
      setTimeout(() => this.look(), RETRY_MS);
    }
  }

  #state(name) {
    if (at("line").dataset.state === name) return;
    at("line").dataset.state = name;
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
      this.#offer(at("meter"), glance.meters, this.meter);
    }
    showSpent(glance.spent, this.stream.own);
    showBudget(glance.allowance);
    showLast(glance.last);
    if (this.stream.group) showReports(glance.reports, this.stream.group);
    this.#state(glance.health.source && glance.health.sink ? "open" : "offline");
    showHealth(glance, this.facts.counters);
    showArrivals(glance.arrivals);
    showProblems(glance.problems);
    if (Date.now() - this.drawn >= (calm.matches ? DRAW_CALM_MS : DRAW_MS)) this.draw();
  }

  /** Redraw the plots, the texts beside them and the open tables. */
  draw() {
    clearTimeout(this.pending);
    this.pending = undefined;
    if (document.hidden || this.opened === null) return;
    this.drawn = Date.now();
    if (this.stream.group) return this.#sayNextReport();
    const { now } = this;
    const own = this.stream.own;
    const stretches = this.trace.stretches(now);
    const since = this.#since(now, own);
    const slots = this.numbers.list(since).map((slot) => ({ ...slot, they: slot.power, ...this.#you(slot) }));
    this.plot.show(stretches, slots, since, now);
    this.#sayLatest(slots);
    this.#sayNext(slots);
    showPairs(slots);
    const seconds = own.step_ms < MINUTE;
    if (at("trace-numbers").open) showNumbers(slots.slice(-TABLE_ROWS).reverse(), this.unit, seconds);
  }

  /** Return the start of the plot, so that the trace gets at least a quarter of its width. */
  #since(now, { step_ms: step }) {
    const open = Math.max(now - this.opened, Math.min(step, 2 * MINUTE));
    return this.opened - Math.min(3 * step, 3 * open);
  }

  /** Return the use in a slot; null unless the page was open for the whole slot. */
  #you({ window, band }) {
    const mean = this.means.get(window, band);
    return mean?.part === 1 ? mean : { you: null, part: 0 };
  }

  /** Show when the number of a band leaves next: a band ends with its last hours in the window. */
  #sayNextWindow() {
    const { upcoming } = this;
    if (this.stream.own.event_clock) return fill("bands-next", say("trace.event_clock"));
    if (!upcoming) return fill("bands-next", upcoming === null ? say("trace.idle") : "");
    const leaves = `${day(upcoming.leaves_ms)}, ${time(upcoming.leaves_ms)}`;
    return fill("bands-next", say("bands.next", { leaves }));
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
    return { from: clock(from, seconds), to: clock(to, seconds), length: `${clock(from, seconds)} – ${clock(to, seconds)}` };
  }

  /** Return a slot of a plot, or an amount, as text. */
  #read({ from, to, they, half, you }, unit = this.unit) {
    const [value, low, high] = [they, they - half, they + half].map((figure) => amount(figure, unit));
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

  /** Show the newest number as text, and describe the plot. */
  #sayLatest(slots) {
    const last = slots.at(-1);
    const { own } = this.stream;
    const { newest } = this.numbers;
    if (hasBands(own)) fill("trace-latest", say("trace.bands"));
    else if (!hasPowers(own) && newest) fill("trace-latest", this.#read({ ...newest, they: newest.value, you: null }, own.unit));
    else if (last) {
      const values = { ...this.#span(last), value: amount(last.they, this.unit) };
      const seen = last.you === null ? {} : { mean: amount(last.you, this.unit), error: amount(Math.abs(last.they - last.you), this.unit) };
      fill("trace-latest", say(last.you === null ? "trace.latest_unseen" : "trace.latest", { ...values, ...seen }));
    }
    const counted = { readings: number(this.trace.readings.length), opened: clock(this.opened), records: slots.length };
    at("trace-plot").setAttribute("aria-label", say("trace.plot", counted));
    at("trace-missed").hidden = this.missed === 0;
    fill("trace-missed", say("missed", { count: number(this.missed) }));
  }

  /**
   * Show which number leaves next, and when. A slot that had already begun at the meter's first reading is not sent;
   * the agent names the first slot that is.
   */
  #sayNext(slots) {
    const { upcoming, now } = this;
    const own = this.stream.own;
    if (hasBands(own)) return this.#sayNextWindow();
    if (own.event_clock) return fill("trace-next", say("trace.event_clock"));
    if (!upcoming) return fill("trace-next", upcoming === null ? say("trace.idle") : "");
    const { start_ms: from, end_ms: to, leaves_ms: leaves } = upcoming;
    const values = { ...this.#span({ from, to }), leaves: clock(leaves, leaves % MINUTE > 0) };
    if (now < from) return fill("trace-next", say(slots.length ? "trace.next" : "trace.first", values));
    const mean = own.bands ? undefined : this.means.get(from, "");
    if (!mean) return fill("trace-next", say("trace.open_unseen", values));
    return fill("trace-next", say("trace.open", { ...values, mean: amount(mean.you, this.unit) }));
  }
}

/** Load JSON from the server; return null if the server does not answer. Without a login, show the login form. */
async function load(path) {
  try {
    const answer = await fetch(path);
    if (answer.status === 401) location.reload();
    return answer.ok ? await answer.json() : null;
  } catch {
    return null;
  }
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
  showProblems(facts.problems);
  new Page(facts).choose(asked.get("stream"), asked.get("meter"));
}

start();
