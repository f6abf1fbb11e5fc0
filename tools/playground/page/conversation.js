// A conversation: turns, each with the user's message and the task that it became. Events are of A2A 1.0.

import { objectsIn, operationOf, STOPPED, stateOf, textOf, WAITING } from "./protocol.js";
import { noteEvent } from "./timeline.js";

const KEPT_BYTES = 200_000; // a file's base64 above this is not kept after a reload
const MAX_TURNS = 100;
const PREFIX = "conversation:"; // of the places of conversations in the browser's storage
const SAVE_MS = 1000;

/** A turn with a message. task: its task, if it is known. */
function newTurn(message, version, { id = "", contextId = "" } = {}) {
  return { message, version, taskId: id, contextId, state: "", steps: [], reply: [], artifacts: [], error: "", lastEvent: "" };
}

export class Conversation {
  /** name: what the browser's storage has it under, from which it is restored. */
  constructor(name) {
    this.place = `${PREFIX}${name}`;
    try {
      // A tab keeps its own. A new one begins with what was saved last.
      const text = sessionStorage.getItem(this.place) ?? localStorage.getItem(this.place) ?? "{}";
      Object.assign(this, { contextId: "", turns: [] }, JSON.parse(text));
    } catch {
      Object.assign(this, { contextId: "", turns: [] });
    }
  }

  get last() {
    return this.turns.at(-1);
  }

  begin() {
    Object.assign(this, { contextId: "", turns: [] });
    this.save();
  }

  /** Save it for this tab, and for the next one. */
  save() {
    clearTimeout(this.saving);
    this.saving = undefined;
    for (const storage of [sessionStorage, localStorage]) this._saveIn(storage);
  }

  /** Save as much as a storage has room for: first without the content of files, then without the conversations of
   * other agents, then without older turns. */
  _saveIn(storage) {
    if (this._fits(storage, KEPT_BYTES, MAX_TURNS) || this._fits(storage, 0, MAX_TURNS)) return;
    for (const place of Object.keys(storage)) if (place.startsWith(PREFIX) && place !== this.place) storage.removeItem(place);
    for (let count = MAX_TURNS; count > 0; count >>= 1) if (this._fits(storage, 0, count)) return;
    storage.removeItem(this.place);
  }

  /** Whether a storage has taken the last turns, with files of so many bytes. */
  _fits(storage, bytes, count) {
    const short = (name, value) => (name === "raw" && typeof value === "string" && value.length > bytes ? undefined : value);
    try {
      storage.setItem(this.place, JSON.stringify({ contextId: this.contextId, turns: this.turns.slice(-count) }, short));
      return true;
    } catch {
      return false;
    }
  }

  /** Save what is not saved yet, and only that: another tab may have saved more. */
  saveChanges() {
    if (this.saving !== undefined) this.save();
  }

  /** Save within a second: many events come in a second. */
  saveSoon() {
    this.saving ??= setTimeout(() => this.save(), SAVE_MS);
  }

  /** Remember how much a turn has at an event that a stream can be resumed after. Events without an id come
   * again. */
  mark(turn, lastEvent) {
    turn.lastEvent = lastEvent;
    const sizes = turn.artifacts.map(({ artifactId, parts }) => [artifactId, parts.length, parts.at(-1)?.text?.length]);
    turn.mark = { steps: [...turn.steps], sizes };
  }

  /** Return a turn to its last event with an id; returns that id, or "". */
  rewind(turn) {
    if (!Array.isArray(turn.mark?.steps)) return "";
    turn.steps = [...turn.mark.steps];
    const sizes = new Map(turn.mark.sizes.map(([artifactId, ...size]) => [artifactId, size]));
    turn.artifacts = turn.artifacts.filter(({ artifactId }) => sizes.has(artifactId));
    for (const artifact of turn.artifacts) {
      const [count, length] = sizes.get(artifact.artifactId);
      artifact.parts = artifact.parts.slice(0, count);
      const last = artifact.parts.at(-1);
      if (last?.text !== undefined) last.text = last.text.slice(0, length);
    }
    return turn.lastEvent;
  }

  /** Begin a turn with a message; returns the turn. The version in which it was sent belongs to its task. */
  add(message, version) {
    const before = this.turns.findLast((turn) => turn.state); // a turn that reached no server changes nothing
    if (this.contextId) message.contextId = this.contextId;
    if (before && !before.isOver && (WAITING.includes(before.state) || (before.state === "working" && waits(before)))) {
      message.taskId = before.taskId;
    }
    const turn = { ...newTurn(message, version), sentAt: Date.now() };
    this.turns.push(turn);
    this.saveSoon();
    return turn;
  }

  /** Take a result of a call: a task or a message, or the two as an object with one of them. */
  takeResult(turn, result) {
    if (result.task || result.message) this.takeEvent(turn, result);
    else this.takeEvent(turn, result.status ? { task: result } : { message: result });
  }

  /** Show another conversation: the tasks of a context, oldest first. version: to go on in. */
  restore(contextId, tasks, version) {
    this.contextId = contextId;
    this.turns = tasks.flatMap((task) => this._turnsOf(task, version)).slice(-MAX_TURNS);
    this.save();
  }

