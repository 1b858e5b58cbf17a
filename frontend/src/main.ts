/** Which page is shown, and what stands above all of them. */

import { api, Refused, type Session } from "./api";
import { h, say, type Child } from "./dom";
import { queuePage } from "./queue";
import { slidePage } from "./slide";
import { worklistPage } from "./worklist";

/** `enter` is called when the page is in sight; what it gives back, when it is left. */
export interface Page {
  body: HTMLElement;
  title: string;
  bar: Child[];
  enter?: () => () => void;
}

let leave: (() => void) | undefined;

function theme(): void {
  const kept = localStorage.getItem("theme");
  if (kept) document.documentElement.dataset.theme = kept;
}

function turnTheme(): void {
  const dark = getComputedStyle(document.documentElement).colorScheme === "dark";
  document.documentElement.dataset.theme = dark ? "light" : "dark";
  localStorage.setItem("theme", dark ? "light" : "dark");
}

/** Another page of this program, without asking the server for it again. */
export function go(path: string): void {
  history.pushState(null, "", path);
  void show();
}

export function link(path: string, properties: Record<string, string>, ...children: Child[]): HTMLAnchorElement {
  const follow = (event: MouseEvent): void => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    go(path);
  };
  return h("a", { href: path, onclick: follow, ...properties }, ...children);
}

function header(session: Session, bar: Child[]): HTMLElement {
  const change = async (what: { reader?: string; mode?: "review" | "reading" }): Promise<void> => {
    try {
      await api.change(what);
    } catch (error) {
      say((error as Refused).message, true);
    }
    await show();
  };
  const reading = session.mode === "reading";
  const mode =
    session.role === "admin"
      ? h(
          "button",
          {
            class: "switch",
            role: "switch",
            "aria-checked": String(reading),
            title: "Hide the algorithm's result of a slide until you have given your own category",
            onclick: () => void change({ mode: reading ? "review" : "reading" }),
          },
          "Blind reading",
        )
      : h("span", { class: "dim" }, "Blind reading");
  const name = session.accounts
    ? h(
        "span",
        { class: "reader" },
        session.reader,
        " ",
        h(
          "button",
          {
            class: "quiet",
            onclick: async () => {
              await api.signOut();
              await show();
            },
          },
          "Sign out",
        ),
      )
    : h(
        "label",
        { class: "reader" },
        "Reader ",
        h("input", {
          value: session.reader,
          maxlength: 60,
          size: 10,
          "aria-label": "Your name as a reader",
          onchange: (event: Event) => void change({ reader: (event.target as HTMLInputElement).value }),
        }),
      );
  return h(
    "header",
    {},
    link("/", { class: "home" }, "Aspirate"),
    ...bar,
    h("span", { class: "gap" }),
    h("span", { class: "use" }, "Research use only"),
    mode,
    name,
    h(
      "button",
      { class: "quiet icon", title: "Light or dark", "aria-label": "Light or dark", onclick: turnTheme },
      "◐",
    ),
  );
}

function signInPage(accounts: boolean): HTMLElement {
  if (!accounts) {
    return h(
      "main",
      { class: "narrow" },
      h("h1", {}, "Aspirate reading room"),
      h(
        "p",
        {},
        "Open the address that ",
        h("code", {}, "aspirate serve"),
        " printed when it started: it carries the token that lets you in.",
      ),
    );
  }
  const name = h("input", { name: "name", autocomplete: "username", required: true });
  const password = h("input", { name: "password", type: "password", autocomplete: "current-password", required: true });
  const enter = async (event: Event): Promise<void> => {
    event.preventDefault();
    try {
      await api.signIn(name.value, password.value);
      await show();
    } catch (error) {
      say((error as Refused).message, true);
    }
  };
  return h(
    "main",
    { class: "narrow" },
    h("h1", {}, "Aspirate reading room"),
    h(
      "form",
      { onsubmit: enter },
      h("label", {}, "Name", name),
      h("label", {}, "Password", password),
      h("button", { class: "main" }, "Sign in"),
    ),
    h("p", { class: "dim" }, "Research use only. Not for diagnosis."),
  );
}

async function page(session: Session): Promise<Page> {
  const path = location.pathname;
  if (path.startsWith("/slide/")) return slidePage(decodeURIComponent(path.slice(7)), session);
  return path === "/queue" ? queuePage() : worklistPage(session);
}

export async function show(): Promise<void> {
  leave?.();
  leave = undefined;
  try {
    const session = await api.session();
    if (!("csrf" in session)) {
      document.body.replaceChildren(signInPage(session.accounts));
      return;
    }
    const shown = await page(session);
    document.title = `${shown.title} · Aspirate`;
    document.body.replaceChildren(header(session, shown.bar), shown.body);
    leave = shown.enter?.();
  } catch (error) {
    const why = error instanceof Refused ? error.message : "something went wrong on this page; reload it";
    document.body.replaceChildren(
      h(
        "main",
        { class: "narrow" },
        h("h1", {}, "Not to be shown"),
        h("p", { role: "alert" }, why),
        link("/", {}, "To the worklist"),
      ),
    );
    if (!(error instanceof Refused)) throw error;
  }
}

theme();
window.addEventListener("popstate", () => void show());
void show();
