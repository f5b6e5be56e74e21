/** The receivers: who gets the numbers, what a person does to one, and drafts of another configuration. */

import { fill, fillTable } from "./sections.js";
import { clock, element, say } from "./text.js";

const RETRY_MS = 1000;

const at = (id) => document.getElementById(id);

/** Load JSON from the server; return null if the server does not answer. Without a login, show the login form. */
export async function load(path) {
  try {
    const answer = await fetch(path);
    if (answer.status === 401) location.reload();
    return answer.ok ? await answer.json() : null;
  } catch {
    return null;
  }
}

export class Receivers {
  #facts;
  #shown = "";
  #last = [{ receivers: [] }, 0];

  constructor(facts) {
    this.#facts = facts;
    at("draft").hidden = !facts.nonce;
    fill("acted", facts.nonce ? "" : say("act.off"));
    at("draft-fold").addEventListener("toggle", ({ target }) => target.open && !at("draft-text").value && this.#draft());
    at("draft-form").addEventListener("submit", (event) => {
      event.preventDefault();
      this.#draft(at("draft-text").value);
    });
  }

  /** Show who gets the numbers of a stream, or of all streams if the configuration names receivers. */
  show(stream, now) {
    this.#last = [stream, now];
    const { receivers, group } = stream;
    const { receivers: all, costs, nonce } = this.#facts;
    const parties = group && Object.values(group.operators).map((name) => ({ name, topic: "–", start: null, end: null }));
    const rows = parties || (all.length ? all : receivers);
    const date = (ms) => (ms === null ? "–" : clock(ms));
    const stateOf = ({ start, end, state }) => state || (now < start ? "later" : end !== null && now >= end ? "ended" : "gets");
    const states = rows.map(stateOf);
    const shown = JSON.stringify([rows, states, nonce]);
    if (shown === this.#shown) return;
    this.#shown = shown;
    const heads = ["name", "topic", "start", "end", "state"].map((name) => say(`receiver.${name}`));
    const buttons = ({ name, verbs }) => (nonce && all.length ? this.#buttons(name, verbs) : []);
    const cells = rows.map((row, index) => [
      row.name || say("receiver.anybody"),
      element("code", row.topic),
      date(row.start),
      date(row.end),
      [say(`receiver.${states[index]}`), ...buttons(row)],
    ]);
    fillTable("receivers-table", say("receiver.table"), heads, cells);
    fill("receivers-costs", ...costs.map((line) => element("p", line, { class: "small" })));
  }

  #buttons(name, verbs) {
    return verbs.map((verb) => {
      const button = element("button", say(`act.${verb}`), { type: "button", class: "act", "aria-label": `${say(`act.${verb}`)}: ${name}` });
      button.addEventListener("click", () => this.#act(verb, name));
      return button;
    });
  }

  /** Act on a receiver, and wait until the agent has settled that; the page goes away meanwhile. */
  async #act(verb, name) {
    if (verb === this.#facts.final && !confirm(say("act.final", { name }))) return;
    for (const button of document.querySelectorAll(".act")) button.disabled = true;
    const { acted } = this.#facts;
    const answer = await this.#post("/receivers", { verb, name });
    const isDone = answer && !answer.refused;
    fill("acted", isDone ? say(`receivers.did_${verb}`, { name }) : answer?.refused || say("act.failed"));
    let facts = null;
    while (!facts || (isDone && facts.acted === acted)) {
      await new Promise((done) => setTimeout(done, RETRY_MS));
      facts = await load("/facts.json");
    }
    if (facts.streams.length !== this.#facts.streams.length) location.reload();
    this.#facts = facts;
    this.#shown = "";
    this.show(...this.#last);
  }

  /** Show what `check` says of a draft, or else of the file, how it differs, and how it is installed. */
  async #draft(text) {
    fill("draft-said", "…");
    at("draft-answer").hidden = false;
    const answer = await this.#post("/draft", text === undefined ? {} : { text });
    fill("draft-said", answer?.said ?? answer?.refused ?? say("act.failed"));
    if (!answer || answer.refused) return;
    if (text === undefined) at("draft-text").value = answer.text;
    at("draft-install").hidden = !answer.difference;
    fill("draft-difference", answer.difference);
    fill("draft-command", answer.command);
    URL.revokeObjectURL(at("draft-file").href);
    at("draft-file").href = URL.createObjectURL(new Blob([answer.text]));
  }

  async #post(path, fields) {
    try {
      const body = JSON.stringify({ ...fields, nonce: this.#facts.nonce });
      const answer = await fetch(path, { method: "POST", headers: { "Content-Type": "application/json" }, body });
      return await answer.json();
    } catch {
      return null;
    }
  }
}
