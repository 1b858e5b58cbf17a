/** All slides at a glance: sort, filter, search. */

import { api, BETHESDA, slidePath, type Session, type SlideRow, type Status } from "./api";
import { h, percent, type Child } from "./dom";
import { go, link, type Page } from "./main";

const WORDS: Record<Status, string> = {
  predicted: "predicted",
  inadequate: "inadequate",
  failed: "failed",
  unpredicted: "not predicted",
  hidden: "to be read",
};

interface Column {
  title: string;
  key: string;
  order: (row: SlideRow) => string | number;
  cell: (row: SlideRow) => Child;
}

const unknown = "–";

function chance(row: SlideRow): Child {
  const value = row.result?.probability;
  if (value === null || value === undefined) return unknown;
  return h("span", { class: "chance" }, h("progress", { max: 1, value, "aria-hidden": "true" }), percent(value));
}

function tbs(category: number | null | undefined): Child {
  return category
    ? h("span", { class: `tbs tbs-${category}`, title: BETHESDA[category] ?? "" }, `TBS ${category}`)
    : unknown;
}

const COLUMNS: Column[] = [
  {
    title: "Slide",
    key: "name",
    order: (row) => row.name,
    cell: (row) => link(`/slide/${encodeURIComponent(row.name)}`, { class: "name" }, row.name),
  },
  {
    title: "Status",
    key: "status",
    order: (row) => WORDS[row.status],
    cell: (row) =>
      h(
        "span",
        {},
        h("span", { class: `tag ${row.status}` }, WORDS[row.status]),
        row.error ? h("span", { class: "why" }, row.error) : null,
      ),
  },
  {
    title: "Probability of malignancy",
    key: "probability",
    order: (row) => row.result?.probability ?? -1,
    cell: chance,
  },
  {
    title: "Category",
    key: "bethesda",
    order: (row) => row.result?.bethesda ?? 0,
    cell: (row) => tbs(row.result?.bethesda),
  },
  {
    title: "Informative tiles",
    key: "tiles",
    order: (row) => row.result?.informative_tiles ?? -1,
    cell: (row) => row.result?.informative_tiles ?? unknown,
  },
  { title: "Your reading", key: "own", order: (row) => row.own_bethesda ?? 0, cell: (row) => tbs(row.own_bethesda) },
  { title: "Annotations", key: "marks", order: (row) => row.marks, cell: (row) => row.marks || unknown },
];

export async function worklistPage(session: Session): Promise<Page> {
  const rows = await api.slides();
  const lines = new Map(rows.map((row) => [row, drawn(row)]));
  let [key, down] = session.mode === "review" && rows.some((row) => row.result) ? ["probability", true] : ["", false];
  const search = h("input", {
    type: "search",
    placeholder: "Find a slide",
    "aria-label": "Find a slide",
    oninput: () => draw(),
  });
  const state = h(
    "select",
    { "aria-label": "Which slides", onchange: () => draw() },
    h("option", { value: "" }, "All slides"),
    h("option", { value: "unread" }, "Without your reading"),
    ...[...new Set(rows.map((row) => row.status))].map((status) => h("option", { value: status }, WORDS[status])),
  );
  const count = h("span", { class: "dim", role: "status" });
  const head = h("tr", {}),
    body = h("tbody", {});

  function draw(): void {
    const wanted = search.value.trim().toLowerCase();
    const shown = rows.filter(
      (row) =>
        row.name.toLowerCase().includes(wanted) &&
        (!state.value || row.status === state.value || (state.value === "unread" && row.own_bethesda === null)),
    );
    const column = COLUMNS.find((each) => each.key === key);
    if (column) {
      shown.sort((a, b) => {
        const [x, y] = [column.order(a), column.order(b)];
        const order =
          typeof x === "number" && typeof y === "number"
            ? x - y
            : String(x).localeCompare(String(y), undefined, { numeric: true });
        return down ? -order : order;
      });
    }
    count.textContent = `${shown.length} of ${rows.length} slides`;
    head.replaceChildren(
      h("th", { class: "picture" }, h("span", { class: "unseen" }, "Overview")),
      ...COLUMNS.map(titled),
    );
    body.replaceChildren(...shown.map((row) => lines.get(row)!));
  }

  function titled(column: Column): HTMLElement {
    const sorted = key === column.key ? (down ? "descending" : "ascending") : "none";
    const sort = (): void => {
      down = key === column.key ? !down : ["probability", "bethesda", "tiles", "marks", "own"].includes(column.key);
      key = column.key;
      draw();
    };
    return h(
      "th",
      { class: column.key, "aria-sort": sorted },
      h(
        "button",
        { class: "quiet", onclick: sort },
        column.title,
        h("span", { "aria-hidden": "true" }, sorted === "none" ? "" : down ? " ↓" : " ↑"),
      ),
    );
  }

  draw();
  const admin = session.role === "admin" && session.mode === "review";
  const tools = h(
    "div",
    { class: "tools" },
    search,
    state,
    count,
    h("span", { class: "gap" }),
    link("/queue", { class: "button" }, "Spots to label"),
    admin &&
      h(
        "a",
        {
          class: "button",
          href: "/api/readers.csv",
          download: true,
          title: "First blind readings: slide_id, reader, bethesda",
        },
        "readers.csv",
      ),
    admin &&
      h(
        "a",
        {
          class: "button",
          href: "/api/readings.csv",
          download: true,
          title: "Every reading ever given, with time and comment",
        },
        "All readings",
      ),
    admin && session.report && h("a", { class: "button", href: "/report" }, "Report"),
  );
  const note =
    session.mode === "reading" &&
    h(
      "p",
      { class: "note" },
      "Reading blind: open a slide, look, give your category; only then is the algorithm's shown.",
    );
  const table = h(
    "table",
    { class: "worklist" },
    h("caption", { class: "unseen" }, "Slides"),
    h("thead", {}, head),
    body,
  );
  return {
    title: "Worklist",
    bar: [h("h1", {}, "Worklist")],
    body: h("main", { class: "list" }, note, tools, rows.length ? table : h("p", {}, "There are no slides.")),
  };
}

function drawn(row: SlideRow): HTMLElement {
  const path = `/slide/${encodeURIComponent(row.name)}`;
  const open = (event: MouseEvent): void => {
    if (!(event.target as Element).closest("a")) go(path);
  };
  const image =
    row.status === "failed"
      ? null
      : h("img", {
          src: `${slidePath(row.name)}/thumbnail`,
          alt: "",
          loading: "lazy",
          decoding: "async",
          width: 72,
          height: 54,
          onerror: (event: Event) => {
            (event.target as HTMLElement).hidden = true;
          },
        });
  return h(
    "tr",
    { onclick: open, "data-slide": row.name },
    h("td", { class: "picture" }, image),
    ...COLUMNS.map((column) => h("td", { class: column.key }, column.cell(row))),
  );
}
