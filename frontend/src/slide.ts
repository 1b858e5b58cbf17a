/** One slide: where to look, what it shows, what is said of it. */

import { api, type Evidence, type Session, type SlideView } from "./api";
import { h } from "./dom";
import { go, link, type Page } from "./main";
import { layerControls } from "./layers";
import { Marking } from "./marking";
import { Overlay, type Layers } from "./overlay";
import { modelCard, readingCard, resultCard } from "./panel";
import { Rail } from "./rail";
import { Stage, type View } from "./stage";

const PAN_PX = 120;
const KEYS: [string, string][] = [
  ["arrows", "move"],
  ["+  −", "zoom"],
  ["1 – 5", "2.5 ×, 5 ×, 10 ×, 20 ×, 40 ×"],
  ["0", "whole slide"],
  ["r", "turn"],
  ["n  p", "next, previous slide"],
  ["h", "heat map"],
  ["t", "tiles"],
  ["a", "annotations"],
  [".  ,", "next, previous tile of the rail"],
  ["s", "most suspicious tile"],
  ["m  b  v", "mark a point, a box, look"],
  ["u", "undo"],
  ["Delete", "remove annotation"],
  ["?", "these keys"],
];

const slideUrl = (name: string): string => `/slide/${encodeURIComponent(name)}`;

function layersOf(query: URLSearchParams): Layers {
  return {
    heat: Number(query.get("heat") ?? "0"),
    tiles: query.get("tiles") !== "0",
    marks: query.get("marks") !== "0",
  };
}

function viewOf(query: URLSearchParams): View | null {
  const [x, y, zoom, turn] = ["x", "y", "z", "r"].map((name) => Number(query.get(name) ?? (name === "r" ? 0 : NaN)));
  return [x, y, zoom].every(Number.isFinite) ? { x: x!, y: y!, zoom: zoom!, turn: turn || 0 } : null;
}

export async function slidePage(name: string, session: Session): Promise<Page> {
  const view = await api.slide(name);
  const evidence = view.status === "unpredicted" || !view.pyramid ? null : await api.evidence(name).catch(() => null);
  const bar = [
    h("h1", {}, name),
    h(
      "span",
      { class: "row" },
      view.previous
        ? link(
            slideUrl(view.previous),
            { class: "button", title: "Key: p", "aria-label": `Previous slide, ${view.previous}` },
            "‹",
          )
        : null,
      view.next
        ? link(slideUrl(view.next), { class: "button", title: "Key: n", "aria-label": `Next slide, ${view.next}` }, "›")
        : null,
    ),
  ];
  if (!view.pyramid) {
    const body = h(
      "main",
      { class: "narrow" },
      h("h2", {}, "This slide cannot be shown"),
      h("p", { role: "alert" }, view.error),
    );
    return { title: name, bar, body, enter: () => listen(turning(view)) };
  }
  const body = h("main", { class: evidence ? "reading" : "reading bare" });
  return { title: name, bar, body, enter: () => open(body, view, evidence, session) };
}

/** Everything of the page, laid out in `body`; the way to leave it is given back. */
function open(body: HTMLElement, view: SlideView, evidence: Evidence | null, session: Session): () => void {
  const desk = h("div", { class: "desk" }),
    ground = h("div", { class: "stage", role: "application", "aria-label": "Slide; press ? for keys" });
  const panel = h("aside", { class: "panel", "aria-label": "Reading and result" });
  const rail =
    evidence &&
    new Rail(view.name, evidence, view.model, {
      choose: (tile) => {
        overlay.chosen = tile;
        stage.fly(tile.x, tile.y, evidence.side_px0);
        stage.paint();
      },
      hover: (tile) => {
        overlay.hovered = tile;
        stage.paint();
      },
    });
  desk.append(ground);
  body.replaceChildren(...(rail ? [rail.element] : []), desk, panel);
  const query = new URLSearchParams(location.search);
  const stage = new Stage(ground, view.name, view.pyramid!, viewOf(query));
  const overlay = new Overlay(stage, layersOf(query));
  overlay.model = view.model;
  const controls = layerControls(stage, overlay, evidence);
  desk.prepend(controls.element);
  const marking = new Marking(view.name, stage, overlay, view.marks_kept);
  const alarm = h("div", { class: "alarm", role: "alert", hidden: true });
  const fill = (shown: SlideView): void => {
    const worst = rail?.mostSuspicious ? () => rail.chooseWorst() : null;
    const cards = [
      resultCard(shown, evidence, worst),
      readingCard(shown, session, (given) => location.pathname === slideUrl(view.name) && revealed(given)),
    ];
    panel.replaceChildren(...(shown.status === "hidden" ? cards.reverse() : cards), marking.element, modelCard(shown));
  };
  // all of the page may say more than before, so it is opened again where it is
  const revealed = (given: SlideView): void =>
    view.status === "hidden" ? go(location.pathname + location.search) : fill(given);
  stage.onfail = (why) => {
    alarm.textContent = why;
    alarm.hidden = false;
  };
  const help = h(
    "dialog",
    { class: "keys" },
    h("h2", {}, "Keys"),
    h("dl", {}, ...KEYS.flatMap(([key, what]) => [h("dt", {}, key), h("dd", {}, what)])),
    h("form", { method: "dialog" }, h("button", { class: "main" }, "Close")),
  );
  stage.element.append(viewControls(stage, help), alarm, help);
  stage.onview = remember(stage, overlay);
  fill(view);
  if (evidence) void overlay.load(evidence);
  void marking.load();
  const keys = {
    ...turning(view),
    ...looking(stage, rail),
    ...controls.keys,
    ...annotating(marking),
    "?": () => help.showModal(),
  };
  const stop = listen(keys);
  return () => {
    stop();
    stage.onview = () => {};
    stage.close();
  };
}

