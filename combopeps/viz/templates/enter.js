// Forms: enter results, request queries, correct and retract results. The list of queries changes under the form, but
// input is kept, and a query is only ever selected by the user or after the user has requested it.
const form = byId("tell"), query = byId("query"), fields = byId("fields"), message = byId("message"), askForm = byId("ask"), nameInput = byId("me");
const unconfirmed = new Set();  // ids of queries whose results were sent without an answer of the server
// Options that the server lists; the kind of fields on display (null: none), and the query they were made for.
let listedOptions = [], shownKind = null, shownFor = "";

const hasInput = () => [...fields.querySelectorAll("input, textarea")].some((input) => input.value.trim() !== "");
const cut = (text, maxLength) => (text.length <= maxLength ? text : `${text.slice(0, maxLength - 1)}…`);

function showMessage(text, kind) {
  message.textContent = text;
  message.className = `message ${kind}`;
}

// The text of a label as the server sends it: an edge is a list.
function labelText(label) {
  const partText = (part) => (Array.isArray(part) ? `(${part.map(partText).join(", ")})` : String(part));
  return cut((Array.isArray(label) ? label.map(partText).join(" - ") : String(label)).replace(/\p{C}/gu, "\ufffd"), 300);
}

function element(tag, attributes, ...children) {
  const created = Object.assign(document.createElement(tag), attributes);
  created.append(...children);
  return created;
}

// Update the options: those of the server, and own queries that it does not list.
function updateOptions() {
  const known = new Set(listedOptions.map((option) => option.value)), options = listedOptions.map((option) => option.cloneNode(true));
  for (const own of ownQueries.values()) {
    if (known.has(String(own.id))) continue;
    const option = element("option", { value: own.id }, `${own.id} · ${cut(own.text, 70)} (${cut(clientName(), 20)})`);
    if (own.parts && own.parts.length > 200) option.dataset.many = own.parts.length;
    else if (own.parts) option.dataset.parts = JSON.stringify(own.parts);
    options.push(option);
  }
  const selected = query.value, old = [...query.options].slice(1);
  if (options.map((option) => option.outerHTML).join() !== old.map((option) => option.outerHTML).join()) {
    query.replaceChildren(query.options[0], ...options);
    select(options.some((option) => option.value === selected) ? selected : "");
  }
  form.hidden = options.length === 0 && !hasInput();
}

function select(id) {
  query.value = String(id);
  updateFields();
}

// Show the fields of the selected query; fields and their input stay as long as the same parts are to be read.
function updateFields() {
  const option = query.selectedOptions[0];
  if (!option.value && (shownKind !== null || query.querySelector("[data-parts], [data-many]"))) return;
  const { parts, many } = option.dataset, kind = many ? `${many} of ${option.value}` : parts || "one";
  const isSame = shownKind === kind || (shownKind !== null && shownFor === option.value);
  shownFor = option.value || shownFor;
  if (isSame) return;
  shownKind = kind;
  if (many) {
    fields.replaceChildren(...textAreaForParts(Number(option.value), many));
    return;
  }
  fields.replaceChildren(...(parts ? JSON.parse(parts) : [null]).map((part, i) => {
    const input = element("input", { id: `part-${i}`, inputMode: "decimal", autocomplete: "off", required: part === null });
    if (part !== null) input.placeholder = "not read";
    return element("div", { className: "field" }, element("label", { htmlFor: input.id }, part === null ? "Result" : part), input);
  }));
}

// For actions of many parts: one text area with a line for each part, and the list of parts.
function textAreaForParts(id, count) {
  const label = `${count} results, one per line in the order below; an empty line for parts that were not read`;
  const order = element("ol", {}), summary = element("summary", {}, "Order of the lines");
  fetchParts(id).then((names) => order.append(...names.map((name) => element("li", {}, name))), () => { summary.textContent = "The order of the lines could not be loaded: select the query again"; shownKind = null; });
  return [
    element("div", { className: "field many" }, element("label", { htmlFor: "part-all" }, label), element("textarea", { id: "part-all", rows: 8, autocomplete: "off" })),
    element("details", { className: "many", id: "order" }, summary, order),
  ];
}

async function fetchParts(id) {
  if (ownQueries.get(id)?.parts) return ownQueries.get(id).parts;
  const response = await fetch("./open", { cache: "no-store" });
  return (await response.json()).queries.find((open) => open.id === id).components.map(labelText);
}

// Take over the options of a new fragment, which was requested at `since`; queries received later are not in it.
function updateQueries(section, since) {
  if (!form) return;
  listedOptions = [...section.querySelectorAll("option")].slice(1);
  const known = new Set(listedOptions.map((option) => option.value));
  const others = section.querySelector("select").dataset.others.split(" ").filter(Boolean).map((range) => range.split("-").map(Number));
  const isOpen = (id) => known.has(String(id)) || others.some(([first, last = first]) => first <= id && id <= last) || ownQueries.get(id)?.received > since;
  const closed = [...ownQueries.keys()].filter((id) => !isOpen(id));
  if (query.value && !isOpen(Number(query.value)) && !closed.includes(Number(query.value))) closed.push(Number(query.value));
  for (const id of closed) ownQueries.delete(id);
  updateOptions();
  if (closed.length) {
    const subject = closed.length === 1 ? `Query ${closed[0]} was` : `Queries ${closed.join(", ")} were`;
    const by = closed.every((id) => unconfirmed.has(id)) ? "closed: by your result, if it was received, or by another client" : "closed by another client";
    showMessage(`${subject} ${by}.${query.value ? "" : " Nothing is selected now."}`, "bad");
  }
}

