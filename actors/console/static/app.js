// The chat page. The server's journal is the truth; this page shows it and adds
// what is going on right now. Nothing is lost and nothing is doubled, because
//   - each message gets its id here and stays in localStorage until the server
//     has taken it: sending it again with the same id does nothing twice;
//   - each line of the transcript has its place (`seq`) and is shown once;
//   - on each (re)connection the server first sends what we have not seen, then
//     the whole draft of the running turn, which replaces ours.
import { markdown } from "./markdown.js";

const $ = (id) => document.getElementById(id);
const el = (tag, className, ...children) => {
  const node = document.createElement(tag);
  if (className) node.className = className;
  node.append(...children);
  return node;
};
const newId = () => Array.from(crypto.getRandomValues(new Uint8Array(12)), (byte) => byte.toString(16).padStart(2, "0")).join("");
const oneLine = (text, most = 160) => text.replace(/\s+/g, " ").trim().slice(0, most);

class HttpError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

async function call(path, body) {
  const how = body === undefined ? {} : { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) };
  const response = await fetch(path, how);
  const answer = await response.json().catch(() => ({}));
  if (response.ok) return answer;
  if (response.status === 401 && path !== "/api/login") askForToken();
  throw new HttpError(response.status, answer.error?.message ?? `the server answered ${response.status}`);
}

// ------------------------------------------------------------------- outbox

const OUTBOX = "callboard.outbox.";
const outbox = {
  put: (message) => localStorage.setItem(OUTBOX + message.id, JSON.stringify(message)),
  drop: (id) => localStorage.removeItem(OUTBOX + id),
  all: () =>
    Object.keys(localStorage)
      .filter((name) => name.startsWith(OUTBOX))
      .map((name) => JSON.parse(localStorage.getItem(name)))
      .sort((a, b) => a.at - b.at),
};

let flushing = false;
let flushTimer = 0;
async function flush() {
  if (flushing) return;
  flushing = true;
  clearTimeout(flushTimer);
  try {
    for (let next; (next = outbox.all().find((message) => !message.refused)); ) {
      try {
        await call("/api/messages", { text: next.text, chat: next.chat, message_id: next.id, can_confirm: true });
        outbox.drop(next.id);
        pendingBubble(next.id)?.classList.remove("waiting");
      } catch (error) {
        const later = !(error instanceof HttpError) || error.status >= 500 || error.status === 401;
        if (later) {
          flushTimer = setTimeout(flush, 3000);
          return;
        }
        outbox.put({ ...next, refused: error.message });
        if (next.chat === view.chat) showPending({ ...next, refused: error.message });
      }
    }
  } finally {
    flushing = false;
  }
}

// --------------------------------------------------------------------- view

// What is shown: one conversation. A new object for each, so that what comes late for an old one is ignored.
let view = { chat: null, key: null };

const placeOf = (key) => {
  const [, , platform, , type, chat, thread] = key.split(":").map(decodeURIComponent);
  return { platform, type, chat, thread };
};

async function show(target) {
  view.source?.close();
  clearTimeout(view.timer);
  const opened = { chat: null, key: null, ...target, last: 0, wait: 500, settled: 0, replay: [], drafts: new Map(), chips: new Map(), asks: new Map(), state: "idle" };
  view = opened;
  $("log").replaceChildren();
  $("live").replaceChildren();
  $("pending").replaceChildren();
  $("empty").hidden = false;
  $("title").textContent = "New chat";
  $("readonly").hidden = Boolean(view.chat);
  document.querySelector(".box").hidden = !view.chat;
  history.replaceState(null, "", view.chat ? `#chat=${encodeURIComponent(view.chat)}` : `#key=${encodeURIComponent(view.key)}`);
  for (const message of outbox.all()) if (message.chat === view.chat) showPending(message);
  renderState();
  closeSide();
  if (view.chat) {
    localStorage.setItem("callboard.chat", view.chat);
    $("text").focus();
  }
  connect(opened);
}

