/** Texts, and numbers as text for people; the texts come from the server. */

let words = {};

/** Set the texts, once, before any text is shown. */
export function speak(texts) {
  words = texts;
}

/** Return a text with its {placeholders} filled in. */
export function say(key, values = {}) {
  const text = words[key];
  if (text === undefined) throw new Error(`no text ${key}`);
  return text.replace(/\{(\w+)\}/g, (place, name) => (name in values ? String(values[name]) : place));
}

const language = () => words.lang || "en";

/** Format a number to three figures, or as a whole number from 1,000. */
export function number(value) {
  const large = Math.abs(value) >= 999.5;
  const format = large ? { maximumFractionDigits: 0 } : { maximumSignificantDigits: 3 };
  return new Intl.NumberFormat(language(), { ...format, roundingMode: "halfTrunc" }).format(value).replace("-", "−");
}

/** Format a number with its unit. */
export function amount(value, unit) {
  return `${number(value)}\u00a0${unit}`;
}

/** Format a percentage to one decimal, without the percent sign. */
export function percent(value) {
  const format = { minimumFractionDigits: 1, maximumFractionDigits: 1 };
  return new Intl.NumberFormat(language(), format).format(value);
}

const UNITS = [["day", 86_400_000], ["hour", 3_600_000], ["minute", 60_000], ["second", 1000]];

/** Format a duration in its two largest units, such as "2 days 4 hr". */
export function duration(ms) {
  const largest = UNITS.findIndex(([, size]) => ms >= size);
  const at = largest < 0 ? UNITS.length - 1 : largest;
  const parts = [];
  let rest = Math.max(ms, 0);
  for (const [unit, size] of UNITS.slice(at, at + 2)) {
    const count = Math.floor(rest / size);
    rest -= count * size;
    const format = { style: "unit", unit, unitDisplay: "short" };
    if (count || (!parts.length && unit === "second")) parts.push(new Intl.NumberFormat(language(), format).format(count));
  }
  return parts.join(" ");
}

const formats = new Map();

/** Format a time with the options of Intl; formats are cached, because making one is slow. */
function inFormat(ms, options) {
  const key = JSON.stringify(options);
  if (!formats.has(key)) formats.set(key, new Intl.DateTimeFormat(language(), options));
  return formats.get(key).format(ms);
}

const TIME = { hour: "2-digit", minute: "2-digit", hourCycle: "h23" };
const DATE = { day: "numeric", month: "short" };

/** Format a time of the day. */
export function time(ms, seconds = false) {
  return inFormat(ms, seconds ? { ...TIME, second: "2-digit" } : TIME);
}

/** Format a date without the year. */
export function day(ms) {
  return inFormat(ms, DATE);
}

/** Format the end of a period that began at another time: with the date only if it is a day long. */
export function until(from, to, seconds = false) {
  return to - from < UNITS[0][1] ? time(to, seconds) : inFormat(to, { ...TIME, ...DATE });
}

/** Format a time of the day, with the date unless it is today, and with seconds if asked. */
export function clock(ms, seconds = false) {
  const today = new Date(ms).toDateString() === new Date().toDateString();
  const options = seconds ? { ...TIME, second: "2-digit" } : TIME;
  return inFormat(ms, today ? options : { ...options, ...DATE });
}

/** Make an element with a text, or with other elements in it. */
export function element(name, content = "", attributes = {}) {
  const made = document.createElement(name);
  made.append(...[content].flat());
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

/** Make a table from heads and rows of texts or elements; the first cell of a row is its heading. */
export function table(caption, heads, rows) {
  const cell = (content, at) => element(at ? "td" : "th", content, at ? {} : { scope: "row" });
  const made = element("table", [
    element("caption", caption),
    element("thead", element("tr", heads.map((head) => element("th", head, { scope: "col" })))),
    element("tbody", rows.map((row) => element("tr", row.map(cell)))),
  ]);
  return made;
}
