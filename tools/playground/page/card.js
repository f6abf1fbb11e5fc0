// The agent's card, as the clients of the chosen version read it.

import { make, makeButton, makeCopyButton } from "./elements.js";
import { objectsIn } from "./protocol.js";
import { askSchedules } from "./server.js";
import { showHint } from "./views.js";
import { words } from "./words.js";

const MARKS = { true: "✓", false: "✗", null: "•" };

/** Show a card and what a check of it found. title: of the version. findings: [what, whether it passed, note].
 * schedules: those of the agent. */
export function showCard(place, card, findings, title, schedules) {
  if (!card) {
    showHint(place, "noCard");
    return;
  }
  const text = JSON.stringify(card, null, 2);
  const rows = findings.map(([what, passed, note]) =>
    make("li", { className: passed === false ? "error" : "" }, `${MARKS[passed]} ${what}${note ? `: ${note}` : ""}`),
  );
  const skills = objectsIn(card.skills).map((skill) =>
    make("li", {}, make("b", { textContent: skill.name || skill.id }), ` ${skill.description ?? ""}`),
  );
  place.replaceChildren(
    make("h2", { textContent: `${card.name ?? ""} · ${title}` }),
    make("p", { textContent: card.description ?? "" }),
    make("ul", { className: "findings" }, ...rows),
    make("h2", { textContent: words("skills") }),
    make("ul", {}, ...skills),
    ...(schedules.length ? [make("h2", { textContent: words("schedules") }), make("ul", {}, ...schedules.map(showSchedule))] : []),
    make("h2", { className: "spread" }, words("card"), makeCopyButton("copy", text)),
    make("pre", { className: "whole", textContent: text }),
  );
}

function showSchedule({ agent, id, cron, timezone, next, owner }) {
  const result = make("span", { role: "status" });
  const button = makeButton({ textContent: words("fire") }, async () => {
    const answer = await askSchedules({ agent, id, key: crypto.randomUUID() });
    result.textContent = ` ${answer.error ?? `${words("started")} ${answer.task}`}`;
  });
  const about = `: ${cron} (${timezone}), ${words("next")} ${new Date(next).toLocaleString()}, ${words("owner")} ${owner} `;
  return make("li", {}, make("b", { textContent: id }), about, button, result);
}
