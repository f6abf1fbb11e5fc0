// What the page shows. Text of agents is Markdown or text, never HTML.

import { commandsOf } from "./conversation.js";
import { make, makeCopyButton, showElements } from "./elements.js";
import { render } from "./markdown.js";
import { objectsIn, textOfValue, WAITING } from "./protocol.js";
import { localUrl } from "./server.js";
import { showTimeline } from "./timeline.js";
import { words } from "./words.js";

const BIDI_CONTROLS = /[\u202a-\u202e\u2066-\u2069]/g; // characters that turn a text around: a file's name could seem to end otherwise
const CHANGING_TURNS = 3; // the last ones: one that was asked may end while another is answered
const MAX_LINES = 2000; // of the log
const MAX_FRAMES = 1000; // of a request: the last ones
const MAX_EXCHANGES = 200; // while a task runs elsewhere, the page asks for it every second

/** Show what to do, in a place where there is nothing yet. */
export function showHint(place, name) {
  place.replaceChildren(make("p", { className: "hint", textContent: words(name) }));
}

// Elements of a reply's texts, by text: those of the reply as it was, and as it becomes. What has not changed is not
// rendered again while the reply grows.
let former = new Map();
let current = new Map();

/** An agent's text. isSource: as it was written. */
function showText(text, isSource) {
  if (isSource) return make("p", { textContent: text });
  const element = former.get(text)?.pop() ?? render(text);
  current.set(text, [...(current.get(text) ?? []), element]);
  return element;
}

/** Show who answers, before the first message. */
function showWelcome(place, card) {
  place.replaceChildren(
    make(
      "div",
      { className: "hint welcome" },
      card?.name ? make("h2", { textContent: card.name }) : null,
      card?.description ? make("p", { textContent: card.description }) : null,
      make("p", { className: "how", textContent: words("welcome") }),
    ),
  );
}

/** Show the conversation's messages. isSource: texts are not Markdown. card: the agent's, or null. */
export function showMessages(place, conversation, isSource, card) {
  if (!conversation.turns.length) {
    showWelcome(place, card);
    return;
  }
  const { turns } = conversation;
  if (place.firstElementChild?.dataset.id !== turns[0].message.messageId) place.replaceChildren();
  const shown = [...place.children]; // of each turn its message and its reply
  for (const element of shown.slice(2 * turns.length)) element.remove();
  const first = Math.max(0, Math.min(shown.length / 2, turns.length - CHANGING_TURNS));
  for (const [index, turn] of [...turns.entries()].slice(first)) {
    if (!shown[2 * index]) place.append(ownOf(turn));
    // What has not changed stays, because the reader may have selected some of it, or have the focus in it.
    const state = stateText(turn, isSource);
    const shownReply = shown[2 * index + 1];
    if (shownReply?.state === state) continue;
    [former, current] = [shownReply?.texts ?? new Map(), new Map()];
    const reply = Object.assign(replyOf(turn, isSource), { state, texts: current });
    if (shownReply) shownReply.replaceWith(reply);
    else place.append(reply);
  }
}

/** What the user has sent. */
function ownOf(turn) {
  const parts = turn.message.parts.filter((part) => part.text !== ""); // a call of a skill may have no words
  const own = make("article", { className: "message own" }, ...parts.map((part) => showPart(part, true)), intentOf(turn));
  own.dataset.id = turn.message.messageId;
  own.append(make("div", { className: "actions" }, actionOf("edit"), actionOf("retry")));
  return own;
}

/** A text that changes when anything that is shown of a reply does. Of files it has only the ends. */
function stateText({ steps, artifacts, reply, metadata, error, state }, isSource) {
  const shorten = (name, value) => (name === "raw" && typeof value === "string" ? [value.length, value.slice(-200)] : value);
  return JSON.stringify([isSource, steps, artifacts, reply, metadata, error, state], shorten);
}

/** Whether the end of what scrolls in a place is in view. */
export function endsInView(place) {
  return place.scrollHeight - place.scrollTop - place.clientHeight < 60;
}

function actionOf(name) {
  const button = make("button", { type: "button", textContent: words(name) });
  button.dataset.action = name;
  return button;
}

function intentOf(turn) {
  const [intent] = objectsIn(turn.message.metadata?.intentInfos); // another client may have written it
  if (!intent) return null;
  const values = objectsIn(intent.slots).map((slot) => `${textOfValue(slot.name)}=${textOfValue(slot.value)}`).join(", ");
  return make("span", { className: "chip", textContent: `${textOfValue(intent.intent)}(${values})` });
}

