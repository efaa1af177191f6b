// The page of `holdfast serve --page-listen`. It only reads: api/state, api/decisions, api/plan.
"use strict";

const STATE_EVERY = 2000, DECISIONS_EVERY = 1000, DECISIONS_KEPT = 200;
const SIGNS = { healthy: "", broken: "×", leaving: "–", unresolved: "?" };

const byId = (id) => document.getElementById(id);
const budgets = byId("budgets"), details = byId("details");

let state = { report: { budgets: [] }, nodes: [] };
let version = 0;
let shown = null;             // The place of the cell whose details are shown.
let pinned = null;            // That of the one whose details stay.
let planned = new Set();      // Replicas and pods that the plan takes, as namespace/name.
const chosen = new Set();     // Nodes.

/// An element with attributes and children; texts are texts, whatever is in them.
function el(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value != null) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child != null && child !== false));
  return element;
}

const count = (n, what) => `${n} ${what}${n === 1 ? "" : "s"}`;
const keyOf = (budget) => `${budget.kind}/${budget.namespace}/${budget.name}`;

async function fetchJson(path) {
  const response = await fetch(path, { cache: "no-store" });
  if (!response.ok) throw new Error((await response.text()).trim() || `${path}: ${response.status}`);
  return response.json();
}

function show(problem) {
  byId("problem").textContent = problem || "";
  byId("problem").hidden = !problem;
}

// What a budget counts: replicas, and pods that are in none.
function units(budget) {
  const replicas = budget.replicas.map((replica) => ({ ...replica, isReplica: true }));
  const pods = budget.pods.map((pod) => ({ name: pod.name, state: podState(pod), healthy: +pod.healthy, pods: [pod] }));
  return replicas.concat(pods);
}

const podState = (pod) => (pod.healthy ? "healthy" : pod.state === "terminating" ? "leaving" : "broken");
const isGranted = (unit) => unit.pods.some((pod) => pod.granted);

function label(unit) {
  const granted = isGranted(unit) ? ", eviction granted" : "";
  if (!unit.isReplica) return `pod ${unit.name}: ${unit.pods[0].state}${granted}`;
  const needs = unit.needs == null ? "" : `, needs ${unit.needs}`;
  return `${unit.name}: ${unit.state}, ${unit.healthy} of ${count(unit.pods.length, "pod")} healthy${needs}${granted}`;
}

function matches(budget, unit, text) {
  const words = [budget.namespace, budget.name, unit.name].concat(unit.pods.flatMap((pod) => [pod.name, pod.node || ""]));
  return words.some((word) => word.toLowerCase().includes(text));
}

function draw() {
  const text = byId("filter").value.trim().toLowerCase(), onlyBlocked = byId("blocked").checked;
  const old = new Map([...budgets.children].map((card) => [card.dataset.key, card]));
  let before = null;
  for (const budget of state.report.budgets) {
    const all = units(budget);
    const named = `${budget.namespace}/${budget.name}`.toLowerCase().includes(text);
    const found = all.filter((unit) => named || matches(budget, unit, text));
    if ((text && !named && !found.length) || (onlyBlocked && budget.disruptionsAllowed > 0)) continue;
    const key = keyOf(budget);
    const card = old.get(key) || el("article", { "data-key": key });
    old.delete(key);
    drawCard(card, budget, all, new Set(found));
    // Those that stay where they are keep the focus that may be in them.
    const next = before ? before.nextSibling : budgets.firstChild;
    if (next !== card) budgets.insertBefore(card, next);
    before = card;
  }
  for (const card of old.values()) card.remove();
  if (!budgets.children.length) {
    const why = state.report.budgets.length ? "No budget is like that." : "There are no budgets.";
    budgets.append(el("article", { "data-key": "" }, why));
  }
  drawSummary();
  if (pinned || shown) showDetails(pinned || shown);
}

