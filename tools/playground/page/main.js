// The page: reads what can be called, sends messages, and shows what comes back.

import { showCard } from "./card.js";
import { choicesOf, Conversation, commandsOf, endWaits, pauses, waits } from "./conversation.js";
import { makeButton } from "./elements.js";
import { History, readContext } from "./history.js";
import { formSlots, readSlots, schemasOf, showParameters } from "./parameters.js";
import { objectsIn, STOPPED, textOf, textOfValue, WAITING } from "./protocol.js";
import { askSchedules, followLog, readConfig, Refused, run, upload } from "./server.js";
import { endsInView, markLines, obey, showFilesOf, showHint, showLine, showMessages, showRecord, showTask } from "./views.js";
import { preferredLanguage, translate, words } from "./words.js";

const FILES_BYTES = 3_300_000; // as base64, what a deployed stack takes in one request
const CONTENTS = ["text", "raw", "url", "data"]; // of parts: one without any is a file that was too large to keep
const GONE_CODES = [-32001, 404]; // of a task that does not exist: over JSON-RPC, and over HTTP+JSON
const POLL_MS = 1000;
const REST_MS = 5000; // between looks at a task that pauses or waits
const MAX_PAINT_PAUSE_MS = 1000;
const SPOKEN_MS = 1000; // after which a text for a screen reader is out of the reader's way

const $ = (id) => document.getElementById(id);

let config = null;
let card = null;
let findings = []; // of a check of the card
let conversation = null;
let running = null; // AbortController of the call that is running
let composing = false; // files of the next message are read and uploaded
let reads = 0; // of cards: an answer that a later read overtakes is not shown
let polling = null; // what asks for a turn's task again and again: { turn }
let attached = []; // files of the next message
let unspoken = null; // turn whose answer a screen reader has not read yet
let spoken = ""; // what it was given last
let isLeaving = false; // the browser leaves the page, and ends its calls
const history = new History($("history"), () => target(), openContext);

// ---- what can be called -------------------------------------------------------------------------------------

async function start() {
  const language = localStorage.getItem("language") ?? preferredLanguage();
  $("language").value = language;
  $("theme").value = localStorage.getItem("theme") ?? "";
  $("source").checked = Boolean(localStorage.getItem("source"));
  document.documentElement.dataset.theme = $("theme").value;
  translate(language);
  openView(matchMedia("(min-width: 900px)").matches ? "task" : "chat");
  await readAgain();
  followLog(
    (entry) => {
      showLine($("log"), entry, conversation?.last?.taskId);
      if (entry.spans && conversation?.noteSpans(entry.task, entry.spans)) show();
    },
    readAgain, // it may have other agents now
  );
}

async function readAgain() {
  try {
    const found = await readConfig();
    const first = config === null;
    config = found;
    showFilesOf(config.files);
    $("target").textContent = `${config.title}: ${config.url}`;
    $("tab-log").hidden = !config.hasLog;
    report(config.error);
    fill($("agent"), config.agents.map((name) => [name, name || config.url]), localStorage.getItem("agent"));
    fillVersions();
    // A key belongs to one target: the next one may be served at the same port.
    if (first) $("key").value = sessionStorage.getItem(`key:${config.url}`) ?? config.key;
  } catch (error) {
    report(error instanceof Refused ? error.message : words("noAnswer"));
    return;
  }
  if (!running) await openAgent();
}

function fill(select, options, chosen) {
  const value = select.value || chosen;
  select.replaceChildren(...options.map(([id, title]) => new Option(title, id)));
  if (options.some(([id]) => id === value)) select.value = value;
}

/** The versions; platforms have names in the reader's language. */
function fillVersions() {
  const options = config.versions.map(({ id, title }) => [id, words(`version:${id}`) ?? title]);
  fill($("version"), options, localStorage.getItem("version"));
}

async function openAgent() {
  const agent = $("agent").value;
  localStorage.setItem("agent", agent);
  const opened = new Conversation(`${config.url}:${agent}`);
  if (conversation?.place !== opened.place) conversation = opened;
  show();
  await readCard();
  const last = conversation.last;
  if (last?.taskId && !STOPPED.includes(last.state) && !running) await resume();
}

