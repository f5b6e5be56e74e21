/** What the page says besides its plots: each function fills one section from data. */

import { pairs, play } from "./noise.js";
import { amount, clock, element, number, say, table } from "./text.js";

const at = (id) => document.getElementById(id);

/** Put other content into an element. */
export function fill(id, ...content) {
  at(id).replaceChildren(...content);
}

/** Put a table into a folded or wide place. */
export function fillTable(id, ...parts) {
  const place = at(id);
  (place.querySelector(".wide") || place).replaceChildren(table(...parts));
}

/** What is hidden, and what is not, in the sentences of `check`. */
export function showHidden({ said, does_not_hide: open, warnings }) {
  const [first, ...others] = said.promise;
  const [heads, ...rows] = said.table;
  fill(
    "hidden-promise",
    element("p", first, { class: "large" }),
    ...others.map((line) => element("p", line)),
    element("p", `${said.guesses}.`, { class: "small" }),
  );
  fillTable("hidden-events", say("hidden.title"), heads, rows);
  fill("hidden-not", ...open.map((text) => element("li", text)));
  fill("hidden-warnings", ...warnings.map((text) => element("li", text)));
  at("hidden-warned").hidden = warnings.length === 0;
}

/** Slots as a table: what you had, what they have. */
export function showNumbers(id, slots, unit, seconds) {
  const rows = slots.map((slot) => {
    const known = slot.you !== null;
    const you = known ? number(slot.you) : "–";
    return [
      `${clock(slot.from, seconds)}–${clock(slot.to, seconds)}`,
      slot.part < 1 && known ? `${you} (${say("table.so_far")})` : you,
      number(slot.they),
      `${number(slot.they - slot.half)} … ${number(slot.they + slot.half)}`,
      known ? number(slot.they - slot.you) : "–",
    ];
  });
  const heads = ["slot", "you", "they", "band", "off"].map((name) => say(`table.${name}`, { unit }));
  if (rows.length) fillTable(id, say("table.show"), heads, rows);
  else at(id).querySelector(".wide").replaceChildren(element("p", say("table.empty")));
}

/** What was spent. */
export function showSpent(spent, promise) {
  const radius = amount(promise.radius_power, promise.power_unit);
  const rows = Object.entries(spent).map(([period, { level, exact }]) => [
    say(`spent.${period}`),
    element("strong", number(level)),
    element("code", exact),
  ]);
  const heads = [say("spent.period"), say("spent.level", { radius }), say("spent.exact")];
  fillTable("spent-table", say("spent.title"), heads, rows);
}

/** The attack on the order of neighbouring slots: those that this page saw from start to end. */
export function showPairs(slots) {
  const { all, right } = pairs(slots.filter((slot) => slot.part === 1).map((slot) => ({ ...slot })));
  const text = all ? say("attack.pairs_found", { raw: all, private: right, all }) : say("attack.pairs_none");
  if (at("attack-pairs").textContent !== text) fill("attack-pairs", text);
}

/** The game on each event: played with the readings, with what leaves, and what is proven. */
export function showGame(promise) {
  fill("attack-about", say("attack.game_about", { rounds: number(2000) }));
  const rows = promise.hidden.map((event) => {
    const bound = event.right_of_100["1"];
    const right = Math.round(play(promise, event));
    const of = (value) => say("attack.of", { right: value });
    return [event.event, of(100), element("div", [of(right), bar(right, bound)]), of(bound)];
  });
  const heads = ["event", "raw", "private", "bound"].map((name) => say(`attack.${name}`));
  fillTable("attack-game", say("attack.game"), heads, rows);
}

/** A bar from a coin's 50 to 100, and a mark at the limit. */
function bar(right, bound) {
  const share = (value) => `${Math.max(0, Math.min(100, (value - 50) * 2))}%`;
  const [filled, mark] = [element("i"), element("b")];
  filled.style.width = share(right);
  mark.style.left = share(bound);
  return element("div", [filled, mark], { class: "bar", "aria-hidden": "true" });
}

/** The last message that left. */
export function showLast(last) {
  at("last-message").hidden = !last;
  at("last-none").hidden = Boolean(last);
  if (!last || at("last-payload").textContent === last.payload) return;
  fill("last-topic", element("code", last.topic));
  fill("last-at", clock(last.left_ms, true));
  fill("last-payload", last.payload);
}

/** What a person should look at, each with what to do; it is changed only where something changes. */
export function showProblems(problems) {
  const place = at("problems");
  const known = JSON.stringify(problems);
  if (place.dataset.known === known) return;
  place.dataset.known = known;
  place.hidden = problems.length === 0;
  const line = ({ code, text, cure }) => [element("strong", text), " ", cure, " (", element("code", code), ")"];
  fill("problems", ...problems.map((problem) => element("p", line(problem), { class: "notice problem" })));
}

/** How the agent does. */
export function showHealth({ health, counts }, meanings) {
  const state = (fine, text) => element("span", text, { class: fine ? "good" : "bad" });
  const line = (up) => state(up, say(up ? "health.up" : "health.down"));
  const lag = health.lag_ms === null ? say("health.no_lag") : amount(health.lag_ms / 1000, "s");
  const states = [
    ["health.source", line(health.source)],
    ["health.sink", line(health.sink)],
    ["health.clock", state(health.clock, say(health.clock ? "health.right" : "health.stands"))],
    ["health.outbox", number(health.outbox)],
    ["health.lag", lag],
  ];
  fill("health-states", ...states.flatMap(([key, value]) => [element("dt", say(key)), element("dd", value)]));
  const heads = ["counter", "count", "meaning"].map((name) => say(`health.${name}`));
  const rows = Object.entries(counts).filter(([, count]) => count);
  if (at("health-counters").open || !at("health-counters").querySelector("table")) {
    const cells = rows.map(([name, count]) => [element("code", name), number(count), meanings[name]]);
    fillTable("health-counters", say("health.counters"), heads, cells);
  }
}
