// The form: the list of queries changes under it, what is typed does not, and nothing is chosen but by whoever types.
const form = byId("tell"), query = byId("query"), fields = byId("fields"), heard = byId("heard"), asking = byId("ask"), me = byId("me");
const unsure = new Set();  // queries whose results were sent, and nobody answered
let listed = [], shown = null, shownFor = "";

const typed = () => [...fields.querySelectorAll("input, textarea")].some((one) => one.value.trim() !== "");
const cut = (text, most) => (text.length <= most ? text : `${text.slice(0, most - 1)}…`);

function answer(text, mood) {
  heard.textContent = text;
  heard.className = `heard ${mood}`;
}

// A label as the server sends it: an edge is a list.
function words(label) {
  const inner = (part) => (Array.isArray(part) ? `(${part.map(inner).join(", ")})` : String(part));
  return cut((Array.isArray(label) ? label.map(inner).join(" - ") : String(label)).replace(/\p{C}/gu, "\ufffd"), 300);
}

function element(tag, attributes, ...inside) {
  const made = Object.assign(document.createElement(tag), attributes);
  made.append(...inside);
  return made;
}

// The list: what the server has listed, and what was given to this one but is not among it.
function list() {
  const known = new Set(listed.map((one) => one.value)), options = listed.map((one) => one.cloneNode(true));
  for (const one of mine.values()) {
    if (known.has(String(one.id))) continue;
    const option = element("option", { value: one.id }, `${one.id} · ${cut(one.text, 70)} (${cut(named(), 20)})`);
    if (one.parts && one.parts.length > 200) option.dataset.many = one.parts.length;
    else if (one.parts) option.dataset.parts = JSON.stringify(one.parts);
    options.push(option);
  }
  const chosen = query.value, old = [...query.options].slice(1);
  if (options.map((one) => one.outerHTML).join() !== old.map((one) => one.outerHTML).join()) {
    query.replaceChildren(query.options[0], ...options);
    pick(options.some((one) => one.value === chosen) ? chosen : "");
  }
  form.hidden = options.length === 0 && !typed();
}

function pick(id) {
  query.value = String(id);
  choose();
}

// Fields for what was chosen; they stay, with what is in them, while the same is to be read.
function choose() {
  const option = query.selectedOptions[0];
  if (!option.value && (shown !== null || query.querySelector("[data-parts], [data-many]"))) return;
  const { parts, many } = option.dataset, kind = many ? `${many} of ${option.value}` : parts || "one";
  const same = shown === kind || (shown !== null && shownFor === option.value);
  shownFor = option.value || shownFor;
  if (same) return;
  shown = kind;
  if (many) {
    fields.replaceChildren(...all(Number(option.value), many));
    return;
  }
  fields.replaceChildren(...(parts ? JSON.parse(parts) : [null]).map((part, i) => {
    const input = element("input", { id: `part-${i}`, inputMode: "decimal", autocomplete: "off", required: part === null });
    if (part !== null) input.placeholder = "not read";
    return element("div", { className: "field" }, element("label", { htmlFor: input.id }, part === null ? "Result" : part), input);
  }));
}

// Too many for a field each: a line each, and which is which.
function all(id, many) {
  const label = `${many} results, one per line in the order below; an empty line for what was not read`;
  const order = element("ol", {}), note = element("summary", {}, "Which line is which");
  partsOf(id).then((names) => order.append(...names.map((name) => element("li", {}, name))), () => { note.textContent = "Which line is which could not be learnt: choose it again"; shown = null; });
  return [
    element("div", { className: "field many" }, element("label", { htmlFor: "part-all" }, label), element("textarea", { id: "part-all", rows: 8, autocomplete: "off" })),
    element("details", { className: "many", id: "order" }, note, order),
  ];
}

async function partsOf(id) {
  if (mine.get(id)?.parts) return mine.get(id).parts;
  const reply = await fetch("./open", { cache: "no-store" });
  return (await reply.json()).queries.find((one) => one.id === id).components.map(words);
}

// News of the list, asked for at `since`: what was given later is not missing.
function refill(fresh, since) {
  if (!form) return;
  listed = [...fresh.querySelectorAll("option")].slice(1);
  const known = new Set(listed.map((one) => one.value));
  const others = fresh.querySelector("select").dataset.others.split(" ").filter(Boolean).map((run) => run.split("-").map(Number));
  const open = (id) => known.has(String(id)) || others.some(([first, last = first]) => first <= id && id <= last) || mine.get(id)?.given > since;
  const gone = [...mine.keys()].filter((id) => !open(id));
  if (query.value && !open(Number(query.value)) && !gone.includes(Number(query.value))) gone.push(Number(query.value));
  for (const id of gone) mine.delete(id);
  list();
  if (gone.length) {
    const name = gone.length === 1 ? `Query ${gone[0]} was` : `Queries ${gone.join(", ")} were`;
    const by = gone.every((id) => unsure.has(id)) ? "closed: by your result, if it got through, or by somebody else" : "closed by somebody else";
    answer(`${name} ${by}.${query.value ? "" : " Nothing is chosen now."}`, "bad");
  }
}

