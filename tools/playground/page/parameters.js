// A form for a skill's parameters, from their JSON Schema.

import { make } from "./elements.js";
import { isObject, objectsIn, textOfValue } from "./protocol.js";
import { words } from "./words.js";

const SCALARS = ["string", "integer", "number", "boolean"];
const PICKER = "datetime-local"; // an input for a time, without an offset
const COMPOSED = ["type", "anyOf", "oneOf", "allOf"]; // a property without them has values of any type

/** JSON Schemas of the skills, by id. They are in the card's extensions. */
export function schemasOf(card) {
  const found = {};
  for (const extension of objectsIn(card.capabilities?.extensions)) {
    for (const skill of objectsIn(extension.params?.skills)) {
      if (skill.id && isObject(skill.inputSchema)) found[skill.id] = skill.inputSchema;
    }
  }
  return found;
}

/** Fill a fieldset with an input for each parameter. slots: what is in them, as slots of an intent. */
export function showParameters(fieldset, schema, slots = []) {
  const focused = fieldset.contains(document.activeElement) ? document.activeElement.name : "";
  for (const field of fieldset.querySelectorAll(".field")) field.remove();
  const properties = Object.entries(schema?.properties ?? {}).filter(([, property]) => isObject(property));
  fieldset.hidden = !properties.length;
  for (const [index, [name, plain]] of properties.entries()) {
    const property = resolveReference(plain, schema);
    const required = Array.isArray(schema.required) && schema.required.includes(name);
    const input = inputFor(property);
    input.name = name;
    input.dataset.type = typeOf(property);
    if (property.default !== undefined && input.tagName !== "SELECT") input.placeholder = textOfValue(property.default);
    const title = make("span", { textContent: name + (required ? ` (${words("required")})` : "") });
    const field = make("div", { className: "field" }, make("label", {}, title, input));
    if (property.description) {
      const help = make("small", { id: `about-${index}`, textContent: textOfValue(property.description) });
      input.setAttribute("aria-describedby", help.id);
      field.append(help);
    }
    const value = slots.find((slot) => slot.name === name)?.value;
    if (value !== undefined) input.value = input.type === PICKER ? localTime(textOfValue(value)) : textOfValue(value);
    fieldset.append(field);
    if (name === focused) input.focus();
  }
}

/** What is in a form, as slots of an intent. Empty inputs are left out. */
export function formSlots(fieldset) {
  const inputs = [...fieldset.querySelectorAll("[name]")];
  return inputs.map(({ name, value }) => ({ name, value: value.trim() })).filter(({ value }) => value);
}

/** The arguments of a form, as slots of an intent; throws with a sentence if one is not valid. */
export function readSlots(fieldset) {
  const slots = formSlots(fieldset);
  for (const slot of slots) {
    const { name, value } = slot;
    const input = fieldset.querySelector(`[name="${CSS.escape(name)}"]`);
    if (input.type === PICKER) slot.value = withOffset(value);
    if (input.dataset.type !== "json") continue;
    try {
      JSON.parse(value);
    } catch {
      throw new Error(`${name} ${words("badJson")} ["a", "b"]`);
    }
  }
  return slots;
}

/** The time of a picker as JSON Schema's date-time (RFC 3339), which has seconds and an offset. */
function withOffset(time) {
  const minutes = -new Date(time).getTimezoneOffset();
  const digits = (number) => String(Math.abs(Math.trunc(number))).padStart(2, "0");
  const seconds = time.length === "2026-12-24T18:00".length ? ":00" : "";
  return `${time}${seconds}${minutes < 0 ? "-" : "+"}${digits(minutes / 60)}:${digits(minutes % 60)}`;
}

/** A date-time as a picker takes it; "" if the text is none. */
function localTime(text) {
  const time = new Date(text);
  if (Number.isNaN(time.getTime())) return "";
  return new Date(time.getTime() - time.getTimezoneOffset() * 60_000).toISOString().slice(0, 19);
}

function resolveReference(property, schema) {
  const reference = property.$ref ?? property.allOf?.[0]?.$ref;
  const name = typeof reference === "string" ? reference.replace("#/$defs/", "") : "";
  return name ? { ...schema.$defs?.[name], ...property, $ref: undefined } : property;
}

function typeOf(property) {
  if (Array.isArray(property.enum) || property.const !== undefined) return "enum";
  // The agent reads the text of a union by each of its types, and takes any text for a value of any type.
  if (objectsIn(property.anyOf).some((option) => SCALARS.includes(option.type))) return "string";
  if (!COMPOSED.some((keyword) => keyword in property)) return "string";
  return SCALARS.includes(property.type) ? property.type : "json";
}

function inputFor(property) {
  const type = typeOf(property);
  if (type === "enum" || type === "boolean") {
    const select = document.createElement("select");
    const values = type === "boolean" ? [true, false] : (property.enum ?? [property.const]);
    const unset = property.default === undefined ? words("unset") : `${words("unset")} (${textOfValue(property.default)})`;
    select.append(new Option(unset, ""), ...values.map((value) => new Option(textOfValue(value), textOfValue(value))));
    return select;
  }
  if (type === "json") {
    const area = document.createElement("textarea");
    area.rows = 2;
    area.spellcheck = false;
    area.placeholder = property.type === "array" ? "[…]" : "{…}";
    return area;
  }
  const input = document.createElement("input");
  const dates = { date: "date", time: "time", "date-time": PICKER };
  if (type === "integer" || type === "number") {
    input.type = "number";
    input.step = type === "integer" ? "1" : "any";
    if (property.minimum !== undefined) input.min = property.minimum;
    if (property.maximum !== undefined) input.max = property.maximum;
  } else input.type = dates[property.format] ?? "text";
  return input;
}