function drawSummary() {
  const all = state.report.budgets, blocked = all.filter((budget) => budget.disruptionsAllowed <= 0).length;
  const broken = all.flatMap(units).filter((unit) => unit.state === "broken" || unit.state === "unresolved").length;
  const grants = all.reduce((sum, budget) => sum + budget.grants.length, 0);
  byId("summary").textContent = `${count(all.length, "budget")}, ${blocked} without room; ` +
    `${broken} of what they count is not healthy; ${count(grants, "eviction")} in flight; as of ${state.asOf || "?"}`;
}

function verdict(budget) {
  const unit = budget.unit, has = `needs ${budget.desired} of ${count(budget.expected, unit)} healthy and has ${budget.healthy}`;
  if (budget.failure) return `fails closed: ${budget.failure}`;
  if (budget.canNeverAllow) return `${has}: it can never allow a ${unit} to be disrupted`;
  if (budget.disruptionsAllowed > 0) return `${has}: allows ${budget.disruptionsAllowed}`;
  return `${has}: allows none now`;
}

function drawCard(card, budget, all, found) {
  const cells = card.querySelector(".cells") || el("div", { class: "cells", role: "group", onkeydown: moveFocus });
  drawCells(cells, budget, all, found);
  const wrong = budget.conditions.filter((condition) => condition.status === "False" && condition.message);
  const head = [
    el("h3", {}, `${budget.namespace}/${budget.name}`,
      el("span", { class: "faint" }, `  ${budget.kind} ${budget.apiVersion}, ${budget.threshold}, counts ${budget.unit}s`)),
    el("p", { class: budget.disruptionsAllowed > 0 ? "verdict" : "verdict bad" }, verdict(budget)),
    ...wrong.map((condition) => el("p", { class: "faint" }, `${condition.type} ${condition.reason}: ${condition.message}`)),
    ...budget.grants.map((grant) => el("p", {}, `• in flight: pod ${grant.pod}`, grant.replica && ` of ${grant.replica}`,
      `, by ${grant.by || "somebody"}, since ${grant.grantedAt}, cost ${grant.cost}`)),
  ];
  for (const child of [...card.children]) if (child !== cells) child.remove();
  if (!cells.parentNode) card.append(cells);
  cells.before(...head);
  cells.setAttribute("aria-label", `${count(all.length, budget.unit)} of ${budget.namespace}/${budget.name}`);
}

function drawCells(cells, budget, all, found) {
  const old = new Map([...cells.children].map((cell) => [cell.dataset.unit, cell]));
  const wanted = all.map((unit) => {
    const cell = old.get(unit.name) || el("button", { type: "button", "data-unit": unit.name, tabindex: -1 });
    old.delete(unit.name);
    const granted = isGranted(unit), goes = planned.has(`${budget.namespace}/${unit.name}`);
    cell.className = ["cell", unit.state, granted && "granted", goes && "planned", !found.has(unit) && "dim"].filter(Boolean).join(" ");
    const text = granted ? "•" : SIGNS[unit.state] || "";
    if (cell.textContent !== text) cell.textContent = text;
    const says = label(unit) + (goes ? ", would go" : "");
    if (cell.getAttribute("aria-label") !== says) cell.setAttribute("aria-label", says);
    return cell;
  });
  for (const cell of old.values()) cell.remove();
  wanted.forEach((cell, index) => {
    if (cells.children[index] !== cell) cells.insertBefore(cell, cells.children[index] || null);
  });
  // One stop for Tab; from there by arrow keys.
  if (wanted.length && !wanted.some((cell) => cell.tabIndex === 0)) wanted[0].tabIndex = 0;
}

function moveFocus(event) {
  const cell = event.target.closest(".cell");
  if (!cell) return;
  const cells = [...event.currentTarget.children], at = cells.indexOf(cell);
  const perRow = cells.findIndex((other) => other.offsetTop > cells[0].offsetTop);
  const row = perRow > 0 ? perRow : cells.length;
  const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: row, ArrowUp: -row, Home: -at, End: cells.length - 1 - at };
  const next = cells[at + steps[event.key]];
  if (!(event.key in steps)) return;
  event.preventDefault();
  if (!next || next === cell) return;
  cell.tabIndex = -1;
  next.tabIndex = 0;
  next.focus();
}