/** Show the chat, on a narrow page instead of another view. */
function openChat() {
  if ($("chat").hidden) openView("chat");
}

async function readCard() {
  const read = ++reads;
  [card, findings] = [null, []];
  let [answer, problem, schedules] = [null, config.error, []];
  let shown = null;
  try {
    for await (const record of run({ ...target(), operation: "card" })) {
      shown = showRecord($("requests"), shown, record);
      if (record.kind === "result") answer = record;
      if (record.kind === "error") problem = record.message;
    }
    if (config.hasSchedules) ({ schedules = [] } = await askSchedules({}));
  } catch {
    problem = words("noAnswer");
  }
  if (read !== reads) return; // another agent, version or key was chosen meanwhile
  [card, findings] = [answer?.result ?? null, answer?.findings ?? []];
  report(problem);
  const chosen = $("skill").value;
  const skills = objectsIn(card?.skills).map(({ id, name }) => [id, name || id]);
  $("skill").replaceChildren(new Option(words("anySkill"), ""), ...skills.map(([id, name]) => new Option(name, id)));
  if (skills.some(([id]) => id === chosen)) $("skill").value = chosen;
  openSkill(formSlots($("parameters")));
  const own = schedules.filter((schedule) => schedule.agent === $("agent").value);
  showCard($("card"), card, findings, $("version").selectedOptions[0]?.textContent ?? "", own);
  if (!$("history").hidden) history.refresh();
  show();
}

/** Open a conversation of before, and follow its last task if that still runs. */
async function openContext(contextId) {
  const isBusy = () => running && !isFollowed(conversation.last);
  if (isBusy()) return;
  const open = conversation;
  const count = open.turns.length;
  try {
    const tasks = await readContext(target(), contextId);
    if (conversation !== open || isBusy() || open.turns.length !== count) return; // something else was done meanwhile
    running?.abort();
    running = null;
    open.restore(contextId, tasks, $("version").value);
  } catch (error) {
    report(error.message);
    return;
  }
  $("messages").replaceChildren();
  isAtEnd = true;
  openChat();
  moveFocus();
  show();
  const last = conversation.last;
  if (last && !STOPPED.includes(last.state)) await resume();
}

/** Show the form of the chosen skill. slots: what is in it. */
function openSkill(slots = []) {
  const id = $("skill").value;
  showParameters($("parameters"), schemasOf(card ?? {})[id], slots);
  const skills = objectsIn(card?.skills).filter((skill) => !id || skill.id === id);
  const examples = skills.flatMap(({ examples }) => (Array.isArray(examples) ? examples.map(textOfValue) : [])).slice(0, 12);
  $("examples").replaceChildren(
    ...examples.map((text) => makeButton({ textContent: text }, () => write(text))),
  );
}

/** Put text where the next message is written. */
function write(text) {
  $("text").value = text;
  $("text").focus();
}

/** Move the focus to where the next message is written; on a touch screen, whose keyboard would cover them, to the
 * messages. */
function moveFocus() {
  $(matchMedia("(hover: none)").matches ? "messages" : "text").focus({ preventScroll: true });
}

function target(turn) {
  return { agent: $("agent").value, version: turn?.version ?? $("version").value, key: $("key").value };
}

// ---- a message ----------------------------------------------------------------------------------------------

/** Whether a message can be sent now. While the page follows a task, one may end what the task waits for. */
function isReady() {
  return !composing && (!running || isFollowed(conversation.last));
}

function isFollowed(turn) {
  return turn?.state === "working" && waits(turn);
}

async function send() {
  if (!isReady()) return;
  let message = null;
  const hasFiles = attached.length > 0;
  if (hasFiles) compose(true);
  try {
    message = await composeMessage();
  } catch (error) {
    report(error.message);
  }
  if (hasFiles) compose(false);
  if (!message || !isReady()) return; // a wait may have ended while files were read
  for (const id of ["text", "metadata"]) $(id).value = "";
  attach([]);
  showParameters($("parameters"), schemasOf(card ?? {})[$("skill").value]);
  await deliver(message);
}

