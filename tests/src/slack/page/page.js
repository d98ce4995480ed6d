// The chat page: keeps a copy of the workspace, shows a channel and a thread of it, and sends what
// its user does. Every change arrives whole from /page/events, so applying one twice does no harm.

import { OFFERED, emoji } from './emoji.js';
import { body, el } from './mrkdwn.js';

const $ = (id) => document.getElementById(id);
const token = new URLSearchParams(location.search).get('token') ?? '';
const address = (path) => `${path}?token=${encodeURIComponent(token)}`;
const key = (message) => `${message.channel}/${message.ts}`;

const world = {
  team: '', app: {}, users: [], channels: [], messages: new Map(), statuses: new Map(), suggestions: [],
};
/** Ids of people and channels to their names. */
const names = new Map();
/** Clicks under way or failed, by action_ts. */
const clicks = new Map();
const view = { channel: '', thread: null, me: '' };

// ---- talking to the server

async function call(path, content) {
  const headers = { 'content-type': 'application/json' };
  try {
    const answer = await fetch(address(path), { method: 'POST', headers, body: JSON.stringify(content) });
    const done = await answer.json();
    if (answer.ok) return done;
    problem(done.error);
  } catch {
    problem('The server can’t be reached.');
  }
  return null;
}

const act = (path, content) => call(path, { user: view.me, channel: view.channel, ...content });

let problemTimer;
function problem(text) {
  $('problem').textContent = text;
  $('problem').hidden = false;
  clearTimeout(problemTimer);
  problemTimer = setTimeout(() => { $('problem').hidden = true; }, 6000);
}

/** Changes that come while the state is being fetched wait here. */
let waiting = null;
let loads = 0;

async function load() {
  const number = ++loads;
  waiting ??= [];
  const answer = await fetch(address('/page/state'));
  if (!answer.ok) return problem(await answer.text());
  const state = await answer.json();
  if (number !== loads) return; // a later one is under way
  const { team, app, users, channels, suggestions } = state;
  Object.assign(world, { team, app, users, channels, suggestions });
  world.messages = new Map(state.messages.map((message) => [key(message), message]));
  world.statuses = new Map(state.statuses.map((s) => [`${s.channel}/${s.thread_ts}`, s.status]));
  names.clear();
  for (const one of [...state.users, ...state.channels]) names.set(one.id, one.name);
  const changes = waiting;
  waiting = null;
  choose();
  render();
  changes.forEach(apply);
}

function apply(change) {
  if (waiting) return void waiting.push(change);
  switch (change.kind) {
    case 'message':
      world.messages.set(key(change.message), change.message);
      show(change.message);
      break;
    case 'deleted':
      world.messages.delete(key(change));
      render();
      break;
    case 'status':
      world.statuses.set(`${change.channel}/${change.thread_ts}`, change.status);
      showStatus();
      break;
    case 'click':
      clicks.set(change.action_ts, { ...change, state: 'sent' });
      refresh(change);
      break;
    case 'click_ended': {
      const click = clicks.get(change.action_ts);
      if (!click) break;
      if (change.acked) clicks.delete(change.action_ts);
      else click.state = 'failed';
      refresh(click);
      break;
    }
    case 'reload':
      load();
      break;
  }
}

function listen() {
  const events = new EventSource(address('/page/events'));
  events.onopen = () => { $('link').hidden = true; load().catch(() => { $('link').hidden = false; }); };
  events.onerror = () => { $('link').hidden = false; };
  events.onmessage = (event) => apply(JSON.parse(event.data));
}

// ---- what is shown

const people = () => world.users.filter((user) => !user.is_bot);
const mine = (channel) => channel.members.includes(view.me);
const visible = (message) => !message.ephemeral_for || message.ephemeral_for === view.me;
const inOrder = (messages) => messages.sort((a, b) => (a.ts < b.ts ? -1 : 1));
const here = (fits) =>
  inOrder([...world.messages.values()].filter((m) => m.channel === view.channel && visible(m) && fits(m)));
const inThread = (root) => here((m) => m.ts === root || m.thread_ts === root);

