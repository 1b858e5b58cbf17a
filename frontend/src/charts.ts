/** A slide's score among the cuts and on the scale of calibrated probability; its tiles by informativeness. */

import { BETHESDA, type Evidence, type Model, type Result } from "./api";
import { s } from "./dom";
import { ZONES } from "./overlay";

const WIDTH = 300;
const PROBABILITIES = [0.02, 0.1, 0.25, 0.5, 0.75, 0.9, 0.98];

export function scoreAxis(result: Result, model: Model, tiles: number[]): SVGElement {
  const score = result.score!;
  const sorted = [...tiles].sort((a, b) => a - b);
  const shown = [
    score,
    model.threshold,
    ...model.cuts,
    sorted[Math.floor(sorted.length * 0.02)] ?? score,
    sorted[Math.floor(sorted.length * 0.98)] ?? score,
  ];
  const spread = Math.max(Math.max(...shown) - Math.min(...shown), 1e-3) * 0.06;
  const [low, high] = [Math.min(...shown) - spread, Math.max(...shown) + spread];
  const x = (value: number): number => Math.min(1, Math.max(0, (value - low) / (high - low))) * WIDTH;
  const [least, most] = model.calibration_limits;
  const ticks = PROBABILITIES.filter((p) => p > least && p < most)
    .map((p) => ({ p, at: (Math.log(p / (1 - p)) - model.calibration_offset) / model.calibration_slope }))
    .filter(({ at }) => at > low && at < high);
  const edges = [low, ...model.cuts, high];
  const zones = model.cuts.length
    ? edges.slice(0, -1).map((from, i) => ({ category: i + 2, from: x(from), to: x(edges[i + 1]!) }))
    : [];
  const [top, bottom] = [40, 62];
  return s(
    "svg",
    {
      viewBox: `0 0 ${WIDTH} 108`,
      class: "axis",
      role: "img",
      "aria-label": `Score ${score.toFixed(2)}; cuts at ${model.cuts.map((cut) => cut.toFixed(2)).join(", ")}; decision threshold ${model.threshold.toFixed(2)}`,
    },
    ...tickLabels(
      ticks.map(({ p, at }) => ({ at: x(at), text: `${Math.round(p * 100)} %` })),
      24,
      30,
      36,
    ),
    ...zones.flatMap(
      ({ category, from, to }) =>
        [
          s(
            "rect",
            {
              x: from,
              y: top,
              width: Math.max(0, to - from),
              height: bottom - top,
              fill: ZONES[category]!,
              opacity: result.bethesda === category ? 1 : 0.45,
            },
            s("title", {}, `TBS ${category}: ${BETHESDA[category]}`),
          ),
          to - from > 14 &&
            s(
              "text",
              { x: (from + to) / 2, y: 55, class: result.bethesda === category ? "zone here" : "zone" },
              String(category),
            ),
        ].filter(Boolean) as SVGElement[],
    ),
    zones.length ? null : s("rect", { x: 0, y: top, width: WIDTH, height: bottom - top, class: "plain" }),
    ...tiles.map((tile) =>
      s("line", {
        x1: x(tile),
        x2: x(tile),
        y1: bottom + 1,
        y2: bottom + 7,
        class: "tick",
        opacity: Math.min(0.7, Math.max(0.12, 20 / tiles.length)),
      }),
    ),
    ...tickLabels(
      model.cuts.map((cut) => ({ at: x(cut), text: cut.toFixed(1) })),
      82,
      bottom,
      bottom + 9,
    ),
    s("line", { x1: x(model.threshold), x2: x(model.threshold), y1: top - 3, y2: bottom + 3, class: "threshold" }),
    s("path", { d: `M${x(score) - 6} ${top - 9}h12l-6 8z`, class: "needle" }),
    s("line", { x1: x(score), x2: x(score), y1: top, y2: bottom, class: "needle-line" }),
    s("text", { x: 0, y: 10, class: "caption" }, "calibrated probability at each score"),
    s("text", { x: 0, y: 100, class: "caption" }, "score, with the cuts between categories; dashed: decision"),
  );
}

function tickLabels(marks: { at: number; text: string }[], y: number, from: number, to: number): SVGElement[] {
  let free = -Infinity;
  return marks.flatMap(({ at, text }) => {
    const line = s("line", { x1: at, x2: at, y1: from, y2: to, class: "tick" });
    const half = text.length * 3.2;
    const centre = Math.min(WIDTH - half, Math.max(half, at));
    if (centre - half < free) return [line];
    free = centre + half + 3;
    return [line, s("text", { x: centre, y, class: "label" }, text)];
  });
}

/** Counts on a logarithmic scale: a few tiles in tens of thousands must be seen. */
export function histogram(evidence: Evidence, confident: number | null): SVGElement {
  const { histogram: counts, colours } = evidence;
  const height = 60;
  const highest = Math.log10(1 + Math.max(...counts));
  const wide = WIDTH / counts.length;
  const bars = counts.map((count, i) => {
    const tall = count ? Math.max(2, (Math.log10(1 + count) / highest) * height) : 0;
    const colour = colours[Math.round((i / (counts.length - 1)) * (colours.length - 1))]!;
    return s(
      "rect",
      { x: i * wide + 0.5, y: height - tall + 6, width: wide - 1, height: tall, fill: colour, class: "bar" },
      s("title", {}, `${count} tiles, ${(i / counts.length).toFixed(2)} to ${((i + 1) / counts.length).toFixed(2)}`),
    );
  });
  const mark =
    confident === null
      ? []
      : [s("line", { x1: confident * WIDTH, x2: confident * WIDTH, y1: 0, y2: height + 6, class: "threshold" })];
  return s(
    "svg",
    { viewBox: `0 0 ${WIDTH} 96`, class: "axis", role: "img", "aria-label": "Tiles by informativeness" },
    ...bars,
    ...mark,
    s("text", { x: 0, y: 78, class: "label start" }, "0"),
    s("text", { x: WIDTH, y: 78, class: "label end" }, "1"),
    s(
      "text",
      { x: 0, y: 92, class: "caption" },
      confident === null
        ? "tiles by informativeness, logarithmic"
        : `tiles by informativeness, logarithmic; confident from ${confident.toFixed(2)}`,
    ),
  );
}