/** Begin or end an upload of files, during which the page takes no input: it would be lost, or change the conversation
 * that the message is for. What it reports can be read all the while. */
function compose(isBegun) {
  composing = isBegun;
  for (const element of document.querySelectorAll("header, main")) element.inert = isBegun;
  if (!isBegun) moveFocus();
  show();
}

/** Send a message in the chosen mode, and follow its task. */
async function deliver(message) {
  report("");
  const turn = conversation.add(message, $("version").value);
  running?.abort(); // it followed the wait that this message ends
  spoken = ""; // the same answer again is another one
  show();
  isAtEnd = true;
  const streams = !card || card.capabilities?.streaming === true;
  const mode = $("mode").value === "stream" && !streams ? "wait" : $("mode").value;
  let refusal = null;
  if (mode === "stream") {
    refusal = await call(turn, "stream", { message });
    await attend(turn);
  } else {
    refusal = await call(turn, "send", { message, configuration: { returnImmediately: mode === "background" } });
    await poll(turn);
  }
  if (refusal && message.taskId) {
    for (const each of conversation.turns) if (each.taskId === message.taskId) endWaits(each);
    await lookAgain(message.taskId);
  }
  speak(turn);
}

/** Let a screen reader read what a turn has said: it is complete, pauses or waits. */
function speak(turn) {
  if (!turn.dropped) unspoken = turn;
  show();
}

/** See what became of a question, or of a wait, whose answer was refused. If it is over, the next message is no
 * answer. */
async function lookAgain(id) {
  const asked = conversation.turns.findLast((turn) => turn.taskId === id && [...WAITING, "working"].includes(turn.state));
  if (!asked || running) return;
  const refusal = await call(asked, "get", { id });
  asked.isOver = GONE_CODES.includes(refusal?.code);
  if (!asked.isOver) asked.error = "";
  conversation.saveSoon();
  show();
}

/** The message of the form; null if the form is empty. Throws with a sentence if a field is not valid. */
async function composeMessage() {
  const parts = [];
  const metadata = readMetadata();
  const text = $("text").value.trim();
  const skill = $("skill").value;
  if (skill) {
    metadata.intentInfos = [{ intent: skill, slots: readSlots($("parameters")) }];
    parts.push({ text });
  } else if (text) {
    parts.push({ text });
  }
  let room = FILES_BYTES;
  for (const file of attached) {
    if (file.size > room) {
      report(`${words("uploading")} ${file.name} …`);
      parts.push(await upload({ agent: $("agent").value, version: $("version").value, key: $("key").value }, file));
      report("");
      continue;
    }
    room -= file.size;
    parts.push({ raw: await base64(file), filename: file.name, mediaType: file.type || undefined });
  }
  if (!parts.length) return null;
  const message = { messageId: crypto.randomUUID(), role: "ROLE_USER", parts };
  return Object.keys(metadata).length ? { ...message, metadata } : message;
}

function readMetadata() {
  const text = $("metadata").value.trim();
  if (!text) return {};
  try {
    const value = JSON.parse(text);
    if (value && typeof value === "object" && !Array.isArray(value)) return value;
  } catch {
    // said below
  }
  throw new Error(words("badMetadata"));
}

/** Attach these files to the next message, and show them. */
function attach(files) {
  attached = files;
  $("attached").replaceChildren(
    ...attached.map((file) =>
      makeButton({ textContent: `${file.name} ×`, title: words("detach") }, () => {
        attach(attached.filter((other) => other !== file));
        moveFocus();
      }),
    ),
  );
  $("attached").hidden = !attached.length;
}

/** What a button beside the user's own message does: edit it, or send it again. */
function actOn(action, id) {
  const message = conversation.turns.find((turn) => turn.message.messageId === id)?.message;
  if (!message || !isReady()) return;
  if (action === "edit") {
    const [intent] = objectsIn(message.metadata?.intentInfos);
    const isKnown = [...$("skill").options].some(({ value }) => value === intent?.intent);
    $("skill").value = isKnown ? intent.intent : "";
    openSkill(objectsIn(intent?.slots));
    write(textOf(message, "\n"));
    return;
  }
  if (message.parts.some((part) => !CONTENTS.some((name) => part[name] !== undefined))) {
    report(words("fileGone"));
    return;
  }
  const { contextId, taskId, ...again } = structuredClone(message); // those of the conversation as it is now
  deliver({ ...again, messageId: crypto.randomUUID() });
}