const placeOf = (cell) => ({ budget: cell.closest("article").dataset.key, unit: cell.dataset.unit });

const isSame = (one, other) => other && one.budget === other.budget && one.unit === other.unit;

function showDetails(place) {
  const budget = state.report.budgets.find((one) => keyOf(one) === place.budget);
  const unit = budget && units(budget).find((one) => one.name === place.unit);
  if (!unit) {
    details.replaceChildren(el("h2", {}, place.unit), el("p", { class: "faint" }, "It is gone."));
    return;
  }
  const rows = unit.pods.map((pod) => el("tr", {},
    el("td", {}, pod.name), el("td", {}, pod.node || "no node"),
    el("td", { class: pod.healthy ? "" : "bad" }, pod.state, pod.granted && ", eviction granted")));
  const head = el("tr", {}, ...["Pod", "Node", "State"].map((name) => el("th", { scope: "col" }, name)));
  details.replaceChildren(
    el("h2", {}, unit.name, el("span", { class: "faint" }, `  ${budget.namespace}/${budget.name}`)),
    el("p", { class: unit.state === "healthy" ? "" : "bad" }, label(unit)),
    unit.why ? el("p", {}, unit.why) : "",
    el("table", {}, el("tbody", {}, head, ...rows)),
    pinned ? el("p", {}, el("button", { type: "button", onclick: unpin }, "Let go")) : "");
}

function unpin() {
  pinned = null;
  details.querySelector("button")?.parentNode.remove();
}

for (const kind of ["pointermove", "focusin"]) {
  budgets.addEventListener(kind, (event) => {
    // When cells are scrolled under it, a mouse that rests points at nothing.
    if (kind === "pointermove" && !event.movementX && !event.movementY) return;
    const cell = event.target.closest(".cell");
    if (!cell || pinned) return;
    const place = placeOf(cell);
    if (!isSame(place, shown)) showDetails(place);
    shown = place;
  });
}
budgets.addEventListener("click", (event) => {
  const cell = event.target.closest(".cell");
  if (!cell) return;
  const place = placeOf(cell);
  pinned = isSame(place, pinned) ? null : place;
  shown = place;
  showDetails(place);
});
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && pinned) unpin();
});

function drawNodes() {
  const nodes = byId("nodes"), names = new Set(state.nodes.map((node) => node.name));
  for (const name of chosen) if (!names.has(name)) chosen.delete(name);
  const old = new Map([...nodes.querySelectorAll("tr[data-node]")].map((row) => [row.dataset.node, row]));
  const table = nodes.querySelector("tbody") || nodes.appendChild(el("table", {}, el("tbody", {}))).firstChild;
  state.nodes.forEach((node, index) => {
    const row = old.get(node.name) || nodeRow(node.name);
    old.delete(node.name);
    const is = [node.ready ? "ready" : "not ready", node.cordoned && "cordoned", count(node.pods, "pod")].filter(Boolean).join(", ");
    row.children[1].textContent = is;
    row.children[1].className = node.ready ? "faint" : "bad";
    if (table.children[index] !== row) table.insertBefore(row, table.children[index] || null);
  });
  for (const row of old.values()) row.remove();
  byId("ask").disabled = !chosen.size;
}

function nodeRow(name) {
  const choose = (event) => {
    if (event.target.checked) chosen.add(name); else chosen.delete(name);
    byId("ask").disabled = !chosen.size;
  };
  return el("tr", { "data-node": name },
    el("td", {}, el("label", {}, el("input", { type: "checkbox", onchange: choose }), ` ${name}`)),
    el("td", { class: "faint" }),
    el("td", {}, el("button", { type: "button", onclick: () => ask([name]), "aria-label": `What if I drain ${name}?` }, "What if?")));
}

