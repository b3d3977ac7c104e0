// Shared by all figures. Text is inserted as text only, never as markup.
function make(name, attributes, ...children) {
  const element = document.createElement(name);
  return fill(element, attributes, children);
}

function shape(name, attributes, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  return fill(element, attributes, children);
}

function fill(element, attributes, children) {
  for (const [key, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...children.filter(child => child !== null && child !== undefined));
  return element;
}

const byId = id => document.getElementById(id);
const round1 = value => Math.round(10 * value) / 10;

// The colour and the dashes of a case: seven colours, then the same dashed.
const style = index => "k" + (index % 7) + " d" + (Math.floor(index / 7) % 4);

function swatch(index) {
  return shape("svg", { width: 22, height: 10, "aria-hidden": "true" },
    shape("line", { x1: 1, x2: 21, y1: 5, y2: 5, class: "curve " + style(index) }));
}

function caption(title, small, ...more) {
  return make("figcaption", {}, make("span", {}, title, small ? make("small", {}, small) : null), ...more);
}

// Buttons, one of them pressed. options: [[value, text], ...]
function segments(label, options, value, choose) {
  const buttons = options.map(([option, text]) => make("button", { type: "button", "data-value": option, "aria-pressed": String(option === value) }, text));
  const box = make("div", { role: "group", "aria-label": label }, ...buttons);
  box.addEventListener("click", event => {
    const pressed = event.target.closest("button");
    if (!pressed) return;
    for (const button of buttons) button.setAttribute("aria-pressed", String(button === pressed));
    choose(options[buttons.indexOf(pressed)][0]);
  });
  return make("div", { class: "segments" }, make("span", {}, label), box);
}

function toggle(text, pressed, choose, attributes) {
  const button = make("button", { type: "button", "aria-pressed": String(pressed), ...attributes }, text);
  button.addEventListener("click", () => {
    const now = button.getAttribute("aria-pressed") !== "true";
    button.setAttribute("aria-pressed", String(now));
    choose(now);
  });
  return button;
}

// Calls draw(width) now and whenever the width of the element changes.
function fitted(element, draw) {
  let width = 0;
  const redraw = force => {
    const now = Math.round(element.clientWidth);
    if (!now || (now === width && !force)) return;
    width = now;
    draw(width);
  };
  new ResizeObserver(() => redraw(false)).observe(element);
  redraw(true);
  return () => redraw(true);
}

// The width of a text of a figure.
const ruler = document.createElement("canvas").getContext("2d");
function textWidth(text, size = 11.5) {
  ruler.font = size + "px " + getComputedStyle(document.body).fontFamily;
  return ruler.measureText(String(text)).width;
}

// Shortens a name to the available width.
function shorten(text, room, size = 12.5) {
  if (textWidth(text, size) <= room) return text;
  let end = text.length - 1;
  while (end > 1 && textWidth(text.slice(0, end) + "\u2026", size) > room) end--;
  return text.slice(0, end) + "\u2026";
}
