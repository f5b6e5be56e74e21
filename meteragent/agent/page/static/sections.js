/** The sections of the page except the plots: each function fills one section from data. */

import { pairs, ROUNDS } from "./noise.js";
import { amount, clock, day, duration, element, number, percent, say, table, time } from "./text.js";

const at = (id) => document.getElementById(id);

/** Replace the content of an element. */
export function fill(id, ...content) {
  at(id).replaceChildren(...content);
}

/** Put a table into an element, or into the scrolling part of a folding element. */
export function fillTable(id, ...parts) {
  const place = at(id);
  (place.querySelector(".wide") || place).replaceChildren(table(...parts));
}

/** Show what is hidden and what is not, in the sentences of `check`. */
export function showHidden({ said, does_not_hide: open, warnings }) {
  const [first, ...others] = said.promise;
  const [heads, ...rows] = said.table;
  fill(
    "hidden-promise",
    element("p", first, { class: "large" }),
    ...others.map((line) => element("p", line)),
    element("h3", said.guesses),
  );
  fillTable("hidden-events", said.guesses, heads, rows);
  fill("hidden-not", ...open.map((text) => element("li", text)));
  fill("hidden-warnings", ...warnings.map((text) => element("li", text)));
  at("hidden-warned").hidden = warnings.length === 0;
}

/** Show slots as a table: the measured mean, the number sent, the error and the error band. */
export function showNumbers(id, slots, unit, seconds) {
  const rows = slots.map((slot) => {
    const known = slot.you !== null;
    const you = known ? number(slot.you) : "–";
    return [
      slot.label ?? `${clock(slot.from, seconds)}–${clock(slot.to, seconds)}`,
      slot.part < 1 && known ? `${you} (${say("table.so_far")})` : you,
      number(slot.they),
      known ? number(slot.they - slot.you) : "–",
      `${number(slot.they - slot.half)} … ${number(slot.they + slot.half)}`,
    ];
  });
  const heads = ["slot", "you", "they", "off", "band"].map((name) => say(`table.${name}`, { unit }));
  const title = say(id === "trace-numbers" ? "table.sent" : "table.example");
  if (rows.length) fillTable(id, title, heads, rows);
  else at(id).querySelector(".wide").replaceChildren(element("p", say("table.empty")));
}

/** Show the privacy spent. */
export function showSpent(spent, promise) {
  const inAll = promise.metric === "l1";
  const radius = inAll ? amount(promise.hides_wh_number, "Wh") : amount(promise.radius_power, promise.power_unit);
  const rows = Object.entries(spent).map(([period, { level, exact }]) => [
    say(`spent.${period}`),
    element("strong", number(level)),
    element("code", exact),
  ]);
  const heads = [say("spent.period"), inAll ? say("spent.level_in_all", { radius }) : say("spent.level", { radius }), say("spent.exact")];
  fillTable("spent-table", say("spent.table"), heads, rows);
}

/** Show what remains of the budget, or that there is none. */
export function showBudget(allowance) {
  if (!allowance) return fill("spent-budget", say("budget.none"));
  const { limit, left, windows, end_ms: end } = allowance;
  const values = { left: number(left), limit: number(limit), windows: number(windows), end: `${day(end)}, ${time(end)}` };
  fill("spent-budget", windows ? say("budget.left", values) : say("budget.spent", values));
}

/** Play the attack on the order of neighbouring slots, with the slots that the page observed from start to end. */
export function showPairs(slots) {
  const { all, right } = pairs(slots.filter((slot) => slot.part === 1).map((slot) => ({ ...slot })));
  const text = all ? say("attack.pairs_found", { raw: all, private: right, all }) : say("attack.pairs_none");
  if (at("attack-pairs").textContent !== text) fill("attack-pairs", text);
}

let game = null;

