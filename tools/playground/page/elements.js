// Elements of the page.

import { words } from "./words.js";

const COPIED_MS = 1500; // for which a button says that it has copied

/** An element with properties and children; null and undefined are no children. */
export function make(tag, options = {}, ...children) {
  const element = Object.assign(document.createElement(tag), options);
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

/** Show elements in a place. One that looks like what is there stays, with its focus and what is selected in it. */
export function showElements(place, elements) {
  const shown = [...place.childNodes];
  for (const [index, element] of elements.entries()) {
    const former = shown[index];
    if (!former) place.append(element);
    else if (former.isEqualNode(element)) continue;
    else if (element.tagName === "PRE" && former.cloneNode().isEqualNode(element.cloneNode()))
      former.textContent = element.textContent; // it stays where it was scrolled to
    else former.replaceWith(element);
  }
  for (const node of shown.slice(elements.length)) node.remove();
}

/** A button that does something. */
export function makeButton(options, act) {
  const button = make("button", { type: "button", ...options });
  button.addEventListener("click", act);
  return button;
}

/** A button that copies text. name: name of the words on it. */
export function makeCopyButton(name, text) {
  const button = makeButton({ textContent: words(name) }, async () => {
    await navigator.clipboard.writeText(text);
    button.textContent = words("copied");
    setTimeout(() => (button.textContent = words(name)), COPIED_MS);
  });
  return button;
}
