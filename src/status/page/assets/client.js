import { age } from './age.js';

/**
 * Keeps a page current: fetches it again when the agent reports a change, and updates changed elements. Pages work without this
 * script, but users must reload them.
 */

const { body } = document;
/** How far the agent's clock is ahead of the browser's (ms). */
let ahead = clockAhead(document);
/** @type {EventSource | undefined} */
let stream;
/** Request for the page in flight. @type {AbortController | undefined} */
let request;
/** Whether the agent has reported a change since that request started. */
let again = false;
/** Start of the last request, by `performance.now()`. */
let requestedAt = Number.NEGATIVE_INFINITY;
/** @type {ReturnType<typeof setTimeout> | undefined} */
let waiting;

/** Minimum time between two automatic requests (ms). */
const APART = 2000;

/** @param {Document} page */
function clockAhead(page) {
  return Date.parse(page.body.dataset.now ?? '') - Date.now();
}

/** Returns the key of a node, unique among its siblings. @type {(node: Node) => string | undefined} */
const keyOf = node => (node instanceof Element ? node.id || node.getAttribute('data-key') || undefined : undefined);

/**
 * Updates `old` to `next`. Unchanged nodes stay, with focus, selection and scroll position. Elements with `data-keep` and the
 * state of details stay as they are. @type {(old: Element, next: Element) => void}
 */
function morph(old, next) {
  if (old.hasAttribute('data-keep')) return;
  for (const { name } of [...old.attributes]) {
    if (!next.hasAttribute(name) && name !== 'open') old.removeAttribute(name);
  }
  for (const { name, value } of next.attributes) {
    if (old.getAttribute(name) !== value && name !== 'open') old.setAttribute(name, value);
  }
  const keyed = new Map([...old.children].map(child => [keyOf(child), child]));
  let at = old.firstChild;
  for (const child of [...next.childNodes]) {
    const key = keyOf(child);
    const same = key === undefined ? at : keyed.get(key);
    if (!same || same.nodeName !== child.nodeName || keyOf(same) !== key) {
      old.insertBefore(document.adoptNode(child), at);
      continue;
    }
    if (same === at) at = at.nextSibling;
    else old.insertBefore(same, at);
    if (same instanceof Element && child instanceof Element) morph(same, child);
    else if (same.nodeValue !== child.nodeValue) same.nodeValue = child.nodeValue;
  }
  while (at) {
    const gone = at;
    at = at.nextSibling;
    gone.remove();
  }
}

/** @param {'live' | 'lost' | 'still'} state */
function showConnection(state) {
  const live = document.getElementById('live');
  const word = live?.querySelector('.live-word');
  if (!live || !word) return;
  live.dataset.liveState = state;
  word.textContent = { live: 'live, data as of', lost: 'connection lost, data as of', still: 'data as of' }[state];
}

/** @param {Document} page */
function applyPage(page) {
  const regions = [...document.querySelectorAll('[data-live][id]')];
  const focused = document.activeElement;
  for (const region of regions) {
    const next = page.getElementById(region.id);
    // The structure of the page changed, for example because the account was removed.
    if (!next) return location.reload();
    morph(region, next);
  }
  // Restore the focus, which moved rows lose.
  if (focused instanceof HTMLElement && focused !== document.activeElement) focused.focus({ preventScroll: true });
  ahead = clockAhead(page);
  body.dataset.now = page.body.dataset.now;
  document.title = page.title;
  const [time, newer] = [document, page].map(each => each.querySelector('#live time'));
  if (time && newer) time.replaceWith(document.adoptNode(newer));
  tick();
}

/** Requests the current page. A later call aborts an earlier one. */
async function refresh() {
  request?.abort();
  clearTimeout(waiting);
  const own = new AbortController();
  request = own;
  again = false;
  requestedAt = performance.now();
  try {
    const response = await fetch(location.href, { signal: own.signal, headers: { Accept: 'text/html' } });
    if (response.status >= 500) throw new Error(`status ${response.status}`);
    const page = new DOMParser().parseFromString(await response.text(), 'text/html');
    if (own.signal.aborted) return;
    applyPage(page);
    showConnection(stream?.readyState === EventSource.OPEN ? 'live' : 'still');
  } catch {
    if (!own.signal.aborted) showConnection('lost');
  } finally {
    if (request === own) request = undefined;
  }
  if (again && !request) soon();
}

function soon() {
  clearTimeout(waiting);
  waiting = setTimeout(refresh, Math.max(0, requestedAt + APART - performance.now()));
}

/**
 * Requests an update once the request in flight has ended. If each change aborted a slow request, the page would never update.
 */
function changed() {
  again = true;
  if (!request) soon();
}

/** @type {ReturnType<typeof setTimeout> | undefined} */
let retry;
let wasOpen = false;

function connect() {
  disconnect();
  const own = new EventSource(body.dataset.stream ?? '');
  stream = own;
  own.addEventListener('changed', changed);
  own.addEventListener('open', () => {
    showConnection('live');
    if (wasOpen) changed();
    wasOpen = true;
  });
  own.addEventListener('error', () => {
    showConnection('lost');
    // The agent rejected the stream, for example because too many are open. Browsers only reconnect lost streams.
    if (own.readyState === EventSource.CLOSED) retry = setTimeout(connect, 10_000);
  });
}

function disconnect() {
  clearTimeout(retry);
  clearTimeout(waiting);
  stream?.close();
  stream = undefined;
}

function tick() {
  const now = Date.now() + ahead;
  for (const time of document.querySelectorAll('time[data-ago]')) {
    // The attribute contains how far the service's clock is ahead (ms).
    const text = age(Date.parse(time.getAttribute('datetime') ?? ''), now + Number(time.getAttribute('data-ago')));
    if (time.textContent !== text) time.textContent = text;
  }
}

/** @param {HTMLFormElement} form */
function search(form) {
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let typing;
  function go() {
    const query = new URLSearchParams();
    for (const field of form.elements) {
      const value = 'value' in field ? String(field.value) : '';
      const name = field.getAttribute('name');
      if (name && value !== (field.getAttribute('data-usual') ?? '')) query.set(name, value);
    }
    history.replaceState(null, '', query.size === 0 ? location.pathname : `?${query}`);
    void refresh();
  }
  form.addEventListener('input', () => {
    clearTimeout(typing);
    typing = setTimeout(go, 200);
  });
  form.addEventListener('submit', event => {
    event.preventDefault();
    clearTimeout(typing);
    go();
  });
}

for (const form of document.querySelectorAll('form[data-search]')) if (form instanceof HTMLFormElement) search(form);
if (document.querySelector('[data-live]')) {
  // Sent by commands.js after a command.
  document.addEventListener('changed', changed);
  document.addEventListener('visibilitychange', () => (document.hidden ? disconnect() : connect()));
  if (!document.hidden) connect();
}
setInterval(() => !document.hidden && tick(), 1000);
