// Adds what happens to a page that shows the newest steps. Browsers allow six connections to a server over
// HTTP/1.1: at most three pages that are looked at keep one open, all others ask once a second.
"use strict";
(() => {
  const steps = document.getElementById("steps");
  if (!steps || !("live" in steps.dataset)) return;
  const base = steps.dataset.base;
  let after = Number(steps.dataset.after);
  let stream = null, release = null, timer = null;

  const atEnd = () => innerHeight + scrollY >= document.documentElement.scrollHeight - 80;

  // `upto` is a line's number: what is known already is not added again.
  function add(html, upto) {
    if (!(upto > after)) return;
    after = upto;
    const follow = atEnd();
    steps.insertAdjacentHTML("beforeend", html);
    if (follow) scrollTo(0, document.documentElement.scrollHeight);
  }

  function close() {
    if (stream) stream.close();
    if (release) release();
    clearTimeout(timer);
    stream = release = timer = null;
  }

  function listen() {
    stream = new EventSource(`${base}/events?after=${after}`);
    stream.onmessage = (event) => add(event.data, Number(event.lastEventId));
    // Refused, such as after the thread's end: the browser does not try again by itself.
    stream.onerror = () => { if (stream && stream.readyState === EventSource.CLOSED) { close(); later(5000); } };
  }

  async function poll() {
    try {
      const answer = await fetch(`${base}/steps?after=${after}`, { cache: "no-store" });
      if (answer.ok) add(await answer.text(), Number(answer.headers.get("x-upto")));
    } catch { /* away: asked again */ }
    later(1000);
  }

  function later(ms) {
    clearTimeout(timer);
    timer = setTimeout(start, ms);
  }

  // Takes one of the browser's three places, or polls.
  async function start() {
    if (document.hidden || stream) return;
    if (!navigator.locks) return poll();
    for (const place of ["codebutler-1", "codebutler-2", "codebutler-3"]) {
      const taken = await new Promise((tell) => {
        navigator.locks.request(place, { ifAvailable: true }, (lock) => {
          if (!lock) { tell(null); return null; }
          return new Promise((done) => tell(done));
        });
      });
      if (taken) {
        release = taken;
        if (document.hidden) close(); else listen();
        return;
      }
    }
    poll();
  }

  document.addEventListener("visibilitychange", () => { if (document.hidden) close(); else start(); });
  addEventListener("pagehide", close);
  addEventListener("pageshow", () => start());
})();
