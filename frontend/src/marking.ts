/** Annotations: mark a spot or a box, grade it, move it, size it, take it back. Every step is saved at once. */

import type OpenSeadragon from "openseadragon";
import { api, type Grade, type Mark, type Place, Refused, slidePath } from "./api";
import { h, say } from "./dom";
import { boxOf, GRADES, isBox, type Overlay } from "./overlay";
import { section } from "./panel";
import type { Spot, Stage } from "./stage";

type Tool = "look" | "point" | "box";
const NAMES: Grade[] = ["informative", "normal", "atypical", "malignant"];
const TOOLS: [Tool, string, string][] = [
  ["look", "Look", "v"],
  ["point", "Point", "m"],
  ["box", "Box", "b"],
];
const SMALLEST_PX = 5;

export class Marking {
  readonly element: HTMLElement;
  private tool: Tool = "look";
  private grade: Grade = "informative";
  private readonly undos: (() => Promise<void>)[] = [];
  private from: Spot | null = null;
  private held: { mark: Mark; from: Spot; to: (spot: Spot) => Place } | null = null;
  private readonly body = h("div", { class: "marking" });

  constructor(
    private readonly slide: string,
    private readonly stage: Stage,
    private readonly overlay: Overlay,
    kept: string,
  ) {
    this.element = section("Annotations", this.body, h("p", { class: "dim" }, `Saved at once to ${kept}.`));
    stage.viewer.addHandler("canvas-click", (event) => this.clicked(event));
    stage.viewer.addHandler("canvas-press", (event) => this.pressed(event));
    stage.viewer.addHandler("canvas-drag", (event) => this.dragged(event));
    stage.viewer.addHandler("canvas-release", (event) => void this.released(event));
    this.draw();
  }

  async load(): Promise<void> {
    try {
      this.overlay.marks = await api.marks(this.slide);
    } catch (error) {
      say((error as Refused).message, true);
    }
    this.changed();
  }

  private changed(): void {
    if (!this.overlay.marks.some((mark) => mark.id === this.overlay.selected)) this.overlay.selected = null;
    this.draw();
    this.stage.paint();
  }

  use(tool: Tool): void {
    this.tool = tool;
    this.stage.element.dataset.tool = tool;
    this.draw();
  }

  private clicked(event: OpenSeadragon.CanvasClickEvent): void {
    if (!event.quick) return;
    const spot = this.stage.spot(event.position);
    if (this.tool === "point") void this.add({ ...spot, width: 0, height: 0 });
    else if (this.tool === "look") {
      this.overlay.selected = this.overlay.markAt(spot)?.id ?? null;
      this.changed();
    }
  }

  private pressed(event: OpenSeadragon.CanvasPressEvent): void {
    const spot = this.stage.spot(event.position);
    this.from = this.tool === "box" ? spot : null;
    this.held = null;
    const mark = this.overlay.marks.find((each) => each.id === this.overlay.selected);
    if (this.tool !== "look" || !mark) return;
    const fixed = this.overlay.cornerAcross(mark, spot);
    if (fixed) this.held = { mark, from: spot, to: (at) => between(fixed, at) };
    else if (this.overlay.markAt(spot) === mark && (isBox(mark) || mark.geometry.type === "Point"))
      this.held = { mark, from: spot, to: (at) => moved(mark, spot, at) };
  }

  private dragged(event: OpenSeadragon.CanvasDragEvent): void {
    if (!this.from && !this.held) return;
    event.preventDefaultAction = true;
    const spot = this.stage.spot(event.position);
    this.overlay.draft = this.from ? between(this.from, spot) : this.held!.to(spot);
    this.stage.paint();
  }

  private async released(event: OpenSeadragon.CanvasReleaseEvent): Promise<void> {
    const { from, held } = this;
    const spot = this.stage.spot(event.position);
    this.from = this.held = this.overlay.draft = null;
    const least = SMALLEST_PX / this.stage.zoom;
    if (from) {
      const box = between(from, spot);
      if (box.width > least && box.height > least) await this.add(box);
    } else if (held && Math.hypot(spot.x - held.from.x, spot.y - held.from.y) > least) {
      const place = held.to(spot);
      if (!isBox(held.mark) || (place.width > least && place.height > least))
        await this.change(held.mark, held.mark.grade, place);
    }
  }

  private async attempt(work: () => Promise<void>): Promise<void> {
    try {
      await work();
    } catch (error) {
      say((error as Refused).message, true);
      await this.load();
    }
    this.changed();
  }

  private replace(mark: Mark): void {
    const at = this.overlay.marks.findIndex((each) => each.id === mark.id);
    if (at < 0) this.overlay.marks.push(mark);
    else this.overlay.marks[at] = mark;
    this.overlay.selected = mark.id;
  }

  private drop(id: string): void {
    this.overlay.marks = this.overlay.marks.filter((each) => each.id !== id);
  }

