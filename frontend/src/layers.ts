/** Which layers lie over the slide, how strongly, and what their colours mean. */

import type { Evidence } from "./api";
import { h, s } from "./dom";
import { type Overlay, ZONES } from "./overlay";
import type { Keys } from "./slide";
import type { Stage } from "./stage";

export function layerControls(
  stage: Stage,
  overlay: Overlay,
  evidence: Evidence | null,
): { element: HTMLElement; keys: Keys } {
  const { layers } = overlay;
  let strength = layers.heat || 0.5;
  const opacity = h("input", {
    type: "range",
    min: 0.1,
    max: 1,
    step: 0.05,
    value: strength,
    "aria-label": "Opacity of the heat map",
    disabled: !layers.heat,
    oninput: () => {
      strength = layers.heat = Number(opacity.value);
      stage.paint();
    },
  });
  const toggle = (text: string, key: string, on: boolean, set: (on: boolean) => void): [HTMLElement, () => void] => {
    const turn = (): void => {
      on = !on;
      button.setAttribute("aria-pressed", String(on));
      set(on);
      stage.paint();
    };
    const button = h("button", { "aria-pressed": String(on), title: `Key: ${key}`, onclick: turn }, text);
    return [button, turn];
  };
  const [heat, turnHeat] = toggle("Heat map", "h", layers.heat > 0, (on) => {
    layers.heat = on ? strength : 0;
    opacity.disabled = !on;
  });
  const [tiles, turnTiles] = toggle("Tiles", "t", layers.tiles, (on) => {
    layers.tiles = on;
  });
  const [marks, turnMarks] = toggle("Annotations", "a", layers.marks, (on) => {
    layers.marks = on;
  });
  const seen = evidence !== null;
  const graded = evidence?.tiles.some((tile) => tile.malignancy !== null);
  const element = h(
    "div",
    { class: "layers", role: "group", "aria-label": "Layers" },
    seen && heat,
    seen && opacity,
    seen && heatLegend(evidence),
    seen && tiles,
    graded && tileLegend(),
    marks,
  );
  return { element, keys: { ...(seen && { h: turnHeat, t: turnTiles }), a: turnMarks } };
}

function heatLegend({ colours, guessed }: Evidence): HTMLElement {
  const width = guessed > 0 ? 60 : 110; // the row of controls fits a laptop
  const stops = colours.map((colour, i) => s("stop", { offset: i / (colours.length - 1), "stop-color": colour }));
  return h(
    "div",
    { class: "legend", role: "img", "aria-label": "Informativeness, from 0 dark to 1 light" },
    "0",
    s(
      "svg",
      { width, height: 10, "aria-hidden": "true" },
      s("defs", {}, s("linearGradient", { id: "heat" }, ...stops)),
      s("rect", { width, height: 10, rx: 2, fill: "url(#heat)" }),
    ),
    "1 informative",
    guessed > 0 &&
      h(
        "span",
        { title: `${Math.round(100 * guessed)} % of the tiles were judged from afar only, by a smaller net` },
        "faint: guess",
      ),
  );
}

function tileLegend(): HTMLElement {
  const boxes = Object.entries(ZONES).map(([category, colour], i) =>
    s("rect", { x: i * 14, width: 12, height: 10, fill: colour }, s("title", {}, `like TBS ${category}`)),
  );
  return h(
    "span",
    { class: "legend", role: "img", "aria-label": "Tiles by malignancy score, from benign green to malignant red" },
    s("svg", { width: 70, height: 10, "aria-hidden": "true" }, ...boxes),
    "malignant",
  );
}
