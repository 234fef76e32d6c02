"use strict";
(() => {
  const main = document.getElementById("main");
  const pulse = document.getElementById("pulse");
  const say = document.getElementById("say");
  const poll = 1000 * Number(main.dataset.poll);
  let etag = main.dataset.etag, seen = Date.now(), lost = 0, timer = 0, busy = false, again = false;

  const byId = (id) => document.getElementById(id);
  const texts = (root) => root.querySelector("h1").textContent.replace(/\s+/g, " ").trim();

  // What the pulse says: how old this page is, or that nobody answers.
  function tick() {
    const seconds = Math.round((Date.now() - seen) / 1000);
    const ago = seconds < 5 ? "just now" : seconds < 90 ? `${seconds} s ago` : `${Math.round(seconds / 60)} min ago`;
    pulse.textContent = lost ? `Connection lost, trying again; last updated ${ago}` : `Live, last updated ${ago}`;
    pulse.className = lost ? "pulse lost" : "pulse ok";
  }

  async function ask() {
    clearTimeout(timer);
    if (busy) {
      again = true;
      return;
    }
    busy = true;
    try {
      const signal = AbortSignal.timeout(60000);
      const answer = await fetch("./fragment", { headers: { "If-None-Match": etag }, cache: "no-store", signal });
      if (answer.status === 401) {  // to log in again
        location.reload();
        return;
      }
      if (answer.status !== 304) {
        if (!answer.ok) throw new Error(String(answer.status));
        show(await answer.text());
        etag = answer.headers.get("ETag") || etag;
      }
      lost = 0;
      seen = Date.now();
    } catch {
      lost += 1;
    } finally {
      busy = false;
    }
    tick();
    timer = setTimeout(ask, again ? 0 : poll * Math.min(2 ** lost, 10));
    again = false;
  }

  // Part by part, so that what somebody types, reads or has opened stays where it is.
  function show(text) {
    const news = new DOMParser().parseFromString(text, "text/html").body;
    const before = texts(main);
    const opened = [...main.querySelectorAll("details[open]")].map((one) => one.id);
    const focus = document.activeElement && document.activeElement.id;
    const parts = [...news.children], ids = new Set(parts.map((one) => one.id));
    let last = null;
    for (const fresh of parts) {
      const old = byId(fresh.id);
      let stays = old;
      if (!old) {
        stays = document.adoptNode(fresh);
        if (last) last.after(stays); else main.prepend(stays);
      } else if (fresh.id === "enter") {
        refill(fresh);
      } else if (old.innerHTML !== fresh.innerHTML) {
        for (const id of opened) fresh.querySelector(`details[id="${id}"]`)?.setAttribute("open", "");
        if (fresh.id === "figures") fresh.classList.add("fresh");
        stays = document.adoptNode(fresh);
        old.replaceWith(stays);
      }
      last = stays;
    }
    for (const old of [...main.children]) if (!ids.has(old.id)) old.remove();
    if (focus && document.activeElement === document.body) byId(focus)?.focus({ preventScroll: true });
    times();
    if (texts(main) !== before) say.textContent = texts(main);
  }

  function times() {
    for (const one of main.querySelectorAll("time")) one.textContent = new Date(one.dateTime).toLocaleString([], { dateStyle: "medium", timeStyle: "short" });
  }

  // The form: the list of queries changes under it, what is typed does not.
  const form = byId("tell"), query = byId("query"), fields = byId("fields"), heard = byId("heard"), asking = byId("ask"), me = byId("me");
  let shown = null, wanted = null;

  function choose() {
    const option = query.selectedOptions[0];
    if (!option) {
      shown = null;
      fields.replaceChildren();
      return;
    }
    if (shown === option.value) return;
    shown = option.value;
    const parts = option.dataset.parts ? JSON.parse(option.dataset.parts) : [null];
    fields.replaceChildren(...parts.map((part, i) => {
      const field = document.createElement("div"), label = document.createElement("label"), input = document.createElement("input");
      field.className = "field";
      label.htmlFor = input.id = `part-${i}`;
      label.textContent = part === null ? "Result" : part;
      input.inputMode = "decimal";
      input.autocomplete = "off";
      input.required = part === null;
      if (part !== null) input.placeholder = "not read";
      field.append(label, input);
      return field;
    }));
  }

  function refill(fresh) {
    if (!form) return;
    const options = [...fresh.querySelectorAll("option")];
    const there = options.some((one) => one.value === query.value);
    const typed = [...fields.querySelectorAll("input")].some((input) => input.value !== "");
    const gone = query.value;
    if (!there && typed) answer(`Query ${gone} has been closed by somebody else.`, "bad");
    const same = options.map((one) => one.outerHTML).join() === [...query.options].map((one) => one.outerHTML).join();
    if (!same) {
      const value = query.value;
      query.replaceChildren(...options.map((one) => document.adoptNode(one)));
      if (there) query.value = value;
    }
    if (wanted !== null && options.some((one) => one.value === wanted)) {
      if (!typed) query.value = wanted;
      wanted = null;
    }
    arrange();
  }

  function arrange() {
    form.hidden = query.options.length === 0;
    choose();
  }

  function answer(text, look) {
    heard.textContent = text;
    heard.className = `heard ${look}`;
  }

  // A number as people type it. 1,234 may mean two things, and is refused.
  function number(text) {
    const plain = text.trim().replace("\u2212", "-");
    if (plain === "") return null;
    if (/^[-+]?\d{1,3},\d{3}$/.test(plain)) throw new Error(`${plain}: is the comma a decimal one? Write it with a point, or without.`);
    const value = Number(plain.replace(/^([^.,]*),([^.,]*)$/, "$1.$2"));
    if (!/\d/.test(plain) || !/^[-+\d.,eE]+$/.test(plain) || !Number.isFinite(value)) throw new Error(`${plain}: a number is wanted.`);
    return value;
  }

  async function tell(event) {
    event.preventDefault();
    const option = query.selectedOptions[0], inputs = [...fields.querySelectorAll("input")];
    if (!option) return;
    let body;
    try {
      const values = inputs.map((input) => number(input.value));
      if (values.every((value) => value === null)) throw new Error("A number is wanted.");
      body = { id: Number(option.value), ...(option.dataset.parts ? { values } : { value: values[0] }) };
    } catch (error) {
      answer(error.message, "bad");
      return;
    }
    if (await post("./tell", body, form, "To record it again is harmless.")) {
      for (const input of inputs) input.value = "";
      answer(`Recorded: query ${body.id}.`, "good");
      shown = null;
      option.remove();
      arrange();
    }
    ask();
  }

  // The server's answer, or nothing where it refused: then its words are shown.
  async function post(where, body, sender, otherwise) {
    const button = sender.querySelector("button");
    button.disabled = true;
    try {
      const reply = await fetch(where, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
      const said = await reply.json().catch(() => ({}));
      if (reply.ok) return said;
      answer(said.error || `The server said ${reply.status}.`, "bad");
    } catch {
      answer(`No connection: nothing was recorded as far as we know. ${otherwise}`, "bad");
    } finally {
      button.disabled = false;
    }
    return null;
  }

  async function next(event) {
    event.preventDefault();
    const name = me.value.trim();
    try { localStorage.setItem("combopeps-name", name); } catch { /* a browser that keeps nothing */ }
    const said = await post("./ask", name ? { n: 1, client: name } : { n: 1 }, asking, "If a query was handed out, it is in the list.");
    if (said) {
      const one = said.queries[0];
      wanted = String(one.id);
      answer(`Please measure query ${one.id}.`, "good");
    }
    ask();
  }

  if (form) {
    try { me.value = localStorage.getItem("combopeps-name") || ""; } catch { /* a browser that keeps nothing */ }
    form.addEventListener("submit", tell);
    query.addEventListener("change", choose);
    asking.addEventListener("submit", next);
    asking.hidden = false;
    arrange();
  }
  document.addEventListener("visibilitychange", () => { if (!document.hidden) ask(); });
  setInterval(tick, 1000);
  times();
  tick();
  timer = setTimeout(ask, poll);
})();