  private add(place: Place): Promise<void> {
    return this.attempt(async () => {
      const mark = await api.addMark(this.slide, inside(place, this.stage), this.grade);
      this.replace(mark);
      this.undos.push(async () => {
        await api.removeMark(this.slide, mark.id);
        this.drop(mark.id);
      });
      say(`Marked as ${mark.grade}.`);
    });
  }

  private change(mark: Mark, grade: Grade, place: Place | null): Promise<void> {
    return this.attempt(async () => {
      this.replace(await api.changeMark(this.slide, mark.id, grade, place && inside(place, this.stage)));
      this.undos.push(async () => this.replace(await api.restoreMark(this.slide, mark.id, mark.event)));
    });
  }

  remove(): void {
    const mark = this.overlay.marks.find((each) => each.id === this.overlay.selected);
    if (!mark) return;
    void this.attempt(async () => {
      await api.removeMark(this.slide, mark.id);
      this.drop(mark.id);
      this.undos.push(async () => this.replace(await api.restoreMark(this.slide, mark.id, mark.event)));
      say("Removed; u brings it back.");
    });
  }

  undo(): void {
    const last = this.undos.pop();
    if (last)
      void this.attempt(async () => {
        await last();
        say("Taken back.");
      });
  }

  /** The grade of the selected annotation, or of those to come. */
  give(grade: Grade): void {
    const mark = this.overlay.marks.find((each) => each.id === this.overlay.selected);
    this.grade = grade;
    if (mark && mark.grade !== grade) void this.change(mark, grade, null);
    else this.draw();
  }

  markSquare(x: number, y: number, side: number, grade: Grade): Promise<void> {
    this.grade = grade;
    return this.add({ x, y, width: side, height: side });
  }

  private draw(): void {
    const { marks, selected } = this.overlay;
    const mark = marks.find((each) => each.id === selected);
    const tools = TOOLS.map(([tool, text, key]) =>
      h(
        "button",
        {
          class: "tool",
          "aria-pressed": String(this.tool === tool),
          title: `Key: ${key}`,
          onclick: () => this.use(tool),
        },
        text,
      ),
    );
    const current = mark?.grade ?? this.grade;
    const grades = NAMES.map((name) => {
      const button = h(
        "button",
        { class: "grade", "aria-pressed": String(name === current), onclick: () => this.give(name) },
        name,
      );
      button.style.setProperty("--colour", GRADES[name]);
      return button;
    });
    const file = h("input", {
      type: "file",
      accept: ".geojson,.json",
      class: "unseen",
      "aria-label": "GeoJSON file",
      onchange: () => void this.take(file),
    });
    this.body.replaceChildren(
      h("div", { class: "row", role: "group", "aria-label": "Tool" }, ...tools),
      h(
        "div",
        {
          class: "row",
          role: "group",
          "aria-label": mark ? "Grade of the selected annotation" : "Grade of the next annotation",
        },
        ...grades,
      ),
      h(
        "div",
        { class: "row" },
        h(
          "span",
          { class: "count" },
          `${marks.length} annotation${marks.length === 1 ? "" : "s"}${mark ? `, one selected (${mark.reader})` : ""}`,
        ),
        h("button", { disabled: !mark, title: "Key: Delete", onclick: () => this.remove() }, "Remove"),
        h("button", { disabled: !this.undos.length, title: "Key: u", onclick: () => this.undo() }, "Undo"),
      ),
      h(
        "div",
        { class: "row" },
        h("a", { class: "button", href: `${slidePath(this.slide)}/marks.geojson`, download: true }, "Export GeoJSON"),
        h("button", { onclick: () => file.click() }, "Import GeoJSON"),
        file,
      ),
    );
  }

  private take(input: HTMLInputElement): Promise<void> {
    return this.attempt(async () => {
      const { added } = await api.importMarks(this.slide, input.files![0]!);
      say(`${added} annotation${added === 1 ? "" : "s"} added.`);
      await this.load();
    });
  }
}

function between(a: Spot, b: Spot): Place {
  return { x: Math.min(a.x, b.x), y: Math.min(a.y, b.y), width: Math.abs(a.x - b.x), height: Math.abs(a.y - b.y) };
}

function moved(mark: Mark, from: Spot, to: Spot): Place {
  const box = boxOf(mark);
  return { ...box, x: box.x + to.x - from.x, y: box.y + to.y - from.y };
}

function inside(place: Place, stage: Stage): Place {
  const { width, height } = stage.shape;
  const [left, top] = [Math.min(width - 1, Math.max(0, place.x)), Math.min(height - 1, Math.max(0, place.y))];
  const round = (value: number): number => Math.round(value * 10) / 10;
  return {
    x: round(left),
    y: round(top),
    width: round(Math.min(place.width, width - left)),
    height: round(Math.min(place.height, height - top)),
  };
}
