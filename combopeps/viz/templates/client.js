// The user: role and name as the server knows them, and what they allow. The page itself is the same for all users.
let user = null;  // {role, client}; null until the server has sent it
const ownQueries = new Map();  // queries handed out to this page, by id: {id, text, parts, received}
const stored = {
  get name() { try { return localStorage.getItem("combopeps-name") || ""; } catch { return ""; } },
  set name(name) { try { localStorage.setItem("combopeps-name", name); } catch { /* storage is disabled */ } },
};

const clientName = () => user?.client || stored.name;

async function fetchUser() {
  const response = await fetch("./me", { cache: "no-store", signal: AbortSignal.timeout(60000) });
  if (!response.ok) throw new Error(String(response.status));
  user = await response.json();
  byId("download").hidden = user.role !== "owner";
  if (form) {
    byId("known").hidden = !user.client;
    byId("unknown").hidden = byId("reason").hidden = Boolean(user.client);
    byId("known").querySelector("b").textContent = user.client || "";
  }
  updateButtons();
}

// Add own queries that the table does not list, and show the buttons that this user may press.
function updateButtons() {
  for (const button of main.querySelectorAll("#recent button")) button.hidden = user?.role !== "owner";
  const body = main.querySelector("#waiting tbody");
  if (!body || !form) return;
  for (const own of ownQueries.values()) {
    if (body.querySelector(`tr[data-id="${own.id}"]`)) continue;
    const row = body.rows[0].cloneNode(true);
    Object.assign(row.dataset, { id: own.id, holder: clientName() });
    [own.id, own.text, clientName()].forEach((text, i) => { row.cells[i].textContent = text; });
    row.querySelector("button").setAttribute("aria-label", `Close query ${own.id}`);
    body.append(row);
  }
  for (const row of body.rows) {
    const isOwn = clientName() !== "" && row.dataset.holder === clientName();
    for (const button of row.querySelectorAll("button")) button.hidden = !(user && (user.role === "owner" || isOwn));
  }
}

async function closeQuery(event) {
  const button = event.target.closest(".act button");
  if (!button) return;
  const row = button.closest("tr"), id = Number(row.dataset.id);
  const question = `Close query ${id} (${row.cells[1].firstChild.textContent}) without a result?\n\nClose it only if it will never be measured: a query that is closed because of its result makes every claim void.`;
  if (!confirm(question)) return;
  const answer = await post("./abandon", { id, ...(row.dataset.holder && row.dataset.holder === clientName() ? { client: clientName() } : {}) }, button);
  if (answer?.ok) {
    const note = document.createElement("span");
    note.textContent = "closed";
    button.replaceWith(note);
    announcement.textContent = `Query ${id} is closed.`;
    removeQuery(id);
  } else {
    let note = row.querySelector(".message");
    if (!note) row.cells[1].append(note = document.createElement("span"));
    note.setAttribute("role", "status");
    note.className = "message bad";
    note.textContent = answer ? answer.error : "No connection: try again; closing a query twice is harmless.";
  }
  refresh();
}
