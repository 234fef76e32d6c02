// Who is before the page, and what this one may do: the page itself is the same for all.
let who = null;  // {role, client}, as the server says
const mine = new Map();  // queries that were given to this one, by id: {id, text, parts, given}
const kept = {
  get name() { try { return localStorage.getItem("combopeps-name") || ""; } catch { return ""; } },
  set name(name) { try { localStorage.setItem("combopeps-name", name); } catch { /* a browser that keeps nothing */ } },
};

const named = () => who?.client || kept.name;

async function meet() {
  const reply = await fetch("./me", { cache: "no-store", signal: AbortSignal.timeout(60000) });
  if (!reply.ok) throw new Error(String(reply.status));
  who = await reply.json();
  byId("download").hidden = who.role !== "owner";
  if (form) {
    byId("known").hidden = !who.client;
    byId("unknown").hidden = byId("reason").hidden = Boolean(who.client);
    byId("known").querySelector("b").textContent = who.client || "";
  }
  permit();
}

// Open queries in the table: own ones are always there, and whoever may close one has a button.
function permit() {
  for (const button of main.querySelectorAll("#recent button")) button.hidden = who?.role !== "owner";
  const body = main.querySelector("#waiting tbody");
  if (!body || !form) return;
  for (const one of mine.values()) {
    if (body.querySelector(`tr[data-id="${one.id}"]`)) continue;
    const row = body.rows[0].cloneNode(true);
    Object.assign(row.dataset, { id: one.id, holder: named() });
    [one.id, one.text, named()].forEach((text, i) => { row.cells[i].textContent = text; });
    row.querySelector("button").setAttribute("aria-label", `Close query ${one.id}`);
    body.append(row);
  }
  for (const row of body.rows) {
    const own = named() !== "" && row.dataset.holder === named();
    for (const button of row.querySelectorAll("button")) button.hidden = !(who && (who.role === "owner" || own));
  }
}

async function close(event) {
  const button = event.target.closest(".act button");
  if (!button) return;
  const row = button.closest("tr"), id = Number(row.dataset.id);
  const sure = `Close query ${id} (${row.cells[1].firstChild.textContent}) without a result?\n\nOnly if it will never be measured: to close a query because of its result would spoil what the page claims.`;
  if (!confirm(sure)) return;
  const said = await post("./abandon", { id, ...(row.dataset.holder && row.dataset.holder === named() ? { client: named() } : {}) }, button);
  if (said?.[0]) {
    const note = document.createElement("span");
    note.textContent = "closed";
    button.replaceWith(note);
    say.textContent = `Query ${id} is closed.`;
    leave(id);
  } else {
    let note = row.querySelector(".heard");
    if (!note) row.cells[1].append(note = document.createElement("span"));
    note.setAttribute("role", "status");
    note.className = "heard bad";
    note.textContent = said ? said[1] : "No connection: to close it again is harmless.";
  }
  look();
}