// Remove a query that this page has answered or closed.
function removeQuery(id) {
  if (!form) return;
  ownQueries.delete(id);
  unconfirmed.delete(id);
  listedOptions = listedOptions.filter((option) => option.value !== String(id));
  updateOptions();
}

// Parse a number with a decimal point or comma. 1,234 is ambiguous, and refused.
function parseNumber(text) {
  const plain = text.trim().replace("\u2212", "-");
  if (plain === "") return null;
  if (/^[-+]?\d{1,3},\d{3}$/.test(plain)) throw new Error(`${plain}: is the comma a decimal one? Write it with a point, or without.`);
  const value = Number(plain.replace(/^([^.,]*),([^.,]*)$/, "$1.$2"));
  if (!/\d/.test(plain) || !/^[-+\d.,eE]+$/.test(plain) || !Number.isFinite(value)) throw new Error(`${plain}: a number is required.`);
  return value;
}

function parseLines(text, count) {
  const rows = text.split(/\r?\n/);
  if (rows.length === count + 1 && rows[count].trim() === "") rows.pop();
  if (rows.length !== count) throw new Error(`${count} lines are required, one for each part, and there are ${rows.length}.`);
  return rows.map((row, i) => {
    try { return parseNumber(row); } catch (error) { throw new Error(`Line ${i + 1}: ${error.message}`); }
  });
}

// The body of the request; throws an Error with a message for the user.
function readResult() {
  const { value: id, dataset } = query.selectedOptions[0];
  if (!id) throw new Error("Nothing is recorded yet: choose what was measured.");
  const inputs = [...fields.querySelectorAll("input, textarea")];
  const values = dataset.many ? parseLines(inputs[0].value, Number(dataset.many)) : inputs.map((input) => parseNumber(input.value));
  if (values.every((value) => value === null)) throw new Error("A number is required.");
  return { id: Number(id), ...(dataset.parts || dataset.many ? { values } : { value: values[0] }) };
}

async function tell(event) {
  event.preventDefault();
  let body;
  try {
    body = readResult();
  } catch (error) {
    showMessage(error.message, "bad");
    (query.value ? fields.querySelector("input, textarea") : query).focus();
    return;
  }
  const answer = await postWithConfirmation("./tell", body, form.querySelector("button"));
  if (answer?.ok) {
    fields.replaceChildren();
    shownKind = null;
    removeQuery(body.id);
    updateFields();
    showMessage(`Recorded: query ${body.id}.`, "good");
  } else if (answer) {
    showMessage(answer.error, "bad");
  } else {
    unconfirmed.add(body.id);
    showMessage("No connection: the result was probably not recorded. Try again; recording it twice is harmless.", "bad");
  }
  refresh();
}

// Implausible values are recorded only if the user confirms them.
async function postWithConfirmation(url, body, button) {
  const answer = await post(url, body, button);
  if (answer?.type !== "ImplausibleValueError" || !confirm(`${answer.error}\n\nIs it right?`)) return answer;
  return post(url, { ...body, confirm: true }, button);
}

// Correct or retract a recorded result.
async function changeResult(event) {
  const button = event.target.closest(".change button");
  if (!button) return;
  const row = button.closest("tr"), eventNumber = Number(row.dataset.event), label = row.cells[1].textContent.trim();
  const warning = "A result that is changed because of its value makes every claim void.";
  let answer;
  if (button.dataset.do === "retract") {
    if (!confirm(`Retract the result of ${label} (event ${eventNumber})?\n\n${warning}`)) return;
    answer = await post("./retract", { event: eventNumber }, button);
  } else {
    const input = prompt(`The right result of ${label} (event ${eventNumber}):\n\n${warning}`, row.cells[2].textContent.trim());
    if (input === null) return;
    try {
      answer = await postWithConfirmation("./correct", { event: eventNumber, value: parseNumber(input) }, button);
    } catch (error) {
      answer = { ok: false, error: error.message };
    }
  }
  showMessage(answer?.ok ? `Event ${eventNumber} is changed.` : answer ? answer.error : "No connection: try again.", answer?.ok ? "good" : "bad");
  refresh();
}

async function ask(event) {
  event.preventDefault();
  const name = user?.client || nameInput.value.trim();
  if (!name) {
    showMessage("Please enter your name first: the query is kept under it.", "bad");
    nameInput.focus();
    return;
  }
  const answer = await post("./ask", { n: 1, client: name }, askForm.querySelector("button"));
  if (answer?.ok) {
    if (!user?.client) stored.name = name;
    addOwnQuery(answer.body.queries[0]);
  } else if (answer) {
    showMessage(answer.error, "bad");
    if (stored.name === name) stored.name = "";
    user = null;  // the login may have changed: `refresh` fetches the user again
  } else {
    showMessage("No connection. Ask again: if a query was handed out, you get the same one.", "bad");
  }
  refresh();
}

// Add a query that was handed out to this page, and select it unless there is input for another one.
function addOwnQuery(given) {
  const components = given.components.map(labelText), text = given.is_action ? components.join(", ") : labelText(given.label);
  ownQueries.set(given.id, { id: given.id, text, parts: given.is_action ? components : null, received: performance.now() });
  updateOptions();
  const canSelect = !hasInput() || query.value === String(given.id);
  if (canSelect) select(given.id);
  showMessage(`Please measure ${cut(text, 300)} (query ${given.id}).${canSelect ? "" : " Your input is kept: choose what it belongs to."}`, "good");
}

function prepareForms() {
  listedOptions = [...query.options].slice(1);
  nameInput.value = stored.name;
  form.addEventListener("submit", tell);
  query.addEventListener("change", updateFields);
  askForm.addEventListener("submit", ask);
  askForm.hidden = false;
  updateOptions();
  select("");
}
