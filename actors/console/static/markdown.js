// Markdown to DOM nodes. What a model wrote is only ever set as text, so nothing
// in it can become a tag; links lead to http, https and mailto alone.

const make = (tag, className, ...children) => {
  const node = document.createElement(tag);
  if (className) node.className = className;
  node.append(...children);
  return node;
};

/** Return an element that shows `source`. A text that is still being written is fine. */
export function markdown(source) {
  const root = make("div", "md");
  blocks(source.replaceAll("\r\n", "\n").split("\n"), root, 0);
  return root;
}

const FENCE = /^ {0,3}(`{3,}|~{3,})\s*([\w+#.-]*)/;
const HEADING = /^ {0,3}(#{1,6})\s+(.*?)\s*#*$/;
const ITEM = /^(\s*)([-*+]|\d{1,9}[.)])\s+(.*)$/;
const RULE = /^ {0,3}([-*_])(?:\s*\1){2,}\s*$/;
const QUOTE = /^ {0,3}> ?(.*)$/;
const DIVIDER = /^\s*\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?\s*$/;
const DEEPEST = 8;

function blocks(lines, into, depth) {
  let at = 0;
  while (at < lines.length) {
    const line = lines[at];
    const heading = HEADING.exec(line);
    if (!line.trim()) at += 1;
    else if (FENCE.test(line)) at = fence(lines, at, into);
    else if (heading) {
      into.append(inline(make(`h${Math.min(heading[1].length + 2, 5)}`), heading[2]));
      at += 1;
    } else if (RULE.test(line)) {
      into.append(make("hr"));
      at += 1;
    } else if (QUOTE.test(line) && depth < DEEPEST) at = quote(lines, at, into, depth);
    else if (ITEM.test(line) && depth < DEEPEST) at = list(lines, at, into, depth);
    else if (line.includes("|") && DIVIDER.test(lines[at + 1] ?? "") && lines[at + 1].includes("-")) at = table(lines, at, into);
    else at = paragraph(lines, at, into);
  }
}

function fence(lines, at, into) {
  const [, mark, language] = FENCE.exec(lines[at]);
  const code = [];
  at += 1;
  while (at < lines.length && !(lines[at].trim().startsWith(mark) && !lines[at].trim().slice(mark.length).replaceAll(mark[0], ""))) {
    code.push(lines[at]);
    at += 1;
  }
  const text = code.join("\n");
  const copy = make("button", "quiet", "Copy");
  copy.type = "button";
  copy.addEventListener("click", async () => {
    await navigator.clipboard.writeText(text);
    copy.textContent = "Copied";
    setTimeout(() => (copy.textContent = "Copy"), 1500);
  });
  const bar = make("div", "bar", make("span", "", language || "text"), copy);
  into.append(make("div", "fence", bar, make("pre", "", make("code", "", text))));
  return at + 1;
}

function quote(lines, at, into, depth) {
  const inner = [];
  for (let found; at < lines.length && (found = QUOTE.exec(lines[at])); at += 1) inner.push(found[1]);
  const node = make("blockquote");
  blocks(inner, node, depth + 1);
  into.append(node);
  return at;
}

function list(lines, at, into, depth) {
  const [, indent, mark] = ITEM.exec(lines[at]);
  const ordered = /\d/.test(mark);
  const node = make(ordered ? "ol" : "ul");
  if (ordered) node.start = parseInt(mark, 10);
  while (at < lines.length) {
    const found = ITEM.exec(lines[at]);
    if (!found || found[1].length > indent.length + 1 || found[1].length < indent.length || /\d/.test(found[2]) !== ordered) break;
    const inner = [found[3]];
    const width = found[0].length - found[3].length;
    at += 1;
    while (at < lines.length) {
      const line = lines[at];
      const deeper = line.search(/\S/) > indent.length + 1;
      const gap = !line.trim() && (lines[at + 1] ?? "").search(/\S/) > indent.length + 1;
      if (!deeper && !gap) break;
      inner.push(line.slice(Math.min(width, Math.max(line.search(/\S/), 0))));
      at += 1;
    }
    if (!lines[at]?.trim() && ITEM.test(lines[at + 1] ?? "")) at += 1;
    const item = make("li");
    blocks(inner, item, depth + 1);
    if (item.firstChild?.nodeName === "P") item.firstChild.replaceWith(...item.firstChild.childNodes);
    node.append(item);
  }
  into.append(node);
  return at;
}

function table(lines, at, into) {
  const cells = (line) => line.trim().replace(/^\||\|$/g, "").split("|");
  const row = (line, tag) => make("tr", "", ...cells(line).map((cell) => inline(make(tag), cell.trim())));
  const body = make("tbody");
  const head = make("thead", "", row(lines[at], "th"));
  for (at += 2; at < lines.length && lines[at].includes("|"); at += 1) body.append(row(lines[at], "td"));
  into.append(make("div", "table", make("table", "", head, body)));
  return at;
}

function paragraph(lines, at, into) {
  const text = [];
  do text.push(lines[at++].trimStart());
  while (at < lines.length && lines[at].trim() && ![FENCE, HEADING, ITEM, RULE, QUOTE].some((mark) => mark.test(lines[at])));
  into.append(inline(make("p"), text.join("\n")));
  return at;
}

// Longest marks first; each alternative stops at its own end, so that no input makes it slow.
const INLINE = /(`+)([^`]|[^`][^\n]*?[^`])\1(?!`)|\*\*([^\s*](?:[^*]|\*(?!\*))*)\*\*|__([^\s_](?:[^_]|_(?!_))*)__|~~([^~]+)~~|\*([^\s*][^*]*)\*|(?<!\w)_([^\s_][^_]*)_(?!\w)|\[([^\]\n]{1,500})\]\(([^()\s]{1,2000})(?:\s+"[^"\n]*")?\)|(https?:\/\/[^\s<>()"'`]{1,2000})|\\([\\`*_{}[\]()#+\-.!|~>])|(\n)/g;

function inline(into, text, depth = 0) {
  let end = 0;
  for (const found of text.matchAll(INLINE)) {
    into.append(text.slice(end, found.index));
    end = found.index + found[0].length;
    const [whole, , code, bold, bold2, struck, italic, italic2, label, target, bare, escaped, newline] = found;
    const nested = (tag, inner) => (depth < DEEPEST ? inline(make(tag), inner, depth + 1) : inner);
    if (code !== undefined) into.append(make("code", "", code.trim() || code));
    else if (bold ?? bold2) into.append(nested("strong", bold ?? bold2));
    else if (struck) into.append(nested("s", struck));
    else if (italic ?? italic2) into.append(nested("em", italic ?? italic2));
    else if (label) into.append(anchor(target, label, whole));
    else if (bare) {
      const url = bare.replace(/[.,;:!?]+$/, "");
      into.append(anchor(url, url, bare), bare.slice(url.length));
    } else if (escaped) into.append(escaped);
    else if (newline) into.append(make("br"));
  }
  into.append(text.slice(end));
  return into;
}

function anchor(target, label, otherwise) {
  if (!/^(https?:\/\/|mailto:)/i.test(target)) return otherwise;
  const node = make("a", "", label);
  node.href = target;
  node.target = "_blank";
  node.rel = "noopener noreferrer nofollow";
  return node;
}
