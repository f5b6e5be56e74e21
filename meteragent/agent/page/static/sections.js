/** The parts of the page except the plots: each function fills one part from data. */

import { amount, clock, day, duration, element, number, say, table, time, until } from "./text.js";

/** An event is hidden if an attacker is right at most this often, in per cent: half way to certainty. */
const HIDDEN_AT = 75;
/** How many messages of which none is a reading are worth a word, and how many kinds of them are named. */
const UNCOUNTED = 3;

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

function fillList(id, lines) {
  fill(id, ...lines.map((line) => element("li", line)));
}

function fillStates(id, states) {
  fill(id, ...states.flatMap(([key, value]) => [element("dt", key), element("dd", value)]));
}

const judged = (fine, text) => element("span", text, { class: fine ? "good" : "bad" });

/** Show a figure with its unit smaller, and a line about it. */
export function showFigure(id, figure, about = "") {
  const [value, unit] = (figure || "–").split("\u00a0");
  const content = unit ? [value, element("small", `\u00a0${unit}`)] : [value];
  if (at(id).textContent !== (figure || "–")) fill(id, ...content);
  if (at(`${id}-about`).textContent !== about) fill(`${id}-about`, about);
}

/** Show how often an attacker is right at most about a change over 30 days, or how much of a budget is spent. */
export function showLimit({ loads, hides_wh_number: wh }, allowance) {
  const { days, right_of_100: percent } = loads.in_all.periods.at(-1);
  const energy = amount(wh, "Wh");
  const about = say(percent > 99 ? "now.limit_none" : "now.limit_about", { energy });
  const bar = at("limit-bar");
  fill("limit-title", say("now.limit", { days }));
  [bar.max, bar.value] = allowance ? [allowance.limit, allowance.limit - allowance.left] : [50, percent - 50];
  showFigure("limit", say("number.percent", { number: percent }), allowance ? budget(allowance, "now.budget") : about);
}

/** Show what is hidden and what is not, in the sentences of `check`. */
export function showHidden({ said, does_not_hide: open, warnings }) {
  const [first, ...others] = said.promise;
  showEvents(said.table.slice(1));
  fill("hidden-promise", first);
  fill("hidden-formally", ...others.map((line) => element("p", line)));
  showLimits("hidden-events", say("guess.title"), said);
  fillList("hidden-not", open);
  fillList("hidden-warnings", warnings);
  at("hidden-warned").hidden = warnings.length === 0;
}

/** Show which events are hidden; one that is hidden once may not be if it happens every day. */
function showEvents(rows) {
  const isHidden = (limit) => Number(limit) <= HIDDEN_AT;
  const daily = ([, , once, , always]) => isHidden(once) && always > HIDDEN_AT;
  const limits = rows.map(([event, , once]) => [event, once]);
  const habits = rows.filter(daily).map(([event, , , , always]) => [say("now.every_day", { event }), always]);
  const line = ([event, limit]) => element("li", [element("span", event), element("b", say("number.percent", { number: limit }))]);
  const hidden = limits.filter(([, limit]) => isHidden(limit)).map(line);
  fill("list-hidden", ...(hidden.length ? hidden : [element("li", say("now.nothing"))]));
  fill("list-open", ...limits.filter(([, limit]) => !isHidden(limit)).map(line), ...habits.map(line));
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
      `${clock(slot.from, seconds)}–${until(slot.from, slot.to, seconds)}`,
      known ? number(slot.you) : "–",
      number(slot.they),
      known ? number(slot.they - slot.you) : "–",
      number(slot.half),
    ];
  });
  const heads = ["slot", "you", "they", "off", "band"].map((name) => say(`table.${name}`, { unit }));
  if (rows.length) fillTable("trace-numbers", say("table.sent"), heads, rows);
  else fill("trace-numbers", element("p", say("table.empty")));
}

/** Show the privacy spent, and what remains of the budget. */
export function showSpent(spent, allowance, promise) {
  const inAll = promise.metric === "l1";
  const radius = inAll ? amount(promise.hides_wh_number, "Wh") : amount(promise.radius_power, promise.power_unit);
  const rows = Object.entries(spent).map(([period, { level, exact }]) => [
    say(`spent.${period}`),
    element("strong", number(level)),
    element("code", exact),
  ]);
  const heads = [say("spent.period"), inAll ? say("spent.level_in_all", { radius }) : say("spent.level", { radius }), say("spent.exact")];
  fillTable("spent-table", say("spent.table"), heads, rows);
  fill("spent-budget", allowance ? budget(allowance, allowance.windows ? "budget.left" : "budget.spent") : say("budget.none"));
}

/** Say something of a budget. */
function budget({ limit, left, windows, end_ms: end }, key) {
  const spent = number(limit - left);
  return say(key, { left: number(left), limit: number(limit), spent, windows: number(windows), end: `${day(end)}, ${time(end)}` });
}

