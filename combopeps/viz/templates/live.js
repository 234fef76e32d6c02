// Polling: fetch the fragment, and replace the sections that have changed.
const byId = (id) => document.getElementById(id);
const main = byId("main"), pulse = byId("pulse"), announcement = byId("announcement");
const pollDelay = 1000 * Number(main.dataset.poll);
const received = new Map([...main.children].map((section) => [section.id, section.innerHTML]));  // as sent: scripts change some of it
let etag = main.dataset.etag, lastUpdate = Date.now(), failures = 0, timer = 0, isRefreshing = false, refreshAgain = false;

const headingText = (root) => root.querySelector("h1").textContent.replace(/\s+/g, " ").trim();

// Show the time since the last update, or that the connection is lost.
function updatePulse() {
  const seconds = Math.round((Date.now() - lastUpdate) / 1000);
  const ago = seconds < 5 ? "just now" : seconds < 90 ? `${seconds} s ago` : `${Math.round(seconds / 60)} min ago`;
  pulse.textContent = failures ? `Connection lost, trying again; last updated ${ago}` : `Live, last updated ${ago}`;
  pulse.className = failures ? "pulse lost" : "pulse ok";
}

async function refresh() {
  clearTimeout(timer);
  if (isRefreshing) {
    refreshAgain = true;
    return;
  }
  isRefreshing = true;
  try {
    const signal = AbortSignal.timeout(60000), since = performance.now();
    const response = await fetch("./fragment", { headers: { "If-None-Match": etag }, cache: "no-store", signal });
    if (response.status === 401) {  // logged out: the server shows the login page
      location.reload();
      return;
    }
    if (response.status !== 304) {
      if (!response.ok) throw new Error(String(response.status));
      update(await response.text(), since);
      etag = response.headers.get("ETag") || etag;
    }
    if (user === null) await fetchUser();
    failures = 0;
    lastUpdate = Date.now();
  } catch {
    failures += 1;
  } finally {
    isRefreshing = false;
  }
  updatePulse();
  timer = setTimeout(refresh, refreshAgain ? 0 : pollDelay * Math.min(2 ** failures, 10));
  refreshAgain = false;
}

// Replace changed sections only, so that input, focus, scroll position and open details are kept.
function update(text, since) {
  const body = new DOMParser().parseFromString(text, "text/html").body;
  const headingBefore = headingText(main);
  const openDetails = [...main.querySelectorAll("details[open]")].map((details) => details.id);
  const focus = document.activeElement && document.activeElement.id;
  const sections = [...body.children], ids = new Set(sections.map((section) => section.id));
  let last = null;
  for (const section of sections) {
    const old = byId(section.id), html = section.innerHTML;
    let current = old;
    if (!old) {
      current = document.adoptNode(section);
      if (last) last.after(current); else main.prepend(current);
    } else if (section.id === "enter") {
      updateQueries(section, since);
    } else if (received.get(section.id) !== html) {
      for (const id of openDetails) section.querySelector(`details[id="${id}"]`)?.setAttribute("open", "");
      if (section.id === "figures") section.classList.add("fresh");
      current = document.adoptNode(section);
      old.replaceWith(current);
    }
    received.set(section.id, html);
    last = current;
  }
  for (const old of [...main.children]) if (!ids.has(old.id)) old.remove();
  if (focus && document.activeElement === document.body) byId(focus)?.focus({ preventScroll: true });
  localiseTimes();
  updateButtons();
  if (headingText(main) !== headingBefore) announcement.textContent = headingText(main);
}

function localiseTimes() {
  for (const time of main.querySelectorAll("time")) time.textContent = new Date(time.dateTime).toLocaleString([], { dateStyle: "medium", timeStyle: "short" });
}

// The answer of the server: {ok, body, error, type}; null without a connection.
async function post(url, body, button) {
  button.disabled = true;
  try {
    const response = await fetch(url, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
    const answer = await response.json().catch(() => ({}));
    return { ok: response.ok, body: answer, error: answer.error || `The server returned status ${response.status}.`, type: answer.type };
  } catch {
    return null;
  } finally {
    button.disabled = false;
  }
}

function start() {
  localiseTimes();
  updatePulse();
  if (form) prepareForms();
  main.addEventListener("click", closeQuery);
  main.addEventListener("click", changeResult);
  document.addEventListener("visibilitychange", () => { if (!document.hidden) refresh(); });
  setInterval(updatePulse, 1000);
  fetchUser().catch(() => {});  // repeated by `refresh`
  timer = setTimeout(refresh, pollDelay);
}