async function connect(mine) {
  if (mine !== view) return;
  try {
    mine.key ??= (await call(`/api/session-key?platform=web&chat=${encodeURIComponent(mine.chat)}`)).session_key;
    await refreshAround();
  } catch {
    return reconnect(mine);
  }
  if (mine !== view) return;
  mine.replay = [];
  const source = (mine.source = new EventSource(`/api/sessions/${encodeURIComponent(mine.key)}/events?after=${mine.last}`));
  const on = (name, handle) =>
    source.addEventListener(name, (event) => {
      if (mine === view && mine.source === source) handle(JSON.parse(event.data));
    });
  on("entry", (entry) => (mine.replay ? mine.replay.push(entry) : showEntries([entry])));
  on("ready", (state) => {
    showEntries(mine.replay);
    mine.replay = null;
    mine.wait = 500;
    setLink("live", "Connected");
    mine.drafts.clear();
    mine.chips.clear();
    mine.asks.clear();
    mine.status = "";
    hearState(state);
    renderLive();
    flush();
    loadCommands();
  });
  on("live", hearLive);
  const again = () => {
    source.close();
    if (mine.source === source) reconnect(mine);
  };
  source.addEventListener("lost", again);
  source.addEventListener("closing", again);
  source.addEventListener("error", again);
}

function reconnect(mine) {
  if (mine !== view) return;
  setLink("away", "Reconnecting …");
  clearTimeout(mine.timer);
  mine.timer = setTimeout(() => connect(mine), mine.wait * (0.75 + Math.random() / 2));
  mine.wait = Math.min(mine.wait * 2, 10000);
}

function setLink(state, text) {
  $("away").hidden = state !== "away";
  $("link").dataset.state = state;
  $("link").textContent = text;
}

// ------------------------------------------------------------------ entries

function showEntries(entries) {
  const fresh = entries.filter((entry) => entry.seq > view.last);
  if (!fresh.length) return;
  view.last = fresh.at(-1).seq;
  for (const entry of fresh) {
    if (entry.message_id) {
      pendingBubble(entry.message_id)?.remove();
      outbox.drop(entry.message_id);
    }
    if (entry.role === "tool") dropChip(entry);
    if (entry.role === "assistant" || entry.role === "notice") settleDrafts(entry);
    if (entry.role === "user" && $("title").textContent === "New chat") $("title").textContent = oneLine(entry.text, 80);
  }
  const stick = atEnd();
  $("empty").hidden = true;
  $("log").append(...fresh.map(entryNode));
  paintLive();
  if (stick) toEnd();
}

// Notices that say how the conversation went, and answer nothing.
const ASIDES = { new: "·", interrupted: "Interrupted" };

