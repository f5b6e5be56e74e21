/** The sections of the page except the plots: each function fills one section from data. */

import { amount, clock, day, duration, element, number, say, table, time } from "./text.js";

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
  fill(
    "hidden-promise",
    element("p", first, { class: "large" }),
    ...others.map((line) => element("p", line)),
    element("h3", said.guesses),
  );
  showLimits("hidden-events", said.guesses, said);
  fill("hidden-not", ...open.map((text) => element("li", text)));
  fill("hidden-warnings", ...warnings.map((text) => element("li", text)));
  at("hidden-warned").hidden = warnings.length === 0;
}

/** Show the table of an attacker's success limits. */
export function showLimits(id, title, { table: [heads, ...rows] }) {
  fillTable(id, title, heads, rows);
}

/** Show slots as a table: the measured mean, the number sent, the error and the error band. */
export function showNumbers(slots, unit, seconds) {
  const rows = slots.map((slot) => {
    const known = slot.you !== null;
    return [
      `${clock(slot.from, seconds)}–${clock(slot.to, seconds)}`,
      known ? number(slot.you) : "–",
      number(slot.they),
      known ? number(slot.they - slot.you) : "–",
      `${number(slot.they - slot.half)} … ${number(slot.they + slot.half)}`,
    ];
  });
  const heads = ["slot", "you", "they", "off", "band"].map((name) => say(`table.${name}`, { unit }));
  if (rows.length) fillTable("trace-numbers", say("table.sent"), heads, rows);
  else at("trace-numbers").querySelector(".wide").replaceChildren(element("p", say("table.empty")));
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

/**
 * Show how often, of two neighbouring slots, the one with the larger private number is the one with the larger use.
 * Pairs with equal numbers, and slots that the page did not observe from start to end, are left out.
 */
export function showPairs(slots) {
  let all = 0;
  let right = 0;
  for (const [i, after] of slots.entries()) {
    const before = slots[i - 1];
    if (before?.part !== 1 || after.part !== 1 || before.to !== after.from) continue;
    if (before.you === after.you || before.they === after.they) continue;
    all += 1;
    right += before.you < after.you === before.they < after.they;
  }
  const text = all ? say("attack.pairs_found", { raw: all, private: right, all }) : say("attack.pairs_none");
  if (at("attack-pairs").textContent !== text) fill("attack-pairs", text);
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

/** Show what has arrived of each meter and phase; the table is folded as long as there is one meter only. */
export function showArrivals(rows) {
  const place = at("health-meters");
  place.hidden = !rows.length;
  const several = rows.some(({ meter }) => meter !== rows[0].meter);
  if (place.dataset.several !== String(several)) place.open = several;
  place.dataset.several = several;
  if (!place.open && place.querySelector("table")) return;
  const since = (ms) => (ms === null ? say("arrivals.never") : duration(ms));
  const names = ["meter", "phase", "messages", "heard", "counted", "judgement"].filter((name) => name !== "phase" || rows[0]?.phase);
  const cells = rows.map(({ meter, phase, messages, heard_ago_ms: heard, counted_ago_ms: counted, code }) => {
    const judgement = element("span", code ? element("code", code) : say("health.right"), { class: code ? "bad" : "good" });
    return [meter, ...(phase ? [phase] : []), number(messages), since(heard), since(counted), judgement];
  });
  fillTable("health-meters", say("arrivals.title"), names.map((name) => say(`arrivals.${name}`)), cells);
}
