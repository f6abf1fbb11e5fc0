// Calls to the local server, which calls the agent.

/** What can be called; throws if the server does not answer. */
export async function readConfig() {
  const answer = await fetch("/playground/config");
  if (!answer.ok) throw new Error(`status ${answer.status}`);
  return answer.json();
}

/** Ask about the agents' schedules: all of them for {}, or start one. */
export async function askSchedules(wanted) {
  const answer = await fetch("/playground/schedules", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(wanted),
  });
  return answer.ok ? answer.json() : { error: `status ${answer.status}` };
}

/** Run an operation; yields its records. call: see /playground/call. */
export async function* run(call, signal) {
  const answer = await fetch("/playground/call", {
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

/** Follow the log. opened: called after every connection. */
export function followLog(take, opened) {
  const source = new EventSource("/playground/log");
  source.onmessage = (event) => take(JSON.parse(event.data));
  source.onopen = opened;
}
