/** What is painted over a slide: the heat map, the tiles a score rests on, annotations. */

import { slidePath, type Evidence, type Grade, type Mark, type Model, type Tile } from "./api";
import type { Painter, Spot, Stage } from "./stage";

export const ZONES: Record<number, string> = { 2: "#3f9c66", 3: "#a3b552", 4: "#e8b04a", 5: "#de7a3c", 6: "#c4372d" };
export const GRADES: Record<Grade, string> = {
  informative: "#4078c0",
  normal: "#2f9e4f",
  atypical: "#eba01e",
  malignant: "#c82832",
};
const NEUTRAL = "#5b6ee1";
const REACH = 10; // how near to a mark or a corner, on the screen, a hand has to be

export interface Layers {
  heat: number;
  tiles: boolean;
  marks: boolean;
}

/** The colour of a tile: of the category that its own score would give; neutral where that is not to be said. */
export function tileColour(tile: Tile, model: Model | null): string {
  if (tile.malignancy === null) return NEUTRAL;
  const cuts = model?.cuts.length ? model.cuts : [-1.5, -0.5, 0.5, 1.5];
  return ZONES[2 + cuts.filter((cut) => tile.malignancy! > cut).length] ?? NEUTRAL;
}

export class Overlay {
  layers: Layers;
  evidence: Evidence | null = null;
  model: Model | null = null;
  marks: Mark[] = [];
  hovered: Tile | null = null;
  chosen: Tile | null = null;
  selected: string | null = null;
  draft: { x: number; y: number; width: number; height: number } | null = null;
  private heat: HTMLImageElement | null = null;

  constructor(
    private readonly stage: Stage,
    layers: Layers,
  ) {
    this.layers = layers;
    stage.painters.push(this.paintHeat, this.paintTiles, this.paintMarks);
  }

  async load(evidence: Evidence): Promise<void> {
    this.evidence = evidence;
    const image = new Image();
    image.src = `${slidePath(this.stage.name)}/heat-map`;
    await image.decode();
    this.heat = image;
    this.stage.paint();
  }

  private readonly paintHeat: Painter = (brush) => {
    if (!this.heat || !this.evidence || this.layers.heat <= 0) return;
    const { width, height } = this.stage.shape;
    brush.beginPath();
    brush.rect(0, 0, width, height);
    brush.clip();
    brush.imageSmoothingEnabled = false; // edges of tiles lie where they lie
    brush.globalAlpha = this.layers.heat;
    const { columns, rows, side_px0: side } = this.evidence;
    brush.drawImage(this.heat, 0, 0, columns * side, rows * side);
  };

  private readonly paintTiles: Painter = (brush, px) => {
    if (!this.evidence) return;
    const side = this.evidence.side_px0;
    if (this.layers.tiles) {
      for (const tile of this.evidence.tiles) outline(brush, tile, side, tileColour(tile, this.model), px, 2);
    }
    for (const tile of new Set([this.chosen, this.hovered])) {
      if (!tile) continue;
      outline(brush, tile, side, "#000", px, 7);
      outline(brush, tile, side, "#fff", px, 4);
      outline(brush, tile, side, tileColour(tile, this.model), px, 2);
    }
  };

  private readonly paintMarks: Painter = (brush, px) => {
    if (this.layers.marks) {
      for (const mark of this.marks) {
        const chosen = mark.id === this.selected;
        trace(brush, mark, px);
        brush.lineWidth = (chosen ? 6 : 4) * px;
        brush.strokeStyle = chosen ? "#000" : "rgba(255, 255, 255, .85)";
        brush.stroke();
        brush.lineWidth = (chosen ? 3 : 2) * px;
        brush.strokeStyle = GRADES[mark.grade];
        brush.stroke();
        if (chosen && isBox(mark)) paintHandles(brush, mark, px);
      }
    }
    if (this.draft) {
      brush.lineWidth = 2 * px;
      brush.setLineDash([6 * px, 4 * px]);
      brush.strokeStyle = "#000";
      brush.strokeRect(this.draft.x, this.draft.y, this.draft.width, this.draft.height);
    }
  };