/** Play the game for each event in a worker, and show each result beside its limit when it arrives. */
export function showGame(promise) {
  game?.terminate();
  fill("attack-about", say("attack.game_about", { rounds: number(ROUNDS) }));
  const limits = promise.hidden.map((event) => event.right_of_100["1"]);
  const results = limits.map(() => element("div", say("attack.playing")));
  const [, ...events] = promise.said.table;
  const rows = events.map(([event], i) => [event, results[i], String(limits[i])]);
  const heads = ["event", "private", "bound"].map((name) => say(`attack.${name}`));
  fillTable("attack-game", say("attack.game"), heads, rows);
  game = new Worker("/static/game.js", { type: "module" });
  game.addEventListener("message", ({ data: { event, right, error } }) => {
    const text = say("attack.result", { right: percent(right), error: percent(Math.max(error, 0.1)) });
    results[event].replaceChildren(text, bar(right, limits[event]));
  });
  game.postMessage(promise);
}

/** Make a bar from 50 (guessing) to 100, with a mark at the limit. */
function bar(right, bound) {
  const share = (value) => `${Math.max(0, Math.min(100, (value - 50) * 2))}%`;
  const [filled, mark] = [element("i"), element("b")];
  filled.style.width = share(right);
  mark.style.left = share(bound);
  return element("div", [filled, mark], { class: "bar", "aria-hidden": "true" });
}

/** Show in whose total a home counts under a name, and what each party learns. */
export function showGroup({ name, operators }, label) {
  const values = { group: name, ...operators, label };
  fill("crowd-about", say("crowd.about", values));
  const lines = [say("crowd.each", values), say("crowd.both", values), say("crowd.broker"), say("crowd.everybody")];
  fill("crowd-learns", ...lines.map((line) => element("li", line)));
}

/** Show what became of a home's reports. */
export function showReports(reports, { name, id, hide_wh: energy, level, smallest }) {
  const { sent_count: sent, waiting_count: waiting, late_count: late, last_ms: last, has_keys: keys } = reports;
  const state = (fine, text) => element("span", text, { class: fine ? "good" : "bad" });
  const states = [
    [say("crowd.group"), [`${name}, `, element("code", id)]],
    [say("crowd.hides"), say("crowd.energy", { energy: amount(energy, "Wh"), level: number(level) })],
    [say("crowd.published"), say("crowd.total", { homes: number(smallest) })],
    [say("crowd.keys"), state(keys, keys ? say("crowd.known") : say("crowd.missing"))],
    [say("crowd.sent"), number(sent)],
    [say("crowd.last"), last === null ? say("crowd.none") : clock(last, true)],
    [say("crowd.waiting"), number(waiting)],
    [say("crowd.late"), state(!late, number(late))],
  ];
  fill("crowd-states", ...states.flatMap(([key, value]) => [element("dt", key), element("dd", value)]));
}

/** Show the last message that was sent. */
export function showLast(last) {
  at("last-message").hidden = !last;
  at("last-none").hidden = Boolean(last);
  if (!last || at("last-payload").textContent === last.payload) return;
  fill("last-topic", element("code", last.topic));
  fill("last-at", clock(last.left_ms, true));
  fill("last-payload", last.payload);
}

/** Show the problems, each with its cure; change the section only if the problems have changed. */
export function showProblems(problems) {
  const place = at("problems");
  const known = JSON.stringify(problems);
  if (place.dataset.known === known) return;
  place.dataset.known = known;
  place.hidden = problems.length === 0;
  const line = ({ code, text, cure }) => [element("strong", `${text}.`), " ", cure, " (", element("code", code), ")"];
  fill("problems", ...problems.map((problem) => element("p", line(problem), { class: "notice problem" })));
}

/** Show the state of the agent. */
export function showHealth({ health, counts }, meanings) {
  const state = (fine, text) => element("span", text, { class: fine ? "good" : "bad" });
  const line = (up) => state(up, say(up ? "health.up" : "health.down"));
  const lag = health.lag_ms === null ? say("health.no_lag") : duration(health.lag_ms);
  const states = [
    ["health.source", line(health.source)],
    ["health.sink", line(health.sink)],
    ["health.clock", state(health.clock, say(health.clock ? "health.right" : "health.paused"))],
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
