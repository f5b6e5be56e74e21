/**
 * Noise for show, and attackers on it. Nothing that is drawn here leaves: the agent draws its own, exactly, from
 * the operating system.
 *
 * The agent's mechanism in short: of a window of n slots the noise has density ~ exp(-epsilon max|z|). So its
 * radius is a sum of n + 1 exponentials of mean 1/epsilon, and each slot's noise is uniform within the radius.
 */

/** Rounds of a game at most, at least, and as far as so many draws allow. */
const ROUNDS = 2000;
const ROUNDS_LEAST = 200;
const DRAWS = 400_000;
const WINDOWS = 1000;

/** The noise of a window of n slots, in units of the radius that is protected, at a level. */
export function draw(n, level) {
  let radius = 0;
  for (let i = 0; i <= n; i += 1) radius -= Math.log(1 - Math.random());
  radius /= level;
  return Array.from({ length: n }, () => (2 * Math.random() - 1) * radius);
}

/** Example noise of a preset, the same for a slot until it is drawn again. */
export class Example {
  #windows = new Map();

  /** What is added in a slot of a window, in W or kW. */
  noise(promise, window, place) {
    if (!this.#windows.has(window)) this.#windows.set(window, draw(promise.n, promise.level_number));
    return this.#windows.get(window)[place] * promise.radius_power;
  }
}

/**
 * How far an event moves each window it touches, slot by slot, in units of the radius: it starts with a window.
 * Of a mean day it moves the first band it fills.
 */
export function moves(promise, event) {
  const energy = Number(event.watts) / promise.watts;
  const hours = Number(event.wh.includes("/") ? event.wh.split("/").reduce((a, b) => a / b) : event.wh) / event.watts;
  const duration = hours * 3_600_000;
  const { step_ms: step, length_ms: length, n, radius_power: radius } = promise;
  const windows = [];
  for (let start = 0; start < duration && windows.length < WINDOWS; start += length) {
    if (promise.slots.length) {
      const first = promise.slots[0].ms;
      windows.push([(energy / radius) * Math.min(duration / first, 1), ...Array(n - 1).fill(0)]);
      break;
    }
    const part = (i) => Math.min(Math.max(duration - start - i * step, 0), step) / step;
    windows.push(Array.from({ length: n }, (_, i) => (part(i) * energy) / radius));
  }
  return windows;
}

const largest = (values) => values.reduce((most, value) => Math.max(most, Math.abs(value)), 0);

/**
 * Rounds of a game: a coin adds the event to a home that is known otherwise, and the attacker says whether it
 * did. It takes the likelier answer, which is the best there is: with what leaves the odds of a window are
 * exp(level (max|seen| - max|seen - event|)), those of windows multiply, and at even odds it tosses a coin of its
 * own. Of an event that touches more than WINDOWS windows it uses the first so many. Returns how often of 100 it
 * was right.
 */
export function play(promise, event) {
  const windows = moves(promise, event);
  const rounds = Math.max(Math.min(ROUNDS, Math.floor(DRAWS / windows.length / promise.n)), ROUNDS_LEAST);
  let right = 0;
  for (let round = 0; round < rounds; round += 1) {
    const happened = Math.random() < 0.5;
    let odds = 0;
    for (const shift of windows) {
      const seen = draw(promise.n, promise.level_number).map((z, i) => z + (happened ? shift[i] : 0));
      odds += largest(seen) - largest(seen.map((z, i) => z - shift[i]));
    }
    const guess = odds === 0 ? Math.random() < 0.5 : odds > 0;
    right += guess === happened;
  }
  return (100 * right) / rounds;
}

/**
 * The order of neighbours: of slots {you, they} that follow each other, how often is the larger private number
 * where more was used? Equal ones are left out. Returns {all, right}.
 */
export function pairs(slots) {
  let all = 0;
  let right = 0;
  for (let i = 1; i < slots.length; i += 1) {
    const [one, two] = [slots[i - 1], slots[i]];
    if (one.to !== two.from || one.you === two.you || one.they === two.they) continue;
    all += 1;
    right += one.you < two.you === one.they < two.they;
  }
  return { all, right };
}
