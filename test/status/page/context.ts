import type { PageContext } from '../../../src/status/page/layout.ts';
import { NOW } from './fixtures/overview.ts';

export const context: PageContext = {
  root: '',
  assets: 'assets/0f3a/',
  version: '1.2.3',
  now: NOW,
};

/** Returns the text of a page without markup. Entities stay encoded. */
export const read = (text: string) =>
  text
    .replaceAll('<wbr>', '')
    .replace(/<[^>]*>/g, ' ')
    .replace(/\s+/g, ' ');

/** Returns the content of the section with this id. */
export const part = (page: string, id: string) => page.split(`<section id="${id}"`)[1]?.split('</section>')[0] ?? '';

const OURS = [
  ...[
    '!doctype',
    'html',
    'head',
    'meta',
    'title',
    'link',
    'script',
    'noscript',
    'body',
    'header',
    'main',
    'footer',
    'nav',
    'section',
  ],
  ...[
    'a',
    'b',
    'bdi',
    'br',
    'code',
    'data',
    'dd',
    'details',
    'div',
    'dl',
    'dt',
    'figcaption',
    'figure',
    'form',
    'button',
  ],
  ...[
    'h1',
    'h2',
    'h3',
    'input',
    'label',
    'li',
    'meter',
    'ol',
    'p',
    'pre',
    'small',
    'span',
    'summary',
    'table',
    'caption',
    'thead',
  ],
  ...['tbody', 'tr', 'th', 'td', 'time', 'ul', 'wbr'],
];

/** Returns markup that is not the page's own: elements and attributes injected by external text. */
export function strange(page: string): string[] {
  const tags = [...page.matchAll(/<\/?([^\s>/]*)((?:\s+[\w-]+(?:="[^"]*")?)*)\s*\/?>|</g)];
  return tags.flatMap(([text, name, attributes = '']) => {
    const isOurs =
      name !== undefined &&
      OURS.includes(name.toLowerCase()) &&
      !/\s(on\w+|style)\b(?==)/.test(attributes.replace(/"[^"]*"/g, '""'));
    const isOwnScript = name !== 'script' || attributes === '' || /src="(\.\.\/)*assets\//.test(attributes);
    const isSafeLink = !/(href|src)="\s*(javascript|data:text)/i.test(attributes);
    return isOurs && isOwnScript && isSafeLink ? [] : [text];
  });
}