/** Settles on a user and a channel that exist. */
function choose() {
  const remembered = view.me || sessionStorage.getItem('me');
  view.me = (people().find((user) => user.id === remembered) ?? people()[0])?.id ?? '';
  const open = world.channels.filter(mine);
  if (!open.some((channel) => channel.id === view.channel)) {
    const [channel, thread] = location.hash.slice(1).split('/');
    const linked = open.find((one) => one.id === channel);
    view.channel = (linked ?? open[0])?.id ?? '';
    view.thread = linked && thread && world.messages.has(`${channel}/${thread}`) ? thread : null;
  }
}

function icon(sender) {
  const picture = sender.icon && emoji(sender.icon);
  if (picture) return el('div', { className: 'icon', 'aria-hidden': 'true' }, picture);
  const hue = [...sender.name].reduce((sum, c) => sum + c.codePointAt(0), 0) % 6;
  const letter = [...sender.name][0]?.toUpperCase() ?? '?';
  return el('div', { className: `icon letter hue${hue}`, 'aria-hidden': 'true' }, letter);
}

function head(message) {
  const { sender } = message;
  const when = new Date(Number(message.ts) * 1000);
  const time = el('time', { dateTime: when.toISOString(), title: when.toLocaleString() },
    when.toLocaleTimeString([], { hour: '2-digit', minute: '2-digit' }));
  const parts = [el('span', { className: 'name' }, sender.name)];
  if (sender.kind !== 'user') parts.push(el('span', { className: 'badge' }, 'APP'));
  parts.push(time);
  if (message.edited) parts.push(el('span', { className: 'edited' }, '(edited)'));
  return el('div', { className: 'head' }, ...parts);
}

function buttons(message) {
  const row = el('div', { className: 'row' });
  for (const button of message.buttons) {
    const at = [...clicks.values()].filter((c) => c.ts === message.ts && c.action_id === button.action_id);
    const click = () => act('/page/click', { ts: message.ts, action_id: button.action_id });
    const fields = { type: 'button', className: button.style ?? '', onclick: click };
    fields.disabled = at.some((c) => c.state === 'sent');
    row.append(el('button', fields, button.text));
    if (at.at(-1)?.state === 'failed') row.append(el('span', { className: 'failed' }, '⚠ no answer from the app'));
  }
  return row;
}

/** The row of reactions; the button for a new one goes into the message's head. */
function reactions(message, head) {
  const row = el('div', { className: 'row' });
  if (message.ephemeral_for || message.subtype) return row;
  const toggle = (name) => () => act('/page/react', { ts: message.ts, name });
  for (const { name, users } of message.reactions) {
    const by = users.map((id) => names.get(id) ?? id).join(', ');
    row.append(el('button', {
      type: 'button', className: 'reaction', onclick: toggle(name), title: `:${name}: ${by}`,
      'aria-pressed': users.includes(view.me), 'aria-label': `${name}, ${users.length}: ${by}`,
    }, `${emoji(name) ?? `:${name}:`} ${users.length}`));
  }
  const add = el('button', { type: 'button', className: 'add', title: 'React', 'aria-label': 'React' }, '☺+');
  add.onclick = () => {
    const offers = OFFERED.map((name) => el('button', {
      type: 'button', className: 'reaction', onclick: toggle(name), 'aria-label': name, title: `:${name}:`,
    }, emoji(name)));
    add.remove();
    row.append(...offers);
    offers[0].focus();
  };
  head.append(add);
  return row;
}

function files(message) {
  return message.files.map((file) => el('a', {
    className: 'file', target: '_blank', rel: 'noopener noreferrer',
    href: address(`/page/file/${encodeURIComponent(file.id)}/${encodeURIComponent(file.name)}`),
  }, `📄 ${file.title || file.name} (${file.size.toLocaleString()} B)`));
}

function repliesLink(message) {
  if (message.thread_ts || message.ephemeral_for) return [];
  const count = inThread(message.ts).length - 1;
  if (count === 0 && message.subtype) return [];
  const label = count === 0 ? 'Reply in thread' : count === 1 ? '1 reply' : `${count} replies`;
  return [el('button', { type: 'button', className: 'replies', onclick: () => openThread(message.ts) }, label)];
}

