import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { type Html, html } from './html.ts';

/** Returns the URL of `docs/`, in the package (chunks are one folder below its root) or in the source tree. */
function documents(): URL {
  const packaged = new URL('../docs/', import.meta.url);
  return existsSync(packaged) ? packaged : new URL('../../../docs/', import.meta.url);
}

export const readDocument = (path: string): string => readFileSync(new URL(path, documents()), 'utf8');

/** Returns the Markdown text of a runbook; undefined for an unknown name. */
export function readRunbook(name: string): string | undefined {
  const file = name.endsWith('.md') ? name : `${name}.md`;
  // Read only listed names, so that no name can point outside the folder.
  return readdirSync(new URL('runbooks/', documents())).includes(file) ? readDocument(`runbooks/${file}`) : undefined;
}

/** Renders code, emphasis and links. The agent serves only runbooks: links to other documents become their paths. */
function inline(text: string): Html[] {
  return text.split(/(`[^`]+`|\*[^*]+\*|\[[^\]]+\]\([^)]+\))/).map(part => {
    if (part.startsWith('`')) return html`<code>${part.slice(1, -1)}</code>`;
    if (/^\*[^*]+\*$/.test(part)) return html`<em>${part.slice(1, -1)}</em>`;
    const [, word, target = ''] = /^\[([^\]]+)\]\(([^)]+)\)$/.exec(part) ?? [];
    if (word === undefined) return html`${part}`;
    const [, runbook] = /^(\w+)\.md(?:#.*)?$/.exec(target) ?? [];
    if (runbook !== undefined) return html`<a href="${runbook}">${word}</a>`;
    const page = target.replace(/^\.\.\/|#.*$/g, '');
    return html`${word === page ? `docs/${page}` : `${word} (docs/${page})`}`;
  });
}

function block(text: string): Html {
  if (text.startsWith('## ')) return html`<h2>${inline(text.slice(3))}</h2>\n`;
  if (text.startsWith('# ')) return html`<h1>${inline(text.slice(2))}</h1>\n`;
  if (!text.startsWith('- ')) return html`<p>${inline(text)}</p>\n`;
  return html`<ul>\n${text
    .split(/^- /m)
    .slice(1)
    .map(item => html`<li>${inline(item.trim())}</li>\n`)}</ul>\n`;
}

/** Renders a runbook without its comments, which mark generated parts. */
export const runbookHtml = (text: string): Html =>
  html`<article class="prose">
${text
  .replace(/^<!--.*-->\n/gm, '')
  .trim()
  .split(/\n{2,}/)
  .map(block)}</article>`;