export type Keys = Record<string, (event: KeyboardEvent) => void>;

const turning = (view: SlideView): Keys => ({
  n: () => {
    if (view.next) go(slideUrl(view.next));
  },
  p: () => {
    if (view.previous) go(slideUrl(view.previous));
  },
});

const looking = (stage: Stage, rail: Rail | null): Keys => ({
  ArrowLeft: () => stage.pan(-PAN_PX, 0),
  ArrowRight: () => stage.pan(PAN_PX, 0),
  ArrowUp: () => stage.pan(0, -PAN_PX),
  ArrowDown: () => stage.pan(0, PAN_PX),
  "+": () => stage.zoomBy(1.5),
  "=": () => stage.zoomBy(1.5),
  "-": () => stage.zoomBy(1 / 1.5),
  "0": () => stage.home(),
  r: () => stage.turn(),
  ...Object.fromEntries([1, 2, 3, 4, 5].map((step) => [String(step), () => stage.magnify(step)])),
  ".": () => rail?.step(1),
  ",": () => rail?.step(-1),
  s: () => rail?.chooseWorst(),
});

const annotating = (marking: Marking): Keys => ({
  m: () => marking.use("point"),
  b: () => marking.use("box"),
  v: () => marking.use("look"),
  Escape: () => marking.use("look"),
  u: () => marking.undo(),
  Delete: () => marking.remove(),
  Backspace: () => marking.remove(),
});

/** Keys of the page, but for those who write, choose from a list, or hold another key down. */
function listen(keys: Keys): () => void {
  const pressed = (event: KeyboardEvent): void => {
    const target = event.target as HTMLElement;
    const typing =
      target.matches("input:not([type=radio]):not([type=range]):not([type=checkbox]), textarea, select") ||
      target.closest("dialog");
    const choosing = target.matches("input[type=radio], input[type=range]") && event.key.startsWith("Arrow");
    const act = keys[event.key];
    if (typing || choosing || event.ctrlKey || event.metaKey || event.altKey || !act) return;
    event.preventDefault();
    act(event);
  };
  document.addEventListener("keydown", pressed);
  return () => document.removeEventListener("keydown", pressed);
}

/** The address always says what is seen, so that a colleague opens the same spot. */
function remember(stage: Stage, overlay: Overlay): () => void {
  let waiting = 0;
  return () => {
    window.clearTimeout(waiting);
    waiting = window.setTimeout(() => {
      const { x, y, zoom, turn } = stage.view;
      const { heat, tiles, marks } = overlay.layers;
      const query = new URLSearchParams({
        x: x.toFixed(0),
        y: y.toFixed(0),
        z: zoom.toPrecision(4),
        r: String(((turn % 360) + 360) % 360),
        heat: String(heat),
        tiles: tiles ? "1" : "0",
        marks: marks ? "1" : "0",
      });
      history.replaceState(null, "", `${location.pathname}?${query}`);
    }, 150);
  };
}

function viewControls(stage: Stage, help: HTMLDialogElement): HTMLElement {
  const button = (text: string, label: string, act: () => void): HTMLElement =>
    h("button", { class: "icon", title: label, "aria-label": label, onclick: act }, text);
  return h(
    "div",
    { class: "view-controls", role: "group", "aria-label": "View" },
    button("+", "Zoom in", () => stage.zoomBy(1.5)),
    button("−", "Zoom out", () => stage.zoomBy(1 / 1.5)),
    button("⤢", "Whole slide", () => stage.home()),
    button("⟳", "Turn by 90°", () => stage.turn()),
    button("?", "Keys", () => help.showModal()),
  );
}
