// Keeps pages that are looked at up to date. Browsers allow six connections to a server over HTTP/1.1: at most
// three pages keep one open, all others ask once a second.
"use strict";
(() => {
  const news = document.getElementById("news");

  // What is `heard` at one address, or `asked` for at another, is given to `take`.
  function keepCurrent({ heard, asked, take, clear }) {
    let stream = null, release = null, timer = null, over = false;

    function close() {
      if (stream) stream.close();
      if (release) release();
      clearTimeout(timer);
      stream = release = timer = null;
    }

    // Not to be seen any more by who looks: a reload says why.
    function end(text) {
      over = true;
      close();
      clear();
      news.textContent = text;
    }

    function listen() {
      stream = new EventSource(heard());
      stream.onmessage = (event) => { news.textContent = ""; take(event.data, event.lastEventId); };
      stream.addEventListener("end", (event) => end(event.data));
      stream.addEventListener("away", (event) => { news.textContent = event.data; });
      // Refused, such as after signing out: the browser does not try again by itself.
      stream.onerror = () => { if (stream && stream.readyState === EventSource.CLOSED) { close(); ask(5000); } };
    }

    async function ask(next) {
      try {
        const answer = await fetch(asked(), { cache: "no-store" });
        const text = await answer.text();
        if (answer.ok) { news.textContent = ""; take(text, answer.headers.get("x-upto")); }
        else if (answer.status === 401 || answer.status === 403) return end("This page is not shown to you any more: load it again to see why.");
        else news.textContent = "The history can't be read right now.";
      } catch { news.textContent = "The gateway does not answer: tried again."; }
      clearTimeout(timer);
      timer = setTimeout(start, next);
    }

    // Takes one of the browser's three places, or asks.
    async function start() {
      if (document.hidden || stream || over) return;
      if (!navigator.locks) return ask(1000);
      for (const place of ["codebutler-1", "codebutler-2", "codebutler-3"]) {
        const taken = await new Promise((tell) => {
          navigator.locks.request(place, { ifAvailable: true }, (lock) => {
            if (!lock) { tell(null); return null; }
            return new Promise((done) => tell(done));
          });
        });
        if (taken) {
          release = taken;
          if (document.hidden || over) close(); else listen();
          return;
        }
      }
      ask(1000);
    }

    document.addEventListener("visibilitychange", () => { if (document.hidden) close(); else start(); });
    addEventListener("pagehide", close);
    addEventListener("pageshow", () => start());
  }

  // A thread's newest steps.
  function watchSteps(steps) {
    const base = steps.dataset.base;
    const state = document.getElementById("state");
    let after = Number(steps.dataset.after);

    const atEnd = () => innerHeight + scrollY >= document.documentElement.scrollHeight - 80;

    // `upto` is a line's number: what is known already is not added again.
    function add(html, upto) {
      if (!(upto > after)) return;
      after = upto;
      const follow = atEnd();
      const part = document.createElement("template");
      part.innerHTML = html;
      overview(part.content.getElementById("now"));
      // Several tell of what happens, each in its own time.
      const when = (step) => step.querySelector("time").dateTime;
      for (const step of [...part.content.children]) {
        step.classList.add("fresh");
        let before = steps.lastElementChild;
        while (before && when(before) > when(step)) before = before.previousElementSibling;
        if (before) before.after(step); else steps.prepend(step);
      }
      if (follow) scrollTo(0, document.documentElement.scrollHeight);
    }

    // Where it stands now, with what was unfolded.
    function overview(now) {
      const before = document.getElementById("now");
      if (!now || !before) return;
      for (const one of before.querySelectorAll("details[open]")) {
        const same = now.querySelector(`#${one.id}`);
        if (same) same.open = true;
      }
      const focused = before.contains(document.activeElement) && document.activeElement.closest("details");
      before.replaceWith(now);
      if (focused) now.querySelector(`#${focused.id} summary`)?.focus();
      if (state.textContent !== now.dataset.state) state.textContent = now.dataset.state;
    }

    keepCurrent({
      heard: () => `${base}/events?after=${after}`,
      asked: () => `${base}/steps?after=${after}`,
      take: (html, upto) => add(html, Number(upto)),
      clear: () => { steps.replaceChildren(); document.getElementById("now")?.replaceChildren(); },
    });
  }

  // A roadmap's table: its items change in threads of their own.
  function watchRoadmap(table) {
    let shown = null, newest = null;

    // What is the same is left alone, and who reads keeps the link in focus.
    function show() {
      if (newest === shown || table.contains(document.activeElement)) return;
      table.innerHTML = shown = newest;
    }

    table.addEventListener("focusout", () => setTimeout(show));
    keepCurrent({
      heard: () => `${table.dataset.address}/events`,
      asked: () => `${table.dataset.address}/now`,
      take: (html) => { newest = html; show(); },
      clear: () => { newest = null; shown = null; table.replaceChildren(); },
    });
  }

  const steps = document.getElementById("steps");
  if (steps && "live" in steps.dataset) watchSteps(steps);
  const table = document.getElementById("roadmap");
  if (table) watchRoadmap(table);
})();
