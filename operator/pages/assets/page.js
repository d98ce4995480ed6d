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

  // Clocks and dates in the reader's own time zone, the exact one on hover.
  const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
  const exact = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "long" });

  function formatAgo(millis) {
    const minutes = Math.floor(millis / 60000);
    if (minutes < 1) return "just now";
    if (minutes < 60) return `${minutes} min ago`;
    if (minutes < 1440) return `${Math.floor(minutes / 60)} h ago`;
    return minutes < 43200 ? `${Math.floor(minutes / 1440)} d ago` : null;
  }

  function localize(root) {
    for (const time of root.querySelectorAll("time[data-clock], time[data-ago], time[data-exact]")) {
      const at = new Date(time.dateTime);
      if (isNaN(at)) continue;
      time.title = exact.format(at);
      const text = "clock" in time.dataset ? clock.format(at) : "exact" in time.dataset ? exact.format(at) : formatAgo(Date.now() - at);
      if (text && time.textContent !== text) time.textContent = text;
    }
  }

  // A thread's newest steps.
  function watchSteps(steps) {
    const base = steps.dataset.base;
    const state = document.getElementById("state");
    const newest = document.getElementById("newest");
    let after = Number(steps.dataset.after);

    const atEnd = () => newest.getBoundingClientRect().top <= innerHeight + 80;
    const toEnd = () => newest.scrollIntoView({ block: "end" });
    // Several tell of what happens, each in its own time.
    const when = (item) => item.dataset.at || item.querySelector("time").dateTime;

    function insert(into, item) {
      let before = into.lastElementChild;
      while (before && when(before) > when(item)) before = before.previousElementSibling;
      if (before) before.after(item); else into.prepend(item);
    }

    const moveSteps = (from, into) => { for (const step of [...from.children]) insert(into, step); };
    const inside = (run) => run.querySelector(".inside");
    const loose = (role) => [...steps.children].filter((one) => one.classList.contains("loose") && one.dataset.role === role);

    // Updates a run in place: an opened run stays open.
    function placeRun(run) {
      const known = document.getElementById(run.id) || (run.classList.contains("loose") && loose(run.dataset.role).pop());
      if (!known) {
        // Steps may arrive before the start of their run.
        if (!run.classList.contains("loose")) {
          for (const early of loose(run.dataset.role)) {
            if (when(early) < when(run)) continue;
            moveSteps(inside(early), inside(run));
            early.remove();
          }
        }
        insert(steps, run);
        return;
      }
      moveSteps(inside(run), inside(known));
      known.className = run.className;
      known.querySelector("summary").replaceChildren(...run.querySelector("summary").childNodes);
      if (run.open) known.open = true;
    }

    // `upto` is a line's number: what is known already is not added again. Without a new line, only what happens now
    // is another.
    function add(html, upto) {
      if (!(upto >= after)) return;
      const adds = upto > after;
      after = upto;
      const follow = atEnd();
      const part = document.createElement("template");
      part.innerHTML = html;
      localize(part.content);
      overview(part.content.getElementById("now"));
      for (const item of [...part.content.children]) {
        // A run may have stopped without a word.
        if (!adds && !(item.id && document.getElementById(item.id))) continue;
        item.classList.add("fresh");
        if (item.classList.contains("run")) placeRun(item); else insert(steps, item);
      }
      if (follow) toEnd();
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
      const waits = (part) => part.querySelector(".waits b")?.textContent;
      if (document.getElementById("asks") && waits(before) !== waits(now)) refreshAsks();
    }

    // Open questions with their buttons, as they are now. Who is about to press one keeps it.
    async function refreshAsks() {
      try {
        const answer = await fetch(base, { cache: "no-store" });
        if (!answer.ok) return;
        const part = document.createElement("template");
        part.innerHTML = await answer.text();
        const [asks, known] = [part.content.getElementById("asks"), document.getElementById("asks")];
        if (asks && known && !known.contains(document.activeElement)) known.replaceWith(asks);
      } catch { /* The next change asks again. */ }
    }

    // A running thread starts at its newest step and follows from there.
    if (state.textContent === "running" && !location.hash && scrollY === 0) toEnd();
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
      localize(table);
    }

    table.addEventListener("focusout", () => setTimeout(show));
    keepCurrent({
      heard: () => `${table.dataset.address}/events`,
      asked: () => `${table.dataset.address}/now`,
      take: (html) => { newest = html; show(); },
      clear: () => { newest = null; shown = null; table.replaceChildren(); },
    });
  }

  // Keys, as long as nothing is typed.
  function watchKeys() {
    const keys = document.getElementById("keys");
    const items = () => [...document.querySelectorAll("#steps > *, .list tbody tr, .file")].filter((one) => one.offsetParent !== null);
    const handle = (item) => item.querySelector("summary, a:not(.time)") || item;
    let current = null;

    function move(by) {
      const all = items();
      const at = all.indexOf(document.activeElement?.closest("#steps > *, .list tbody tr, .file") || current);
      const item = all[at < 0 ? (by > 0 ? 0 : all.length - 1) : Math.min(Math.max(at + by, 0), all.length - 1)];
      if (!item) return;
      current = item;
      const target = handle(item);
      if (target === item) item.tabIndex = -1;
      target.focus();
      item.scrollIntoView({ block: "nearest" });
    }

    addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, select, textarea, dialog")) return;
      const search = document.querySelector("input[type=search]");
      if (event.key === "j") move(1);
      else if (event.key === "k") move(-1);
      else if (event.key === "/" && search) search.focus();
      else if (event.key === "G") document.querySelector(".newest")?.click();
      else if (event.key === "?" && keys && !keys.open) keys.showModal();
      else return;
      event.preventDefault();
    });
  }

  // Hidden where there is nothing newer below.
  function watchEnd(button, newest) {
    new IntersectionObserver(([seen]) => { button.classList.toggle("away", seen.isIntersecting); }).observe(newest);
  }

  localize(document);
  setInterval(() => localize(document), 30000);
  watchKeys();
  const steps = document.getElementById("steps");
  if (steps && "live" in steps.dataset) watchSteps(steps);
  const [button, newest] = [document.querySelector(".newest"), document.getElementById("newest")];
  if (button && newest) watchEnd(button, newest);
  const table = document.getElementById("roadmap");
  if (table) watchRoadmap(table);
})();
