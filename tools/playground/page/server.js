// Calls to the local server, which calls the agent.

import { words } from "./words.js";

/** The server refuses the page, which has no token, or an old one. */
export class Refused extends Error {}

const token = takeToken();

/** The token in the URL that make playground prints. It leaves the address bar and the history, and stays with this
 * origin: a cookie would go to every port of this machine. */
function takeToken() {
  const query = new URLSearchParams(location.search);
  if (query.has("token")) {
    localStorage.setItem("token", query.get("token"));
    history.replaceState(null, "", location.pathname + location.hash);
  }
  return localStorage.getItem("token") ?? "";
}

/** Request of the local server. */
function ask(path, options = {}) {
  return fetch(`/playground/${path}`, { ...options, headers: { ...options.headers, "X-Playground-Token": token } });
}

/** URL that the browser requests by itself, such as a picture's. */
export function localUrl(path, query = {}) {
  return `/playground/${path}?${new URLSearchParams(token ? { ...query, token } : query)}`;
}

/** What can be called; throws if the server does not answer, or refuses. */
export async function readConfig() {
  const answer = await ask("config");
  if (answer.status === 403) throw new Refused((await answer.text()).trim());
  if (!answer.ok) throw new Error(`status ${answer.status}`);
  return answer.json();
}

/** Ask about the agents' schedules: all of them for {}, or start one. */
export async function askSchedules(wanted) {
  const answer = await ask("schedules", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(wanted),
  });
  return answer.ok ? answer.json() : { error: `status ${answer.status}` };
}

/** Upload a file that is too large for a message; returns the part that names it. Throws with a sentence. */
export async function upload(call, file) {
  const query = new URLSearchParams({ agent: call.agent, version: call.version, name: file.name, type: file.type });
  const answer = await ask(`upload?${query}`, {
    method: "POST",
    headers: { "Content-Type": "application/octet-stream", "X-API-Key": call.key },
    body: file,
  }).catch(() => {
    throw new Error(`${file.name}: ${words("noAnswer")}`);
  });
  const part = answer.ok ? await answer.json() : { error: `status ${answer.status}` };
  if (part.error) throw new Error(`${file.name}: ${part.error}`);
  return part;
}

/** Run an operation; yields its records. call: see /playground/call. */
export async function* run(call, signal) {
  const answer = await ask("call", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(call),
    signal,
  });
  if (!answer.ok) {
    yield { kind: "error", message: await answer.text(), status: answer.status };
    return;
  }
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let held = []; // pieces of a line that is not complete yet
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const [first, ...others] = value.split("\n");
    held.push(first);
    for (const next of others) {
      yield JSON.parse(held.join(""));
      held = [next];
    }
  }
}

/** Follow the log while the page can be seen: a browser has six connections to a server, for all of its tabs. started:
 * called when the lines are those of another process, because the server has started again. */
export function followLog(take, started) {
  let source = null;
  let server = null;
  let latest = 0; // time of the last line: a connection begins with lines that an earlier one may have had
  const follow = () => {
    if (document.hidden) {
      source?.close();
      source = null;
      return;
    }
    if (source) return;
    let known = latest;
    source = new EventSource(localUrl("log"));
    source.addEventListener("server", ({ data }) => {
      known = latest; // the browser has connected again by itself
      if (server !== null && server !== data) started();
      server = data;
    });
    source.onmessage = ({ data }) => {
      const entry = JSON.parse(data);
      if (entry.at <= known) return;
      latest = Math.max(latest, entry.at);
      take(entry);
    };
  };
  document.addEventListener("visibilitychange", follow);
  follow();
}
