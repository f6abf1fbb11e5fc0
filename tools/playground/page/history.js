// Conversations of before: the tasks that the deployment keeps for the key, by context.

import { make, makeButton, showElements } from "./elements.js";
import { stateOf } from "./protocol.js";
import { run } from "./server.js";
import { words } from "./words.js";

const PAGE_SIZE = 30;
const TITLE_CHARACTERS = 80;

/** A page of tasks of A2A 1.0, which alone can list them; throws with a sentence. request: of ListTasks. */
async function listTasks(target, request) {
  for await (const record of run({ ...target, version: "1.0", operation: "list", request })) {
    if (record.kind === "error") throw new Error(record.message);
    if (record.kind === "result") return record.result;
  }
  throw new Error(words("noAnswer"));
}

/** All tasks of a context, oldest first. */
export async function readContext(target, contextId) {
  const tasks = [];
  const seen = new Set(); // a server that repeats a token would never end
  let pageToken = "";
  do {
    seen.add(pageToken);
    const page = await listTasks(target, { contextId, includeArtifacts: true, ...(pageToken && { pageToken }) });
    tasks.push(...page.tasks);
    pageToken = page.nextPageToken;
  } while (pageToken && !seen.has(pageToken));
  return tasks.reverse();
}

function titleOf(task) {
  const first = (task.history ?? []).find((message) => message.role === "ROLE_USER");
  const text = (first?.parts ?? []).map((part) => part.text ?? part.filename ?? "").join(" ").trim();
  return text.slice(0, TITLE_CHARACTERS) || first?.metadata?.intentInfos?.[0]?.intent || task.id;
}

/** The list of conversations in a place. open: called with the id of the chosen context. */
export class History {
  constructor(place, target, open) {
    Object.assign(this, { place, target, open, token: "", contexts: new Map(), reads: 0 });
  }

  /** Read the list from its start. */
  async refresh() {
    Object.assign(this, { token: "", contexts: new Map() });
    await this.readPage();
  }

  async readPage() {
    const read = ++this.reads;
    let problem = "";
    try {
      const page = await listTasks(this.target(), { pageSize: PAGE_SIZE, ...(this.token && { pageToken: this.token }) });
      if (read !== this.reads) return; // another agent or key was chosen meanwhile
      this.token = page.nextPageToken;
      for (const task of page.tasks) {
        const tasks = this.contexts.get(task.contextId) ?? [];
        this.contexts.set(task.contextId, [...tasks, task]); // newest first, as they come
      }
    } catch (error) {
      if (read !== this.reads) return;
      problem = error.message;
    }
    this.show(problem);
  }

  show(problem) {
    const rows = [...this.contexts].map(([contextId, tasks]) => this.rowOf(contextId, tasks));
    const more = this.token ? makeButton({ textContent: words("olderOnes") }, () => this.readPage()) : null;
    const empty = rows.length || problem ? null : make("p", { className: "hint", textContent: words("noHistory") });
    const focused = this.place.contains(document.activeElement) ? document.activeElement : null;
    showElements(
      this.place,
      [
        make("div", { className: "row" }, makeButton({ textContent: words("refresh") }, () => this.refresh())),
        problem ? make("p", { className: "error", textContent: problem }) : null,
        make("ul", { className: "history" }, ...rows),
        empty,
        more,
      ].filter(Boolean),
    );
    if (focused && !focused.isConnected) {
      const buttons = [...this.place.querySelectorAll(".history button")];
      (buttons.find(({ title }) => title === focused.title) ?? buttons.at(-1))?.focus({ preventScroll: true });
    }
  }

  rowOf(contextId, tasks) {
    const state = stateOf(tasks[0].status);
    const time = new Date(tasks[0].status.timestamp ?? 0).toLocaleString();
    const about = make("small", {}, make("span", { className: `state ${state}`, textContent: words(state) }), ` · ${time}`);
    if (tasks.length > 1) about.append(` · ${tasks.length} ${words("tasks")}`);
    const button = makeButton({ title: contextId }, () => this.open(contextId));
    button.append(make("span", { textContent: titleOf(tasks.at(-1)) }), about);
    return make("li", {}, button);
  }
}
