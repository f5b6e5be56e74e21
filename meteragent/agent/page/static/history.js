/** What left of one meter: energy by day or window as a plot and a table, and closed windows of bands. */

import { Plot } from "./plot.js";
import { fill, fillTable } from "./sections.js";
import { amount, day, element, number, percent, say } from "./text.js";

const DAY = 86_400_000;
const LONGEST_DAY = 25 * 3_600_000;
/** The time between two loads: a new record rarely completes a day. */
const PAUSE = 600_000;
/** The time for which the first load after a record waits: the records of a window leave together. */
const GATHER = 1000;

const at = (id) => document.getElementById(id);

/** Format a period: a date, or the first and the last date of a longer one. */
export function period({ from, to }) {
  return to - from <= LONGEST_DAY ? day(from) : `${day(from)} – ${day(to - 1)}`;
}

/** Format a 95% interval without its unit. */
function interval([, low, high]) {
  return `${number(low)} … ${number(high)}`;
}

/** Return which tariff would have cost the least in a window, and how sure that is, rounded down. */
function cheapest({ start_ms: from, end_ms: to, costs }) {
  const [value, low, high] = costs.tariffs[costs.cheapest].map((cost) => amount(cost, costs.currency));
  const values = { period: period({ from, to }), tariff: costs.cheapest, value, low, high };
  if (costs.sureness === null) return say("tariffs.one", values);
  return say("tariffs.cheapest", { ...values, percent: percent(Math.floor(1000 * costs.sureness) / 10) });
}

/** The sections of what left, loaded from the agent for one meter. */
export class History {
  #plot = new Plot(at("month-plot"), at("month-reader"), (slot) => this.#read(slot));
  #query = "";
  #timer;
  #loaded = -Infinity;

  /** Begin with another meter. */
  begin(stream, meter) {
    this.#query = new URLSearchParams({ stream, meter });
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#plot.begin(say("month.unit"));
    this.#show({ zone: "UTC", periods: [], windows: [] });
  }

  /** Load again soon after a record, but not within ten minutes of the last load. */
  loadSoon() {
    const wait = Math.max(GATHER, this.#loaded + PAUSE - Date.now());
    this.#timer ??= setTimeout(() => this.load(), wait);
  }

  /** Load and show what left. */
  async load() {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#loaded = Date.now();
    const query = this.#query;
    try {
      const answer = await fetch(`/history.json?${query}`);
      if (answer.ok && query === this.#query) this.#show(await answer.json());
    } catch {
      this.#loaded = -Infinity; // the stream of events connects again, and then loads again
    }
  }

  #show({ zone, periods, windows }) {
    this.#showPeriods(periods, zone);
    this.#showBands(windows);
  }

  /** Show the mean energy of a day in each period. */
  #showPeriods(periods, zone) {
    const slots = periods.map(({ start_ms: from, end_ms: to, energy }) => {
      const days = to - from <= LONGEST_DAY ? 1 : (to - from) / DAY;
      const [power, low, high] = energy.map((value) => value / days);
      return { from, to, energy, power, half: (high - low) / 2 };
    });
    fill("month-about", say("month.about", { zone }));
    at("month-none").hidden = slots.length > 0;
    at("month-chart").hidden = slots.length === 0;
    if (!slots.length) return;
    this.#plot.show([], [], slots, slots[0].from, slots.at(-1).to);
    at("month-plot").setAttribute("aria-label", say("month.plot", { count: slots.length }));
    const heads = ["period", "energy", "interval"].map((name) => say(`month.${name}`));
    const rows = slots.map((slot) => [period(slot), number(slot.energy[0]), interval(slot.energy)]).reverse();
    fillTable("month-numbers", say("month.table"), heads, rows);
  }

  #read({ from, to, energy }) {
    const [value, low, high] = energy.map((kwh) => amount(kwh, "kWh"));
    return say("read.energy", { period: period({ from, to }), value, low, high });
  }

  /** Show the bands of closed windows, the newest window first. */
  #showBands(windows) {
    at("bands-none").hidden = windows.length > 0;
    at("bands-table").hidden = windows.length === 0;
    const heads = ["window", "band", "energy", "interval"].map((name) => say(`bands.${name}`));
    const rows = windows.toReversed().flatMap(({ start_ms: from, end_ms: to, bands }) =>
      Object.entries(bands).map(([band, energy]) => [
        period({ from, to }),
        band,
        element("strong", number(energy[0])),
        interval(energy),
      ]),
    );
    fillTable("bands-table", say("bands.table"), heads, rows);
    this.#showTariffs(windows.toReversed());
  }

  /** Show what the newest window would have cost, and the cheapest tariff of each window, the newest first. */
  #showTariffs(windows) {
    at("choice-of-tariff").hidden = windows.length === 0;
    const [newest, ...earlier] = windows.filter(({ costs }) => costs);
    for (const id of ["tariffs-table", "tariffs-means"]) at(id).hidden = !newest;
    fill("tariffs-earlier", ...earlier.map((window) => element("li", cheapest(window))));
    fill("tariffs-cheapest", newest ? cheapest(newest) : say("tariffs.none"));
    if (!newest) return;
    const { tariffs, currency } = newest.costs;
    const heads = ["tariff", "cost", "interval"].map((name) => say(`tariffs.${name}`, { currency }));
    const rows = Object.entries(tariffs).map(([name, cost]) => [name, element("strong", number(cost[0])), interval(cost)]);
    fillTable("tariffs-table", say("tariffs.table"), heads, rows);
  }
}
