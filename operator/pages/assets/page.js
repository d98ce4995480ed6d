// Adds what happens to a page that shows the newest steps. Browsers allow six connections to a server over
// HTTP/1.1: at most three pages that are looked at keep one open, all others ask once a second.
"use strict";
(() => {
  const steps = document.getElementById("steps");
  if (!steps || !("live" in steps.dataset)) return;
  const base = steps.dataset.base;
  const state = document.getElementById("state");
  const news = document.getElementById("news");
  let after = Number(steps.dataset.after);
  let stream = null, release = null, timer = null, over = false;

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
    steps.replaceChildren();
    document.getElementById("now")?.replaceChildren();
    news.textContent = text;
  }

  function listen() {
    stream = new EventSource(`${base}/events?after=${after}`);
    stream.onmessage = (event) => { news.textContent = ""; add(event.data, Number(event.lastEventId)); };
    stream.addEventListener("end", (event) => end(event.data));
    stream.addEventListener("away", (event) => { news.textContent = event.data; });
    // Refused, such as after signing out: the browser does not try again by itself.
    stream.onerror = () => { if (stream && stream.readyState === EventSource.CLOSED) { close(); poll(5000); } };
  }

  async function poll(next) {
    try {
      const answer = await fetch(`${base}/steps?after=${after}`, { cache: "no-store" });
      const text = await answer.text();
      if (answer.ok) { news.textContent = ""; add(text, Number(answer.headers.get("x-upto"))); }
      else if (answer.status === 401 || answer.status === 403) return end("This page is not shown to you any more: load it again to see why.");
      else news.textContent = "The history can't be read right now.";
    } catch { news.textContent = "The gateway does not answer: tried again."; }
    later(next);
  }

  function later(ms) {
    clearTimeout(timer);
    timer = setTimeout(start, ms);
  }

  // Takes one of the browser's three places, or polls.
  async function start() {
    if (document.hidden || stream || over) return;
    if (!navigator.locks) return poll(1000);
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
    poll(1000);
  }

  document.addEventListener("visibilitychange", () => { if (document.hidden) close(); else start(); });
  addEventListener("pagehide", close);
  addEventListener("pageshow", () => start());
})();

// A roadmap's table, asked for again while somebody looks at it: its items change in threads of their own.
(() => {
  const table = document.getElementById("roadmap");
  if (!table) return;
  const news = document.getElementById("news");
  let shown = null, over = false;
  async function refresh() {
    if (document.hidden || over) return;
    try {
      const answer = await fetch(table.dataset.address, { cache: "no-store" });
      const text = await answer.text();
      if (answer.status === 401 || answer.status === 403) {
        over = true;
        table.replaceChildren();
        news.textContent = "This page is not shown to you any more: load it again to see why.";
      } else if (!answer.ok) {
        news.textContent = "The history can't be read right now.";
      } else {
        news.textContent = "";
        // What is the same is left alone, and with it who reads or has a link in focus.
        if (text !== shown && !table.contains(document.activeElement)) {
          table.innerHTML = text;
          shown = text;
        }
      }
    } catch { news.textContent = "The gateway does not answer: tried again."; }
  }
  setInterval(refresh, 3000);
  document.addEventListener("visibilitychange", refresh);
})();
