/** What can hold neither a user nor a query, such as the name of a topic. */
const NAME = /^[\w./-]*$/;

/**
 * An http or https address without user, query and fragment, which may hold secrets: `…` stands for the latter. It is
 * shown as it is understood, not as it is spelt; of what can't be understood nothing is shown but `…`.
 */
export function bareAddress(text: string): string {
  if (NAME.test(text)) return text;
  const url = URL.parse(text);
  if (url?.protocol !== 'http:' && url?.protocol !== 'https:') return '…';
  // A path that has them, encoded or not, was meant as something else.
  if (/@|%(40|3f|23)/i.test(url.pathname)) return `${url.origin}/…`;
  return `${url.origin}${url.pathname}${url.search === '' && url.hash === '' ? '' : '?…'}`;
}