function base64(file) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result.slice(reader.result.indexOf(",") + 1));
    reader.onerror = () => reject(new Error(`${file.name}: ${reader.error.message}`));
    reader.readAsDataURL(file);
  });
}

/** Run an operation for a turn, and show what comes. Returns the error with which the server refused it, or null. */
async function call(turn, operation, request, after = "") {
  let refusal = null;
  const controller = new AbortController();
  const own = conversation; // another one may be opened meanwhile
  let exchange = null; // where the records of this call are shown: a cancellation runs beside a stream
  if (operation !== "cancel") running = controller;
  turn.error = "";
  turn.dropped = false;
  show();
  try {
    for await (const record of run({ ...target(turn), operation, request, after }, controller.signal)) {
      exchange = showRecord($("requests"), exchange, record);
      if (!own.turns.includes(turn)) continue; // it began anew
      if (record.kind === "event") {
        own.takeEvent(turn, record.event);
        if (record.id) own.mark(turn, record.id);
        own.saveSoon();
        if (pauses(turn)) speak(turn);
      }
      if (record.kind === "result") {
        // Pieces of a stream that still runs follow what it has brought so far, and not the task as it is now.
        const { id: taskId, contextId, status } = record.result;
        if (operation === "cancel" && running) own.takeEvent(turn, { statusUpdate: { taskId, contextId, status } });
        else own.takeResult(turn, record.result);
      }
      if (record.kind === "error") {
        turn.error = record.message;
        refusal = record;
      }
      turn.contextId = own.contextId;
      if (own === conversation) carryOut(turn);
      if (record.kind !== "frame") show(); // a comment, or what its event repeats
    }
  } catch (error) {
    if (error.name === "AbortError" || isLeaving) turn.dropped = true;
    else turn.error = words("noAnswer");
  } finally {
    if (running === controller) running = null;
    own.save();
    show();
  }
  return refusal;
}

function carryOut(turn) {
  const commands = commandsOf(turn);
  for (const command of commands.slice(turn.obeyed ?? 0)) obey(command);
  turn.obeyed = commands.length;
}

/** Ask for a task that runs in the background until it has stopped. */
async function poll(turn) {
  const own = (polling = { turn });
  show();
  while (turn.taskId && !turn.error && !turn.dropped && !STOPPED.includes(turn.state)) {
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
    if (conversation.last !== turn || running || polling !== own) break;
    await call(turn, "get", { id: turn.taskId });
    if (pauses(turn)) speak(turn);
  }
  if (polling === own) polling = null;
  show();
}

/** Follow a task whose stream has ended because it pauses or waits. */
async function attend(turn) {
  const own = (polling = { turn });
  while (turn.taskId && !turn.error && !turn.dropped && !STOPPED.includes(turn.state)) {
    show();
    await new Promise((resolve) => setTimeout(resolve, REST_MS));
    if (conversation.last !== turn || running || polling !== own) break;
    await follow(turn);
  }
  if (polling === own) polling = null;
  show();
}

async function resume() {
  const turn = conversation.last;
  await follow(turn);
  await attend(turn);
  speak(turn);
}

/** Stop following the task of the last turn, which continues. */
function drop() {
  if (running) running.abort();
  else if (polling) polling.turn.dropped = true;
  polling = null;
  show();
}

async function follow(turn) {
  await call(turn, "subscribe", { id: turn.taskId }, conversation.rewind(turn));
  if (turn.error && !STOPPED.includes(turn.state)) {
    // Some versions refuse a subscription to a task that has ended.
    const reason = turn.error;
    await call(turn, "get", { id: turn.taskId });
    if (turn.error) turn.error = reason;
  }
  show();
}

// ---- what is shown ------------------------------------------------------------------------------------------

let isDue = false;
let isAtEnd = true; // the pane shows its end, and stays there while more comes
let paintMs = 0; // how long the last paint took