function element(message, inPanel) {
  const notice = message.subtype ? ' notice' : '';
  const only = message.ephemeral_for ? ' only-you' : '';
  const top = head(message);
  const content = el('div', {}, top);
  if (only) content.append(el('p', { className: 'note' }, '👁 Only visible to you'));
  content.append(body(message, names), ...files(message), buttons(message), reactions(message, top));
  if (!inPanel) content.append(...repliesLink(message));
  // One of a list's messages is reached with Tab, the others from there with the arrow keys.
  const node = el('article', { className: `message${notice}${only}`, tabIndex: -1 }, icon(message.sender), content);
  node.setAttribute('aria-label', `${message.sender.name}, ${new Date(Number(message.ts) * 1000).toLocaleTimeString()}`);
  node.dataset.ts = message.ts;
  node.onfocus = () => reachable(node);
  node.onkeydown = (event) => {
    if (event.target !== node) return;
    const list = node.parentElement;
    const next = {
      ArrowDown: node.nextElementSibling, ArrowUp: node.previousElementSibling,
      Home: list.firstElementChild, End: list.lastElementChild,
    }[event.key];
    if (next) {
      event.preventDefault();
      next.focus();
    } else if (event.key === 'Enter' && !inPanel) {
      openThread(message.thread_ts ?? message.ts);
    }
  };
  return node;
}

function reachable(node) {
  for (const other of node.parentElement.children) other.tabIndex = other === node ? 0 : -1;
}

/** Whether the reader is at the end, and so wants to stay there. */
const atEnd = (list) => list.scrollHeight - list.scrollTop - list.clientHeight < 80;

/** Lists whose reader was at the end when they last stood still. */
const ended = new WeakSet();

/** Keeps the newest message in sight when a list shrinks, as it does above a phone's keyboard. */
function keepEnd(list) {
  list.addEventListener('scroll', () => { if (atEnd(list)) ended.add(list); else ended.delete(list); });
  new ResizeObserver(() => { if (ended.has(list)) list.scrollTop = list.scrollHeight; }).observe(list);
}

/** Puts a message into a list, in place of its former self or in order. */
function place(list, message) {
  const end = atEnd(list);
  list.querySelector('.empty')?.remove();
  const node = element(message, list === $('replies'));
  const all = [...list.children];
  const old = all.find((child) => child.dataset.ts === message.ts);
  if (old) {
    const focused = [...old.querySelectorAll('button, a')].indexOf(document.activeElement);
    const whole = old === document.activeElement;
    old.replaceWith(node);
    if (whole || focused >= 0) (node.querySelectorAll('button, a')[focused] ?? node).focus();
  } else {
    list.insertBefore(node, all.find((child) => child.dataset.ts > message.ts) ?? null);
  }
  if (!list.contains(document.activeElement)) reachable(list.lastElementChild);
  else if (old) node.tabIndex = old.tabIndex;
  if (end) list.scrollTop = list.scrollHeight;
}

/** A row of texts that one press puts into the composer, where they can still be changed. */
function offer(row, text, offers) {
  const nodes = offers.map(({ title, said }) => {
    const use = () => {
      text.value = said;
      text.dispatchEvent(new Event('input'));
      text.focus();
    };
    const parts = title ? [el('strong', {}, title), ' '] : [];
    return el('button', { type: 'button', onclick: use, title: said }, ...parts, el('span', {}, said));
  });
  row.replaceChildren(...nodes);
  row.hidden = nodes.length === 0;
}

/** Offers what has not been said yet. */
function showOffers() {
  const plain = (message) => (message.shown ?? message.text).trim();
  const roots = here((m) => !m.thread_ts).map(plain);
  const fresh = world.suggestions.filter((one) => !roots.includes(one.text.trim()));
  offer($('offers'), $('channel-text'), fresh.map((one) => ({ title: one.title, said: one.text })));
  const thread = view.thread ? inThread(view.thread).map(plain) : [];
  const begun = world.suggestions.find((one) => one.text.trim() === thread[0]);
  const replies = (begun?.replies ?? []).filter((reply) => !thread.includes(reply.trim()));
  offer($('thread-offers'), $('thread-text'), replies.map((said) => ({ said })));
}

function show(message) {
  if (message.channel !== view.channel || !visible(message)) return;
  const root = message.thread_ts;
  if (!root) place($('messages'), message);
  else refreshRoot(root);
  if (view.thread && (root ?? message.ts) === view.thread) place($('replies'), message);
  if (message.sender.kind === 'user') showOffers();
}

