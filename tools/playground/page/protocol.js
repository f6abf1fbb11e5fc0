// Words and texts of A2A 1.0's objects, as the page shows them.

export const STOPPED = ["completed", "failed", "canceled", "rejected", "input-required", "auth-required"];
export const WAITING = ["input-required", "auth-required"];

/** State as A2A 0.x writes it: completed, input-required … */
export function stateOf(status) {
  return (status?.state ?? "TASK_STATE_UNSPECIFIED").replace("TASK_STATE_", "").toLowerCase().replaceAll("_", "-");
}

/** Texts of a message's parts. */
export function textOf(message, separator = "") {
  return (message?.parts ?? []).map((part) => part.text ?? "").join(separator);
}