/** Show the state of the page, once before the browser paints again. A long text takes long to draw, so it is drawn
 * less often while it grows. */
function show() {
  if (isDue) return;
  isDue = true;
  setTimeout(() => requestAnimationFrame(() => {
    isDue = false;
    const begin = performance.now();
    try {
      paint();
    } catch (error) {
      report(error.message); // the page stays usable
      setTimeout(() => { throw error; }); // and its console, and its tests, have the error
    }
    paintMs = performance.now() - begin;
  }), paintMs < 10 ? 0 : Math.min(4 * paintMs, MAX_PAINT_PAUSE_MS));
}

function stayAtEnd() {
  if (isAtEnd && conversation?.turns.length) $("messages").scrollTop = $("messages").scrollHeight;
}

// Only the reader scrolls up. What grows moves the end out of view, too, and fires no such event.
let lastScrollTop = 0;
$("messages").addEventListener("scroll", () => {
  const { scrollTop } = $("messages");
  if (endsInView($("messages"))) isAtEnd = true;
  else if (scrollTop < lastScrollTop) isAtEnd = false;
  lastScrollTop = scrollTop;
});
// A form or a question's buttons take their room from the messages.
new ResizeObserver(stayAtEnd).observe($("messages"));
// Pictures and players have their height when they are loaded.
for (const name of ["load", "loadedmetadata"])
  $("messages").addEventListener(name, ({ target }) => target.tagName === "IFRAME" || stayAtEnd(), true);

function paint() {
  const focused = $("chat").contains(document.activeElement) ? document.activeElement : null;
  const turn = conversation.last;
  const isOpen = Boolean(turn?.taskId) && !STOPPED.includes(turn.state);
  showMessages($("messages"), conversation, $("source").checked, card);
  stayAtEnd();
  showTask($("task"), turn);
  markLines($("log"), turn?.taskId);
  const isFollowing = Boolean(running) || (Boolean(turn) && polling?.turn === turn);
  const dropped = turn?.dropped ? words(turn.taskId ? "dropped" : "lost") : "";
  setText($("state"), dropped || (isFollowing ? `${words("running")}…` : ""));
  if (unspoken && unspoken === turn) readAloud($("messages").lastElementChild.innerText);
  unspoken = null;
  $("cancel").hidden = !isOpen;
  $("drop").hidden = !isFollowing;
  $("resume").hidden = isFollowing || !isOpen;
  showChoices(running || composing ? [] : choicesOf(turn));
  $("text").placeholder = words(turn?.state === "input-required" ? "answerQuestion" : "writeMessage");
  // Not `disabled`, which would take the focus from it.
  document.querySelector("#composer .primary").setAttribute("aria-disabled", !isReady());
  if (!$("requests").children.length) showHint($("requests"), "noRequests");
  if (focused) keepFocus(focused);
}

/** Leave the focus where it was before a paint; if that is gone, as a button is, move it. */
function keepFocus(focused) {
  const isThere = focused.isConnected && focused.checkVisibility();
  if (!isThere) moveFocus();
  else if (document.activeElement !== focused) focused.focus({ preventScroll: true }); // it was moved
}

/** Give a text to a screen reader, unless it has read it. */
function readAloud(text) {
  if (text === spoken) return;
  spoken = text;
  $("spoken").textContent = text;
  setTimeout(() => ($("spoken").textContent = ""), SPOKEN_MS);
}

/** Change a text, if it is another one: a screen reader reads what is set. */
function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Buttons that answer the question. */
function showChoices(choices) {
  const shown = [...$("choices").children].map((button) => button.textContent);
  if (JSON.stringify(shown) === JSON.stringify(choices)) return; // the focus stays where it is
  const answer = (text) => {
    if (running || composing) return; // such as after a double click
    deliver({ messageId: crypto.randomUUID(), role: "ROLE_USER", parts: [{ text }] });
  };
  $("choices").replaceChildren(...choices.map((text) => makeButton({ textContent: text }, () => answer(text))));
  $("choices").hidden = !choices.length;
}

function report(problem) {
  $("problem").textContent = problem ?? "";
  $("problem").hidden = !problem;
}

