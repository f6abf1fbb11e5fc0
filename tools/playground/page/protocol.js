// Words and texts of A2A 1.0's objects, as the page shows them.

export const STOPPED = ["completed", "failed", "canceled", "rejected", "input-required", "auth-required"];
export const WAITING = ["input-required", "auth-required"];

/** State as A2A 0.x writes it: completed, input-required … */
export function stateOf(status) {
  return (status?.state ?? "TASK_STATE_UNSPECIFIED").replace("TASK_STATE_", "").toLowerCase().replaceAll("_", "-");
}

/** Whether a value is an object of JSON. Other agents' cards and metadata may have anything in its place. */
export function isObject(value) {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** The objects in an array. */
export function objectsIn(value) {
  return Array.isArray(value) ? value.filter(isObject) : [];
}

/** What a status update says of a step, a pause or a wait; undefined if it says nothing of one. */
export function operationOf(update) {
  const operation = update?.metadata?.operation;
  return ["kind", "name", "state"].every((name) => operation?.[name] && typeof operation[name] === "string") ? operation : undefined;
}

/** A JSON value as text, a string without its quotes. Other agents may have any value where text belongs. */
export function textOfValue(value) {
  return typeof value === "string" ? value : JSON.stringify(value) ?? "";
}

/** Texts of a message's parts. */
export function textOf(message, separator = "") {
  return (message?.parts ?? []).map((part) => part.text ?? "").join(separator);
}
