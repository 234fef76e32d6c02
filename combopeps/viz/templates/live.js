// The page asks what is new, and shows it.
const byId = (id) => document.getElementById(id);
const main = byId("main"), pulse = byId("pulse"), say = byId("say");
const pause = 1000 * Number(main.dataset.poll);
const raw = new Map([...main.children].map((one) => [one.id, one.innerHTML]));  // as it came: the script changes some of it
let etag = main.dataset.etag, seen = Date.now(), lost = 0, timer = 0, busy = false, again = false;

const texts = (root) => root.querySelector("h1").textContent.replace(/\s+/g, " ").trim();

// What the pulse says: how old this page is, or that nobody answers.
function tick() {
  const seconds = Math.round((Date.now() - seen) / 1000);
  const ago = seconds < 5 ? "just now" : seconds < 90 ? `${seconds} s ago` : `${Math.round(seconds / 60)} min ago`;
  pulse.textContent = lost ? `Connection lost, trying again; last updated ${ago}` : `Live, last updated ${ago}`;
  pulse.className = lost ? "pulse lost" : "pulse ok";
}

async function look() {
  clearTimeout(timer);
  if (busy) {
    again = true;
    return;
  }
  busy = true;
  try {
    const signal = AbortSignal.timeout(60000), since = performance.now();
    const answer = await fetch("./fragment", { headers: { "If-None-Match": etag }, cache: "no-store", signal });
    if (answer.status === 401) {  // to log in again
      location.reload();
      return;
    }
    if (answer.status !== 304) {
      if (!answer.ok) throw new Error(String(answer.status));
      show(await answer.text(), since);
      etag = answer.headers.get("ETag") || etag;
    }
    if (who === null) await meet();
    lost = 0;
    seen = Date.now();
  } catch {
    lost += 1;
  } finally {
    busy = false;
  }
  tick();
  timer = setTimeout(look, again ? 0 : pause * Math.min(2 ** lost, 10));
  again = false;
}

// Part by part, so that what somebody types, reads or has opened stays where it is.
function show(text, since) {
  const news = new DOMParser().parseFromString(text, "text/html").body;
  const before = texts(main);
  const opened = [...main.querySelectorAll("details[open]")].map((one) => one.id);
  const focus = document.activeElement && document.activeElement.id;
  const parts = [...news.children], ids = new Set(parts.map((one) => one.id));
  let last = null;
  for (const fresh of parts) {
    const old = byId(fresh.id), html = fresh.innerHTML;
    let stays = old;
    if (!old) {
      stays = document.adoptNode(fresh);
      if (last) last.after(stays); else main.prepend(stays);
    } else if (fresh.id === "enter") {
      refill(fresh, since);
    } else if (raw.get(fresh.id) !== html) {
      for (const id of opened) fresh.querySelector(`details[id="${id}"]`)?.setAttribute("open", "");
      if (fresh.id === "figures") fresh.classList.add("fresh");
      stays = document.adoptNode(fresh);
      old.replaceWith(stays);
    }
    raw.set(fresh.id, html);
    last = stays;
  }
  for (const old of [...main.children]) if (!ids.has(old.id)) old.remove();
  if (focus && document.activeElement === document.body) byId(focus)?.focus({ preventScroll: true });
  times();
  permit();
  if (texts(main) !== before) say.textContent = texts(main);
}

function times() {
  for (const one of main.querySelectorAll("time")) one.textContent = new Date(one.dateTime).toLocaleString([], { dateStyle: "medium", timeStyle: "short" });
}

// What the server says: [whether it did it, its answer]; where nobody answered, null.
async function post(where, body, button) {
  button.disabled = true;
  try {
    const reply = await fetch(where, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
    const said = await reply.json().catch(() => ({}));
    return [reply.ok, reply.ok ? said : said.error || `The server said ${reply.status}.`, said.type];
  } catch {
    return null;
  } finally {
    button.disabled = false;
  }
}

function begin() {
  times();
  tick();
  if (form) prepare();
  main.addEventListener("click", close);
  main.addEventListener("click", change);
  document.addEventListener("visibilitychange", () => { if (!document.hidden) look(); });
  setInterval(tick, 1000);
  meet().catch(() => {});  // or when the server is back
  timer = setTimeout(look, pause);
}
