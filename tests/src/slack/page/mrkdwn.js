// Slack's text and blocks as DOM nodes. Text becomes text nodes and nothing else, so no message can
// bring markup of its own.

import { emoji } from './emoji.js';

/** A new element: `el('p', {className: 'x'}, 'text', node, …)`. */
export function el(tag, fields = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(fields)) {
    if (name.startsWith('aria-') || name === 'role') node.setAttribute(name, value);
    else node[name] = value;
  }
  node.append(...children);
  return node;
}

const ENTITIES = { '&amp;': '&', '&lt;': '<', '&gt;': '>' };
const decoded = (text) => text.replace(/&(?:amp|lt|gt);/g, (entity) => ENTITIES[entity]);

// In this order: code, tokens (a role's name belongs to its mention), handles, bold, italic, strike, emoji.
const INLINE = new RegExp(
  [
    '`(?<code>[^`\\n]+)`',
    '<(?<token>[^<>\\n]+)>(?<role>(?<=<@\\w+>)\\.[a-z][a-z0-9-]*)?',
    '(?<![\\w@])@(?<handle>[a-z][\\w.-]*\\w)',
    '(?<![\\w*])\\*(?=\\S)(?<bold>(?:`[^`\\n]*`|[^*\\n])+?)(?<=\\S)\\*(?![\\w*])',
    '(?<![\\w_])_(?=\\S)(?<italic>(?:`[^`\\n]*`|[^_\\n]|(?<=\\w)_(?=\\w))+?)(?<=\\S)_(?![\\w_])',
    '(?<![\\w~])~(?=\\S)(?<strike>(?:`[^`\\n]*`|[^~\\n])+?)(?<=\\S)~(?![\\w~])',
    ':(?<emoji>[a-z0-9_+-]+):',
  ].join('|'),
  'g',
);

/** Links that a click may follow. */
function safe(address) {
  try {
    return ['http:', 'https:', 'mailto:'].includes(new URL(address).protocol);
  } catch {
    return false;
  }
}

/** `<…>`: a mention, a channel, a link. `names` maps ids to names. */
function token(text, names, role = '') {
  const bar = text.indexOf('|');
  const [what, label] = bar < 0 ? [text, ''] : [text.slice(0, bar), text.slice(bar + 1)];
  const mention = (shown) => el('span', { className: 'mention' }, shown);
  if (what.startsWith('@')) return mention(`@${names.get(what.slice(1)) ?? (label || what.slice(1))}${role}`);
  if (what.startsWith('#')) return mention(`#${names.get(what.slice(1)) ?? (label || what.slice(1))}`);
  if (what.startsWith('!')) return mention(label ? decoded(label) : `@${what.slice(1).split('^')[0]}`);
  const address = decoded(what);
  const shown = label ? decoded(label) : address.replace(/^mailto:/, '');
  if (!safe(address)) return document.createTextNode(shown);
  return el('a', { href: address, target: '_blank', rel: 'noopener noreferrer' }, shown);
}

function inline(text, names) {
  const nodes = [];
  let done = 0;
  for (const match of text.matchAll(INLINE)) {
    const { code, token: link, role, handle, bold, italic, strike, emoji: name } = match.groups;
    let node;
    if (code !== undefined) node = el('code', {}, plain(code, names));
    else if (link !== undefined) node = token(link, names, role);
    else if (handle !== undefined) {
      if (![...names.values()].includes(handle.split('.')[0])) continue;
      node = el('span', { className: 'mention' }, `@${handle}`);
    } else if (bold !== undefined) node = el('strong', {}, ...inline(bold, names));
    else if (italic !== undefined) node = el('em', {}, ...inline(italic, names));
    else if (strike !== undefined) node = el('s', {}, ...inline(strike, names));
    else if (emoji(name)) node = el('span', { title: `:${name}:`, role: 'img', 'aria-label': name }, emoji(name));
    else continue;
    nodes.push(decoded(text.slice(done, match.index)), node);
    done = match.index + match[0].length;
  }
  nodes.push(decoded(text.slice(done)));
  return nodes;
}

/** Text within code: nothing is markup, but tokens are resolved. */
function plain(text, names) {
  return decoded(text.replace(/<([^<>\n]+)>/g, (_, inner) => token(inner, names).textContent));
}

