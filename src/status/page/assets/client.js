import { age } from './age.js';

/**
 * Keeps a page current: fetches it again every 15 seconds while it is visible, and updates changed elements. Pages work without
 * this script, but users must reload them.
 */

const { body } = document;
/** How far the agent's clock is ahead of the browser's (ms). */
let ahead = clockAhead(document);
/** Request for the page in flight. @type {AbortController | undefined} */
let request;
/** @type {ReturnType<typeof setInterval> | undefined} */
let polling;

/** Interval between two automatic requests (ms). */
const EVERY = 15_000;

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

/** @param {'live' | 'lost'} state */
function showConnection(state) {
  const live = document.getElementById('live');
  const word = live?.querySelector('.live-word');
  if (!live || !word) return;
  live.dataset.liveState = state;
  word.textContent = { live: 'live, data as of', lost: 'connection lost, data as of' }[state];
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
  const own = new AbortController();
  request = own;
  try {
    const response = await fetch(location.href, { signal: own.signal, headers: { Accept: 'text/html' } });
    if (response.status >= 500) throw new Error(`status ${response.status}`);
    const page = new DOMParser().parseFromString(await response.text(), 'text/html');
    if (own.signal.aborted) return;
    applyPage(page);
    showConnection('live');
  } catch {
    if (!own.signal.aborted) showConnection('lost');
  } finally {
    if (request === own) request = undefined;
  }
}

/** Starts or stops automatic requests. A request in flight is not repeated: otherwise, a slow one would never complete. */
function poll() {
  clearInterval(polling);
  if (document.hidden) return;
  showConnection('live');
  polling = setInterval(() => request || refresh(), EVERY);
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
    const query = Array.from(new FormData(form), ([name, value]) => [name, String(value)]);
    history.replaceState(null, '', `?${new URLSearchParams(query)}`);
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
  document.addEventListener('visibilitychange', () => {
    poll();
    if (!document.hidden) void refresh();
  });
  poll();
}
setInterval(() => !document.hidden && tick(), 1000);