function replyOf(turn, isSource) {
  const steps = turn.steps.length
    ? make("ol", { className: "steps" }, ...turn.steps.map((step) => make("li", { textContent: stepText(step) })))
    : null;
  const artifacts = turn.artifacts.flatMap((artifact) => [
    artifact.name ? make("div", { className: "name", textContent: artifact.name }) : null,
    ...artifact.parts.map((part) => showPart(part, isSource)),
  ]);
  const question = WAITING.includes(turn.state) ? "question" : "";
  const reply = turn.reply.length ? make("div", { className: question }, ...turn.reply.map((part) => showPart(part, isSource))) : null;
  const commands = commandsOf(turn).map((command) => {
    const values = Object.entries(parametersOf(command)).map(([name, value]) => `${name}=${textOfValue(value)}`).join(", ");
    return make("span", { className: "chip", textContent: `${words("command")}: ${textOfValue(command.name)}(${values})` });
  });
  const error = turn.error ? make("p", { className: "error", textContent: turn.error }) : null;
  const state = make("div", { className: `name state ${turn.state}`, textContent: stateWords(turn) || (error ? "" : "…") });
  return make("article", { className: "message" }, steps, ...artifacts, reply, ...commands, error, state);
}

function stateWords({ state }) {
  return words(state) ?? state;
}

const MARKS = { started: "▷", ended: "✓", failed: "✗" };

function operationText({ kind, name, state, until }) {
  if (kind === "step") return `${MARKS[state] ?? ""} ${name}`;
  const what = kind === "sleep" ? words("sleeps") : `${words("waitsFor")} ${name}`;
  if (state !== "started") return `▶ ${what}`;
  return until ? `⏸ ${what} → ${new Date(until).toLocaleString()}` : `⏸ ${what}`;
}

function stepText(step) {
  if (step.operation) return operationText(step.operation);
  return step.stage ? `${step.text} (${textOfValue(step.stage)})` : step.text;
}

let bucketUrl = ""; // what the urls of the deployment's files begin with

export function showFilesOf(url) {
  bucketUrl = url;
}

const urls = new WeakMap(); // of files, by their parts
const media = new WeakMap(); // elements that show files, by their parts: what is open or plays stays so

function urlOf(part, type) {
  if (!urls.has(part)) {
    const text = atob(part.raw.replaceAll("-", "+").replaceAll("_", "/"));
    const bytes = Uint8Array.from(text, (char) => char.charCodeAt(0));
    urls.set(part, { url: URL.createObjectURL(new Blob([bytes], { type })), size: bytes.length });
  }
  return urls.get(part);
}

/** A picture, a sound, a film or a PDF; null for other files. Only these types are shown, because no browser runs
 * what is in them as a part of the page. */
function showMedia(type, url, name) {
  const [kind] = type.split("/");
  if (kind === "image") return make("img", { src: url, alt: name, onerror: (event) => event.target.remove() }); // its url has expired
  if (kind === "audio" || kind === "video") return make(kind, { src: url, controls: true, preload: "metadata", ariaLabel: name });
  if (type !== "application/pdf") return null;
  const details = make("details", {}, make("summary", { textContent: words("showPdf") }));
  details.addEventListener("toggle", () => details.querySelector("iframe") ?? details.append(make("iframe", { src: url, title: name })));
  return details;
}

/** A number of bytes in the unit that a reader expects. */
function sizeText(bytes) {
  if (bytes < 1000) return `${bytes} B`;
  const [size, unit] = bytes < 999_500 ? [bytes / 1000, "KB"] : [bytes / 1_000_000, "MB"];
  return `${size < 9.95 ? size.toFixed(1) : Math.round(size)} ${unit}`;
}

function showPart(part, isSource) {
  if (part.text !== undefined) return showText(part.text, isSource);
  if (part.data !== undefined) return make("pre", { textContent: JSON.stringify(part.data, null, 2) });
  const name = (part.filename || part.url || "file").replace(BIDI_CONTROLS, "");
  if (part.raw !== undefined) {
    const type = part.mediaType ?? "application/octet-stream";
    const { url, size } = urlOf(part, type);
    // An SVG may hold scripts, but not those that an <img> runs.
    if (!media.has(part)) media.set(part, showMedia(type, url, name));
    const link = make("a", { href: url, download: name, textContent: `${name} (${type}, ${sizeText(size)})` });
    return make("div", { className: "file" }, media.get(part), link);
  }
  if (part.url !== undefined) {
    const safe = /^https?:/i.test(part.url) && URL.canParse(part.url);
    const link = safe
      ? make("a", { href: part.url, target: "_blank", rel: "noopener noreferrer", textContent: name })
      : make("span", { textContent: name });
    // Pictures, sounds and films of the deployment's own bucket are shown. Nothing is read from elsewhere unasked.
    if (safe && bucketUrl && part.url.startsWith(bucketUrl)) {
      const type = part.mediaType ?? "";
      const source = localUrl("file", { url: part.url });
      if (!media.has(part)) media.set(part, type === "application/pdf" ? null : showMedia(type, source, name));
      return make("div", { className: "file" }, media.get(part), link);
    }
    return make("p", {}, link, safe && name !== part.url ? make("span", { className: "host", textContent: ` (${new URL(part.url).host})` }) : null);
  }
  return make("p", { className: "name", textContent: `${name}: ${words("notStored")}` });
}

