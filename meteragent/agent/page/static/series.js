/**
 * The page's data: readings since the page was opened, and private numbers. Except for amounts of money, all are
 * powers over stretches of time, in the stream's W or kW and in milliseconds. This module does not access the document.
 */

const READINGS = 20_000;
const HOUR = 3_600_000;
const DAY = 24 * HOUR;

/** The readings of one meter since the page was opened, for the plot; the means of slots come from the agent. */
export class Trace {
  constructor(promise) {
    this.promise = promise;
    this.readings = [];
  }

  /** Add readings [ms, value]; of two at one time the last counts, because a sum of phases may be revised. */
  add(readings) {
    for (const reading of readings) {
      let at = this.readings.length;
      while (at > 0 && this.readings[at - 1][0] > reading[0]) at -= 1;
      const known = at > 0 && this.readings[at - 1][0] === reading[0];
      this.readings.splice(known ? at - 1 : at, known ? 1 : 0, reading);
    }
    if (this.readings.length > READINGS) this.readings.splice(0, this.readings.length - READINGS);
  }

  /**
   * Return stretches {from, to, power} up to now. A power holds until the next reading, for at most `hold`; an energy
   * was used in the interval that ends at its time; two readings of a register make a stretch.
   */
  stretches(now) {
    const { kind, hold_ms: hold } = this.promise;
    const list = this.readings;
    if (kind === "register") {
      return list.slice(1).flatMap(([to, value], i) => {
        const [from, before] = list[i];
        return value < before ? [] : [{ from, to, power: (value - before) * (HOUR / (to - from)) }];
      });
    }
    if (kind === "interval_energy") {
      return list.map(([to, value]) => ({ from: to - hold, to, power: value * (HOUR / hold) }));
    }
    return list
      .map(([from, power], i) => {
        const next = i + 1 < list.length ? list[i + 1][0] : Math.max(now, from);
        return { from, to: Math.min(next, from + hold), power };
      })
      .filter(({ from, to }) => to > from);
  }
}

/** The means of slots, as computed by the agent: {from, to, band, power, part}; `part` is the observed part of the slot. */
export class Means {
  #slots = new Map();

  /** Add means as they arrive; the newest of a slot counts. */
  add(means) {
    for (const { from_ms: from, to_ms: to, band, power, part } of means) {
      const key = `${from}/${band}`;
      this.#slots.delete(key);
      this.#slots.set(key, { from, to, band, power, part });
    }
    while (this.#slots.size > READINGS) this.#slots.delete(this.#slots.keys().next().value);
  }

  /** Return the means of slots without a band up to now, in order of time. */
  list(now) {
    const slots = [...this.#slots.values()].filter(({ band, from }) => !band && from < now);
    return slots.map((slot) => ({ ...slot, to: Math.min(slot.to, now) })).sort((a, b) => a.from - b.from);
  }

  /** Return the mean of a slot, or of a band in its window; undefined if it is unknown. */
  get(from, band) {
    return this.#slots.get(`${from}/${band}`);
  }
}

/** Parse an ISO 8601 duration with time designators only; return milliseconds. */
export function isoDuration(text) {
  const match = /^PT(?:([\d.]+)H)?(?:([\d.]+)M)?(?:([\d.]+)S)?$/.exec(text);
  if (!match) return NaN;
  return ((Number(match[1] || 0) * 60 + Number(match[2] || 0)) * 60 + Number(match[3] || 0)) * 1000;
}

/** Parse a record to {from, to, band, value, sd} in the unit of the record; return null if it is not a record. */
export function readRecord(payload) {
  try {
    const { t, for: duration, band = "", value, sd } = JSON.parse(payload);
    const from = Date.parse(t);
    const to = from + isoDuration(duration);
    return Number.isFinite(from + to + value + sd) ? { from, to, band, value, sd } : null;
  } catch {
    return null;
  }
}

/** Return whether a stream sends energies of named bands. */
export function hasBands({ space }) {
  return space === "bands";
}

/** Return whether a stream's numbers have a place on a plot of power: amounts and energies of bands have none. */
export function hasPowers({ space }) {
  return space !== "weighted" && !hasBands({ space });
}

/** The private numbers of one meter, one for each slot, in order of time. */
export class Numbers {
  constructor(promise) {
    this.promise = promise;
    this.slots = new Map();
  }

  /** Add records as they were sent; return the last new one. */
  add(payloads) {
    let last = null;
    for (const payload of payloads) {
      const record = readRecord(payload);
      const key = record && `${record.from}/${record.band}`;
      if (!record || this.slots.has(key)) continue;
      last = this.#slot(record);
      this.slots.set(key, last);
    }
    if (this.slots.size > READINGS) this.slots.delete(this.slots.keys().next().value);
    return last;
  }

  /** Convert an energy to power; add half the width of the 95% band, which scales with the record's sd. */
  #slot({ from, to, band, value, sd }) {
    const { unit, power_unit: powerUnit, ci95, sd: usual, per_power: per } = this.promise;
    const isEnergy = unit === `${powerUnit}h`;
    const hours = !isEnergy ? 1 : band ? per : (to - from) / HOUR;
    return { from, to, band, window: from, value, power: value / hours, half: (ci95 * (sd / usual)) / hours };
  }

  /** The number of the newest slot; undefined if there is none. */
  get newest() {
    return [...this.slots.values()].sort((a, b) => a.from - b.from).at(-1);
  }

  /** Return the numbers of a window. */
  of(from) {
    return [...this.slots.values()].filter((slot) => slot.from === from);
  }

  /** Return all numbers in order of time; bands of the day are repeated on each day of their window from `since`. */
  list(since = -Infinity) {
    if (!hasPowers(this.promise)) return [];
    const sorted = [...this.slots.values()].sort((a, b) => a.from - b.from || a.band.localeCompare(b.band));
    return sorted.flatMap((slot) => (slot.band ? overDays(slot, since) : [slot]));
  }
}

/** Repeat a band such as 00:00/06:00 on each local day of its window. */
function overDays(slot, since) {
  const stretches = [];
  const [from, to] = slot.band.split("/").map((time) => {
    const [hours, minutes] = time.split(":").map(Number);
    return (hours * 60 + minutes) * 60_000;
  });
  for (let day = dayOf(Math.max(slot.from, since)); day < slot.to; day = dayOf(day + 1.5 * DAY)) {
    const end = to > from ? to : DAY;
    stretches.push({ ...slot, from: Math.max(day + from, slot.from), to: Math.min(day + end, slot.to) });
  }
  return stretches.filter((stretch) => stretch.from < stretch.to);
}

/** Return the start of the local day that contains a time. */
function dayOf(ms) {
  return new Date(ms).setHours(0, 0, 0, 0);
}
