// A form for a skill's parameters, from their JSON Schema.

import { isObject, objectsIn, textOfValue } from "./protocol.js";
import { words } from "./words.js";

const SCALARS = ["string", "integer", "number", "boolean"];
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

/** Fill a fieldset with an input for each parameter. */
export function showParameters(fieldset, schema) {
  for (const label of fieldset.querySelectorAll("label")) label.remove();
  const properties = Object.entries(schema?.properties ?? {}).filter(([, property]) => isObject(property));
  fieldset.hidden = !properties.length;
  for (const [name, plain] of properties) {
    const property = resolveReference(plain, schema);
    const required = Array.isArray(schema.required) && schema.required.includes(name);
    const input = inputFor(property);
    input.name = name;
    input.dataset.type = typeOf(property);
    if (property.default !== undefined && input.tagName !== "SELECT") input.placeholder = textOfValue(property.default);
    const title = document.createElement("span");
    title.textContent = name + (required ? ` (${words("required")})` : "");
    const label = document.createElement("label");
    label.append(title, input);
    if (property.description) {
      input.title = property.description;
      const help = document.createElement("small");
      help.id = `about-${name}`;
      help.textContent = property.description;
      input.setAttribute("aria-describedby", help.id);
      label.append(help);
    }
    fieldset.append(label);
  }
}

/** Arguments as slots of an intent; throws with a sentence if one is not valid. Empty ones are left out. */
export function readSlots(fieldset) {
  const slots = [];
  for (const input of fieldset.querySelectorAll("[name]")) {
    const text = input.value.trim();
    if (!text) continue;
    if (input.dataset.type === "json") {
      try {
        JSON.parse(text);
      } catch {
        throw new Error(`${input.name} ${words("badJson")} ["a", "b"]`);
      }
    }
    slots.push({ name: input.name, value: text });
  }
  return slots;
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
  const dates = { date: "date", time: "time", "date-time": "datetime-local" };
  if (type === "integer" || type === "number") {
    input.type = "number";
    input.step = type === "integer" ? "1" : "any";
    if (property.minimum !== undefined) input.min = property.minimum;
    if (property.maximum !== undefined) input.max = property.maximum;
  } else input.type = dates[property.format] ?? "text";
  return input;
}
