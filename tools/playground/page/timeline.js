// When things happened in a turn: its states, steps, pauses, waits and artifacts.

import { make } from "./elements.js";
import { operationOf, stateOf, textOf } from "./protocol.js";
import { words } from "./words.js";

const MAX_ENTRIES = 200; // of a turn

/** Note what an event says. at: milliseconds since the message was sent. */
export function noteEvent(turn, event, at) {
  const entries = (turn.timeline ??= []);
  const { status } = event.statusUpdate ?? { status: event.task?.status };
  const operation = operationOf(event.statusUpdate);
  if (operation) noteOperation(entries, operation, at);
  else if (event.artifactUpdate) noteArtifact(entries, event.artifactUpdate, at);
  else if (status) noteStatus(entries, status, at);
  if (entries.length > MAX_ENTRIES) entries.splice(1, entries.length - MAX_ENTRIES); // the first says when it began
}

function noteOperation(entries, { kind, name, state }, at) {
  const begun = entries.findLast((entry) => entry.kind === kind && entry.name === name && entry.to === undefined);
  if (state !== "started" && begun) Object.assign(begun, { to: at, failed: state === "failed" });
  else if (state === "started") entries.push({ kind, name, from: at });
}

function noteArtifact(entries, { artifact, lastChunk }, at) {
  const id = artifact.artifactId;
  const begun = entries.findLast((entry) => entry.kind === "artifact" && entry.id === id);
  if (!begun) entries.push({ kind: "artifact", id, name: artifact.name || id, from: at, to: at, done: lastChunk });
  else Object.assign(begun, { to: at, done: lastChunk });
}

function noteStatus(entries, status, at) {
  const state = stateOf(status);
  const name = (state === "working" && textOf(status.message)) || state;
  if (entries.findLast((entry) => entry.kind === "status")?.name !== name) entries.push({ kind: "status", name, from: at });
}

/** The time line of a turn, as a table whose last column has bars; null without entries. */
export function showTimeline(turn) {
  const entries = turn.timeline ?? [];
  if (!entries.length) return null;
  const end = Math.max(1, ...entries.map((entry) => entry.to ?? entry.from));
  const rows = entries.map((entry) => {
    const to = entry.to ?? (entry.kind === "status" ? entry.from : end);
    const bar = make("div", { className: `bar ${entry.kind} ${entry.failed ? "failed" : ""}` });
    bar.style.setProperty("margin-inline-start", `${(100 * entry.from) / end}%`);
    bar.style.setProperty("width", `${(100 * (to - entry.from)) / end}%`);
    const time = entry.kind === "status" ? seconds(entry.from) : `${seconds(entry.from)} + ${seconds(to - entry.from)}`;
    return make(
      "tr",
      {},
      make("th", { scope: "row", textContent: nameOf(entry) }),
      make("td", { textContent: time }),
      make("td", { className: "bars", ariaHidden: "true" }, bar),
    );
  });
  return make("table", { className: "timeline" }, make("caption", { textContent: words("timeline") }), ...rows);
}

function nameOf({ kind, name }) {
  if (kind === "sleep") return words("sleeps");
  if (kind === "wait") return `${words("waitsFor")} ${name}`;
  return kind === "status" ? words(name) ?? name : name;
}

function seconds(milliseconds) {
  return `${(milliseconds / 1000).toFixed(2)} s`;
}
