/** What is said of a slide: the reader's own category, the algorithm's, and both together. */

import {
  api,
  BETHESDA,
  type Combined,
  type Evidence,
  type Reading,
  Refused,
  type Session,
  type SlideView,
} from "./api";
import { histogram, scoreAxis } from "./charts";
import { h, percent, say, type Child } from "./dom";

const FEW_SLIDES = 50;

export function resultCard(view: SlideView, evidence: Evidence | null, suspicious: (() => void) | null): HTMLElement {
  const { result, model } = view;
  if (view.status === "hidden") {
    return section(
      "Algorithm",
      h(
        "p",
        { class: "note" },
        "Hidden until you have given your own category. Where to look is shown; how malignant it looks is not.",
      ),
      evidence && histogram(evidence, null),
    );
  }
  if (view.status === "failed" || view.status === "unpredicted" || !result) {
    return section(
      "Algorithm",
      h("p", {}, view.status === "failed" ? view.error : "No model has looked at this slide yet."),
      evidence && histogram(evidence, null),
    );
  }
  const parts: Child[] = [];
  if (result.probability === null || result.score === null) {
    parts.push(
      h("p", { class: "verdict" }, h("b", {}, "Inadequate")),
      h("p", {}, "Too few groups of follicular cells to judge; nothing is said of malignancy."),
    );
  } else {
    parts.push(
      h(
        "p",
        { class: "verdict" },
        h("b", { class: result.malignant ? "malignant" : "normal" }, percent(result.probability)),
        " probability of malignancy",
      ),
      result.bethesda &&
        h(
          "p",
          { class: "category" },
          h("span", { class: `tbs tbs-${result.bethesda}` }, `TBS ${result.bethesda}`),
          " ",
          BETHESDA[result.bethesda],
        ),
      model &&
        scoreAxis(
          result,
          model,
          (evidence?.tiles ?? []).flatMap((tile) => (tile.malignancy === null ? [] : [tile.malignancy])),
        ),
      h(
        "p",
        { class: "dim" },
        `The model calls it ${result.malignant ? "malignant" : "benign"}.`,
        model &&
          ` Calibrated on ${model.calibration_slides} slides${model.calibration_slides < FEW_SLIDES ? ", so it is rough" : ""}.`,
      ),
      suspicious &&
        h("button", { class: "main", onclick: suspicious, title: "Key: s" }, "Show the most suspicious tile"),
    );
  }
  const groups = evidence?.groups;
  parts.push(
    h(
      "p",
      {},
      `${result.informative_tiles ?? 0} informative tiles`,
      groups !== null && groups !== undefined && model
        ? ` in ${groups} groups; ${model.groups_needed} groups are needed.`
        : ".",
    ),
    evidence && histogram(evidence, model?.confident ?? null),
  );
  return section("Algorithm", ...parts);
}

export function modelCard(view: SlideView): HTMLElement {
  const facts =
    view.model &&
    Object.entries(view.model.provenance).flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]);
  return h(
    "details",
    { class: "card" },
    h("summary", {}, "Model and provenance"),
    view.result && h("p", {}, view.result.method),
    facts
      ? h("dl", {}, ...facts)
      : h(
          "p",
          { class: "dim" },
          view.status === "hidden"
            ? "Hidden until you have read the slide."
            : "The model that made this result is not among the places served.",
        ),
  );
}

export function readingCard(view: SlideView, session: Session, given: (view: SlideView) => void): HTMLElement {
  const own = view.readings.filter((reading) => reading.reader === session.reader);
  const others = view.readings.filter((reading) => reading.reader !== session.reader);
  const comment = h("textarea", { rows: 2, maxlength: 2000, "aria-label": "Comment", placeholder: "Comment, if any" });
  let chosen = 0;
  const save = h(
    "button",
    { class: "main", disabled: true },
    own.length ? "Give another reading" : "Give this reading",
  );
  const choices = [1, 2, 3, 4, 5, 6].map((category) =>
    h(
      "label",
      { class: `choice tbs-${category}`, title: BETHESDA[category] ?? "" },
      h("input", {
        type: "radio",
        name: "bethesda",
        value: String(category),
        onchange: () => {
          chosen = category;
          save.disabled = false;
          meaning.textContent = `TBS ${category}: ${BETHESDA[category]}`;
        },
      }),
      String(category),
    ),
  );
  const meaning = h("p", { class: "dim", "aria-live": "polite" }, "Bethesda category");
  const send = async (event: Event): Promise<void> => {
    event.preventDefault();
    save.disabled = true;
    try {
      given(await api.read(view.name, chosen, comment.value));
      say("Your reading is kept.");
    } catch (error) {
      save.disabled = false;
      say((error as Refused).message, true);
    }
  };
  const form = h(
    "form",
    { onsubmit: send },
    h("fieldset", { class: "choices" }, h("legend", { class: "unseen" }, "Bethesda category"), ...choices),
    meaning,
    comment,
    !view.blind &&
      view.status !== "unpredicted" &&
      !own.length &&
      h(
        "p",
        { class: "dim" },
        "The algorithm's result of this slide has been shown to you; your reading will not count as blind.",
      ),
    save,
  );
  return section(
    "Your reading",
    own.length ? h("ul", { class: "readings" }, ...own.map(told)) : null,
    ...combined(view.combined),
    own.length
      ? h(
          "details",
          {},
          h("summary", {}, "Changed your mind?"),
          h("p", { class: "dim" }, "The readings above stay; yours of now is added."),
          form,
        )
      : form,
    others.length
      ? h("details", {}, h("summary", {}, "Other readers"), h("ul", { class: "readings" }, ...others.map(told)))
      : null,
  );
}

function told(reading: Reading): HTMLElement {
  const time = new Date(reading.time).toLocaleString(undefined, { dateStyle: "short", timeStyle: "short" });
  return h(
    "li",
    {},
    h("span", { class: `tbs tbs-${reading.bethesda}` }, `TBS ${reading.bethesda}`),
    " ",
    reading.reader,
    h("span", { class: "dim" }, ` · ${time} · ${reading.blind ? "blind" : "after seeing the result"}`),
    reading.comment && h("div", {}, reading.comment),
  );
}

function combined(all: Combined[]): Child[] {
  if (!all.length) return [];
  const words: Record<Combined["rule"], string> = {
    Combined345Human: "3–5: reader decides",
    Combined345Alg: "3–5: algorithm decides",
  };
  return [
    all[0]!.conflict &&
      h(
        "p",
        { class: "conflict", role: "alert" },
        "Conflict: one says benign, the other malignant. Your category stands; have the slide reviewed.",
      ),
    h(
      "table",
      { class: "combined" },
      h("caption", {}, "Combined decision"),
      h(
        "tbody",
        {},
        ...all.map((each) =>
          h(
            "tr",
            {},
            h("th", { scope: "row" }, words[each.rule]),
            h("td", {}, h("span", { class: `tbs tbs-${each.bethesda}` }, `TBS ${each.bethesda}`)),
            h("td", { class: "dim" }, each.decided_by === "both" ? "both agree" : `by the ${each.decided_by}`),
          ),
        ),
      ),
    ),
  ];
}

export function section(title: string, ...children: Child[]): HTMLElement {
  return h("section", { class: "card" }, h("h2", {}, title), ...children);
}
