/** Texts and numbers as people read them; the texts themselves are in texts/en.json. */

let words = {};

/** Take the texts, once, before anything is shown. */
export function speak(texts) {
  words = texts;
}

/** A text with its {places} filled in. */
export function say(key, values = {}) {
  const text = words[key];
  if (text === undefined) throw new Error(`no text ${key}`);
  return text.replace(/\{(\w+)\}/g, (place, name) => (name in values ? String(values[name]) : place));
}

const language = () => words.lang || "en";

/** A number of three figures; whole from a thousand on. */
export function number(value) {
  const large = Math.abs(value) >= 999.5;
  const format = large ? { maximumFractionDigits: 0 } : { maximumSignificantDigits: 3 };
  return new Intl.NumberFormat(language(), format).format(value).replace("-", "−");
}

/** A number with its unit. */
export function amount(value, unit) {
  return `${number(value)}\u00a0${unit}`;
}

/** A time of the day, with the date where it is another day and with seconds where they matter. */
export function clock(ms, seconds = false) {
  const options = { hour: "2-digit", minute: "2-digit", hourCycle: "h23" };
  if (seconds) options.second = "2-digit";
  if (new Date(ms).toDateString() !== new Date().toDateString()) {
    options.day = "numeric";
    options.month = "short";
  }
  return new Intl.DateTimeFormat(language(), options).format(ms);
}

/** An element with a text, or with other elements in it. */
export function element(name, content = "", attributes = {}) {
  const made = document.createElement(name);
  made.append(...[content].flat());
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

/** A table: heads, and rows of texts or elements whose first cell names the row. */
export function table(caption, heads, rows) {
  const cell = (content, at) => element(at ? "td" : "th", content, at ? {} : { scope: "row" });
  const made = element("table", [
    element("caption", caption),
    element("thead", element("tr", heads.map((head) => element("th", head, { scope: "col" })))),
    element("tbody", rows.map((row) => element("tr", row.map(cell)))),
  ]);
  return made;
}
