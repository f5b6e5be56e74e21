/**
 * Example noise, and attackers on it. No number drawn here is ever sent: the agent draws its noise exactly, from
 * the random bits of the operating system.
 *
 * The agent's mechanism in short: the noise of a window of n slots has a density proportional to
 * exp(-epsilon max|z|). To draw it, draw a bound as the sum of n + 1 exponentials of mean 1/epsilon; then each slot's
 * noise is uniform within the bound.
 */

/** The largest and smallest number of rounds of a game, and the largest numbers of draws and of windows. */
export const ROUNDS = 100_000;
const ROUNDS_MIN = 10_000;
const DRAWS_MAX = 40_000_000;
const WINDOWS_MAX = 1000;
/** In 95% of all games, the result is within this many standard errors of the true value. */
const SIGMAS_95 = 1.96;

/** Draw the noise of a window of n slots at a level, in units of the protected radius. */
export function draw(n, level) {
  let bound = 0;
  for (let i = 0; i <= n; i += 1) bound -= Math.log(1 - Math.random());
  bound /= level;
  return Array.from({ length: n }, () => (2 * Math.random() - 1) * bound);
}

/**
 * Return the part of `radius_power` that belongs to a slot: energies of bands have one radius in energy, so a longer band
 * has a smaller one in power. Bands are found by name, because their order depends on the month.
 */
export function share(promise, band) {
  if (promise.space !== "bands") return 1;
  const { ms } = promise.slots.find(({ name }) => name === band) ?? { ms: promise.step_ms };
  return (promise.per_power * 3_600_000) / ms;
}

/** The example noise of a preset; the noise of a slot stays the same until "again" is chosen. */
export class Example {
  #windows = new Map();

  /** Return the noise of a slot of a window, in W or kW. */
  noise(promise, { window, place, band }) {
    if (!this.#windows.has(window)) this.#windows.set(window, drawWindow(promise));
    return this.#windows.get(window)[place] * promise.radius_power * share(promise, band);
  }
}

/** Draw the noise of a window; in the metric l1 each slot has its own. */
function drawWindow({ metric, n, level_number: level }) {
  return metric === "l1" ? Array.from({ length: n }, () => draw(1, level)[0]) : draw(n, level);
}

/**
 * Return how far an event moves each window that it touches, slot by slot, in units of the radius. The event starts
 * at the start of a window. In a mean day it moves the first band. In the metric l1 all that it moves counts in one slot.
 */
export function moves(promise, event) {
  const energy = Number(event.watts) / promise.watts;
  const wh = Number(event.wh.includes("/") ? event.wh.split("/").reduce((a, b) => a / b) : event.wh);
  if (promise.metric === "l1") return [[wh / promise.hides_wh_number]];
  const hours = wh / event.watts;
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
 * Play a game: a coin toss decides whether the event happens in a home whose other use is known, and the attacker
 * guesses whether it happened.
 *
 * The attacker gives the more likely answer, which is optimal. Given the released values of a window, the log odds
 * are level (max|value| - max|value - event|); the log odds of windows add. The guess is right with probability
 * 1 / (1 + exp(-|log odds|)), whose mean over the rounds is the result: its expectation is that of counting right
 * guesses, with a smaller variance. If an event touches more than WINDOWS_MAX windows, only the first ones are used.
 *
 * Return how often the attacker is right, in per cent, and the error of this figure (95%).
 */
export function play(promise, event) {
  const { level_number: level } = promise;
  const n = promise.metric === "l1" ? 1 : promise.n;
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

/** Draw a window, with or without the event, and return max|value| - max|value - event|. */
function difference(n, level, shift, happened) {
  let bound = 0;
  for (let i = 0; i <= n; i += 1) bound -= Math.log(1 - Math.random());
  bound /= level;
  let norm = 0;
  let normWithEvent = 0;
  for (let i = 0; i < n; i += 1) {
    const noise = (2 * Math.random() - 1) * bound;
    const value = happened ? noise + shift[i] : noise;
    norm = Math.max(norm, Math.abs(value));
    normWithEvent = Math.max(normWithEvent, Math.abs(value - shift[i]));
  }
  return norm - normWithEvent;
}

/**
 * Compare neighbours: for slots {you, they} that follow each other, count how often the slot with the larger private
 * number is the one with the larger use. Pairs with equal numbers are left out. Return {all, right}.
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
