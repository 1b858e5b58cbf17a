/** The slide itself: OpenSeadragon beneath, a canvas of our own above it, in level-0 pixels whatever zoom and turn. */

import OpenSeadragon from "openseadragon";
import { slidePath, type Shape } from "./api";
import { h } from "./dom";

export interface Spot {
  x: number;
  y: number;
}
export interface View {
  x: number;
  y: number;
  zoom: number;
  turn: number;
}
/** Paints in level-0 pixels; `px` is how many of them a screen pixel is. */
export type Painter = (brush: CanvasRenderingContext2D, px: number) => void;

const POWERS = [2.5, 5, 10, 20, 40];
const LENGTHS_UM = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000];

// OpenSeadragon would add a style element, which the content policy refuses; it does not where one is marked as there
const marked = document.createElementNS("aspirate", "style");
marked.setAttribute("data-openseadragon-mobile-css", "");
document.head.append(marked);

export class Stage {
  readonly painters: Painter[] = [];
  readonly viewer: OpenSeadragon.Viewer;
  onview: () => void = () => {};
  onfail: (why: string) => void = () => {};
  private readonly canvas = h("canvas", { class: "above", "aria-hidden": "true" });
  private readonly bar = h("div", { class: "scale-bar", "aria-hidden": "true" });
  private readonly power = h("div", { class: "power" });
  private failed = false;

  /** `element` must be on the page already: its size decides what is loaded first. */
  constructor(
    readonly element: HTMLElement,
    readonly name: string,
    readonly shape: Shape,
    view: View | null,
  ) {
    const ground = h("div", { class: "ground" });
    const map = h("div", { class: "map", "aria-hidden": "true" });
    this.element.append(ground, this.canvas, map, h("div", { class: "scale" }, this.power, this.bar));
    map.style.aspectRatio = `${shape.width} / ${shape.height}`;
    this.viewer = OpenSeadragon({
      element: ground,
      drawer: "canvas",
      showNavigationControl: false,
      keyboardNavEnabled: false, // our own keys serve the whole page
      showNavigator: true,
      navigatorElement: map,
      navigatorAutoFade: false,
      animationTime: matchMedia("(prefers-reduced-motion: reduce)").matches ? 0 : 0.6,
      springStiffness: 9,
      maxZoomPixelRatio: 4,
      minZoomImageRatio: 0.6,
      visibilityRatio: 0.3,
      imageLoaderLimit: 8,
      tileRetryMax: 1,
      gestureSettingsMouse: { clickToZoom: false, dblClickToZoom: true, flickEnabled: true },
      tileSources: [
        new OpenSeadragon.TileSource({
          width: shape.width,
          height: shape.height,
          tileSize: shape.tile_px,
          tileOverlap: 0,
          maxLevel: shape.max_level,
          minLevel: Math.max(
            0,
            shape.max_level - Math.ceil(Math.log2(Math.max(shape.width, shape.height) / shape.tile_px)),
          ),
          getTileUrl: (level: number, x: number, y: number) => `${slidePath(name)}/tiles/${level}/${x}/${y}`,
        } as unknown as OpenSeadragon.TileSourceOptions),
      ],
    });
    this.viewer.addHandler("open", () => {
      if (view) this.look(view, true);
      this.paint();
    });
    for (const event of ["update-viewport", "resize", "viewport-change"] as const)
      this.viewer.addHandler(event as "resize", () => this.paint());
    this.viewer.addHandler("tile-load-failed", () => void this.explain());
  }

  private async explain(): Promise<void> {
    if (this.failed) return;
    this.failed = true;
    const answer = await fetch(`${slidePath(this.name)}/tiles/0/0/0`, { cache: "no-store" }).catch(() => null);
    this.onfail(
      answer === null
        ? "The server does not answer."
        : answer.ok
          ? "Part of the slide could not be read."
          : (await answer.json()).detail,
    );
  }

  /** Screen pixels per level-0 pixel. */
  get zoom(): number {
    return this.viewer.viewport.viewportToImageZoom(this.viewer.viewport.getZoom());
  }

