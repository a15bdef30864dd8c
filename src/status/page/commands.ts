import { type Html, html } from './html.ts';
import type { PageContext } from './layout.ts';

const WORDS = {
  approve: ['Approve the cancel…', 'Cancel this callback?'],
  pause: ['Pause all cancels…', 'Pause auto-cancel in all accounts?'],
  resume: ['Resume…', 'Resume auto-cancel in all accounts?'],
} as const;

/** Returns why the page has no buttons; undefined if it has buttons. */
function whyNot({ lifecycle, caller }: PageContext): Html | undefined {
  if (!lifecycle) return html`<code>server.lifecycle</code> is false`;
  if (caller === undefined) {
    return html`clients are not authenticated: configure <code>server.webConfigFile</code> with users or client certificates`;
  }
  return undefined;
}

export function noButtons(context: PageContext): Html {
  const why = whyNot(context);
  if (why !== undefined)
    return html`<p class="soft about">Buttons to approve, pause and resume are disabled, because ${why}. Use the command line instead.</p>`;
  return html`<noscript><p class="soft">Buttons need JavaScript. Use the command line instead.</p></noscript>`;
}

/** `action`: id of the action to approve. */
export function buttonFor(kind: keyof typeof WORDS, context: PageContext, action = ''): Html {
  const [word, question] = WORDS[kind];
  const look = kind === 'pause' ? '' : 'danger';
  const button =
    whyNot(context) === undefined &&
    html`<button type="button" class="command ${look}" data-command="${kind}" data-action="${action}" data-question="${question}">${word}</button> `;
  const command = kind === 'approve' ? `approve ${action}` : `${kind} --reason TEXT`;
  return html`${button}<code class="line">delivery-watch auto-cancel ${command} --config FILE</code>`;
}

/** Renders the dialog that confirms a command. assets/commands.js fills it. */
export function commandDialog(context: PageContext): Html {
  if (whyNot(context) !== undefined) return html``;
  return html`<dialog id="command" aria-labelledby="command-question" data-commands="${context.root}api/v1/auto-cancel/">
<form method="dialog">
<h2 id="command-question"></h2>
<div class="command-about"></div>
<label class="field" data-for-reason>Reason, for the journal <input name="reason" maxlength="1000" autocomplete="off"></label>
<p class="soft">The journal will name <b class="name"><bdi>${context.caller}</bdi></b>.</p>
<p class="note critical" role="alert" hidden></p>
<div class="commands"><button type="button" value="no" data-no>Don’t</button> <button type="submit" class="danger" data-yes>Yes</button></div>
</form>
</dialog>`;
}
