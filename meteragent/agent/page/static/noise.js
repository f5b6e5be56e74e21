/**
 * Example noise, and attackers on it. Nothing that is drawn here leaves: the agent draws its own, exactly, from
 * the operating system.
 *
 * The agent's mechanism in short: the noise of a window of n slots has density ~ exp(-epsilon max|z|). So its
 * bound is a sum of n + 1 exponentials of mean 1/epsilon, and each slot's noise is uniform within that bound.
 */

/** The most rounds of a game, the fewest, and how many draws of windows and slots a game may take. */
export const ROUNDS = 100_000;
const ROUNDS_MIN = 10_000;
const DRAWS_MAX = 40_000_000;
const WINDOWS_MAX = 1000;
/** A result is within this many standard errors of the truth in 95 % of all games. */
const SIGMAS_95 = 1.96;

/** Draw the noise of a window of n slots at a level, in units of the protected radius. */
export function draw(n, level) {
  let bound = 0;
  for (let i = 0; i <= n; i += 1) bound -= Math.log(1 - Math.random());
  bound /= level;
  return Array.from({ length: n }, () => (2 * Math.random() - 1) * bound);
}

/** Example noise of a preset, which stays the same for a slot until it is drawn again. */
export class Example {
  #windows = new Map();

  /** Return the noise of a slot of a window, in W or kW. */
  noise(promise, window, place) {
    if (!this.#windows.has(window)) this.#windows.set(window, draw(promise.n, promise.level_number));
    return this.#windows.get(window)[place] * promise.radius_power;
  }
}

/**
 * Return how far an event moves each window it touches, slot by slot, in units of the radius: it starts with a
 * window. Of a mean day it moves the first band.
 */
export function moves(promise, event) {
  const energy = Number(event.watts) / promise.watts;
  const hours = Number(event.wh.includes("/") ? event.wh.split("/").reduce((a, b) => a / b) : event.wh) / event.watts;
  const duration = hours * 3_600_000;
  const { step_ms: step, length_ms: length, n, radius_power: radius } = promise;
  const windows = [];
  for (let start = 0; start < duration && windows.length < WINDOWS_MAX; start += length) {
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

/**
 * Play a game: a coin toss adds the event to a home that is known otherwise, and the attacker says whether it did.
 *
 * It takes the likelier answer, the best there is: with what leaves, the log odds of a window are
 * level (max|seen| - max|seen - event|), and those of windows add. Its guess is then right with the chance
 * 1 / (1 + exp(-|log odds|)), whose mean over the rounds is the result: the same as counting right guesses, with
 * less chance in it. Of an event that touches more than WINDOWS_MAX windows it uses the first of them.
 *
 * Returns how often it is right, in per cent, and the error of that figure (95 %).
 */
export function play(promise, event) {
  const { n, level_number: level } = promise;
  const windows = moves(promise, event);
  const rounds = Math.max(Math.min(ROUNDS, Math.floor(DRAWS_MAX / windows.length / n)), ROUNDS_MIN);
  let sum = 0;
  let squares = 0;
  for (let round = 0; round < rounds; round += 1) {
    const happened = Math.random() < 0.5;
    let odds = 0;
    for (const shift of windows) odds += level * difference(n, level, shift, happened);
    const right = 1 / (1 + Math.exp(-Math.abs(odds)));
    sum += right;
    squares += right * right;
  }
  const mean = sum / rounds;
  const deviation = Math.sqrt(Math.max(squares / rounds - mean * mean, 0));
  return { right: 100 * mean, error: (100 * SIGMAS_95 * deviation) / Math.sqrt(rounds) };
}

/** Draw a window, with the event or without it, and return max|seen| - max|seen - event|. */
function difference(n, level, shift, happened) {
  let bound = 0;
  for (let i = 0; i <= n; i += 1) bound -= Math.log(1 - Math.random());
  bound /= level;
  let seen = 0;
  let rest = 0;
  for (let i = 0; i < n; i += 1) {
    const noise = (2 * Math.random() - 1) * bound;
    const value = happened ? noise + shift[i] : noise;
    seen = Math.max(seen, Math.abs(value));
    rest = Math.max(rest, Math.abs(value - shift[i]));
  }
  return seen - rest;
}

/**
 * Compare neighbours: of slots {you, they} that follow each other, how often is the larger private number where
 * more was used? Equal ones are left out. Returns {all, right}.
 */
export function pairs(slots) {
  let all = 0;
  let right = 0;
  for (let i = 1; i < slots.length; i += 1) {
    const [before, after] = [slots[i - 1], slots[i]];
    if (before.to !== after.from || before.you === after.you || before.they === after.they) continue;
    all += 1;
    right += before.you < after.you === before.they < after.they;
  }
  return { all, right };
}