  get view(): View {
    const centre = this.viewer.viewport.viewportToImageCoordinates(this.viewer.viewport.getCenter());
    return { x: centre.x, y: centre.y, zoom: this.zoom, turn: this.viewer.viewport.getRotation() };
  }

  look(view: View, atOnce = false): void {
    const port = this.viewer.viewport;
    port.setRotation(view.turn, atOnce);
    port.zoomTo(port.imageToViewportZoom(view.zoom), undefined, atOnce);
    port.panTo(port.imageToViewportCoordinates(new OpenSeadragon.Point(view.x, view.y)), atOnce);
  }

  /** To a square of the slide, close enough to see its cells. */
  fly(x: number, y: number, side: number): void {
    const zoom = Math.min(2, Math.max(0.5, Math.min(this.element.clientWidth, this.element.clientHeight) / (side * 5)));
    this.look({ x: x + side / 2, y: y + side / 2, zoom, turn: this.viewer.viewport.getRotation() });
  }

  /** By objective power, 1 to 5; without a resolution, by level-0 pixels. */
  magnify(step: number): void {
    const zoom = ((POWERS[step - 1] ?? 40) * (this.shape.mpp ?? 0.25)) / 10;
    this.look({ ...this.view, zoom });
  }

  pan(dx: number, dy: number): void {
    const port = this.viewer.viewport;
    port.panBy(port.deltaPointsFromPixels(new OpenSeadragon.Point(dx, dy)));
    port.applyConstraints();
  }

  zoomBy(factor: number): void {
    this.viewer.viewport.zoomBy(factor);
    this.viewer.viewport.applyConstraints();
  }

  turn(): void {
    this.viewer.viewport.setRotation(this.viewer.viewport.getRotation() + 90);
  }

  home(): void {
    this.viewer.viewport.setRotation(0);
    this.viewer.viewport.goHome();
  }

  /** Where on the slide a point of the window is. */
  spot(position: OpenSeadragon.Point): Spot {
    const point = this.viewer.viewport.viewerElementToImageCoordinates(position);
    return { x: point.x, y: point.y };
  }

  paint(): void {
    if (!this.viewer.world.getItemCount()) return;
    const { clientWidth: width, clientHeight: height } = this.element;
    const ratio = window.devicePixelRatio;
    if (this.canvas.width !== Math.round(width * ratio) || this.canvas.height !== Math.round(height * ratio)) {
      this.canvas.width = Math.round(width * ratio);
      this.canvas.height = Math.round(height * ratio);
    }
    const brush = this.canvas.getContext("2d")!;
    brush.setTransform(1, 0, 0, 1, 0, 0);
    brush.clearRect(0, 0, this.canvas.width, this.canvas.height);
    const at = (x: number, y: number): OpenSeadragon.Point =>
      this.viewer.viewport.imageToViewerElementCoordinates(new OpenSeadragon.Point(x, y));
    const unit = 1000;
    const [origin, right, below] = [at(0, 0), at(unit, 0), at(0, unit)];
    brush.setTransform(
      ((right.x - origin.x) / unit) * ratio,
      ((right.y - origin.y) / unit) * ratio,
      ((below.x - origin.x) / unit) * ratio,
      ((below.y - origin.y) / unit) * ratio,
      origin.x * ratio,
      origin.y * ratio,
    );
    const px = unit / Math.hypot(right.x - origin.x, right.y - origin.y);
    for (const painter of this.painters) {
      brush.save();
      painter(brush, px);
      brush.restore();
    }
    this.measure();
    this.onview();
  }

  private measure(): void {
    const { mpp } = this.shape;
    const zoom = this.zoom;
    if (mpp === null) {
      this.power.textContent = `${(zoom * 100).toPrecision(3)} % · resolution unknown`;
      this.bar.hidden = true;
      return;
    }
    this.power.textContent = `${Number(((10 / mpp) * zoom).toPrecision(2))} ×`;
    const length = LENGTHS_UM.filter((um) => (um / mpp) * zoom <= 160).at(-1) ?? 1;
    this.bar.style.width = `${(length / mpp) * zoom}px`;
    this.bar.textContent = length >= 1000 ? `${length / 1000} mm` : `${length} µm`;
  }

  close(): void {
    this.viewer.destroy();
  }
}
