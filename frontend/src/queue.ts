/** Spots to label next: those of which the model is least sure, one after another, slide by slide in turn. */

import { api, type Grade, Refused, slidePath, type Suggestion } from "./api";
import { h, say } from "./dom";
import { link, type Page } from "./main";
import { GRADES as COLOURS } from "./overlay";

const GRADES: [Grade, string][] = [
  ["normal", "1"],
  ["atypical", "2"],
  ["malignant", "3"],
  ["informative", "4"],
];
const AROUND = 5;

export async function queuePage(): Promise<Page> {
  const spots = await api.suggestions();
  const body = h("main", { class: "queue" });
  let done = 0;

  async function settle(spot: Suggestion, grade: Grade | null): Promise<void> {
    try {
      if (grade)
        await api.addMark(spot.slide, { x: spot.x, y: spot.y, width: spot.side_px0, height: spot.side_px0 }, grade);
      else await api.dismiss(spot.slide, spot.x, spot.y);
      say(grade ? `Marked as ${grade}.` : "Left out.");
      done += 1;
      draw();
    } catch (error) {
      say((error as Refused).message, true);
    }
  }

  function draw(): void {
    const spot = spots[done];
    if (!spot) {
      body.replaceChildren(
        h("h2", {}, "Nothing left to label"),
        h(
          "p",
          {},
          "Train again with the new annotations, predict, and come back: the model will be unsure of other spots.",
        ),
        link("/", { class: "button" }, "To the worklist"),
      );
      return;
    }
    const buttons = GRADES.map(([grade, key]) => {
      const button = h(
        "button",
        { class: "grade", onclick: () => void settle(spot, grade) },
        `${grade === "informative" ? "yes, grade unclear" : grade} (${key})`,
      );
      button.style.setProperty("--colour", COLOURS[grade]);
      return button;
    });
    const [cx, cy] = [spot.x + spot.side_px0 / 2, spot.y + spot.side_px0 / 2];
    body.replaceChildren(
      h(
        "p",
        { class: "dim" },
        `Spot ${done + 1} of ${spots.length}. The model is ${(spot.informativeness * 100).toFixed(0)} % sure that it is informative; your word teaches it most here.`,
      ),
      h(
        "div",
        { class: "spot" },
        h(
          "figure",
          {},
          h("img", { src: around(spot), alt: "The spot with what lies around it", width: 480, height: 480 }),
          h("div", { class: "frame", "aria-hidden": "true" }),
        ),
        h(
          "div",
          { class: "answers" },
          h("h2", {}, "Does it show follicular cells?"),
          ...buttons,
          h("button", { onclick: () => void settle(spot, null) }, "no, nothing informative (0)"),
          link(
            `/slide/${encodeURIComponent(spot.slide)}?x=${cx}&y=${cy}&z=1`,
            { class: "button" },
            `Look at it on ${spot.slide}`,
          ),
        ),
      ),
    );
  }

  const pressed = (event: KeyboardEvent): void => {
    const spot = spots[done];
    const grade = GRADES.find(([, key]) => key === event.key);
    if (!spot || (event.target as HTMLElement).matches("input") || event.ctrlKey || event.metaKey) return;
    if (grade) void settle(spot, grade[0]);
    else if (event.key === "0") void settle(spot, null);
  };
  draw();
  const enter = (): (() => void) => {
    document.addEventListener("keydown", pressed);
    return () => document.removeEventListener("keydown", pressed);
  };
  return { title: "Spots to label", bar: [h("h1", {}, "Spots to label")], body, enter };
}

function around(spot: Suggestion): string {
  return `${slidePath(spot.slide)}/squares/${spot.x}/${spot.y}?around=${AROUND}`;
}