  /** A turn for each message of the user. What the task has made is in the last one. */
  _turnsOf(task, version) {
    const turns = [];
    for (const message of task.history ?? []) {
      if (message.role === "ROLE_USER") {
        turns.push(newTurn(message, version, task));
      } else if (turns.length) {
        turns.at(-1).reply = [...turns.at(-1).reply, ...message.parts];
        turns.at(-1).state = "input-required";
      }
    }
    if (!turns.length) return turns;
    this.takeEvent(turns.at(-1), { task });
    turns.at(-1).mayWait = true; // it was not followed
    return turns;
  }

  takeEvent(turn, event) {
    if (turn.sentAt) noteEvent(turn, event, Date.now() - turn.sentAt);
    if (event.task) {
      const { id, contextId, status, artifacts } = event.task;
      this._identify(turn, id, contextId);
      turn.artifacts = (artifacts ?? []).map((artifact) => {
        // What has not changed stays the same object, by which its files are known.
        const known = turn.artifacts.find((each) => each.artifactId === artifact.artifactId);
        return known && JSON.stringify(known) === JSON.stringify(artifact) ? known : structuredClone(artifact);
      });
      this._takeStatus(turn, status);
    } else if (event.statusUpdate) {
      this._identify(turn, event.statusUpdate.taskId, event.statusUpdate.contextId);
      takeOperation(turn, operationOf(event.statusUpdate));
      this._takeStatus(turn, event.statusUpdate.status);
    } else if (event.artifactUpdate) {
      this._identify(turn, event.artifactUpdate.taskId, event.artifactUpdate.contextId);
      takeArtifact(turn, event.artifactUpdate);
    } else if (event.message) {
      this._identify(turn, event.message.taskId ?? "", event.message.contextId);
      turn.reply = event.message.parts;
      turn.metadata = event.message.metadata;
      turn.state = "completed";
    }
  }

  /** Note the spans of a task, which the log has when they have ended. False if they are noted already. They are saved
   * with the next event: every tab reads the log, and this one may be idle and have an older conversation. */
  noteSpans(taskId, text) {
    const turn = this.turns.findLast((each) => each.taskId === taskId);
    if (!turn || turn.spans?.includes(text)) return false;
    turn.spans = [...(turn.spans ?? []), text];
    return true;
  }

  _identify(turn, task, context) {
    turn.taskId = task || turn.taskId;
    this.contextId = context || this.contextId;
  }

  _takeStatus(turn, status) {
    turn.state = stateOf(status);
    turn.updated = status.timestamp ?? "";
    if (!status.message) return;
    if (STOPPED.includes(turn.state)) {
      turn.reply = status.message.parts;
      turn.metadata = status.message.metadata;
    } else {
      const step = { text: textOf(status.message), stage: status.message.metadata?.stage ?? "" };
      const known = turn.steps.at(-1);
      if (known?.text !== step.text || known?.stage !== step.stage) turn.steps.push(step);
    }
  }
}

/** A step, a pause or a wait of a durable turn, among the turn's steps. Its end changes the line of its start. */
function takeOperation(turn, operation) {
  if (!operation) return;
  const isSame = (step) =>
    step.operation?.kind === operation.kind && step.operation.name === operation.name && step.operation.state === "started";
  const begun = operation.state === "started" ? -1 : turn.steps.findLastIndex(isSame);
  // Replaced, not changed: the mark of an earlier event has the old one.
  if (begun >= 0) turn.steps[begun] = { operation };
  else turn.steps.push({ operation });
}

function isOpenWait({ operation }) {
  return operation?.kind === "wait" && operation.state === "started";
}

/** Whether the last step of a turn is a pause, or a wait, that has begun. */
export function pauses(turn) {
  const { kind, state } = turn.steps.at(-1)?.operation ?? {};
  return state === "started" && ["sleep", "wait"].includes(kind);
}

/** Whether a message may end a wait of a turn. */
export function waits(turn) {
  return turn.mayWait || turn.steps.some(isOpenWait);
}

/** A message was refused: whatever a turn has waited for is over, although its stream did not say so. */
export function endWaits(turn) {
  turn.mayWait = false;
  turn.steps = turn.steps.filter((step) => !isOpenWait(step));
}

function takeArtifact(turn, { artifact, append }) {
  const known = turn.artifacts.find((each) => each.artifactId === artifact.artifactId);
  if (!known) {
    turn.artifacts.push(structuredClone(artifact));
    return;
  }
  const metadata = { ...known.metadata, ...artifact.metadata };
  const parts = append ? [...known.parts] : [];
  for (const part of structuredClone(artifact.parts)) {
    const before = parts.at(-1);
    if (append && isText(before) && isText(part)) parts[parts.length - 1] = { ...before, text: before.text + part.text };
    else parts.push(part);
  }
  Object.assign(known, artifact, { parts, metadata });
}

function isText(part) {
  return part?.text !== undefined;
}

/** Answers that the open question of a turn offers. */
export function choicesOf(turn) {
  const metadata = turn?.metadata ?? turn?.artifacts.at(-1)?.metadata; // Qianfan's question is an artifact
  const choices = WAITING.includes(turn?.state) ? metadata?.choices : [];
  return Array.isArray(choices) ? choices.filter((choice) => typeof choice === "string") : [];
}

/** Commands for the client, in the metadata of a turn's artifacts and of its last message. */
export function commandsOf(turn) {
  const places = [...turn.artifacts.map((artifact) => artifact.metadata), turn.metadata];
  return places.flatMap((metadata) => objectsIn(metadata?.commands));
}