export function showTask(place, turn) {
  if (!turn?.taskId) {
    showHint(place, "noTask");
    return;
  }
  const rows = [
    [words("state"), make("span", { className: `state ${turn.state}`, textContent: stateWords(turn) })],
    [words("id"), turn.taskId],
    [words("context"), turn.contextId],
    [words("version"), turn.version],
    [words("updated"), turn.updated ?? ""],
  ];
  const list = make("dl", {}, ...rows.flatMap(([name, value]) => [make("dt", { textContent: name }), make("dd", {}, value)]));
  const steps = turn.steps.map((step) => make("li", { textContent: stepText(step) }));
  showElements(place, [
    list,
    ...[showTimeline(turn)].filter(Boolean),
    ...(turn.spans ? [make("h2", { textContent: words("spans") }), make("pre", { className: "spans", textContent: turn.spans.join("\n\n") })] : []),
    ...(steps.length ? [make("h2", { textContent: words("steps") }), make("ol", {}, ...steps)] : []),
    ...(turn.artifacts.length ? [make("h2", { textContent: words("artifacts") })] : []),
    ...turn.artifacts.flatMap((artifact) => [
      make("div", { className: "name", textContent: `${artifact.artifactId} ${artifact.name ?? ""}` }),
      make("pre", { textContent: JSON.stringify(withoutBytes(artifact), null, 2) }),
    ]),
  ]);
}

function withoutBytes(artifact) {
  const parts = artifact.parts.map((part) =>
    part.raw?.length > 200 ? { ...part, raw: `${part.raw.slice(0, 40)}… (${part.raw.length})` } : part,
  );
  return { ...artifact, parts };
}

/** Add a record of a call to the list of requests. Returns the exchange that the next records belong to. */
export function showRecord(place, exchange, record) {
  if (record.kind === "request") {
    place.querySelector(".hint")?.remove();
    exchange = make("details", { className: "exchange" });
    exchange.append(make("summary", { textContent: `${record.method} ${record.url}` }));
    exchange.append(make("h3", {}, words("request"), makeCopyButton("copyCurl", record.curl)), make("pre", { textContent: withHeaders(record.headers, record.body) }));
    place.prepend(exchange);
    if (place.children.length > MAX_EXCHANGES) place.lastElementChild.remove();
  } else if (!exchange) {
    return exchange;
  } else if (record.kind === "response") {
    exchange.querySelector("summary").append(make("span", { textContent: ` → ${record.status}, ${record.at} ms` }));
    exchange.append(make("h3", { textContent: words("response") }));
    exchange.append(make("pre", { textContent: withHeaders({ status: record.status, ...record.headers }, "") }));
  } else if (record.kind === "body") {
    exchange.append(make("h3", { textContent: words("body") }), make("pre", { textContent: pretty(record.text) }));
  } else if (record.kind === "frame") {
    if (!exchange.querySelector(".frame")) exchange.append(make("h3", { textContent: words("frames") }));
    const time = make("time", { textContent: `${record.at} ms` });
    const frames = exchange.getElementsByClassName("frame");
    if (frames.length >= MAX_FRAMES) frames[0].remove();
    exchange.append(make("div", { className: "frame" }, time, make("pre", { textContent: record.text })));
  } else if (record.kind === "error") {
    exchange.append(make("p", { className: "error", textContent: record.message }));
  }
  return exchange;
}

function withHeaders(headers, body) {
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}`);
  return body ? `${lines.join("\n")}\n\n${pretty(body)}` : lines.join("\n");
}

function pretty(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

export function showLine(place, entry, task) {
  const atEnd = endsInView(place);
  const time = make("time", { textContent: new Date(entry.at).toLocaleTimeString() });
  const level = make("span", { className: entry.level, textContent: entry.level });
  const line = make("li", {}, time, " ", level, ` ${entry.logger}: ${entry.message}`);
  if (entry.spans) line.append(make("pre", { textContent: entry.spans }));
  if (entry.trace) line.append(make("pre", { className: "error", textContent: entry.trace }));
  line.dataset.task = entry.task ?? "";
  line.classList.toggle("here", Boolean(task) && entry.task === task);
  const list = place.querySelector("ol");
  list.append(line);
  if (list.children.length > MAX_LINES) list.firstChild.remove();
  if (atEnd) place.scrollTop = place.scrollHeight;
}

/** Mark the lines of a task. */
export function markLines(place, task) {
  for (const line of place.querySelectorAll("li")) line.classList.toggle("here", Boolean(task) && line.dataset.task === task);
}

/** Parameters of a command, by name. */
function parametersOf(command) {
  return Object.fromEntries(objectsIn(command.params).map((param) => [textOfValue(param.name), param.value]));
}

/** What a command asks of a client. The page can flash. */
export function obey(command) {
  if (command.name !== "flash") return;
  document.body.style.setProperty("--flash", textOfValue(parametersOf(command).color ?? "#ffe14d"));
  document.body.classList.remove("flash");
  void document.body.offsetWidth; // the animation starts again
  document.body.classList.add("flash");
  setTimeout(() => document.body.classList.remove("flash"), 1000);
}