function entryNode(entry) {
  if (entry.role === "tool") return toolNode(entry);
  if (entry.role === "notice" && ASIDES[entry.status]) return el("p", "aside", entry.text || ASIDES[entry.status]);
  const node = el("article", `entry ${entry.role}`);
  node.dataset.seq = entry.seq;
  if (entry.role === "user") node.append(el("div", "bubble", entry.text));
  else if (entry.role === "notice") node.append(el("div", "body", markdown(entry.text)));
  else node.append(markdown(entry.text));
  const at = new Date(entry.at);
  const about = [entry.role === "user" && !view.chat ? entry.author : "", at.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" })];
  if (entry.status === "interim") return node;
  if (entry.model) about.push(entry.model.name);
  if (entry.status && entry.role === "assistant") about.push(entry.status);
  const meta = el("div", "meta", about.filter(Boolean).join(" · "));
  meta.title = at.toLocaleString();
  node.append(meta);
  return node;
}

function toolNode(entry) {
  const good = entry.status === "ok";
  const mark = el("span", "mark", good ? "✓" : "✕");
  mark.setAttribute("aria-label", entry.status || "ended");
  const summary = el("summary", "", mark, el("span", "tool", entry.name), el("span", "what", good ? oneLine(entry.text) : `${entry.status} — ${oneLine(entry.text)}`));
  const node = el("details", `chip ${good ? "ok" : "bad"}`, summary, el("pre", "", entry.text || "(nothing)"));
  node.dataset.seq = entry.seq;
  return node;
}

function pendingBubble(id) {
  return [...$("pending").children].find((node) => node.dataset.id === id);
}

function showPending(message) {
  const node = el("article", `entry user ${message.refused ? "failed" : "waiting"}`, el("div", "bubble", message.text));
  node.dataset.id = message.id;
  if (message.refused) {
    const again = el("button", "retry", "Try again");
    const drop = el("button", "retry", "Discard");
    again.type = drop.type = "button";
    again.addEventListener("click", () => {
      outbox.put({ ...message, refused: undefined });
      showPending({ ...message, refused: undefined });
      flush();
    });
    drop.addEventListener("click", () => {
      outbox.drop(message.id);
      node.remove();
    });
    node.append(el("div", "meta", `Not taken: ${message.refused} `, again, drop));
  }
  const before = pendingBubble(message.id);
  if (before) before.replaceWith(node);
  else $("pending").append(node);
  $("empty").hidden = true;
}

// --------------------------------------------------------------------- live

function hearLive(event) {
  switch (event.kind) {
    case "session_state_changed":
      hearState(event);
      break;
    case "draft_changed": {
      if (event.turn <= view.settled) return;
      const name = `${event.turn}.${event.call}`;
      const draft = view.drafts.get(name) ?? { turn: event.turn, text: "" };
      draft.text = event.whole ? event.text : draft.text + event.text;
      view.drafts.set(name, draft);
      view.status = "";
      break;
    }
    case "tool_progressed":
      view.asks.delete(event.call_id);
      if (event.phase === "ended") {
        const chip = view.chips.get(event.call_id);
        if (chip) chip.ended = true;
      } else view.chips.set(event.call_id, { ...event, text: event.text || view.chips.get(event.call_id)?.text || "" });
      break;
    case "model_status_changed":
      view.status = event.text;
      break;
    case "confirmation_asked":
      view.asks.set(event.call_id, event);
      break;
  }
  renderLive();
}

function hearState(event) {
  view.state = event.state;
  if (event.state === "idle") {
    view.drafts.clear();
    view.chips.clear();
    view.asks.clear();
    view.status = "";
    refreshAround().catch(() => {});
  }
  renderState(event.queued);
}

function settleDrafts(entry) {
  if (entry.answers.length && entry.turn) view.settled = Math.max(view.settled, entry.turn);
  for (const [name, draft] of view.drafts) {
    if (draft.turn <= view.settled || (draft.turn === entry.turn && entry.status === "interim")) view.drafts.delete(name);
  }
}

function dropChip(entry) {
  for (const [id, chip] of view.chips) {
    if (chip.turn === entry.turn && chip.name === entry.name) return view.chips.delete(id);
  }
}

let painting = 0;
function renderLive() {
  painting ||= requestAnimationFrame(() => {
    painting = 0;
    const stick = atEnd();
    paintLive();
    if (stick) toEnd();
  });
}

function paintLive() {
  const parts = [...view.drafts.values()].filter((draft) => draft.text).map(draftNode);
  for (const chip of view.chips.values()) {
    const mark = chip.ended ? el("span", "mark", "✓") : el("span", "spin");
    parts.push(el("div", "chip", el("div", "row", mark, el("span", "tool", chip.name), el("span", "what", oneLine(chip.text)))));
  }
  for (const ask of view.asks.values()) parts.push((ask.node ??= askNode(ask)));
  if (view.status) parts.push(el("div", "thinking", el("span", "spin"), view.status));
  else if (view.state !== "idle" && parts.length === 0) {
    const dots = el("span", "dots", el("i"), el("i"), el("i"));
    dots.setAttribute("aria-label", "working");
    parts.push(el("div", "thinking", dots));
  }
  const shown = [...$("live").children];
  if (shown.length !== parts.length || shown.some((node, place) => node !== parts[place])) $("live").replaceChildren(...parts);
}

function draftNode(draft) {
  if (draft.shown !== draft.text) {
    draft.node = el("article", "entry draft", markdown(draft.text));
    draft.shown = draft.text;
  }
  return draft.node;
}

function askNode(ask) {
  const answer = (yes) => async () => {
    buttons.querySelectorAll("button").forEach((button) => (button.disabled = true));
    try {
      await call(`/api/sessions/${encodeURIComponent(view.key)}/confirm`, { call_id: ask.call_id, yes });
    } catch (error) {
      if (error.status !== 409) return buttons.querySelectorAll("button").forEach((button) => (button.disabled = false));
    }
    view.asks.delete(ask.call_id);
    renderLive();
  };
  const yes = el("button", "yes", "Yes, run it");
  const no = el("button", "no", "No");
  yes.type = no.type = "button";
  yes.addEventListener("click", answer(true));
  no.addEventListener("click", answer(false));
  const buttons = el("div", "buttons", yes, no);
  const node = el("section", "ask", el("strong", "", `May ${ask.name} run?`), el("pre", "", pretty(ask.arguments)), buttons);
  node.setAttribute("role", "alertdialog");
  node.setAttribute("aria-label", `May ${ask.name} run?`);
  return node;
}

function pretty(json) {
  try {
    return JSON.stringify(JSON.parse(json), null, 2);
  } catch {
    return json;
  }
}

function renderState(queued = 0) {
  $("stop").hidden = view.state === "idle";
  $("stop").disabled = view.state === "stopping";
  $("text").placeholder = queued ? `Write a message (${queued} waiting)` : "Write a message";
  renderSend();
  renderLive();
}

const renderSend = () => ($("send").disabled = !$("text").value.trim());
const stop = () => call(`/api/sessions/${encodeURIComponent(view.key)}/stop`, {}).catch(() => {});

const scroll = $("scroll");
const atEnd = () => scroll.scrollHeight - scroll.scrollTop - scroll.clientHeight < 90;
const toEnd = () => (scroll.scrollTop = scroll.scrollHeight);
scroll.addEventListener("scroll", () => ($("down").hidden = atEnd()), { passive: true });
$("down").addEventListener("click", toEnd);

// ------------------------------------------------------------------- around

async function refreshAround() {
  const [{ sessions }, status] = await Promise.all([call("/api/sessions"), call("/api/status")]);
  const list = sessions.map((session) => {
    const place = placeOf(session.session_key);
    const ours = place.platform === "web" && place.type === "dm" && !place.thread;
    const about = [ours ? "" : place.platform, session.last_at ? new Date(session.last_at).toLocaleDateString([], { day: "numeric", month: "short" }) : ""];
    const busy = session.state === "running" || session.state === "stopping";
    const button = el("button", "", el("span", "name", oneLine(session.title) || place.chat || "…"), el("span", busy ? "about busy" : "about", about.filter(Boolean).join(" · ")));
    button.type = "button";
    button.setAttribute("aria-current", String(session.session_key === view.key));
    button.addEventListener("click", () => show(ours ? { chat: place.chat } : { key: session.session_key }));
    if (session.session_key === view.key && session.title) $("title").textContent = oneLine(session.title, 80);
    return el("li", "", button);
  });
  $("sessions").replaceChildren(...list);
  $("model").textContent = status.model ? `${status.model.provider} · ${status.model.name}` : "";
  $("problem").hidden = !status.model_problem;
  $("problem").textContent = status.model_problem;
}

function closeSide() {
  $("side").classList.remove("open");
  $("shade").hidden = true;
  $("menu").setAttribute("aria-expanded", "false");
}
$("menu").addEventListener("click", () => {
  $("side").classList.add("open");
  $("shade").hidden = false;
  $("menu").setAttribute("aria-expanded", "true");
});
$("shade").addEventListener("click", closeSide);
$("new").addEventListener("click", () => show({ chat: newId() }));
$("logout").addEventListener("click", async () => {
  await call("/api/logout", {}).catch(() => {});
  view.source?.close();
  askForToken();
});

// -------------------------------------------------------------------- login

function askForToken(why) {
  if (why) $("login-why").textContent = why;
  if (!$("login").open) $("login").showModal();
}
$("login").addEventListener("cancel", (event) => event.preventDefault());
$("login-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  try {
    await call("/api/login", { token: $("token").value });
    $("token").value = $("login-error").textContent = "";
    $("login").close();
    start();
  } catch (error) {
    $("login-error").textContent = error.message;
  }
});

