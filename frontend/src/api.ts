/** The server, as src/aspirate/viewer/messages.py describes it. */

export type Mode = "review" | "reading";
export type Grade = "informative" | "normal" | "atypical" | "malignant";
export type Status = "predicted" | "inadequate" | "failed" | "unpredicted" | "hidden";

export interface Session {
  reader: string;
  role: "reader" | "admin";
  mode: Mode;
  csrf: string;
  accounts: boolean;
  report: boolean;
  version: string;
}
export interface SignedOut {
  accounts: boolean;
  version: string;
}
export interface Result {
  method: string;
  score: number | null;
  probability: number | null;
  bethesda: number | null;
  malignant: boolean | null;
  adequate: boolean | null;
  informative_tiles: number | null;
}
export interface SlideRow {
  name: string;
  status: Status;
  result: Result | null;
  error: string;
  own_bethesda: number | null;
  readings: number;
  marks: number;
}
export interface Shape {
  width: number;
  height: number;
  tile_px: number;
  max_level: number;
  mpp: number | null;
}
export interface Model {
  confident: number;
  cuts: number[];
  threshold: number;
  calibration_slope: number;
  calibration_offset: number;
  calibration_limits: [number, number];
  calibration_slides: number;
  groups_needed: number;
  provenance: Record<string, string>;
}
export interface Reading {
  bethesda: number;
  comment: string;
  reader: string;
  time: string;
  blind: boolean;
}
export interface Combined {
  rule: "Combined345Human" | "Combined345Alg";
  bethesda: number;
  decided_by: string;
  conflict: boolean;
}
export interface SlideView {
  name: string;
  previous: string | null;
  next: string | null;
  status: Status;
  error: string;
  pyramid: Shape | null;
  result: Result | null;
  model: Model | null;
  blind: boolean;
  readings: Reading[];
  combined: Combined[];
  marks_kept: string;
}
export interface Tile {
  rank: number;
  x: number;
  y: number;
  informativeness: number;
  malignancy: number | null;
}
export interface Evidence {
  side_px0: number;
  columns: number;
  rows: number;
  tiles: Tile[];
  histogram: number[];
  groups: number | null;
  colours: string[];
  guessed: number;
}
export interface Place {
  x: number;
  y: number;
  width: number;
  height: number;
}
export interface Mark {
  id: string;
  event: number;
  geometry: { type: string; coordinates: any };
  grade: Grade;
  reader: string;
  time: string;
}
export interface Suggestion {
  slide: string;
  x: number;
  y: number;
  side_px0: number;
  informativeness: number;
}

export const BETHESDA: Record<number, string> = {
  1: "nondiagnostic",
  2: "benign",
  3: "atypia of undetermined significance",
  4: "follicular neoplasm",
  5: "suspicious for malignancy",
  6: "malignant",
};

export class Refused extends Error {
  constructor(
    readonly status: number,
    message: string,
  ) {
    super(message);
  }
}

let csrf = "";

async function ask(method: string, path: string, body?: unknown): Promise<Response> {
  const headers: Record<string, string> = method === "GET" ? {} : { "X-CSRF-Token": csrf };
  const raw = body instanceof Blob;
  if (body !== undefined) headers["Content-Type"] = raw ? "application/geo+json" : "application/json";
  let answer: Response;
  try {
    answer = await fetch(path, {
      method,
      headers,
      body: raw ? body : body === undefined ? null : JSON.stringify(body),
    });
  } catch {
    throw new Refused(0, "the server does not answer; nothing was saved");
  }
  if (answer.ok) return answer;
  const why = await answer.json().catch(() => ({}));
  const detail = typeof why.detail === "string" ? why.detail : "the request was not understood";
  throw new Refused(answer.status, detail);
}

async function json<T>(method: string, path: string, body?: unknown): Promise<T> {
  const answer = await ask(method, path, body);
  return answer.status === 204 ? (undefined as T) : ((await answer.json()) as T);
}

export const slidePath = (name: string): string => `/api/slides/${encodeURIComponent(name)}`;

function remembered<T extends Session | SignedOut>(session: T): T {
  if ("csrf" in session) csrf = session.csrf;
  return session;
}

export const api = {
  session: async () => remembered(await json<Session | SignedOut>("GET", "/api/session")),
  signIn: async (name: string, password: string) =>
    remembered(await json<Session>("POST", "/api/sign-in", { name, password })),
  change: async (change: { reader?: string; mode?: Mode }) =>
    remembered(await json<Session>("PATCH", "/api/session", change)),
  signOut: () => json<void>("DELETE", "/api/session"),
  slides: async () => (await json<{ slides: SlideRow[] }>("GET", "/api/slides")).slides,
  slide: (name: string) => json<SlideView>("GET", slidePath(name)),
  evidence: (name: string) => json<Evidence>("GET", `${slidePath(name)}/evidence`),
  read: (name: string, bethesda: number, comment: string) =>
    json<SlideView>("POST", `${slidePath(name)}/readings`, { bethesda, comment }),
  marks: async (name: string) => (await json<{ marks: Mark[] }>("GET", `${slidePath(name)}/marks`)).marks,
  addMark: (name: string, place: Place, grade: Grade) =>
    json<Mark>("POST", `${slidePath(name)}/marks`, { place, grade }),
  changeMark: (name: string, id: string, grade: Grade, place: Place | null) =>
    json<Mark>("PUT", `${slidePath(name)}/marks/${id}`, { grade, place }),
  removeMark: (name: string, id: string) => json<void>("DELETE", `${slidePath(name)}/marks/${id}`),
  restoreMark: (name: string, id: string, event: number) =>
    json<Mark>("POST", `${slidePath(name)}/marks/${id}/restore`, { event }),
  importMarks: (name: string, file: Blob) => json<{ added: number }>("POST", `${slidePath(name)}/marks.geojson`, file),
  suggestions: async () => (await json<{ suggestions: Suggestion[] }>("GET", "/api/suggestions")).suggestions,
  dismiss: (slide: string, x: number, y: number) => json<void>("POST", "/api/dismissals", { slide, x, y }),
};
