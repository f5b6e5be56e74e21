/** The attacker's game, in a worker, so that the page stays responsive; each event's result is posted when it is done. */

import { play } from "./noise.js";

self.addEventListener("message", ({ data: promise }) => {
  promise.hidden.forEach((event, i) => self.postMessage({ event: i, ...play(promise, event) }));
});