// --------------------------------------------------------------------- form

const text = $("text");
let commands = [];
let chosen = 0;

function fit() {
  text.style.height = "auto";
  text.style.height = `${text.scrollHeight}px`;
  renderSend();
  renderCommands();
}

async function loadCommands() {
  if (!commands.length) ({ commands } = await call("/api/commands").catch(() => ({ commands: [] })));
}

function matching() {
  const typed = text.value;
  return typed.startsWith("/") && !/\s/.test(typed) ? commands.filter(({ name }) => name.startsWith(typed) && name !== typed) : [];
}

function renderCommands() {
  const found = matching();
  chosen = Math.min(chosen, Math.max(found.length - 1, 0));
  $("commands").hidden = found.length === 0;
  $("commands").replaceChildren(
    ...found.map(({ name, help }, place) => {
      const item = el("li", "", el("b", "", name), el("span", "", help));
      item.id = `command-${place}`;
      item.setAttribute("role", "option");
      item.setAttribute("aria-selected", String(place === chosen));
      item.addEventListener("mousedown", (event) => {
        event.preventDefault();
        complete(name);
      });
      return item;
    }),
  );
  if (found.length) text.setAttribute("aria-activedescendant", `command-${chosen}`);
  else text.removeAttribute("aria-activedescendant");
}

