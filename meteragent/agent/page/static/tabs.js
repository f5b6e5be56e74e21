/** The tabs of the page: one panel is shown, and the address names it; arrow keys move between tabs. */

const STEPS = { ArrowLeft: -1, ArrowRight: 1 };

export class Tabs {
  #tabs;
  #shown;

  /** Take the tabs of a list; `shown` is called after another panel is shown. */
  constructor(list, shown) {
    this.#tabs = [...list.querySelectorAll("[role=tab]")];
    this.#shown = shown;
    list.addEventListener("click", ({ target }) => this.choose(target.closest("[role=tab]")?.getAttribute("aria-controls")));
    list.addEventListener("keydown", ({ key, target }) => key in STEPS && this.#step(target, STEPS[key]));
    addEventListener("hashchange", () => this.choose(location.hash.slice(1)));
  }

  /** Show the panel with this id; if there is none, do nothing. */
  choose(id) {
    if (!this.#tabs.some((tab) => tab.getAttribute("aria-controls") === id)) return;
    for (const tab of this.#tabs) {
      const panel = tab.getAttribute("aria-controls");
      tab.setAttribute("aria-selected", panel === id);
      tab.tabIndex = panel === id ? 0 : -1;
      document.getElementById(panel).hidden = panel !== id;
    }
    history.replaceState(null, "", `#${id}`);
    this.#shown();
  }

  #step(tab, step) {
    const shown = this.#tabs.filter(({ hidden }) => !hidden);
    const next = shown[(shown.indexOf(tab) + step + shown.length) % shown.length];
    this.choose(next.getAttribute("aria-controls"));
    next.focus();
  }
}