function openView(name) {
  for (const tab of document.querySelectorAll("[role=tab]")) {
    const chosen = tab.id === `tab-${name}`;
    tab.setAttribute("aria-selected", chosen);
    tab.tabIndex = chosen ? 0 : -1;
    $(tab.getAttribute("aria-controls")).hidden = !chosen;
  }
  if (name === "history") history.refresh();
  if (name === "log") $("log").scrollTop = $("log").scrollHeight;
  placeChat();
}

/** On a wide page the chat is always open. */
function placeChat() {
  const wide = matchMedia("(min-width: 900px)").matches;
  const chosen = document.querySelector("[role=tab][aria-selected=true]")?.id;
  if (wide && chosen === "tab-chat") openView("task");
  $("chat").hidden = !wide && chosen !== "tab-chat";
}

// ---- events of the page -------------------------------------------------------------------------------------

$("composer").addEventListener("submit", (event) => {
  event.preventDefault();
  send();
});
$("text").addEventListener("keydown", (event) => {
  // An Enter that ends the input of Chinese, Japanese or Korean is not for the page. Safari says so by 229.
  if (event.key !== "Enter" || event.shiftKey || event.isComposing || event.keyCode === 229) return;
  event.preventDefault();
  $("composer").requestSubmit();
});
$("text").addEventListener("paste", (event) => {
  if (event.clipboardData.files.length) attach([...attached, ...event.clipboardData.files]);
});
$("files").addEventListener("change", () => {
  attach([...attached, ...$("files").files]);
  $("files").value = "";
});
for (const name of ["dragover", "drop"]) {
  $("chat").addEventListener(name, (event) => {
    if (!event.dataTransfer.types.includes("Files")) return;
    event.preventDefault();
    if (name === "drop") attach([...attached, ...event.dataTransfer.files]);
  });
}
$("messages").addEventListener("click", (event) => {
  const button = event.target.closest("button[data-action]");
  if (button) actOn(button.dataset.action, button.closest("article").dataset.id);
});
$("agent").addEventListener("change", () => {
  running?.abort();
  openAgent();
});
$("version").addEventListener("change", () => {
  localStorage.setItem("version", $("version").value);
  readCard();
});
$("key").addEventListener("change", () => {
  sessionStorage.setItem(`key:${config.url}`, $("key").value);
  readCard();
});
$("skill").addEventListener("change", () => openSkill());
$("begin").addEventListener("click", () => {
  running?.abort();
  conversation.begin();
  $("messages").replaceChildren();
  $("requests").replaceChildren();
  show();
  openChat();
  $("text").focus();
});
document.querySelector(".skip").addEventListener("click", openChat);
$("cancel").addEventListener("click", () => call(conversation.last, "cancel", { id: conversation.last.taskId }));
$("drop").addEventListener("click", drop);
$("resume").addEventListener("click", () => resume());
$("own").addEventListener("change", () => $("log").classList.toggle("only", $("own").checked));
$("language").addEventListener("change", () => {
  localStorage.setItem("language", $("language").value);
  translate($("language").value);
  fillVersions();
  $("messages").replaceChildren();
  readCard();
  show();
});
$("source").addEventListener("change", () => {
  localStorage.setItem("source", $("source").checked ? "1" : "");
  $("messages").replaceChildren();
  show();
});
$("theme").addEventListener("change", () => {
  localStorage.setItem("theme", $("theme").value);
  document.documentElement.dataset.theme = $("theme").value;
});
for (const tab of document.querySelectorAll("[role=tab]")) {
  tab.addEventListener("click", () => openView(tab.getAttribute("aria-controls")));
  tab.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const tabs = [...document.querySelectorAll("[role=tab]")].filter((each) => each.offsetParent);
    const next = tabs.at((tabs.indexOf(tab) + step) % tabs.length);
    next.focus();
    next.click();
  });
}
matchMedia("(min-width: 900px)").addEventListener("change", placeChat);
addEventListener("pagehide", () => {
  isLeaving = true;
  conversation?.saveChanges();
});
addEventListener("pageshow", () => {
  isLeaving = false; // it comes back as it was
});

await start();