function complete(name) {
  text.value = `${name} `;
  chosen = 0;
  fit();
  text.focus();
}

function send() {
  const message = { id: newId(), chat: view.chat, text: text.value, at: Date.now() };
  if (!message.text.trim() || !message.chat) return;
  outbox.put(message);
  showPending(message);
  text.value = "";
  fit();
  toEnd();
  flush();
}

text.addEventListener("input", fit);
text.addEventListener("keydown", (event) => {
  if (event.isComposing) return;
  const found = matching();
  if (found.length && ["ArrowDown", "ArrowUp"].includes(event.key)) {
    chosen = (chosen + (event.key === "ArrowDown" ? 1 : found.length - 1)) % found.length;
    renderCommands();
  } else if (found.length && (event.key === "Tab" || event.key === "Enter") && !event.shiftKey) complete(found[chosen].name);
  else if (event.key === "Enter" && !event.shiftKey) send();
  else return;
  event.preventDefault();
});
$("form").addEventListener("submit", (event) => {
  event.preventDefault();
  send();
});
$("stop").addEventListener("click", stop);
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape" || event.isComposing || $("login").open) return;
  if (!$("commands").hidden) $("commands").hidden = true;
  else if (view.state === "running") stop();
});
window.addEventListener("online", () => connectNow());
// A browser allows six connections to one server: a page that nobody looks at gives its own back.
let resting = 0;
document.addEventListener("visibilitychange", () => {
  clearTimeout(resting);
  if (document.visibilityState === "visible") connectNow();
  else
    resting = setTimeout(() => {
      view.source?.close();
      clearTimeout(view.timer);
      setLink("away", "Resting");
    }, 60000);
});
function connectNow() {
  if ($("link").dataset.state !== "away") return;
  clearTimeout(view.timer);
  view.wait = 500;
  connect(view);
}

// -------------------------------------------------------------------- start

function start() {
  const asked = new URLSearchParams(location.hash.slice(1));
  if (asked.has("link-used")) $("login-why").textContent = "That login link has been used or is too old. Open a new one, or paste the server's token here.";
  if (asked.get("key")) show({ key: asked.get("key") });
  else show({ chat: asked.get("chat") || localStorage.getItem("callboard.chat") || newId() });
}
start();