  /** Of a box with a corner at this spot, the corner across, which stays where it is while the other is dragged. */
  cornerAcross(mark: Mark, spot: Spot): Spot | null {
    const reach = REACH / this.stage.zoom;
    const grabbed = isBox(mark) ? corners(mark).find((at) => Math.hypot(at.x - spot.x, at.y - spot.y) <= reach) : null;
    if (!grabbed) return null;
    const { x, y, width, height } = boxOf(mark);
    return { x: 2 * x + width - grabbed.x, y: 2 * y + height - grabbed.y };
  }

  /** The annotation under a spot, the smallest where several are. */
  markAt(spot: Spot): Mark | null {
    const reach = REACH / this.stage.zoom;
    const hit = this.marks.filter((mark) => {
      const { x, y, width, height } = boxOf(mark);
      return spot.x >= x - reach && spot.x <= x + width + reach && spot.y >= y - reach && spot.y <= y + height + reach;
    });
    hit.sort((a, b) => boxOf(a).width - boxOf(b).width);
    return hit[0] ?? null;
  }
}

function outline(
  brush: CanvasRenderingContext2D,
  tile: Tile,
  side: number,
  colour: string,
  px: number,
  width: number,
): void {
  const grown = Math.max(0, (7 * px - side) / 2); // from afar a tile is a dot that can still be seen
  brush.strokeStyle = colour;
  brush.lineWidth = width * px;
  brush.strokeRect(tile.x - grown, tile.y - grown, side + 2 * grown, side + 2 * grown);
}

function trace(brush: CanvasRenderingContext2D, mark: Mark, px: number): void {
  brush.beginPath();
  for (const ring of rings(mark.geometry)) {
    const [x, y] = ring[0]!;
    if (ring.length === 1) {
      brush.moveTo(x + 7 * px, y);
      brush.arc(x, y, 7 * px, 0, 2 * Math.PI);
      continue;
    }
    brush.moveTo(x, y);
    for (const [left, top] of ring.slice(1)) brush.lineTo(left, top);
    brush.closePath();
  }
}

function paintHandles(brush: CanvasRenderingContext2D, mark: Mark, px: number): void {
  for (const { x, y } of corners(mark)) {
    brush.fillStyle = "#fff";
    brush.fillRect(x - 4 * px, y - 4 * px, 8 * px, 8 * px);
    brush.lineWidth = 2 * px;
    brush.strokeStyle = "#000";
    brush.strokeRect(x - 4 * px, y - 4 * px, 8 * px, 8 * px);
  }
}

/** A box as it is drawn here; outlines of any other form, drawn elsewhere, keep their place. */
export function isBox(mark: Mark): boolean {
  const { type, coordinates } = mark.geometry;
  if (type !== "Polygon" || coordinates.length !== 1 || coordinates[0].length !== 5) return false;
  const at = new Set(corners(mark).map(({ x, y }) => `${x} ${y}`));
  return coordinates[0].every(([x, y]: [number, number]) => at.has(`${x} ${y}`));
}

function corners(mark: Mark): Spot[] {
  const { x, y, width, height } = boxOf(mark);
  return [x, x + width].flatMap((left) => [y, y + height].map((top) => ({ x: left, y: top })));
}

type Ring = [number, number][];

/** Outlines of any GeoJSON geometry; a point is an outline of one. */
function rings(geometry: Mark["geometry"]): Ring[] {
  const { type, coordinates } = geometry;
  if (type === "Point") return [[coordinates]];
  if (type === "MultiPoint") return coordinates.map((point: [number, number]) => [point]);
  if (type === "Polygon") return coordinates;
  if (type === "MultiPolygon") return coordinates.flat();
  return ((geometry as unknown as { geometries: Mark["geometry"][] }).geometries ?? []).flatMap(rings);
}

export function boxOf(mark: Mark): { x: number; y: number; width: number; height: number } {
  const points = rings(mark.geometry).flat();
  const [xs, ys] = [points.map((point) => point[0]), points.map((point) => point[1])];
  const [x, y] = [Math.min(...xs), Math.min(...ys)];
  return { x, y, width: Math.max(...xs) - x, height: Math.max(...ys) - y };
}