// This one is done with a query.
function leave(id) {
  if (!form) return;
  mine.delete(id);
  unsure.delete(id);
  listed = listed.filter((one) => one.value !== String(id));
  list();
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

function lines(text, many) {
  const rows = text.split(/\r?\n/);
  if (rows.length === many + 1 && rows[many].trim() === "") rows.pop();
  if (rows.length !== many) throw new Error(`${many} lines are wanted, one for each part, and there are ${rows.length}.`);
  return rows.map((row, i) => {
    try { return number(row); } catch (error) { throw new Error(`Line ${i + 1}: ${error.message}`); }
  });
}

// What is to be sent, or an Error in words.
function result() {
  const { value: id, dataset } = query.selectedOptions[0];
  if (!id) throw new Error("Nothing is recorded yet: choose what was measured.");
  const inputs = [...fields.querySelectorAll("input, textarea")];
  const values = dataset.many ? lines(inputs[0].value, Number(dataset.many)) : inputs.map((input) => number(input.value));
  if (values.every((value) => value === null)) throw new Error("A number is wanted.");
  return { id: Number(id), ...(dataset.parts || dataset.many ? { values } : { value: values[0] }) };
}

async function tell(event) {
  event.preventDefault();
  let body;
  try {
    body = result();
  } catch (error) {
    answer(error.message, "bad");
    (query.value ? fields.querySelector("input, textarea") : query).focus();
    return;
  }
  const said = await confirmed("./tell", body, form.querySelector("button"));
  if (said?.[0]) {
    fields.replaceChildren();
    shown = null;
    leave(body.id);
    choose();
    answer(`Recorded: query ${body.id}.`, "good");
  } else if (said) {
    answer(said[1], "bad");
  } else {
    unsure.add(body.id);
    answer("No connection: nothing was recorded as far as we know. To record it again is harmless.", "bad");
  }
  look();
}

// An implausible value is recorded only if the user confirms it.
async function confirmed(where, body, button) {
  const said = await post(where, body, button);
  if (said?.[2] !== "ImplausibleValueError" || !confirm(`${said[1]}\n\nIs it right?`)) return said;
  return post(where, { ...body, confirm: true }, button);
}

// Correct or retract a recorded result.
async function change(event) {
  const button = event.target.closest(".change button");
  if (!button) return;
  const row = button.closest("tr"), number_ = Number(row.dataset.event), what = row.cells[1].textContent.trim();
  const warning = "A result that is changed because of its value makes every claim void.";
  let said;
  if (button.dataset.do === "retract") {
    if (!confirm(`Retract the result of ${what} (event ${number_})?\n\n${warning}`)) return;
    said = await post("./retract", { event: number_ }, button);
  } else {
    const typed_ = prompt(`The right result of ${what} (event ${number_}):\n\n${warning}`, row.cells[2].textContent.trim());
    if (typed_ === null) return;
    try {
      said = await confirmed("./correct", { event: number_, value: number(typed_) }, button);
    } catch (error) {
      said = [false, error.message];
    }
  }
  answer(said?.[0] ? `Event ${number_} is changed.` : said ? said[1] : "No connection: try again.", said?.[0] ? "good" : "bad");
  look();
}

async function next(event) {
  event.preventDefault();
  const name = who?.client || me.value.trim();
  if (!name) {
    answer("Your name first, please: the query is kept under it.", "bad");
    me.focus();
    return;
  }
  const said = await post("./ask", { n: 1, client: name }, asking.querySelector("button"));
  if (said?.[0]) {
    if (!who?.client) kept.name = name;
    take(said[1].queries[0]);
  } else if (said) {
    answer(said[1], "bad");
    if (kept.name === name) kept.name = "";
    who = null;  // perhaps somebody has logged in as somebody else: the next look asks
  } else {
    answer("No connection. Ask again: if a query was handed out, you get the same.", "bad");
  }
  look();
}

// A query that this one has just been given.
function take(one) {
  const components = one.components.map(words), text = one.is_action ? components.join(", ") : words(one.label);
  mine.set(one.id, { id: one.id, text, parts: one.is_action ? components : null, given: performance.now() });
  list();
  const free = !typed() || query.value === String(one.id);
  if (free) pick(one.id);
  answer(`Please measure ${cut(text, 300)} (query ${one.id}).${free ? "" : " What you have typed stays: choose what it belongs to."}`, "good");
}

function prepare() {
  listed = [...query.options].slice(1);
  me.value = kept.name;
  form.addEventListener("submit", tell);
  query.addEventListener("change", choose);
  asking.addEventListener("submit", next);
  asking.hidden = false;
  list();
  pick("");
}
