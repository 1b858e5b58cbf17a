/** The tiles that a slide's score rests on, as pictures: the way to the few groups that matter. */

import { slidePath, type Evidence, type Model, type Tile } from "./api";
import { h } from "./dom";
import { tileColour } from "./overlay";

export interface RailEvents {
  choose: (tile: Tile) => void;
  hover: (tile: Tile | null) => void;
}

export class Rail {
  readonly element = h("nav", { class: "rail", "aria-label": "Tiles that matter" });
  private tiles: Tile[] = [];
  private at = -1;
  private readonly list = h("ol", {});

  constructor(
    private readonly slide: string,
    private readonly evidence: Evidence,
    private readonly model: Model | null,
    private readonly events: RailEvents,
  ) {
    const graded = evidence.tiles.some((tile) => tile.malignancy !== null);
    const order = h(
      "select",
      { "aria-label": "Order of tiles", onchange: () => this.draw(order.value) },
      h("option", { value: "informativeness" }, "Most informative"),
      graded && h("option", { value: "malignancy" }, "Most suspicious"),
    );
    this.element.append(
      h("div", { class: "rail-head" }, h("b", {}, `${evidence.tiles.length} tiles`), order),
      this.list,
    );
    this.draw(order.value);
  }

  get mostSuspicious(): Tile | null {
    const graded = this.evidence.tiles.filter((tile) => tile.malignancy !== null);
    return graded.length ? graded.reduce((a, b) => (b.malignancy! > a.malignancy! ? b : a)) : null;
  }

  private draw(order: string): void {
    this.tiles = [...this.evidence.tiles];
    if (order === "malignancy") this.tiles.sort((a, b) => b.malignancy! - a.malignancy!);
    this.at = -1;
    const worst = this.mostSuspicious;
    this.list.replaceChildren(...this.tiles.map((tile, i) => h("li", {}, this.button(tile, i, tile === worst))));
  }

  private button(tile: Tile, i: number, worst: boolean): HTMLElement {
    const said = tile.malignancy === null ? "" : `, malignancy score ${tile.malignancy.toFixed(2)}`;
    const button = h(
      "button",
      {
        class: "tile",
        "aria-label": `Tile ${tile.rank}, informativeness ${tile.informativeness.toFixed(2)}${said}${worst ? ", the most suspicious" : ""}`,
        "data-x": tile.x,
        "data-y": tile.y,
        onclick: () => this.choose(i),
        onpointerenter: () => this.events.hover(tile),
        onpointerleave: () => this.events.hover(null),
        onfocus: () => this.events.hover(tile),
        onblur: () => this.events.hover(null),
      },
      h("img", {
        src: `${slidePath(this.slide)}/squares/${tile.x}/${tile.y}`,
        alt: "",
        loading: "lazy",
        width: 128,
        height: 128,
      }),
      h(
        "span",
        { class: "values" },
        h("span", { title: "Informativeness" }, tile.informativeness.toFixed(2)),
        tile.malignancy === null
          ? null
          : h("span", { class: "score", title: "Malignancy score" }, tile.malignancy.toFixed(2)),
      ),
      worst && h("span", { class: "worst" }, "most suspicious"),
    );
    button.style.setProperty("--colour", tileColour(tile, this.model));
    return button;
  }

  choose(i: number): void {
    const tile = this.tiles[i];
    if (!tile) return;
    this.at = i;
    const buttons = this.list.querySelectorAll("button");
    buttons.forEach((button, j) => button.toggleAttribute("aria-current", j === i));
    buttons[i]!.scrollIntoView({ block: "nearest" });
    this.events.choose(tile);
  }

  step(by: number): void {
    this.choose(Math.min(this.tiles.length - 1, Math.max(0, this.at + by)));
  }

  chooseWorst(): void {
    const worst = this.mostSuspicious;
    if (worst) this.choose(this.tiles.indexOf(worst));
  }
}