/** Show in whose total a home counts under a name, and what each party learns. */
export function showGroup({ name, operators }, label) {
  const values = { group: name, ...operators, label };
  fill("crowd-about", say("crowd.about", values));
  fillList("crowd-learns", [say("crowd.each", values), say("crowd.both", values), say("crowd.broker"), say("crowd.everybody")]);
}

/** Show what became of a home's reports. */
export function showReports(reports, { name, id, hide_wh: energy, level, smallest }) {
  const { sent_count: sent, waiting_count: waiting, late_count: late, last_ms: last, has_keys: keys } = reports;
  fillStates("crowd-states", [
    [say("crowd.group"), [`${name}, `, element("code", id)]],
    [say("crowd.hides"), say("crowd.energy", { energy: amount(energy, "Wh"), level: number(level) })],
    [say("crowd.published"), say("crowd.total", { homes: number(smallest) })],
    [say("crowd.keys"), judged(keys, keys ? say("crowd.known") : say("crowd.missing"))],
    [say("crowd.sent"), number(sent)],
    [say("crowd.last"), last === null ? say("crowd.none") : clock(last, true)],
    [say("crowd.waiting"), number(waiting)],
    [say("crowd.late"), judged(!late, number(late))],
  ]);
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

/** Show the problems, each with its cure, and what arrives if none of it is a reading; only if they have changed. */
export function showProblems({ problems, counts }, meanings) {
  const place = at("problems");
  const uncounted = sayUncounted(counts, meanings);
  const known = JSON.stringify([problems, uncounted]);
  if (place.dataset.known === known) return;
  place.dataset.known = known;
  place.hidden = at("problem-count").hidden = problems.length === 0;
  at("no-problem").hidden = problems.length > 0;
  fill("problem-count", number(problems.length));
  const line = ({ code, text, cure }) => [element("strong", `${text}.`), " ", cure, " (", element("code", code), ")"];
  fill("problems", ...problems.map((problem) => element("p", line(problem), { class: "notice problem" })));
  at("uncounted").hidden = !uncounted;
  fill("uncounted", element("strong", uncounted), " ", problems.length ? "" : say("cure.none_accepted"));
}

/** Return how many messages have come and what most of them are, if none was a reading. */
function sayUncounted(counts, meanings) {
  if (!(counts.received >= UNCOUNTED) || counts.accepted || counts.early) return "";
  const kinds = Object.keys(counts).filter((name) => counts[name] && /^(refused_\w+|other|retained|late|duplicate)$/.test(name));
  const common = kinds.sort((a, b) => counts[b] - counts[a]).slice(0, UNCOUNTED);
  const reasons = common.map((name) => `${meanings[name]} (${number(counts[name])})`).join("; ");
  return say("now.uncounted", { count: number(counts.received), reasons });
}

/** Show the state of the agent. */
export function showHealth({ health, counts }, meanings) {
  const line = (up) => judged(up, say(up ? "health.up" : "health.down"));
  fillStates("health-states", [
    [say("health.source"), line(health.source)],
    [say("health.sink"), line(health.sink)],
    [say("health.clock"), judged(health.clock, say(health.clock ? "health.right" : "health.paused"))],
    [say("health.outbox"), number(health.outbox)],
    [say("health.lag"), health.lag_ms === null ? say("health.no_lag") : duration(health.lag_ms)],
  ]);
  if (!at("health-counters").open && at("health-counters").querySelector("table")) return;
  const heads = ["counter", "count", "meaning"].map((name) => say(`health.${name}`));
  const rows = Object.keys(meanings).filter((name) => counts[name]);
  fillTable("health-counters", say("health.counters"), heads, rows.map((name) => [element("code", name), number(counts[name]), meanings[name]]));
}

/** Show what has arrived of each meter and phase, if there are several; `choose` is called with a meter's name. */
export function showArrivals(rows, choose) {
  at("tab-meters").hidden = rows.length < 2;
  const since = (ms) => (ms === null ? say("arrivals.never") : duration(ms));
  const names = ["meter", "phase", "messages", "heard", "counted", "judgement"].filter((name) => name !== "phase" || rows[0]?.phase);
  const cells = rows.map(({ meter, phase, messages, heard_ago_ms: heard, counted_ago_ms: counted, code }) => {
    const link = element("button", meter, { type: "button", class: "link" });
    link.addEventListener("click", () => choose(meter));
    return [link, ...(phase ? [phase] : []), number(messages), since(heard), since(counted), judged(!code, code ? element("code", code) : say("health.right"))];
  });
  fillTable("meters-table", say("arrivals.title"), names.map((name) => say(`arrivals.${name}`)), cells);
}
