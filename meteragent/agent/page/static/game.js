/** The attacker's game, in a worker of its own: the page stays quick, and each event's result comes when it is there. */

import { play } from "./noise.js";

self.addEventListener("message", ({ data: promise }) => {
  promise.hidden.forEach((event, i) => self.postMessage({ event: i, ...play(promise, event) }));
});
