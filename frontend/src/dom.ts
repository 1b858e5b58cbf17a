/** Elements without a framework. */

export type Child = Node | string | number | null | undefined | false;
type Listener = (event: any) => void;
type Properties = Record<string, string | number | boolean | null | undefined | Listener>;

const SVG = "http://www.w3.org/2000/svg";

function filled<T extends Element>(element: T, properties: Properties, children: Child[]): T {
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(name.slice(2), value);
    else if (name === "value" && "value" in element) (element as unknown as HTMLInputElement).value = String(value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.filter((child) => child !== null && child !== undefined && child !== false).map(asNode));
  return element;
}

function asNode(child: Child): Node | string {
  return child instanceof Node ? child : String(child);
}

/** `onclick` and the like are listeners, anything else an attribute. */
export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  properties: Properties = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  return filled(document.createElement(tag), properties, children);
}

export function s<K extends keyof SVGElementTagNameMap>(
  tag: K,
  properties: Properties = {},
  ...children: Child[]
): SVGElementTagNameMap[K] {
  return filled(document.createElementNS(SVG, tag) as SVGElementTagNameMap[K], properties, children);
}

export function percent(probability: number): string {
  if (probability < 0.01) return "< 1 %";
  return probability > 0.99 ? "> 99 %" : `${Math.round(probability * 100)} %`;
}

const said = h("div", { class: "unseen", role: "status", "aria-live": "polite" });
const toast = h("div", { class: "toast", hidden: true });
let fading = 0;

/** A short word to whoever looks and whoever listens. */
export function say(text: string, bad = false): void {
  if (!toast.isConnected) document.body.append(said, toast);
  said.textContent = text;
  toast.textContent = text;
  toast.className = bad ? "toast bad" : "toast";
  toast.hidden = false;
  window.clearTimeout(fading);
  fading = window.setTimeout(
    () => {
      toast.hidden = true;
    },
    bad ? 8000 : 2500,
  );
}
