// Text of agents as Markdown, by marked, DOMPurify and highlight.js, which are files of this page.
//
// What an agent writes neither runs nor loads anything: HTML in it is shown as text, a picture is a link to it, and
// what comes out is sanitized all the same. A formula stays as it is written.

import DOMPurify from "./vendor/purify.js";
import highlight from "./vendor/highlight.js";
import { Marked } from "./vendor/marked.js";
import { make, makeCopyButton } from "./elements.js";

const LANGUAGES = [
  "bash", "c", "cpp", "csharp", "css", "diff", "dockerfile", "go", "http", "ini", "java", "javascript", "json",
  "kotlin", "markdown", "php", "python", "ruby", "rust", "shell", "sql", "swift", "typescript", "xml", "yaml",
];

const ALLOWED_TAGS = [
  "a", "blockquote", "br", "code", "del", "em", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "input", "li", "ol", "p",
  "pre", "span", "strong", "table", "tbody", "td", "th", "thead", "tr", "ul",
];
const ALLOWED_ATTR = ["align", "checked", "class", "data-language", "disabled", "href", "start", "title", "type"];

// The parser's time grows with the square of a block's marks and lines, and with the depth of its lists.
const MAX_TEXT_CHARACTERS = 200_000;
const MARKS = /[*_~`[\]<>!@&\\]/g;
const MAX_MARKS = 10_000; // of a block, with one for each line
const MAX_ROW_MARKS = 100; // of a table, whose cells are parsed one by one
const MAX_CELLS = 50_000;
const MAX_INDENT = 200; // columns
const FENCE = /^ {0,3}(`{3,}(?=[^`]*$)|~{3,})/;
const DELIMITERS = /^ {0,3}\|?[ \t]*:?-+:?[ \t]*(\|[ \t]*:?-+:?[ \t]*)+\|?[ \t]*$/; // below the head of a table

const MAX_HIGHLIGHTED_CHARACTERS = 20_000; // of a code block

// $…$, $$…$$, \(…\) and \[…\]: without this, the underscores and asterisks in a formula would be emphasis.
const FORMULA = /^(?:\$\$[^$]+\$\$|\$(?!\s)[^$\n]+?(?<!\s)\$(?!\d)|\\\([\s\S]{1,2000}?\\\)|\\\[[\s\S]{1,2000}?\\\])/;
const FORMULA_START = /\$|\\\(|\\\[/;

const formula = {
  name: "formula",
  level: "inline",
  start: (text) => text.match(FORMULA_START)?.index,
  tokenizer(text) {
    const match = FORMULA.exec(text);
    return match ? { type: "formula", raw: match[0] } : undefined;
  },
  renderer: (token) => escape(token.raw),
};

const marked = new Marked({
  gfm: true,
  breaks: true, // as in other chats: an agent's line is a line
  extensions: [formula],
  renderer: {
    html: ({ text }) => escape(text),
    image: ({ href, text }) => link(href, escape(text || href)),
    link({ href, tokens }) {
      return link(href, this.parser.parseInline(tokens));
    },
    code({ text, lang }) {
      const language = (lang ?? "").match(/^[\w+#-]*/)[0].toLowerCase();
      return `<pre><code data-language="${escape(language)}">${escape(text)}</code></pre>`;
    },
  },
});

/** What a text becomes. It may be the beginning of a longer one: a table or a code block may have no end yet. A text
 * that would keep the browser busy, or that the parser cannot read, is shown as it was written. */
export function render(text) {
  let html = "";
  try {
    html = isCostly(text) ? "" : marked.parse(text);
  } catch (error) {
    console.warn("a text is shown as it was written:", error.message);
  }
  if (!html) return make("p", { textContent: text });
  const fragment = DOMPurify.sanitize(html, {
    ALLOWED_TAGS,
    ALLOWED_ATTR,
    ALLOW_DATA_ATTR: false,
    ALLOWED_URI_REGEXP: /^(?:https?|mailto):/i,
    ADD_URI_SAFE_ATTR: ["align", "checked", "data-language", "disabled", "start", "type"],
    RETURN_DOM_FRAGMENT: true,
  });
  for (const element of fragment.querySelectorAll("a")) showTarget(element);
  for (const element of fragment.querySelectorAll("pre")) wrapCode(element);
  for (const box of fragment.querySelectorAll("input")) box.ariaLabel = box.parentElement.textContent.trim(); // of a list of tasks
  for (const element of fragment.querySelectorAll("table")) wrapTable(element);
  return make("div", { className: "markdown" }, fragment);
}

/** Whether the parser could take seconds for a text. */
export function isCostly(text) {
  if (text.length > MAX_TEXT_CHARACTERS) return true;
  let [marks, cells, columns, fence] = [0, 0, 0, ""];
  for (const line of text.split("\n")) {
    const count = line.match(MARKS)?.length ?? 0;
    if (fence) {
      const isEnd = line.trim().startsWith(fence) && !line.trim().replaceAll(fence[0], "");
      if (isEnd && FENCE.test(line)) fence = "";
    } else if (FENCE.test(line)) {
      fence = FENCE.exec(line)[1];
    } else if (!line.trim()) {
      [marks, columns] = [0, 0];
    } else if (DELIMITERS.test(line)) {
      columns = line.split("|").length;
    } else {
      cells += columns;
      if (!columns || count > MAX_ROW_MARKS) marks += count + 1;
    }
    if (marks > MAX_MARKS || cells > MAX_CELLS || line.search(/\S/) > MAX_INDENT) return true;
  }
  return false;
}

function escape(text) {
  return text.replace(/[&<>"']/g, (char) => `&#${char.charCodeAt(0)};`);
}

function link(href, content) {
  return `<a href="${escape(href)}">${content}</a>`;
}

/** A link opens beside the page, and says which host it leads to, unless its text does. */
function showTarget(element) {
  if (!element.hasAttribute("href")) {
    element.replaceWith(...element.childNodes); // its address was refused
    return;
  }
  element.target = "_blank";
  element.rel = "noopener noreferrer";
  element.title = element.href;
  const host = element.protocol === "mailto:" ? element.pathname : element.host;
  const text = element.textContent.trim().replace(/^[a-z]+:(\/\/)?/i, "");
  if (text === host || text.startsWith(`${host}/`)) return;
  element.after(make("span", { className: "host", textContent: ` (${host})` }));
}

/** A code block gets a bar with its language and a button that copies it. */
function wrapCode(pre) {
  const code = pre.querySelector("code") ?? pre;
  const language = code.dataset.language ?? "";
  const text = code.textContent;
  const title = make("span", { textContent: language });
  const bar = make("div", { className: "bar" }, title, makeCopyButton("copy", text));
  const block = make("div", { className: "code" });
  pre.before(block);
  block.append(bar, pre);
  pre.tabIndex = 0; // it scrolls, also by keyboard
  colorLater(code, language, text);
}

/** A table that is too wide scrolls by itself. */
function wrapTable(table) {
  const place = make("div", { className: "wide", tabIndex: 0 });
  table.before(place);
  place.append(table);
}

const NAMES = { js: "javascript", ts: "typescript", py: "python", sh: "bash", zsh: "bash", yml: "yaml", html: "xml", "c++": "cpp", "c#": "csharp", rs: "rust", rb: "ruby", golang: "go", toml: "ini", jsonc: "json", console: "shell", md: "markdown" };
const loaded = new Map(); // of languages, by their name

async function colorLater(code, language, text) {
  const name = NAMES[language] ?? language;
  if (!LANGUAGES.includes(name) || text.length > MAX_HIGHLIGHTED_CHARACTERS) return;
  if (!loaded.has(name)) {
    loaded.set(name, import(`./vendor/languages/${name}.js`).then((module) => highlight.registerLanguage(name, module.default)));
  }
  await loaded.get(name);
  const colored = highlight.highlight(text, { language: name, ignoreIllegals: true }).value;
  code.replaceChildren(
    DOMPurify.sanitize(colored, { ALLOWED_TAGS: ["span"], ALLOWED_ATTR: ["class"], RETURN_DOM_FRAGMENT: true }),
  );
}
