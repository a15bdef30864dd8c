import type { AccountView } from '../api/account.ts';
import type { AgentView } from '../api/agent.ts';
import type { AutoCancelView } from '../api/auto-cancel.ts';
import { html } from './html.ts';
import { layout, type PageContext } from './layout.ts';

/** Pages that are not built yet. */
const stub = (title: string, nav: 'overview' | 'auto-cancel' | 'agent', context: PageContext) =>
  layout({ title, context, nav, body: html`<h1>${title}</h1>` });

export const accountPage = ({ account }: AccountView, context: PageContext) => stub(account, 'overview', context);
export const autoCancelPage = (_view: AutoCancelView, context: PageContext) =>
  stub('Auto-cancel', 'auto-cancel', context);
export const agentPage = (_view: AgentView, context: PageContext) => stub('Agent', 'agent', context);