/** The count of replies at a root. */
function refreshRoot(ts) {
  const root = world.messages.get(`${view.channel}/${ts}`);
  if (root) place($('messages'), root);
}

function refresh(at) {
  const message = world.messages.get(key(at));
  if (message) show(message);
}

function showStatus() {
  const status = view.thread && world.statuses.get(`${view.channel}/${view.thread}`);
  $('status').textContent = status ? `${world.app.name} ${status}` : '';
}

function fill(list, messages, empty) {
  const nodes = messages.map((message) => element(message, list === $('replies')));
  list.replaceChildren(...(nodes.length ? nodes : [el('p', { className: 'empty' }, empty)]));
  if (nodes.length) reachable(nodes.at(-1));
  list.scrollTop = list.scrollHeight;
  ended.add(list);
}

function render() {
  const channel = world.channels.find((one) => one.id === view.channel);
  const title = channel ? `# ${channel.name}` : 'No channel';
  document.title = channel ? `${title} · ${world.team}` : world.team;
  $('team').textContent = world.team;
  $('channel').textContent = title;
  $('channel-text').placeholder = channel ? `Message to #${channel.name}` : '';
  $('me').replaceChildren(...people().map((user) =>
    el('option', { value: user.id, selected: user.id === view.me }, user.name)));
  $('channels').replaceChildren(...world.channels.filter(mine).map((one) => {
    const open = () => { Object.assign(view, { channel: one.id, thread: null }); render(); };
    const button = el('button', { type: 'button', onclick: open }, `${one.is_private ? '🔒' : '#'} ${one.name}`);
    if (one.id === view.channel) button.setAttribute('aria-current', 'true');
    return el('li', {}, button);
  }));
  fill($('messages'), here((m) => !m.thread_ts), 'Nothing here yet. Write what you need done, as you would to a colleague.');
  $('thread').hidden = !view.thread;
  if (view.thread) fill($('replies'), inThread(view.thread), '');
  showStatus();
  showOffers();
  history.replaceState(null, '', `#${view.channel}${view.thread ? `/${view.thread}` : ''}`);
}

// ---- what the user does

function openThread(ts) {
  view.thread = ts;
  render();
  $('thread-text').focus();
}

function closeThread() {
  const root = view.thread;
  if (!root) return;
  view.thread = null;
  $('thread').hidden = true;
  history.replaceState(null, '', `#${view.channel}`);
  ([...$('messages').children].find((node) => node.dataset.ts === root) ?? $('channel-text')).focus();
}

function composer(form, text, send) {
  const grow = () => {
    text.style.height = 'auto';
    text.style.height = `${text.scrollHeight + 2}px`;
  };
  text.addEventListener('input', grow);
  text.addEventListener('keydown', (event) => {
    if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    form.requestSubmit();
  });
  form.addEventListener('submit', async (event) => {
    event.preventDefault();
    const typed = text.value;
    if (!typed.trim()) return;
    text.value = '';
    grow();
    // What could not be sent is not lost.
    if (!(await send(typed)) && !text.value) text.value = typed;
    grow();
  });
}

composer($('channel-form'), $('channel-text'), async (text) => {
  const posted = await act('/page/post', { text });
  if (posted) openThread(posted.ts);
  return posted;
});
composer($('thread-form'), $('thread-text'), (text) => act('/page/post', { text, thread: view.thread }));
$('close').onclick = closeThread;
$('me').onchange = (event) => {
  view.me = event.target.value;
  sessionStorage.setItem('me', view.me);
  choose();
  render();
};
document.addEventListener('keydown', (event) => {
  if (event.isComposing) return;
  if (event.key === 'Escape') closeThread();
  const typing = ['TEXTAREA', 'SELECT', 'INPUT'].includes(document.activeElement?.tagName);
  if (event.key === '/' && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) {
    event.preventDefault();
    (view.thread ? $('thread-text') : $('channel-text')).focus();
  }
});

keepEnd($('messages'));
keepEnd($('replies'));
// On a phone that would open the keyboard before there is anything to read.
if (!matchMedia('(pointer: coarse)').matches) $('channel-text').focus();
listen();