async function ask(nodes) {
  const flags = ["ignore-daemonsets", "delete-emptydir-data", "force"].filter((flag) => byId(flag).checked);
  const query = nodes.map((node) => `node=${encodeURIComponent(node)}`).concat(flags.map((flag) => `${flag}=true`)).join("&");
  const plan = byId("plan");
  plan.replaceChildren(el("p", { class: "faint" }, "Planning…"));
  try {
    const answer = await fetchJson(`api/plan?${query}`);
    const goes = answer.plan.waves.flatMap((wave) => wave.units).concat(answer.plan.blocked.map((one) => one.unit));
    planned = new Set(goes.map((unit) => `${unit.namespace}/${unit.name}`));
    const command = ["holdfast drain", ...nodes, ...flags.map((flag) => `--${flag}`)].join(" ");
    plan.replaceChildren(
      el("p", { class: answer.canBeDrained ? "verdict" : "verdict bad" }, answer.text.split("\n")[0]),
      el("pre", { tabindex: 0, "aria-label": "Plan" }, answer.text.split("\n").slice(1).join("\n")),
      el("p", {}, "To do it: ", el("code", {}, command)));
  } catch (error) {
    planned = new Set();
    plan.replaceChildren(el("p", { class: "bad" }, error.message));
  }
  byId("forget").hidden = false;
  draw();
}

byId("ask").addEventListener("click", () => ask([...chosen]));
byId("forget").addEventListener("click", () => {
  planned = new Set();
  byId("plan").replaceChildren();
  byId("forget").hidden = true;
  draw();
});
for (const id of ["filter", "blocked"]) byId(id).addEventListener("input", draw);

let last = 0;
function drawDecisions(decisions) {
  const list = byId("decisions");
  for (const decision of decisions) {
    last = Math.max(last, decision.number);
    const says = decision.message || `${decision.reason}${decision.budgets.length ? `, recorded in ${decision.budgets.join(", ")}` : ""}` +
      (decision.cost ? `, cost ${decision.cost}` : "");
    const same = list.firstChild && list.firstChild.dataset.same === `${decision.pod} ${says}`;
    const times = same ? Number(list.firstChild.dataset.times) + 1 : 1;
    if (same) list.firstChild.remove();
    const dry = decision.dryRun ? " (dry run)" : "", again = times > 1 ? `, ${times} times` : "";
    list.prepend(el("li", { "data-same": `${decision.pod} ${says}`, "data-times": times },
      el("span", { class: decision.allowed ? "verdict" : "verdict bad" }, decision.allowed ? "✓ allowed" : "✗ denied"),
      ` ${decision.operation} ${decision.pod}${dry}${again}`,
      el("span", { class: "faint" }, ` ${decision.at}, by ${decision.by || "somebody"}`),
      el("br"), says));
  }
  while (list.children.length > DECISIONS_KEPT) list.lastChild.remove();
  byId("quiet").hidden = list.children.length > 0;
}

async function readState() {
  const answer = await fetchJson(`api/state?version=${version}`);
  show(answer.problem && `The cluster cannot be read: ${answer.problem}. Shown is what was seen last.`);
  if (answer.state) {
    state = answer.state;
    version = answer.version;
  }
  state.asOf = answer.asOf;
  if (answer.state) {
    drawNodes();
    draw();
  }
  drawSummary();
}

async function readDecisions() {
  const { decisions } = await fetchJson(`api/decisions?after=${last}`);
  if (decisions.length) drawDecisions(decisions);
}

// Nobody looks at a hidden page, so nothing is read for it.
async function repeat(read, every) {
  for (;;) {
    if (!document.hidden) {
      try {
        await read();
      } catch (error) {
        show(`Holdfast does not answer: ${error.message}. Shown is what was seen last.`);
        // A server that was started anew counts anew.
        [version, last] = [0, 0];
      }
    }
    await new Promise((done) => setTimeout(done, every));
  }
}
repeat(readState, STATE_EVERY);
repeat(readDecisions, DECISIONS_EVERY);