function lines(text, names) {
  const nodes = [];
  let open = null;
  const into = (kind, make) => {
    if (open?.kind !== kind) {
      open = { kind, node: make() };
      nodes.push(open.node);
    }
    return open.node;
  };
  for (const line of text.split('\n')) {
    const quote = line.match(/^(?:&gt;|>) ?(.*)$/);
    const item = line.match(/^(\s*)(?:[•◦▪]|-) +(.*)$/);
    if (quote) {
      const node = into('quote', () => el('blockquote'));
      if (node.childNodes.length) node.append(el('br'));
      node.append(...inline(quote[1], names));
    } else if (item) {
      const className = item[1].length > 1 ? 'deep' : '';
      into('list', () => el('ul')).append(el('li', { className }, ...inline(item[2], names)));
    } else if (line.trim() === '') {
      open = null;
    } else if (open?.kind === 'list' && /^\s{2,}/.test(line)) {
      open.node.lastChild.append(' ', ...inline(line.trim(), names));
    } else {
      const node = into('text', () => el('p'));
      if (node.childNodes.length) node.append(el('br'));
      node.append(...inline(line, names));
    }
  }
  return nodes;
}

/** mrkdwn in wire form as nodes. */
export function mrkdwn(text, names) {
  return text.split(/```\n?([\s\S]*?)\n?```/).flatMap((part, at) =>
    at % 2 ? [el('pre', {}, el('code', {}, plain(part, names)))] : lines(part, names),
  );
}

/** The little of Markdown that differs from mrkdwn. */
function fromMarkdown(text) {
  return text
    .replace(/&/g, '&amp;').replace(/</g, '&lt;').replace(/>/g, '&gt;')
    .split(/(```[\s\S]*?```|`[^`\n]+`)/)
    .map((part, at) => at % 2 ? part.replace(/^```\w*\n/, '```\n') : part
      .replace(/\[([^\]\n]+)\]\((\S+?)\)/g, '<$2|$1>')
      .replace(/^#+ +(.*)$/gm, '*$1*')
      .replace(/^(\s*)[*+] +/gm, '$1- ')
      .replace(/\*\*(.+?)\*\*/g, '*$1*')
      .replace(/~~(.+?)~~/g, '~$1~'))
    .join('');
}

function textObject(object, names) {
  if (object?.type === 'mrkdwn') return mrkdwn(object.text, names);
  const text = (object?.text ?? '').replace(/:([a-z0-9_+-]+):/g, (whole, name) => emoji(name) ?? whole);
  return [el('p', {}, text)];
}

function styled(text, style) {
  const tags = [['code', 'code'], ['bold', 'strong'], ['italic', 'em'], ['strike', 's']];
  return tags.filter(([name]) => style[name]).reduce((inner, [, tag]) => el(tag, {}, inner), text);
}

function table(value, names) {
  const cell = (tag, one, at) => {
    const align = value.column_settings?.[at]?.align;
    const node = el(tag, {}, ...(one.type === 'rich_text' ? richText(one, names) : [one.text ?? String(one.value ?? '')]));
    if (align) node.style.textAlign = align;
    return node;
  };
  const row = (tag) => (cells) => el('tr', {}, ...cells.map((one, at) => cell(tag, one, at)));
  const [head, ...rows] = value.rows;
  return el('div', { className: 'table' },
    el('table', {}, el('thead', {}, row('th')(head)), el('tbody', {}, ...rows.map(row('td')))));
}

function richText(value, names) {
  return (value.elements ?? []).flatMap((element) => {
    if (element.type === 'text') return [styled(element.text ?? '', element.style ?? {})];
    if (element.type === 'user') return [token(`@${element.user_id}`, names)];
    if (element.type === 'link') return [token(`${element.url}|${element.text ?? element.url}`, names)];
    if (element.type === 'emoji') return [emoji(element.name) ?? `:${element.name}:`];
    if (element.type === 'rich_text_preformatted') return [el('pre', {}, ...richText(element, names))];
    return [el('p', {}, ...richText(element, names))];
  });
}

function block(value, names) {
  switch (value.type) {
    case 'section':
      return [value.text, ...(value.fields ?? [])].filter(Boolean).flatMap((t) => textObject(t, names));
    case 'header':
      return [el('div', { className: 'heading' }, ...textObject(value.text, names))];
    case 'context':
      return [el('div', { className: 'context' }, ...value.elements.flatMap((e) => e.text ? textObject(e, names) : [e.alt_text ?? '']))];
    case 'markdown':
      return mrkdwn(fromMarkdown(value.text), names);
    case 'rich_text':
      return richText(value, names);
    case 'table':
    case 'data_table':
      return [table(value, names)];
    case 'divider':
      return [el('hr')];
    case 'image':
      return [el('p', { className: 'context' }, value.alt_text ?? '')];
    default:
      return [];
  }
}

/** What a message says: its blocks if it has any, else its text. */
export function body(message, names) {
  const nodes = message.blocks.length
    ? message.blocks.flatMap((one) => block(one, names))
    : mrkdwn(message.text, names);
  return el('div', { className: 'body' }, ...nodes);
}
